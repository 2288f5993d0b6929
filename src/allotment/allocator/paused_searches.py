"""Searches that continue in a later turn. Each is kept under the state that it is about, until the question comes again.

A search depends only on its problem, which is a snapshot of that state. So whatever happens meanwhile, it can continue as
soon as the same state comes up again. If that never happens, it is dropped when others need the room.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from allotment.allocator.effort import Effort, Paused
from allotment.allocator.problem import Problem
from allotment.allocator.search import Answer, Search

_SEARCHES_KEPT = 16


class PausedSearches:
    """Interrupted searches by state. ``effort`` limits how far a search may go in this turn."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._kept: dict[Hashable, Search] = {}

    def run(self, key: Hashable, begin: Callable[[], Search]) -> tuple[Problem, Answer]:
        """Continues or begins a search. Raises Paused if the steps of this turn are used up."""
        search = self._kept.pop(key, None) or begin()
        before = search.steps
        answer = search.go_on(self._effort.left)
        self._effort.took(search.steps - before)
        if answer is not None:
            return search.problem, answer
        search.problem.detach()
        if len(self._kept) >= _SEARCHES_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = search
        raise Paused
