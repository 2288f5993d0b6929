"""The paths that definitions use for columns, scale and field selectors: the JSONPath of kubectl, bounded.

::

    .spec.size   .metadata.labels['a.b']   .items[0]   .items[-1]   .items[1:3]   .items[*].name
    .status.conditions[?(@.type=="Ready")].status    ..name

A path gives all values that it leads to; missing keys lead nowhere. The number of visited values is bounded, whatever the
path and the object.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

LONGEST_PATH: Final = 4096
MOST_VISITED: Final = 20_000


class PathError(ValueError):
    """The text is not a path, or following it took too long."""


Step = Callable[["_Visit", Any], Iterable[Any]]


class JsonPath:
    """A parsed path. Raises :class:`PathError` for invalid text."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST_PATH:
            raise PathError(f"a path of {len(text)} characters is longer than {LONGEST_PATH}")
        self.text = text
        self._steps = _parse(text)

    def find(self, value: Any) -> list[Any]:
        """Every value that the path leads to. Raises :class:`PathError` if the search visits too many values."""
        return _follow(_Visit(MOST_VISITED), self._steps, value)

    def first(self, value: Any, most: int = MOST_VISITED) -> Any:
        """The first of these values; None if there is none or finding it would visit more than so many."""
        try:
            return next(iter(_follow(_Visit(most), self._steps, value)), None)
        except PathError:
            return None


