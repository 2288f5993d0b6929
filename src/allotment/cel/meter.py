"""The exact cost of an evaluation in which something failed.

Upstream counts costs by watching every value an evaluation produces, errors included: after a failed operand
the other is still evaluated and the call still charged. The compiled closures stop at the first error, so
where one occurred the plan is walked again here, with errors as values, and charged as upstream charges.

Upstream finds a call's arguments on a stack of the values seen so far, by node id, and charges nothing when
one is missing because an earlier argument failed. The stack is kept here for that reason, with the same rules
of what is taken off it and when.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allotment.cel import plan as tree
from allotment.cel.access import elements, enter, entries, has, seek
from allotment.cel.code import UNSET
from allotment.cel.dispatch import dispatch
from allotment.cel.errors import CelCostExceeded, CelNoSuchOverload, CelRuntimeError
from allotment.cel.estimate import LIST_CREATE, MAP_CREATE
from allotment.cel.library.limits import COPYING, check_copied
from allotment.cel.paths import checked_key
from allotment.cel.patterns import check_computed_pattern
from allotment.cel.plan import PATTERNS, ExecutionPlan, among_key, closed_nodes, node_id
from allotment.cel.prices import CallCost, call_cost
from allotment.cel.values import OPTIONAL_NONE, Optional, Value, make_literal_map


class Meter:
    """One evaluation. ``cost`` is right also after :class:`CelCostExceeded`."""

    def __init__(self, plan: ExecutionPlan, frame: list[Value], limit: int) -> None:
        self.plan = plan
        self.frame = frame
        self.limit = limit
        self.cost = 0
        self._copied = 0  # elements of lists
        self._seen: list[tuple[int, Value, int]] = []
        """Node id, value, and where the node's value before this one lies."""
        self._places: dict[int, int] = {}
        """Where the newest value of a node lies."""
        self._prices: dict[int, CallCost | int] = {}
        self._closed = closed_nodes(plan.root)
        self._known: dict[int, tuple[Value, int]] = {}
        self._inits: dict[int, tree.PlanNode] = {}

    def run(self) -> Value:
        """The value, or the error as a value. Raises only :class:`CelCostExceeded`."""
        return self._value(self.plan.root)

    # --- what has been seen

    def _push(self, value: Value, id_: int, cost: int = 0) -> Value:
        self.cost += cost
        places, seen = self._places, self._seen
        seen.append((id_, value, places.get(id_, -1)))
        places[id_] = len(seen) - 1
        if self.cost > self.limit:
            raise CelCostExceeded(self.limit)
        return value

    def _pop(self, id_: int) -> tuple[Value, bool]:
        """The newest value of a node, taken off with everything above it, and whether there was one."""
        place = self._places.get(id_, -1)
        if place < 0:
            return None, False
        seen, places = self._seen, self._places
        value = seen[place][1]
        while len(seen) > place:
            above, _, before = seen.pop()
            places[above] = before
        return value, True

    def _drop(self, *ids: int) -> None:
        for id_ in ids:
            self._pop(id_)

    def _take(self, nodes: list[tree.PlanNode]) -> list[Value] | None:
        """The values of these nodes, in order, or None if one of them is missing."""
        values: list[Value] = []
        for node in reversed(nodes):
            value, found = self._pop(node_id(node))
            if not found:
                return None
            values.append(value)
        return values[::-1]

    # --- nodes

    def _value(self, node: tree.PlanNode) -> Value:
        if node.id in self._closed and type(node) in _REPEATABLE:
            return self._repeated(node)
        return _EVALUATE[type(node)](self, node)

    def _repeated(self, node: tree.PlanNode) -> Value:
        """A part that reads no variable is walked once, and once more if the limit is reached inside it."""
        known = self._known.get(node.id)
        if known is not None and self.cost + known[1] <= self.limit:
            return self._push(known[0], node.id, known[1])
        before = self.cost
        value = _EVALUATE[type(node)](self, node)
        self._known[node.id] = (value, self.cost - before)
        return value

    def _const(self, node: tree.Const) -> Value:
        return self._push(node.value, node.id)

    def _path(self, node: tree.Path) -> Value:
        value = self._resolved(node)
        self._pop(node.last_id)
        return self._push(value, node.last_id, 1)

    def _choice(self, node: tree.Conditional) -> Value:
        value = self._resolved(node)
        self._drop(node.no.last_id, node.yes.last_id, node_id(node.test))
        return self._push(value, node.last_id)

    def _resolved(self, node: tree.PlanNode) -> Value:
        """A path or choice as part of another: charged for its steps but not for itself."""
        if isinstance(node, tree.Conditional):
            test = self._value(node.test)
            if type(test) is not bool:
                return test if isinstance(test, CelRuntimeError) else CelNoSuchOverload()
            return self._resolved(node.yes if test else node.no)
        assert isinstance(node, tree.Path)
        if node.slot is None:
            assert node.origin is not None
            start = self._value(node.origin)
        else:
            start = self._variable(node.slot)
        if isinstance(start, CelRuntimeError):
            return start
        return self._walk(start, node.steps)

    def _variable(self, slot: int) -> Value:
        value = self.frame[slot]
        if value is UNSET:
            value = self._value(self._inits[slot])
            if type(value) in (list, dict) and not value:
                value = type(value)()  # an accumulator of its own, to grow in place
            self.frame[slot] = value
        return value

    def _walk(self, value: Value, steps: list[tree.PathStep]) -> Value:
        optional = type(value) is Optional
        if optional:
            if not value.present:
                return value
            value = value.value
        for step in steps:
            optional = optional or step.optional
            try:
                key = step.key if step.node is None else checked_key(self._key(step.node))
                if optional:
                    value, present = seek(value, key, step.strict)
                    if not present:
                        return OPTIONAL_NONE
                else:
                    value = has(value, key, step.strict) if step.test else enter(value, key)
            except CelCostExceeded:
                raise
            except CelRuntimeError as exc:
                if not optional:
                    self._push(exc, step.id, 1)
                return exc
            self._push(value, step.id, 1)
        return Optional(value) if optional else value

    def _key(self, node: tree.PlanNode) -> Value:
        value = self._resolved(node) if isinstance(node, tree.Path | tree.Conditional) else self._value(node)
        if isinstance(value, CelRuntimeError):
            raise value
        return value

    def _presence(self, node: tree.Presence) -> Value:
        value = self._resolved(node.path)
        if type(value) is Optional:
            value = value.present
        path = node.path
        if isinstance(path, tree.Conditional):
            self._drop(path.no.last_id, path.yes.last_id, node_id(path.test))
            return self._push(value, node.id, -1)
        self._drop(path.last_id)
        return self._push(value, node.id)

    def _logical(self, node: tree.Logical) -> Value:
        deciding = not node.conjunction
        result: Value = not deciding
        for term in node.terms:
            value = self._value(term)
            if value is deciding:
                result = deciding
                break
            if type(value) is not bool and result is (not deciding):
                result = value if isinstance(value, CelRuntimeError) else CelNoSuchOverload()
        self._drop(*map(node_id, node.terms))
        return self._push(result, node.id)

    def _or_else(self, node: tree.OrElse) -> Value:
        return self._push(self._either(node), node.id)

    def _either(self, node: tree.OrElse) -> Value:
        left = self._value(node.left)
        if isinstance(left, CelRuntimeError):
            return left
        if type(left) is not Optional:
            return CelNoSuchOverload()
        if left.present:
            return left.value if node.unwrap else left
        return self._value(node.right)

    def _among(self, node: tree.Among) -> Value:
        item = self._value(node.item)
        if isinstance(item, CelRuntimeError):
            return self._push(item, node.id)
        try:
            return self._push(among_key(item) in node.values, node.id)
        except TypeError:  # it cannot be hashed
            return self._push(False, node.id)

    # --- calls

    def _call(self, node: tree.PlannedCall) -> Value:
        result = self._called(node)
        args = self._take(node.args)
        if args is None:
            return self._push(result, node.id)
        price = self._prices.get(node.id)
        if price is None:
            price = self._prices[node.id] = call_cost(node.function, node.overload, node.overloads)
        return self._push(result, node.id, price if isinstance(price, int) else price(args, result))

    def _called(self, node: tree.PlannedCall) -> Value:
        values: list[Value] = []
        for arg in node.args:
            value = self._value(arg)
            if isinstance(value, CelRuntimeError) and node.strict and node.stops:
                return value
            values.append(value)
        failed = next((value for value in values if isinstance(value, CelRuntimeError)), None)
        if not node.strict:
            return values[0] if type(values[0]) is bool else True
        if failed is not None:
            return failed
        if node.overload == "add_list" and self._owns(node.args[0]) and type(values[1]) is list:
            values[0].extend(values[1])
            return values[0]
        try:
            if (
                node.function.name in PATTERNS
                and len(node.args) > 1
                and not isinstance(node.args[1], tree.Const)
            ):
                check_computed_pattern(values[1])
            impl = (node.impl or dispatch(node.function.name, node.overloads, values)).impl
            assert impl is not None, node.function.name
            result = impl(*values)
            if type(result) is list and node.function.name in COPYING:
                self._copied += len(result)
                check_copied(self._copied)
            return result
        except CelRuntimeError as exc:
            return exc

    def _owns(self, node: tree.PlanNode) -> bool:
        return isinstance(node, tree.Path) and not node.steps and node.slot in self.plan.accumulators

    # --- aggregates

    def _list(self, node: tree.MakeList) -> Value:
        items: list[Value] = []
        result: Value = items
        for number, element in enumerate(node.elements):
            value = self._value(element)
            if isinstance(value, CelRuntimeError):
                result = value
                break
            if number in node.optional:
                if type(value) is not Optional:
                    result = CelRuntimeError(
                        "cannot initialize optional list element from non-optional value"
                    )
                    break
                if not value.present:
                    continue
                value = value.value
            items.append(value)
        self._take(node.elements)
        return self._push(result, node.id, LIST_CREATE)

    def _map(self, node: tree.MakeMap) -> Value:
        result = self._entries(node)
        self._take([part for key, value, _ in node.entries for part in (key, value)])
        return self._push(result, node.id, MAP_CREATE)

    def _entries(self, node: tree.MakeMap) -> Value:
        pairs: list[tuple[Value, Value]] = []
        for key_node, value_node, optional in node.entries:
            key = self._value(key_node)
            if isinstance(key, CelRuntimeError):
                return key
            value = self._value(value_node)
            if isinstance(value, CelRuntimeError):
                return value
            if optional:
                if type(value) is not Optional:
                    return CelRuntimeError("cannot initialize optional entry from non-optional value")
                if not value.present:
                    continue
                value = value.value
            pairs.append((key, value))
        try:
            return make_literal_map(pairs, node.unique_keys)
        except CelRuntimeError as exc:
            return exc

    def _fold(self, node: tree.Fold) -> Value:
        value = self._folded(node)
        self._pop(node_id(node.range))
        return self._push(value, node.id)

    def _folded(self, node: tree.Fold) -> Value:
        ranged = self._value(node.range)
        if isinstance(ranged, CelRuntimeError):
            return ranged
        self.frame[node.accumulator] = UNSET
        self._inits[node.accumulator] = node.init
        try:
            items = elements(ranged) if node.variable2 is None else entries(ranged)
        except CelRuntimeError as exc:
            return exc
        for item in items:
            if node.variable2 is None:
                self.frame[node.variable] = item
            else:
                self.frame[node.variable], self.frame[node.variable2] = item
            if self._value(node.condition) is False:
                break
            self.frame[node.accumulator] = self._value(node.step)
        return self._value(node.result)


_REPEATABLE = frozenset({tree.PlannedCall, tree.Logical, tree.MakeList, tree.MakeMap, tree.Fold})
_EVALUATE: dict[type[tree.PlanNode], Callable[[Meter, Any], Value]] = {
    tree.Const: Meter._const,
    tree.Path: Meter._path,
    tree.Conditional: Meter._choice,
    tree.Presence: Meter._presence,
    tree.PlannedCall: Meter._call,
    tree.Logical: Meter._logical,
    tree.OrElse: Meter._or_else,
    tree.Among: Meter._among,
    tree.MakeList: Meter._list,
    tree.MakeMap: Meter._map,
    tree.Fold: Meter._fold,
}
