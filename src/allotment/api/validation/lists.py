"""Lists and maps of an object: not too long, no key twice, every entry valid.

The check of a list that is too long ends there: a list of a million entries gives one error, not a million.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from allotment.api.fields import FieldError, FieldPath

T = TypeVar("T")
Check = Callable[[T, FieldPath], Iterable[FieldError]]


def each(entries: Sequence[T], path: FieldPath, limit: int | None, check: Check[T]) -> Iterator[FieldError]:
    """The errors of every entry, or one error if there are too many; None means no limit."""
    if limit is not None and len(entries) > limit:
        yield path.too_many(len(entries), limit)
        return
    for index, entry in enumerate(entries):
        yield from check(entry, path.index(index))


def each_once(
    entries: Sequence[T],
    path: FieldPath,
    limit: int | None,
    check: Check[T],
    key: Callable[[T], Hashable],
) -> Iterator[FieldError]:
    """Like ``each``, and reports entries with the same key."""
    yield from each(entries, path, limit, check)
    if limit is None or len(entries) <= limit:
        yield from repeated([key(entry) for entry in entries], path)


def repeated(keys: Iterable[Hashable], path: FieldPath) -> Iterator[FieldError]:
    """An error for each key that occurred earlier."""
    seen: set[Hashable] = set()
    for index, key in enumerate(keys):
        if key in seen:
            shown = "/".join(str(part) for part in key if part is not None) if isinstance(key, tuple) else key
            yield path.index(index).duplicate(shown)
        seen.add(key)


def each_value(
    entries: Mapping[str, T],
    path: FieldPath,
    limit: int | None,
    check_key: Check[str],
    check: Check[T],
) -> Iterator[FieldError]:
    """Like ``each``, for a map; errors about a key have the path of the map."""
    if limit is not None and len(entries) > limit:
        yield path.too_many(len(entries), limit)
        return
    for key, entry in entries.items():
        yield from check_key(key, path)
        yield from check(entry, path.key(key))


def named(text: str, path: FieldPath, problem_of: Callable[[str], str | None]) -> Iterator[FieldError]:
    """Reports a text that is not a name of the kind."""
    problem = problem_of(text)
    if problem is not None:
        yield path.invalid(problem, text) if text else path.required(problem)


def nothing(_entry: Any, _path: FieldPath) -> tuple[FieldError, ...]:
    """The check for entries that are always valid."""
    return ()
