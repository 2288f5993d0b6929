"""One informer for each kind, shared by all its readers in a process.

A kind that ten controllers read is listed, watched and decoded once. Get all informers, add handlers and indexes, then call
:meth:`Informers.run`; an informer requested later starts at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, cast

from allotment.api.meta import ApiStruct
from allotment.client.client import Client, Collection
from allotment.client.form import Obj, ResourcePath, Typed
from allotment.client.informer import Informer

__all__ = ["Informers"]

T = TypeVar("T")
S = TypeVar("S", bound=ApiStruct)


class Informers:
    """The informers of one process, for one client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._informers: dict[tuple[ResourcePath, type[Any]], Informer[Any]] = {}
        self._start: Callable[[Informer[Any]], object] | None = None

    def of(self, type_: type[S]) -> Informer[S]:
        """The informer of a typed kind, over all namespaces."""
        return self._of(self.client.of(type_), type_)

    def at(self, resource: ResourcePath, type_: type[S]) -> Informer[S]:
        """The informer of a kind at the given path, read as a typed struct."""
        return self._of(Collection(self.client, resource, Typed(type_)), type_)

    def plain(self, api_version: str, plural: str, *, namespaced: bool = True) -> Informer[Obj]:
        """The informer of any kind as JSON values, over all namespaces."""
        return self._of(self.client.plain(api_version, plural, namespaced=namespaced), dict)

    def _of(self, collection: Collection[T], type_: type[Any]) -> Informer[T]:
        key = (collection.resource, type_)
        informer = self._informers.get(key)
        if informer is None:
            informer = self._informers[key] = Informer(collection)
            if self._start is not None:
                self._start(informer)
        return cast(Informer[T], informer)

    def resources(self) -> list[ResourcePath]:
        """The resources that informers follow."""
        return [resource for resource, _ in self._informers]

    async def synced(self) -> None:
        """Returns when every requested informer has its first list."""
        await asyncio.gather(*(informer.synced() for informer in self._informers.values()))

    async def run(self) -> None:
        """Follows all kinds until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._start = lambda informer: tasks.create_task(informer.run())
            try:
                for informer in self._informers.values():
                    self._start(informer)
                await asyncio.Event().wait()
            finally:
                self._start = None

    def validate(self) -> None:
        """Raises AssertionError if the indexes of a copy are wrong."""
        for informer in self._informers.values():
            informer.validate()
