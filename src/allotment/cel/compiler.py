"""A plan turned into closures.

Every node becomes a function of the frame (:mod:`allotment.cel.code`). Metering has to be cheap, so a closure
adds to the cost only what depends on values. What a node always costs is summed up while compiling and handed
to its parent; a conjunction assumes that all its terms run and takes back the rest when one is false. Errors
are exceptions.

After an error the cost in the frame differs from upstream's, which goes on counting; callers that need the number
use the meter (:mod:`allotment.cel.meter`). The limit is tested in every turn of a loop and after every call
whose cost depends on its arguments, so nothing runs long beyond it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from allotment.cel import folds, paths
from allotment.cel.code import (
    ABSORBED_INDEX,
    COPIED_INDEX,
    COST_INDEX,
    Closure,
    Code,
    Frame,
    charge,
    constant,
)
from allotment.cel.declare import Overload
from allotment.cel.dispatch import dispatch
from allotment.cel.errors import CelCostExceeded, CelNoSuchOverload, CelRuntimeError
from allotment.cel.estimate import LIST_CREATE, MAP_CREATE
from allotment.cel.library.limits import COPYING, check_copied
from allotment.cel.patterns import check_computed_pattern
from allotment.cel.plan import (
    PATTERNS,
    Among,
    Conditional,
    Const,
    ExecutionPlan,
    Fold,
    Logical,
    MakeList,
    MakeMap,
    OrElse,
    Path,
    PlannedCall,
    PlanNode,
    Presence,
    among_key,
)
from allotment.cel.prices import CallCost, call_cost
from allotment.cel.recursion import Recursive, run
from allotment.cel.types import TypeKind
from allotment.cel.values import Optional, Value, make_literal_map, map_key


@dataclass(frozen=True, slots=True)
class Compiled:
    """The closure of a whole plan."""

    run: Closure
    cost: int
    """What it always costs; an evaluation's frame starts with it."""
    slack: int
    """How far the cost in a frame can be ahead of the real cost: at most this was added for terms that may still be
    skipped. Limits inside the closures must be wider by this amount."""


def compile_plan(plan: ExecutionPlan) -> Compiled:
    compiler = Compiler(plan)
    code = run(compiler.node(plan.root))
    return Compiled(code.run, code.cost, min(compiler.spent, _MOST_SLACK))


_MOST_SLACK = 1_000_000