class _Visit:
    """The number of values that one search has visited, and may visit."""

    __slots__ = ("count", "most")

    def __init__(self, most: int) -> None:
        self.count = 0
        self.most = most

    def look(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self.count += 1
            if self.count > self.most:
                raise PathError(f"more than {self.most} values to look at")
            yield value


def _follow(visit: _Visit, steps: list[Step], value: Any) -> list[Any]:
    values = [value]
    for step in steps:
        values = [found for each in values for found in visit.look(step(visit, each))]
    return values


_NAME: Final = re.compile(r"(?:\\.|[^\s.\[\]{}'\"()\\|@?])+")
_QUOTED: Final = re.compile(r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"")
_SLICE: Final = re.compile(r"(-?\d{1,9})?:(-?\d{1,9})?(?::(-?\d{1,9})?)?", re.ASCII)
_INDEX: Final = re.compile(r"-?\d{1,9}", re.ASCII)
_FILTER: Final = re.compile(r"\?\((.*)\)", re.DOTALL)
_COMPARISON: Final = re.compile(r"(.*?[^=!<>\s])\s*(==|!=|<=|>=|<|>)\s*(.+)", re.DOTALL)
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _parse(text: str) -> list[Step]:
    steps: list[Step] = []
    place = 0
    while place < len(text):
        if text.startswith("..", place):
            steps.append(_everything)
            place += 1 if text[place + 2 : place + 3] == "[" else 2
            if place < len(text) and text[place] not in ".[":
                place, step = _name(text, place)
                steps.append(step)
        elif text[place] == ".":
            place += 1
            if place < len(text) and text[place] not in ".[":
                place, step = _name(text, place)
                steps.append(step)
        elif text[place] == "[":
            end = _closing(text, place)
            steps.append(_bracket(text[place + 1 : end].strip()))
            place = end + 1
        else:
            raise PathError(f"unexpected {text[place]!r} at {place} of {text!r}")
    return steps


def _name(text: str, place: int) -> tuple[int, Step]:
    match = _NAME.match(text, place)
    if match is None:
        raise PathError(f"a name is missing at {place} of {text!r}")
    name = re.sub(r"\\(.)", r"\1", match[0])
    return match.end(), _all if name == "*" else _field(name)


def _closing(text: str, start: int) -> int:
    """Where the bracket ends that opens at ``start``; what is quoted does not count."""
    depth, place = 0, start
    while place < len(text):
        if text[place] in "'\"":
            quoted = _QUOTED.match(text, place)
            if quoted is None:
                raise PathError(f"a quotation is not closed in {text!r}")
            place = quoted.end()
            continue
        depth += (text[place] == "[") - (text[place] == "]")
        if depth == 0:
            return place
        place += 1
    raise PathError(f"a bracket is not closed in {text!r}")


def _bracket(inside: str) -> Step:
    if inside == "*":
        return _all
    if quoted := _QUOTED.fullmatch(inside):
        return _field(_unquoted(quoted))
    if condition := _FILTER.fullmatch(inside):
        return _filter(condition[1].strip())
    if _INDEX.fullmatch(inside):
        return _element(int(inside))
    if part := _SLICE.fullmatch(inside):
        return _part(*(int(each) if each else None for each in part.groups()))
    parts = [each.strip() for each in inside.split(",")]
    if len(parts) > 1 and all(_INDEX.fullmatch(each) or _QUOTED.fullmatch(each) for each in parts):
        return _union([_bracket(each) for each in parts])
    raise PathError(f"[{inside}] is not understood")


def _unquoted(match: re.Match[str]) -> str:
    return re.sub(r"\\(.)", r"\1", match[1] if match[1] is not None else match[2])


def _field(name: str) -> Step:
    return lambda visit, value: (value[name],) if isinstance(value, dict) and name in value else ()


def _element(index: int) -> Step:
    def step(visit: _Visit, value: Any) -> Iterable[Any]:
        return value[index : index + 1 or None] if isinstance(value, list) else ()

    return step


def _part(start: int | None, end: int | None, by: int | None) -> Step:
    if by is not None and by <= 0:
        raise PathError("the step of a slice must be positive")
    return lambda visit, value: value[start:end:by] if isinstance(value, list) else ()


def _union(steps: list[Step]) -> Step:
    return lambda visit, value: (found for step in steps for found in step(visit, value))


def _all(visit: _Visit, value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _everything(visit: _Visit, value: Any) -> Iterable[Any]:
    """The value and all that is in it."""
    pending = [value]
    while pending:
        found = pending.pop()
        yield found
        pending.extend(visit.look(reversed(list(_all(visit, found)))))


def _filter(condition: str) -> Step:
    comparison = _COMPARISON.fullmatch(condition)
    if comparison is None:
        steps = _operand_path(condition)
        return lambda visit, value: (
            each
            for each in visit.look(_all(visit, value))
            if isinstance(value, list) and _follow(visit, steps, each)
        )
    left, right = _operand(comparison[1].strip()), _operand(comparison[3].strip())
    compare = _OPERATORS[comparison[2]]

    def step(visit: _Visit, value: Any) -> Iterable[Any]:
        if not isinstance(value, list):
            return
        for each in visit.look(value):
            ours, theirs = left(visit, each), right(visit, each)
            if len(ours) == 1 == len(theirs) and _holds(compare, ours[0], theirs[0]):
                yield each

    return step


def _holds(compare: Callable[[Any, Any], bool], ours: Any, theirs: Any) -> bool:
    number = isinstance(ours, int | float) and isinstance(theirs, int | float)
    if isinstance(ours, bool) is not isinstance(theirs, bool) or not (number or type(ours) is type(theirs)):
        return False
    try:
        return compare(ours, theirs)
    except TypeError:
        return False


def _operand(text: str) -> Callable[[_Visit, Any], list[Any]]:
    if text.startswith("@"):
        steps = _operand_path(text)
        return lambda visit, value: _follow(visit, steps, value)
    constant = [_constant(text)]
    return lambda visit, value: constant


def _operand_path(text: str) -> list[Step]:
    if not text.startswith("@"):
        raise PathError(f"{text!r} does not begin with @")
    return _parse(text[1:])


def _constant(text: str) -> Any:
    if quoted := _QUOTED.fullmatch(text):
        return _unquoted(quoted)
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text) if _INDEX.fullmatch(text) else float(text)
    except ValueError as exc:
        raise PathError(f"{text!r} is neither a text in quotation marks nor a number") from exc
