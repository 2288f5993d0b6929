"""Comprehensions as closures.

All of them come from a few macros, so there are three shapes. *Bindings* (``cel.bind``) only name a value, which is
computed on first read. *Quantifiers* (``all``, ``exists``) continue after an error, since a later element may still
decide. *Collectors* (``map``, ``filter``, ``exists_one`` and the transforms) cannot recover from an error, so it ends them
at once. A collector owns the list that it makes, which grows in place.

Every turn adds its fixed cost and tests the limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.cel.access import elements, entries
from allotment.cel.code import ABSORBED_INDEX, COST_INDEX, LIMIT_INDEX, UNSET, Code, Frame
from allotment.cel.errors import CelCostExceeded, CelNoSuchOverload, CelRuntimeError
from allotment.cel.plan import Const, Fold, Logical, MakeList, Path, PlannedCall, PlanNode
from allotment.cel.recursion import Recursive
from allotment.cel.values import Value

if TYPE_CHECKING:
    from allotment.cel.compiler import Compiler


def fold(compiler: Compiler, node: Fold) -> Recursive[Code]:
    if node.binds:
        inner = _binding(compiler, node)
    elif isinstance(node.step, Logical):
        inner = _quantifier(compiler, node, node.step)
    else:
        inner = _collector(compiler, node)
    code: Code = yield inner
    return code


def _binding(compiler: Compiler, node: Fold) -> Recursive[Code]:
    init: Code = yield compiler.node(node.init)
    slot = node.accumulator
    compiler.lazy[slot] = init
    result_code: Code = yield compiler.node(node.result)
    result = result_code.run

    def bind(frame: Frame) -> Value:
        frame[slot] = UNSET
        return result(frame)

    return Code(bind, result_code.cost)


def _quantifier(compiler: Compiler, node: Fold, step: Logical) -> Recursive[Code]:
    """``all`` stops at the first false, ``exists`` at the first true; the condition is then seen once more
    if there is another element."""
    ranged: Code = yield compiler.node(node.range)
    condition: Code = yield compiler.node(node.condition)
    accumulated: Code = yield compiler.node(step.terms[0])
    predicate_code: Code = yield compiler.node(step.terms[1])
    result: Code = yield compiler.node(node.result)
    deciding = not step.conjunction
    get, predicate = ranged.run, predicate_code.run
    look_again = condition.cost
    turn = condition.cost + accumulated.cost + predicate_code.cost
    first, second = node.variable, node.variable2

    def quantify(frame: Frame) -> Value:
        error: CelRuntimeError | None = None
        items = get(frame)
        remaining = iter(elements(items) if second is None else entries(items))
        for item in remaining:
            if second is None:
                frame[first] = item
            else:
                frame[first], frame[second] = item
            frame[COST_INDEX] += turn
            if frame[COST_INDEX] > frame[LIMIT_INDEX]:
                raise CelCostExceeded(frame[LIMIT_INDEX])
            try:
                value = predicate(frame)
            except CelCostExceeded:
                raise
            except CelRuntimeError as exc:
                frame[ABSORBED_INDEX] = True
                error = error or exc
                continue
            if value is deciding:
                if next(remaining, UNSET) is not UNSET:
                    frame[COST_INDEX] += look_again
                return deciding
            if value is not True and value is not False:
                frame[ABSORBED_INDEX] = True
                error = error or CelNoSuchOverload()
        if error is not None:
            raise error
        return not deciding

    return Code(quantify, ranged.cost + result.cost)


def _collector(compiler: Compiler, node: Fold) -> Recursive[Code]:
    ranged: Code = yield compiler.node(node.range)
    assert isinstance(node.init, Const)
    init = node.init.value
    slot = node.accumulator
    if init == []:
        compiler.growing.add(slot)
    step_code: Code = yield compiler.node(node.step)
    result_code: Code = yield compiler.node(node.result)
    get, step, result, turn = ranged.run, step_code.run, result_code.run, step_code.cost
    first, second = node.variable, node.variable2

    def collect(frame: Frame) -> Value:
        items = get(frame)
        frame[slot] = init.copy() if type(init) in (list, dict) else init
        for item in elements(items) if second is None else entries(items):
            if second is None:
                frame[first] = item
            else:
                frame[first], frame[second] = item
            frame[COST_INDEX] += turn
            if frame[COST_INDEX] > frame[LIMIT_INDEX]:
                raise CelCostExceeded(frame[LIMIT_INDEX])
            frame[slot] = step(frame)
        return result(frame)

    return Code(collect, ranged.cost + result_code.cost)


def growth(compiler: Compiler, node: PlannedCall, args: list[Code], spent: int) -> Code | None:
    """``@result + [element]`` of a collector as an append, or None if the call is something else."""
    slot = _bare_slot(node.args[0])
    if slot is None or slot not in compiler.growing:
        return None
    added = node.args[1]
    if isinstance(added, MakeList) and not added.optional and len(added.elements) == 1:
        make = args[1].run

        def append(frame: Frame) -> Value:
            items: list[Value] = frame[slot]
            items += make(frame)
            return items

        return Code(append, spent + 1)
    if isinstance(added, Const):
        more = added.value

        def extend(frame: Frame) -> Value:
            items: list[Value] = frame[slot]
            items += more
            return items

        return Code(extend, spent + 1)
    return None


def _bare_slot(node: PlanNode) -> int | None:
    return node.slot if isinstance(node, Path) and not node.steps else None
