"""Searches that go on in a later turn: each is kept under the state of the world that it is about, until somebody asks again.

A search depends on nothing but its problem, which is a picture of that state. So whatever happens meanwhile, it may go on as
soon as the same state is asked about; if that never happens, it is dropped when others need the room.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from allotment.allocator.effort import Effort, Paused
from allotment.allocator.problem import Problem
from allotment.allocator.search import Answer, Search

_KEPT = 16


class PausedSearches:
    """See the module. ``effort`` says how far a search may go in this turn."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._kept: dict[Hashable, Search] = {}

    def run(self, key: Hashable, begin: Callable[[], Search]) -> tuple[Problem, Answer]:
        """Searches on, or begins to. Raises Paused where the steps of this turn do not do."""
        search = self._kept.pop(key, None) or begin()
        before = search.steps
        answer = search.go_on(self._effort.left)
        self._effort.took(search.steps - before)
        if answer is not None:
            return search.problem, answer
        search.problem.detach()
        if len(self._kept) >= _KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = search
        raise Paused
