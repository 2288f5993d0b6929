"""Calls an API server in the same process: no socket, no TLS, no parsing, the same requests and replies.

The application takes the pieces of a request as they are and gives those of a reply. ``state`` goes with each request;
the embedded server reads the caller's identity from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

from allotment.client.time_limits import TimeLimits
from allotment.client.transport import Call, Lines, Reply, Stream

Answer = tuple[int, Mapping[str, str], bytes | AsyncGenerator[bytes, None]]
"""Status, headers, and the body or the pieces of one that goes on."""
Application = Callable[
    [str, str, Mapping[str, str], Mapping[str, str], bytes, Mapping[str, Any]], Awaitable[Answer]
]
"""Method, path, query, headers, body and state to an answer."""


class InProcessTransport:
    """A transport into an application of this process and this event loop."""

    def __init__(self, application: Application, state: Mapping[str, Any] | None = None) -> None:
        self._application = application
        self._state = dict(state or {})
        self._limits = TimeLimits()

    async def call(self, call: Call) -> Reply:
        with self._limits.of(call):
            status, headers, body = await self._application(
                call.method, call.path, call.query, call.headers, call.body or b"", self._state
            )
            if not isinstance(body, bytes):
                async with aclosing(body):
                    body = b"".join([piece async for piece in body])
        return Reply(status, headers, body)

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        status, headers, body = await self._application(
            call.method, call.path, call.query, call.headers, call.body or b"", self._state
        )
        if isinstance(body, bytes):
            yield Stream(status, headers, _batches(_once(body)))
            return
        first = asyncio.ensure_future(anext(body, b""))
        try:
            await asyncio.sleep(0)  # a stream begins when it is asked for, not when it is first read
            yield Stream(status, headers, _batches(_begun(first, body)))
        finally:
            first.cancel()
            try:  # what became of it was told whoever read it; that we are cancelled meanwhile is told to us
                await asyncio.gather(first, return_exceptions=True)
            finally:
                await body.aclose()

    async def close(self) -> None:
        """Nothing is held open."""


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _begun(first: asyncio.Future[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield await first
    async for piece in rest:
        yield piece


async def _batches(pieces: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    lines = Lines()
    async for piece in pieces:
        if batch := lines.feed(piece):
            yield batch
    if rest := lines.rest():
        yield [rest]
