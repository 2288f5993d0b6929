"""Sets of fields as in ``metadata.managedFields``: the parts of an object that a manager owns.

A set is kept in the very form in which it is sent and stored (fieldsV1): nested dicts, keyed by steps (``element.py``).
``{}`` is a field that is in the set and has no part in it; ``{".": {}, …}`` is in the set together with the parts named;
a dict without ``.`` only leads to its parts. So ``{"f:spec": {"f:replicas": {}}}`` holds spec.replicas, but not spec.
Writing a set costs nothing, and an operation shares all that it does not change. No dict of a set is ever changed.

Membership is independent of the fields above and below: a set may contain a list without its elements, or the reverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from allotment.api.nesting import MAX_DEPTH
from allotment.apiserver.patch.element import BadElement, canonical, order, spoken

Node = dict[str, Any]
Path = tuple[str, ...]
"""The way to a field, step by step."""

LEAF: Final[Node] = {}
SELF: Final = "."


class FieldSet:
    """A set of fields. Immutable; false if it is empty."""

    __slots__ = ("_stored", "fields")

    def __init__(self, fields: Node | None = None, *, stored: bool = False) -> None:
        """``fields`` has the canonical form, which :meth:`parse` makes from input. It is sorted if it was ``stored``."""
        self.fields: Node = fields if fields is not None else {}
        self._stored = stored

    @classmethod
    def parse(cls, fields: Any) -> FieldSet:
        """The set that a fieldsV1 value means. Raises ValueError for a value that is none."""
        return cls(_parsed_parts(fields, MAX_DEPTH))

    @classmethod
    def of_paths(cls, paths: Iterable[Path]) -> FieldSet:
        root: Node = {}
        for path in paths:
            _insert(root, path)
        return cls(root)

    @classmethod
    def of_names(cls, *paths: str) -> FieldSet:
        """The set of fields named with dots: ``of_names("status", "metadata.labels")``."""
        return cls.of_paths(tuple(f"f:{name}" for name in path.split(".")) for path in paths)

    def to_json(self) -> Node:
        """The fields in Kubernetes' order: at each level the set itself, then names, keys, values and indexes."""
        return self.fields if self._stored else _in_order(self.fields)

    def __bool__(self) -> bool:
        return bool(self.fields)

    def __eq__(self, other: object) -> bool:
        return self.fields == other.fields if isinstance(other, FieldSet) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # made of dicts

    def __repr__(self) -> str:
        return f"FieldSet({', '.join(told(path) for path in self)})"

    def __contains__(self, path: Path) -> bool:
        node = self.fields
        for step in path:
            if step not in node:
                return False
            node = node[step]
        return bool(path) and (not node or SELF in node)

    def __iter__(self) -> Iterator[Path]:
        """All fields, in order: at each level first the members, then what is below them."""
        return _paths(self.fields, ())

    def __or__(self, other: FieldSet) -> FieldSet:
        if not self.fields:
            return other
        return FieldSet(_union_parts(self.fields, other.fields)) if other.fields else self

    def __and__(self, other: FieldSet) -> FieldSet:
        return FieldSet(_common_parts(self.fields, other.fields))

    def __sub__(self, other: FieldSet) -> FieldSet:
        """Without the members of ``other``; what is below them stays."""
        if other.fields.keys().isdisjoint(self.fields):
            return self
        return FieldSet(_remaining_parts(self.fields, other.fields))

    def without(self, other: FieldSet) -> FieldSet:
        """Without the members of ``other`` and all that is below them."""
        if other.fields.keys().isdisjoint(self.fields):
            return self
        return FieldSet(_outside_parts(self.fields, other.fields))


EMPTY: Final = FieldSet()


def told(path: Path) -> str:
    """A path as messages have it: ``.spec.containers[name="web"].image``."""
    return "".join(spoken(step) for step in path)


def _in_order(node: Node) -> Node:
    """The same node with its parts sorted, at every depth; one that is sorted already is returned as it is."""
    parts, sorted_, before = node, True, " "
    for step, below in node.items():
        if below and (inner := _in_order(below)) is not below:
            parts = node.copy() if parts is node else parts
            parts[step] = inner
        sorted_ = sorted_ and _precedes(before, step)
        before = step
    return parts if sorted_ else {step: parts[step] for step in sorted(parts, key=_place)}


