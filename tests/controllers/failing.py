"""Connections that fail at chosen writes, or stand still, for tests that every write may fail and be repeated.

    failing = Failing.once(2, Fault.LOST)
    part = cluster.component(through=failing.through)

Writes of events do not count: they are a courtesy, and when they are written depends on chance.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from random import Random
from typing import Self

from allotment.client.transport import Call, Disconnected, Reply, Stream, Transport
from tests.controllers.cluster import Cluster, in_cluster


class Fault(Enum):
    """What happens instead of a write and its answer."""

    UNSENT = "the connection breaks before the write"
    LOST = "the write is done but its reply is lost"
    CONFLICT = "the server says that somebody was faster"
    FAILED = "the server has an error of its own"
    CRASH_BEFORE = "the writer ends before the write"
    CRASH_AFTER = "the writer ends after the write"


_PATIENCE = 60.0
CRASHES = frozenset((Fault.CRASH_BEFORE, Fault.CRASH_AFTER))
BORNE = (Fault.CONFLICT, Fault.UNSENT, Fault.LOST)
"""Those after which the writer goes on, each in its own way."""
_STATUS = {
    Fault.CONFLICT: (
        409,
        b'{"kind":"Status","code":409,"reason":"Conflict","message":"somebody was faster"}',
    ),
    Fault.FAILED: (500, b'{"kind":"Status","code":500,"reason":"InternalError","message":"broken"}'),
}
Plan = Callable[[int], Fault | None]
"""What happens to the write of a number, counted from 1."""


class Through:
    """A connection that passes everything on."""

    _beneath: Transport

    def through(self, beneath: Transport) -> Transport:
        self._beneath = beneath
        return self

    async def call(self, call: Call) -> Reply:
        return await self._beneath.call(call)

    def stream(self, call: Call) -> AbstractAsyncContextManager[Stream]:
        return self._beneath.stream(call)

    async def close(self) -> None:
        await self._beneath.close()


class Failing(Through):
    """Passes everything on but the writes that are planned to fail; notes all writes."""

    def __init__(self, plan: Plan = lambda number: None) -> None:
        self._plan = plan
        self.writes: list[str] = []
        self.struck = asyncio.Event()

    @classmethod
    def once(cls, at: int, how: Fault) -> Self:
        return cls({at: how}.get)

    async def strike(self) -> None:
        """Returns when a write has come and failed."""
        async with asyncio.timeout(_PATIENCE):
            await self.struck.wait()

    async def call(self, call: Call) -> Reply:
        if call.method == "GET" or "/events" in call.path:
            return await super().call(call)
        self.writes.append(f"{call.method} {call.path}")
        fault = self._plan(len(self.writes))
        return await (super().call(call) if fault is None else self._fail(call, fault))

    async def _fail(self, call: Call, fault: Fault) -> Reply:
        if fault in (Fault.LOST, Fault.CRASH_AFTER):
            await self._beneath.call(call)
        self.struck.set()
        if fault in CRASHES:
            await asyncio.Event().wait()
        if fault in _STATUS:
            status, body = _STATUS[fault]
            return Reply(status, {}, body)
        raise Disconnected(fault.value)


class Held(Through):
    """A connection on which watches of some kinds can be made to stand still."""

    def __init__(self) -> None:
        self._held = ""
        self._open = asyncio.Event()
        self.waiting = asyncio.Event()
        self._open.set()

    def hold(self, ending: str) -> None:
        """Nothing comes from watches of paths that end so, until :meth:`release`."""
        self._held = ending
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        async with super().stream(call) as stream:
            yield replace(stream, batches=self._batches(call.path, stream.batches))

    async def _batches(
        self, path: str, batches: AsyncIterator[Sequence[bytes]]
    ) -> AsyncIterator[Sequence[bytes]]:
        async for batch in batches:
            if not self._open.is_set() and path.endswith(self._held):
                self.waiting.set()
                await self._open.wait()
            yield batch


Life = Callable[[Cluster, Failing], Awaitable[None]]


def with_each_write_failing(folder: Path, life: Life, step: int) -> list[str]:
    """Lives a life undisturbed, and then again with three writes in a row failing in each way that is borne, from each
    ``step``-th write on: with 1, over all lives each write fails in each way. Returns the undisturbed writes."""
    writes = _live(folder / "calm", life, lambda number: None)
    for at in range(-1, len(writes) + 1, step):
        _live(folder / str(at), life, {at + number: fault for number, fault in enumerate(BORNE)}.get)
    return writes


def in_a_storm(folder: Path, seed: int, life: Life) -> None:
    """Lives a life in which three of ten writes fail, in ways that the seed says."""
    chance = Random(seed)
    _live(folder, life, dict(enumerate(chance.choice([*[None] * 7, *BORNE]) for _ in range(200))).get)


def _live(folder: Path, life: Life, plan: Plan) -> list[str]:
    connections: list[Failing] = []

    async def scenario(cluster: Cluster) -> None:
        connections.append(Failing(plan))
        await life(cluster, connections[0])

    in_cluster(folder, scenario)
    return connections[0].writes
