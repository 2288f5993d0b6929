"""A local copy of a collection that follows the server, has indexes, and reports changes.

An informer lists, then watches from the list's version. After a failure it resumes from its current state:

* If the connection breaks or the server restarts, it watches again from the last version it saw, with growing delays.
* If that version is too old (410) or unknown to a restored server, it lists again and computes what changed.

The delays grow until an event arrives, whatever ended the watch. So the informer also pauses between requests if a server
ends each watch at once, or forgets each version before anybody can watch it.

Promises to handlers: the informer calls each synchronously as ``handler(old, new)``. ``old`` is None for an object that
appeared, ``new`` is None for one that disappeared. For each object, calls come in the order of its changes, and an older
state never follows a newer one. Between two lists a handler may miss changes, but never their result. The copy already
contains the change when a handler is called. If a handler raises, the informer logs it and calls the others. A resync
calls every handler with ``(obj, obj)`` for each object, for controllers that want to check everything now and then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from typing import Generic, TypeVar

from allotment.api.codec import ApiError
from allotment.api.status import Expired, Gone, StatusError, Timeout
from allotment.client.backoff import Backoff
from allotment.client.client import Collection, Happening, Listing, WatchEvent
from allotment.client.connection import KubeconfigError
from allotment.client.form import ObjectIdentity
from allotment.client.transport import Disconnected

__all__ = ["Informer"]

log = logging.getLogger(__name__)

T = TypeVar("T")
Key = tuple[str, str]
"""Namespace and name."""
Handler = Callable[[T | None, T | None], None]
Index = Callable[[T], Iterable[Hashable]]
"""The values under which an index holds an object."""

_WATCH_SECONDS = 300


class Informer(Generic[T]):
    """Follows one collection while :meth:`run` runs.

    Invariant, re-derived by :meth:`validate`: an index holds an object under exactly the values its function gives for it.
    """

    def __init__(
        self,
        collection: Collection[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, Index[T]] | None = None,
        resync_seconds: float | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self._collection = collection
        self._identity = collection.form.identity
        self._namespace = namespace
        self._labels, self._fields = labels, fields
        self._functions = dict(indexes or {})
        self._indexes: dict[str, dict[Hashable, dict[Key, T]]] = {name: {} for name in self._functions}
        # the indexes that hold each object, with the values
        self._places: dict[Key, list[tuple[str, Hashable]]] = {}
        self._objects: dict[Key, T] = {}
        self._handlers: list[Handler[T]] = []
        self._resync_seconds = resync_seconds
        self._backoff = backoff or Backoff()
        self._synced = asyncio.Event()
        # callers that wait until a version is reached
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._version = ""
        self._seen = 0  # the last version, kept even while there is none to resume from

    # --- reading the copy ---

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._objects.get((namespace, name))

    def all(self) -> list[T]:
        return list(self._objects.values())

    def by(self, index: str, value: Hashable) -> list[T]:
        """The objects that an index holds under a value."""
        return list(self._indexes[index].get(value, {}).values())

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def version(self) -> int:
        """The version up to which the copy is complete; 0 before the first list."""
        return int(self._version or 0)

    # --- following the server ---

    def on_change(self, handler: Handler[T]) -> None:
        """Adds a handler and calls it at once for all objects already in the copy."""
        self._handlers.append(handler)
        for obj in self.all():
            self._tell([handler], None, obj)

    def add_index(self, name: str, function: Index[T]) -> None:
        """Adds an index, which includes objects already in the copy. Adding a second index of the same name does nothing."""
        if name in self._functions:
            return
        self._functions[name] = function
        index = self._indexes[name] = {}
        for key, obj in self._objects.items():
            places = [(name, value) for value in function(obj)]
            for _, value in places:
                index.setdefault(value, {})[key] = obj
            if places:
                self._places[key] = [*self._places.get(key, ()), *places]

    async def synced(self) -> None:
        """Returns when the first list is in the copy."""
        await self._synced.wait()

    async def reached(self, version: int) -> None:
        """Returns when the copy is complete up to a version, for callers that wait for their own write to arrive.

        Raises ``Expired`` if the server was restored to an older state, so that the version may never come.
        """
        if self.version >= version:
            return
        waiting = (version, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            await waiting[1]
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    async def begin(self) -> None:
        """Lists now, for callers that want to see its errors; ``run`` then continues from there.

        While ``run`` is not running, this brings the copy up to date.
        """
        await self._replace(await self._list())

    async def run(self) -> None:
        """Follows the collection until cancelled."""
        resync = asyncio.ensure_future(self._resync())
        try:
            while True:
                try:
                    await self._follow()
                except (Gone, Timeout):  # compacted, or the server was restored and is behind us
                    self._version = ""
                except (Disconnected, StatusError, ApiError, KubeconfigError) as exc:
                    ours = isinstance(exc, StatusError) and exc.code < 500  # forbidden, or no such kind
                    level = logging.WARNING if ours else logging.INFO
                    log.log(level, "%s: %s; trying again", self._collection.resource.plural, exc)
                await asyncio.sleep(self._backoff.next())
        finally:
            resync.cancel()
            with suppress(asyncio.CancelledError):
                await resync

    async def _follow(self) -> None:
        """One watch from start to end, after a list if there is no version to resume from."""
        if not self._version:
            await self._replace(await self._list())
        watch = self._collection.watch(
            self._namespace,
            since=self._version,
            labels=self._labels,
            fields=self._fields,
            timeout_seconds=_WATCH_SECONDS,
        )
        async with watch as events:
            await self._take(events)

    async def _take(self, events: AsyncIterator[WatchEvent[T]]) -> None:
        async for event in events:
            self._backoff.reset()
            if event.object is not None:
                gone = event.type is Happening.DELETED
                self._change(self._identity(event.object), None if gone else event.object)
            elif event.unread is not None:
                self._change(event.unread, None)
            self._advance(event.version)

    async def _list(self) -> Listing[T]:
        try:
            return await self._collection.list(self._namespace, labels=self._labels, fields=self._fields)
        except Gone:  # compacted between two pages, which cannot happen with a single page
            return await self._collection.list(
                self._namespace, labels=self._labels, fields=self._fields, limit=0
            )

    async def _replace(self, listing: Listing[T]) -> None:
        version = int(listing.version or 0)
        restored = version < self._seen
        present = {(at := self._identity(obj))[:2]: (at, obj) for obj in listing.items}
        for key in [key for key in self._objects if key not in present]:
            self._change(ObjectIdentity(*key, "", version), None)
        for at, obj in present.values():
            self._change(at, obj, listed=True)
        self._advance(listing.version, restored)
        self._synced.set()

    def _advance(self, version: str, restored: bool = False) -> None:
        """Records that the copy is complete up to a version. After a restore, callers may wait for one that never comes."""
        self._version = version
        reached = self._seen = int(version or 0)
        if not self._waiting:
            return
        done = [(wanted, waiter) for wanted, waiter in self._waiting if restored or wanted <= reached]
        self._waiting = [each for each in self._waiting if each not in done]
        for wanted, waiter in done:
            if waiter.done():
                continue
            if wanted <= reached:
                waiter.set_result(None)
            else:
                told = f"the server was restored to an older state; version {wanted} may never come"
                waiter.set_exception(Expired(told))

    async def _resync(self) -> None:
        if self._resync_seconds is None:
            return
        while True:
            await asyncio.sleep(self._resync_seconds)
            for obj in self.all():
                self._tell(self._handlers, obj, obj)

    # --- the copy ---

    def _change(self, at: ObjectIdentity, new: T | None, *, listed: bool = False) -> None:
        """Takes in a new state, unless the copy has the same or a later one.

        A list always wins: after a restore of the server its versions may be lower than ours.
        """
        key = at.namespace, at.name
        old = self._objects.get(key)
        if old is None and new is None:
            return
        if old is not None and new is not None:
            ours = self._identity(old)
            if old_enough(ours.version, at.version, listed):
                return
            if ours.uid != at.uid:
                self._change(at, None)  # deleted and created again in between
                old = None
        self._store(key, new)
        self._tell(self._handlers, old, new)

    def _store(self, key: Key, new: T | None) -> None:
        indexes, before = self._indexes, self._places.get(key, [])
        if new is None:
            del self._objects[key]
            self._displace(key)
            return
        self._objects[key] = new
        places = [(name, value) for name, function in self._functions.items() for value in function(new)]
        if places == before:  # the usual case
            for name, value in places:
                indexes[name][value][key] = new
            return
        self._displace(key)
        for name, value in places:
            indexes[name].setdefault(value, {})[key] = new
        if places:
            self._places[key] = places

    def _displace(self, key: Key) -> None:
        for name, value in self._places.pop(key, ()):
            if (found := self._indexes[name].get(value)) is not None:
                found.pop(key, None)
                if not found:
                    del self._indexes[name][value]

    def _tell(self, handlers: list[Handler[T]], old: T | None, new: T | None) -> None:
        for handler in handlers:
            try:
                handler(old, new)
            except Exception:
                log.exception("%s: a handler failed", self._collection.resource.plural)

    def validate(self) -> None:
        """Rebuilds the indexes and compares. Raises AssertionError."""
        for name, function in self._functions.items():
            expected: dict[Hashable, dict[Key, T]] = {}
            for key, obj in self._objects.items():
                for value in function(obj):
                    expected.setdefault(value, {})[key] = obj
            assert self._indexes[name] == expected, f"index {name} does not match the objects"
        for key, obj in self._objects.items():
            places = {(name, value) for name, function in self._functions.items() for value in function(obj)}
            assert set(self._places.get(key, ())) == places, f"{key} is not where its indexes have it"


def old_enough(ours: int, theirs: int, listed: bool) -> bool:
    """Whether a state can be ignored because we already have it or a later one."""
    return ours == theirs if listed else ours >= theirs
