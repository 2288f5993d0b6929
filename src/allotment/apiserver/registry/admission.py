"""Admission: checks of a write that need more than the object, such as other objects, indexes or rights.

Each is a small class in ``admissions/``, one file for each concern; the pipeline calls them in the catalogue's order after
validation.
Where a check depends on an index, the index follows the store's head (``Store.follow``): decisions and writes happen
without an await between them, so what was checked is still true when the write takes its revision.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol, runtime_checkable

from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Write
from allotment.apiserver.store.record import Obj

Kinds = frozenset[str] | None
"""Resources by id; None for all of them."""

_KINDS_REMEMBERED = 1024


@runtime_checkable
class Mutation(Protocol):
    """A concern that changes objects before validation, for example sets a service account or a priority."""

    @property
    def mutated(self) -> Kinds:
        """The kinds that it may change; writes of other kinds bypass it."""

    def mutate(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        """May change the object. Raises StatusError to refuse."""


@runtime_checkable
class Judgement(Protocol):
    """A concern that judges objects in their final form."""

    @property
    def judged(self) -> Kinds:
        """The kinds that it judges; writes of other kinds bypass it."""

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        """Raises StatusError to refuse. ``old`` is None on create, ``obj`` is the stored object on delete."""


Admission = Mutation | Judgement
"""One concern; it may be both."""


class Admissions:
    """All concerns, each called in its turn for its own kinds."""

    def __init__(self, admissions: Iterable[Admission]) -> None:
        every = tuple(admissions)
        mutations = [each for each in every if isinstance(each, Mutation)]
        judgements = [each for each in every if isinstance(each, Judgement)]

        @lru_cache(_KINDS_REMEMBERED)
        def mutating(kind: str) -> tuple[Mutation, ...]:
            return tuple(each for each in mutations if each.mutated is None or kind in each.mutated)

        @lru_cache(_KINDS_REMEMBERED)
        def judging(kind: str) -> tuple[Judgement, ...]:
            return tuple(each for each in judgements if each.judged is None or kind in each.judged)

        self._mutating, self._judging = mutating, judging

    def mutate(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        """Raises StatusError."""
        for each in self._mutating(resource.id):
            each.mutate(resource, obj, old, write)

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        """Raises StatusError."""
        for each in self._judging(resource.id):
            each.admit(resource, obj, old, write)
