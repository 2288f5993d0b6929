"""A connection that fails at a chosen write, for tests that every write may fail and be repeated.

    failing = Failing(transport, at=2, how=Fault.LOST)

Writes of events do not count: they are a courtesy, and when they are written depends on chance.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from enum import Enum

from allotment.client.transport import Call, Disconnected, Reply, Stream, Transport


class Fault(Enum):
    """What happens instead of a write and its answer."""

    UNSENT = "the connection breaks before the write"
    LOST = "the write is done but its reply is lost"
    CONFLICT = "the server says that somebody was faster"
    FAILED = "the server has an error of its own"
    CRASH_BEFORE = "the writer ends before the write"
    CRASH_AFTER = "the writer ends after the write"


_PATIENCE = 20.0
CRASHES = frozenset((Fault.CRASH_BEFORE, Fault.CRASH_AFTER))
_STATUS = {
    Fault.CONFLICT: (
        409,
        b'{"kind":"Status","code":409,"reason":"Conflict","message":"somebody was faster"}',
    ),
    Fault.FAILED: (500, b'{"kind":"Status","code":500,"reason":"InternalError","message":"broken"}'),
}


class Failing:
    """Passes everything on but the write of a number, counted from 1."""

    def __init__(self, beneath: Transport, at: int, how: Fault) -> None:
        self._beneath = beneath
        self._at, self._how = at, how
        self.writes: list[str] = []
        self.struck = asyncio.Event()

    async def strike(self) -> None:
        """Returns when the write has come and failed."""
        async with asyncio.timeout(_PATIENCE):
            await self.struck.wait()

    async def call(self, call: Call) -> Reply:
        if call.method == "GET" or "/events" in call.path:
            return await self._beneath.call(call)
        self.writes.append(f"{call.method} {call.path}")
        if len(self.writes) != self._at:
            return await self._beneath.call(call)
        return await self._fail(call)

    async def _fail(self, call: Call) -> Reply:
        if self._how in (Fault.LOST, Fault.CRASH_AFTER):
            await self._beneath.call(call)
        self.struck.set()
        if self._how in CRASHES:
            await asyncio.Event().wait()
        if self._how in _STATUS:
            status, body = _STATUS[self._how]
            return Reply(status, {}, body)
        raise Disconnected(self._how.value)

    def stream(self, call: Call) -> AbstractAsyncContextManager[Stream]:
        return self._beneath.stream(call)

    async def close(self) -> None:
        await self._beneath.close()
