"""Cuts a failing problem down by leaving parts out for as long as it still fails."""

import json
from collections.abc import Callable, Iterator
from typing import Any


def smaller(
    problem: dict[str, Any], fails: Callable[[dict[str, Any]], bool], attempts: int = 2000
) -> dict[str, Any]:
    """A smallest version found of ``problem`` for which ``fails`` still holds; asks at most ``attempts`` times.

    Greedy: large parts are tried first, and after each success it starts over from the top.
    """
    progress = True
    while progress:
        progress = False
        for path in list(_paths(problem)):
            attempts -= 1
            if attempts < 0:
                return problem
            candidate = _without(problem, path)
            if candidate is not None and fails(candidate):
                problem, progress = candidate, True
    return problem


def _paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every part that can be left out, nearest to the root first; list elements from the end, so that paths stay valid."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(reversed(range(len(value))))
    for key in keys:
        yield (*prefix, key)
    for key in keys:
        yield from _paths(value[key], (*prefix, key))


def _without(problem: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any] | None:
    copy: dict[str, Any] = json.loads(json.dumps(problem))
    parent: Any = copy
    try:
        for key in path[:-1]:
            parent = parent[key]
        del parent[path[-1]]
    except (KeyError, IndexError, TypeError):
        return None  # an earlier success took it away
    return copy