class Compiler:
    def __init__(self, plan: ExecutionPlan) -> None:
        self.plan = plan
        self.lazy: dict[int, Code] = {}
        """Values of ``cel.bind`` by slot, computed when first read."""
        self.growing: set[int] = set()
        """Accumulators that are separate lists and may grow in place."""
        self.spent = 0
        """The sum of the fixed costs of all nodes."""

    def node(self, node: PlanNode) -> Recursive[Code]:
        match node:
            case Const():
                return constant(node.value)
            case Path():
                inner = paths.path(self, node)
            case Conditional():
                inner = self.choice(node)
            case Presence():
                inner = self.presence(node)
            case PlannedCall():
                inner = self.call(node)
            case Logical():
                inner = self.logical(node)
            case OrElse():
                inner = self.or_else(node)
            case Among():
                inner = self.among(node)
            case MakeList():
                inner = self.make_list(node)
            case MakeMap():
                inner = self.make_map(node)
            case Fold():
                inner = folds.fold(self, node)
            case _:
                raise AssertionError(node)
        code: Code = yield inner
        self.spent += code.cost
        return code

    def nodes(self, nodes: list[PlanNode]) -> Recursive[list[Code]]:
        codes: list[Code] = []
        for node in nodes:
            codes.append((yield self.node(node)))  # noqa: PERF401 - a comprehension cannot yield
        return codes

    # --- choices

    def choice(self, node: Conditional) -> Recursive[Code]:
        """A branch that is a path is not charged for its own resolution, only for its steps."""
        test: Code = yield self.node(node.test)
        yes: Code = yield self.node(node.yes)
        no: Code = yield self.node(node.no)
        yes_cost = yes.cost - isinstance(node.yes, Path)
        no_cost = no.cost - isinstance(node.no, Path)
        ask, when_true, when_false, extra = test.run, yes.run, no.run, no_cost - yes_cost

        def choose(frame: Frame) -> Value:
            answer = ask(frame)
            if answer is True:
                return when_true(frame)
            if answer is False:
                frame[COST_INDEX] += extra
                return when_false(frame)
            raise CelNoSuchOverload

        return Code(choose, test.cost + yes_cost)

    def presence(self, node: Presence) -> Recursive[Code]:
        path: Code = yield self.node(node.path)
        resolve = path.run

        def present(frame: Frame) -> Value:
            found = resolve(frame)
            return found.present if type(found) is Optional else found

        return Code(present, path.cost - 1)

    # --- logic

    def logical(self, node: Logical) -> Recursive[Code]:
        codes: list[Code] = yield self.nodes(node.terms)
        deciding = not node.conjunction
        rest = sum(code.cost for code in codes)
        terms: list[tuple[Closure, int]] = []
        for code in codes:
            rest -= code.cost
            terms.append((code.run, rest))

        def decide(frame: Frame) -> Value:
            error: CelRuntimeError | None = None
            for term, unspent in terms:
                try:
                    value = term(frame)
                except CelCostExceeded:
                    raise
                except CelRuntimeError as exc:
                    frame[ABSORBED_INDEX] = True
                    error = error or exc
                    continue
                if value is deciding:
                    frame[COST_INDEX] -= unspent
                    return deciding
                if value is not True and value is not False:
                    error = error or CelNoSuchOverload()
            if error is not None:
                raise error
            return not deciding

        return Code(decide, sum(code.cost for code in codes))

    def or_else(self, node: OrElse) -> Recursive[Code]:
        left_code: Code = yield self.node(node.left)
        right_code: Code = yield self.node(node.right)
        left, right, extra, unwrap = left_code.run, right_code.run, right_code.cost, node.unwrap

        def either(frame: Frame) -> Value:
            value = left(frame)
            if type(value) is not Optional:
                raise CelNoSuchOverload
            if value.present:
                return value.value if unwrap else value
            frame[COST_INDEX] += extra
            return right(frame)

        return Code(either, left_code.cost)

    def among(self, node: Among) -> Recursive[Code]:
        item: Code = yield self.node(node.item)
        get, values = item.run, node.values
        if all(type(value) is str for _, value in values):
            texts = frozenset(value for _, value in values)

            def in_texts(frame: Frame) -> Value:
                value = get(frame)
                return type(value) is str and value in texts

            return Code(in_texts, item.cost)

        def in_values(frame: Frame) -> Value:
            try:
                return among_key(get(frame)) in values
            except TypeError:  # a list or a map cannot be hashed, and equals none of the constants
                return False

        return Code(in_values, item.cost)

    # --- calls

    def call(self, node: PlannedCall) -> Recursive[Code]:
        args: list[Code] = yield self.nodes(node.args)
        if node.function.name in PATTERNS and len(args) > 1 and not args[1].constant:
            args[1] = Code(_modest(args[1].run), args[1].cost)
        price = call_cost(node.function, node.overload, node.overloads)
        spent = sum(arg.cost for arg in args)
        if node.overload == "add_list" and (grown := folds.growth(self, node, args, spent)) is not None:
            return grown
        if not node.strict:
            return self.not_strictly_false(args[0], spent)
        impl = node.impl
        if node.overload == "equals" or node.overload == "not_equals":
            impl = node.overloads[0]  # takes values of any type
            if node.overload == "equals" and args[1].constant and type(args[1].value) is str:
                return _equals_text(impl, args[0], args[1].value, price, spent)
        call = _direct(impl, args) if impl is not None else _dispatched(node, args)
        if node.function.name in COPYING and (impl is None or impl.result.kind is TypeKind.LIST):
            call = _bounded(call)
        code = Code(call, spent + price) if isinstance(price, int) else _priced(node, args, price, spent)
        return _folded(code) if args and all(arg.constant for arg in args) else code

    def not_strictly_false(self, arg: Code, spent: int) -> Code:
        get = arg.run

        def lenient(frame: Frame) -> Value:
            try:
                value = get(frame)
            except CelCostExceeded:
                raise
            except CelRuntimeError:
                frame[ABSORBED_INDEX] = True
                return True
            return value if type(value) is bool else True

        return Code(lenient, spent + 1)

    # --- aggregates

    def make_list(self, node: MakeList) -> Recursive[Code]:
        codes: list[Code] = yield self.nodes(node.elements)
        closures = [code.run for code in codes]
        cost = LIST_CREATE + sum(code.cost for code in codes)
        optional = node.optional

        def build(frame: Frame) -> Value:
            return [closure(frame) for closure in closures]

        def build_some(frame: Frame) -> Value:
            items: list[Value] = []
            for number, closure in enumerate(closures):
                value = closure(frame)
                if number in optional:
                    if type(value) is not Optional:
                        raise CelRuntimeError(
                            f"cannot initialize optional list element from non-optional value {value}"
                        )
                    if not value.present:
                        continue
                    value = value.value
                items.append(value)
            return items

        return Code(build_some if optional else build, cost)

    def make_map(self, node: MakeMap) -> Recursive[Code]:
        keys: list[Code] = yield self.nodes([key for key, _, _ in node.entries])
        values: list[Code] = yield self.nodes([value for _, value, _ in node.entries])
        cost = MAP_CREATE + sum(code.cost for code in (*keys, *values))
        unique = node.unique_keys
        parts = [
            (key.run, value.run, optional)
            for key, value, (_, _, optional) in zip(keys, values, node.entries, strict=True)
        ]
        if any(optional for _, _, optional in parts):
            return Code(_some_entries(parts, unique), cost)

        def build(frame: Frame) -> Value:
            return make_literal_map([(key(frame), value(frame)) for key, value, _ in parts], unique)

        return Code(build, cost)