def _precedes(one: str, other: str) -> bool:
    """Whether a step comes before another. Nothing, the set itself and names compare as they are."""
    return one < other if one[0] in " .f" and other[0] in ".f" else _place(one) < _place(other)


@lru_cache(maxsize=4096)
def _place(step: str) -> tuple[int, tuple[Any, ...]]:
    return (0, ()) if step in (" ", SELF) else (1, order(step))


def owned(node: Node) -> bool:
    """Whether the field at ``node`` is a member itself."""
    return not node or SELF in node


# --- The operations, on the parts of a node. A field that is neither a member nor leads to one must not be there, so
# --- the functions for single fields give None for "nothing is left".


def _insert(root: Node, path: Path) -> None:
    """Adds a path to a set that is being built."""
    node = root
    for step in path[:-1]:
        below = node.get(step)
        if below is None:
            below = node[step] = {}
        elif not below:
            below = node[step] = {SELF: LEAF}
        node = below
    here = node.get(path[-1])
    if here is None:
        node[path[-1]] = {}
    elif here:
        here[SELF] = LEAF


def _parsed_parts(fields: Any, depth: int) -> Node:
    if not isinstance(fields, dict):
        raise BadElement("fields must be an object")
    if depth < 0:
        raise BadElement(f"fields nest deeper than {MAX_DEPTH} levels")
    parts: Node = {}
    for text, inner in fields.items():
        if text == SELF:
            continue
        step = canonical(text)
        if step is not None:
            below = _parsed_parts(inner, depth - 1)
            parts[step] = {SELF: LEAF, **below} if below and SELF in inner else below or LEAF
    return parts


def _paths(node: Node, prefix: Path) -> Iterator[Path]:
    steps = sorted((step for step in node if step != SELF), key=order)
    for step in steps:
        if owned(node[step]):
            yield (*prefix, step)
    for step in steps:
        yield from _paths(node[step], (*prefix, step))


def _tidy(node: Node) -> Node | None:
    """A field after parts of it went: None if nothing is left, and a bare ``.`` is a leaf."""
    if not node:
        return None
    return LEAF if len(node) == 1 and SELF in node else node


def _union_parts(one: Node, other: Node) -> Node:
    union = one.copy()
    for step, node in other.items():
        here = union.get(step)
        union[step] = node if here is None else _union(here, node)
    return union


def _union(one: Node, other: Node) -> Node:
    if one is other:
        return one
    if not one or not other:
        rest = one or other
        return rest if not rest or SELF in rest else {SELF: LEAF, **rest}
    return _union_parts(one, other)


def _common_parts(one: Node, other: Node) -> Node:
    if len(other) < len(one):
        one, other = other, one
    common: Node = {}
    for step, node in one.items():
        if step != SELF and step in other:
            both = _common(node, other[step])
            if both is not None:
                common[step] = both
    return common


def _common(one: Node, other: Node) -> Node | None:
    if one is other:
        return one
    member = owned(one) and owned(other)
    common = _common_parts(one, other) if one and other else {}
    if member:
        return {SELF: LEAF, **common} if common else LEAF
    return common or None


def _remaining_parts(one: Node, other: Node) -> Node:
    remaining: Node = {}
    for step, node in one.items():
        gone = other.get(step)
        rest = node if gone is None or step == SELF else _remaining(node, gone)
        if rest is not None:
            remaining[step] = rest
    return remaining


def _remaining(one: Node, other: Node) -> Node | None:
    if not one:
        return None if owned(other) else one
    remaining = _remaining_parts(one, other)
    if SELF in remaining and owned(other):
        del remaining[SELF]
    return _tidy(remaining)


def _outside_parts(one: Node, other: Node) -> Node:
    outside: Node = {}
    for step, node in one.items():
        gone = other.get(step)
        if gone is None or step == SELF:
            outside[step] = node
        elif not owned(gone):
            rest = _tidy(_outside_parts(node, gone)) if node else node
            if rest is not None:
                outside[step] = rest
    return outside
