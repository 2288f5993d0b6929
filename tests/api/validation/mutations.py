"""Objects that are wrong, or just right, in one place: every field of rich examples is taken away, emptied, doubled or
replaced by what is near the edge of its rule. What a rule says of each is for others to judge; here is only the variety.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
Path = tuple[str | int, ...]

STRINGS = (
    "",
    "x",
    "X-y",
    "-x",
    "a.b",
    "a..b",
    "a/b",
    "a/b/c",
    "A_b",
    "9x",
    "x" * 32,
    "x" * 33,
    "x" * 63,
    "x" * 64,
    "x" * 254,
    "x.y/z",
    "x.y/" + "z" * 33,
    "ä",
    "1",
    "1.0.0",
    "v1",
    "*",
)
NUMBERS = (-1, 0, 1, 2, 33, 2**31, 2**63 - 1)
QUANTITIES = ("0", "1", "-1", "1.5", "100m", "1k", "1Ki", "10Gi", "1e30")


def mutations(example: Json, *, skip: tuple[str, ...] = ("apiVersion", "kind", "metadata")) -> Iterator[Json]:
    """The example with one change each, its content only. They share what is not changed: nobody may write into them."""
    for path, value in _places(example, ()):
        if path[0] in skip:
            continue
        for changed in _changes(value):
            yield _with(example, path, changed)
        yield _without(example, path)


def _places(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if path:
        yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _places(inner, (*path, index))


def _changes(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from NUMBERS
    elif isinstance(value, str):
        yield from STRINGS
        if value[:1].isdigit():
            yield from QUANTITIES
    elif isinstance(value, list):
        yield []
        if value:
            yield [*value, value[0]]
            for size in (3, 5, 9, 17, 33, 65, 129, 257):
                yield [_numbered(value[0], number) for number in range(size)]
    elif isinstance(value, dict):
        yield {}
        if value:
            first = next(iter(value.values()))
            for key in ("", "Bad Key", "a.b/c", "a.b/c/d", "x" * 64, "cpu", "hugepages-2Mi"):
                yield {**value, key: first}
            yield {**value, **{f"n{number}": first for number in range(33)}}


def _numbered(value: Any, number: int) -> Any:
    if isinstance(value, str):
        return f"{value}{number}"
    if isinstance(value, dict):
        names = {name: f"{value[name]}{number}" for name in ("name", "uid", "key", "type") if name in value}
        return {**value, **names}
    return value


def _with(owner: Any, path: Path, value: Any) -> Any:
    step, *rest = path
    changed = owner.copy()
    changed[step] = _with(owner[step], tuple(rest), value) if rest else value
    return changed


def _without(owner: Any, path: Path) -> Any:
    step, *rest = path
    changed = owner.copy()
    if rest:
        changed[step] = _without(owner[step], tuple(rest))
    else:
        del changed[step]
    return changed