def _some_entries(parts: list[tuple[Closure, Closure, bool]], unique: bool) -> Closure:
    def build(frame: Frame) -> Value:
        entries: dict[Any, Value] = {}
        for key_of, value_of, optional in parts:
            key = key_of(frame)
            value = value_of(frame)
            stored = map_key(key)
            if optional:
                if type(value) is not Optional:
                    raise CelRuntimeError(
                        f"cannot initialize optional entry '{key}' from non-optional value {value}"
                    )
                if not value.present:
                    entries.pop(stored, None)
                    continue
                value = value.value
            if unique and stored in entries:
                raise CelRuntimeError(f"repeated key in map literal: {key}")
            entries[stored] = value
        return entries

    return build


def _modest(pattern: Closure) -> Closure:
    def get(frame: Frame) -> Value:
        return check_computed_pattern(pattern(frame))

    return get


def _direct(overload: Overload, args: list[Code]) -> Closure:
    """A call of a known overload. Constant arguments are passed as they are."""
    impl = overload.impl
    assert impl is not None, overload.id
    match [arg.run for arg in args]:
        case [first]:
            return lambda frame: impl(first(frame))
        case [first, second]:
            if args[1].constant:
                operand = args[1].value
                return lambda frame: impl(first(frame), operand)
            return lambda frame: impl(first(frame), second(frame))
        case closures:
            return lambda frame: impl(*[closure(frame) for closure in closures])


def _dispatched(node: PlannedCall, args: list[Code]) -> Closure:
    """A call whose overload depends on the values. The last one is tried first: data seldom changes type."""
    closures = [arg.run for arg in args]
    name, overloads = node.function.name, node.overloads

    def call(frame: Frame) -> Value:
        values = [closure(frame) for closure in closures]
        impl = dispatch(name, overloads, values).impl
        assert impl is not None, name
        return impl(*values)

    return call


def _equals_text(overload: Overload, arg: Code, text: str, price: CallCost | int, spent: int) -> Code:
    """``x == "text"``, the commonest selector: equal values have the same size, so only unequal ones are weighed."""
    get, equals = arg.run, overload.impl
    assert equals is not None
    if isinstance(price, int):
        return Code(lambda frame: equals(get(frame), text), spent + price)
    when_equal = price((text, text), True)

    def compare(frame: Frame) -> Value:
        value = get(frame)
        if value == text:
            return True
        frame[COST_INDEX] += price((value, text), False) - when_equal
        return type(value) is not str and equals(value, text)

    return Code(compare, spent + when_equal)


def _priced(node: PlannedCall, args: list[Code], price: CallCost, spent: int) -> Code:
    """A call whose cost depends on its values."""
    closures = [arg.run for arg in args]
    name, overloads = node.function.name, node.overloads
    impl = node.impl.impl if node.impl is not None else None

    def call(frame: Frame) -> Value:
        values = [closure(frame) for closure in closures]
        target = impl or dispatch(name, overloads, values).impl
        assert target is not None, name
        result = target(*values)
        charge(frame, price(values, result))
        return result

    return Code(call, spent)


def _bounded(copy: Closure) -> Closure:
    """A call whose cost ignores the elements that it copies: the total that such calls copy is bounded instead."""

    def call(frame: Frame) -> Value:
        copied = copy(frame)
        if type(copied) is list:
            frame[COPIED_INDEX] += len(copied)
            check_copied(frame[COPIED_INDEX])
        return copied

    return call


def _folded(code: Code) -> Code:
    """A call with constant arguments is made now; if it fails, it fails at every evaluation."""
    frame: Frame = [0, 10**9, False, 0]
    try:
        value = code.run(frame)
    except CelRuntimeError:
        return code
    return constant(value, code.cost + frame[COST_INDEX])
