"""Stores, objects and broken disks for the tests of the store."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from allotment.apiserver.store.history import DroppedChange, Window
from allotment.apiserver.store.pending import Pending
from allotment.apiserver.store.record import Change, Key, Obj, Record
from allotment.apiserver.store.store import Store
from allotment.apiserver.store.watch import Buffer, Watch


@asynccontextmanager
async def opened(
    path: Path, window: Window | None = None, buffer: Buffer | None = None
) -> AsyncIterator[Store]:
    """A store whose invariants are checked before it is closed."""
    store = Store.open(path, window=window, buffer=buffer)
    try:
        yield store
        store.validate()
    finally:
        await store.close()


def key(name: str, namespace: str = "default", resource: str = "pods") -> Key:
    return Key(resource, namespace, name)


def thing(name: str, value: Any = 0, namespace: str = "default") -> Obj:
    return {"metadata": {"name": name, "namespace": namespace}, "value": value}


async def put(
    store: Store, name: str, value: Any = 0, namespace: str = "default", resource: str = "pods"
) -> Record:
    return await store.put(key(name, namespace, resource), thing(name, value, namespace))


async def delete(store: Store, name: str, namespace: str = "default", resource: str = "pods") -> Record:
    where = key(name, namespace, resource)
    last = store.head(where)
    assert last is not None
    return await store.delete(where, last.load())


def values(records: Sequence[Record]) -> dict[str, Any]:
    """What is in a list, by name, in its order."""
    return {record.key.name: record.load()["value"] for record in records}


def revisions_in_file(store: Store) -> list[int]:
    found = store._database.connection.execute("SELECT revision FROM revisions ORDER BY revision")
    return [each for (each,) in found]


def revision(record: Record | None) -> int | None:
    return None if record is None else record.revision


def story(changes: Sequence[Change]) -> list[tuple[str, str, Any]]:
    """Changes as type, name and value."""
    return [(c.type.value, c.record.key.name, c.record.load()["value"]) for c in changes]


async def drain(watch: Watch) -> list[Change]:
    """Everything that a watch has to give at once."""
    found: list[Change] = []
    while changes := await watch.next(0):
        found += changes
    return found


class Disk:
    """Stands between a store and its file: commits wait while it is held, and fail when told to."""

    def __init__(self, store: Store) -> None:
        self._commit = store._database.commit
        self._open = threading.Event()
        self._open.set()
        self._error: Exception | None = None
        self.transactions: list[int] = []  # the number of writes in each
        store._database.commit = self.commit  # type: ignore[method-assign]  # the seam for broken disks

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def break_down(self, error: Exception | None = None) -> None:
        self._error = error or sqlite3.OperationalError("disk I/O error")

    def repair(self) -> None:
        self._error = None

    def commit(self, writes: Sequence[Pending], evicted: Sequence[DroppedChange] = ()) -> None:
        assert self._open.wait(30), "a test forgot to release the disk"
        if self._error is not None:
            raise self._error
        self._commit(writes, evicted)
        self.transactions.append(len(writes))
