"""Checks of a write that need more than the object: other objects, indexes, rights.

Each is a small class in ``admissions/``, one file a concern; the pipeline calls them in the catalogue's order after validation.
Where a check depends on an index, the index follows the store's head (``Store.follow``): decisions and writes happen
without an await between them, so what was checked is still true when the write takes its revision.
"""

from __future__ import annotations

from typing import Protocol

from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Write
from allotment.apiserver.store.record import Obj


class Admission(Protocol):
    """One concern. Both methods raise StatusError to refuse."""

    def mutate(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        """May change the object (set a service account, a priority), before validation."""

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        """Judges the final object; ``old`` is None on create, ``obj`` is the stored object on delete."""
