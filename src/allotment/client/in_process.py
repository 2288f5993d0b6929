"""Calls an API server in the same process: the same requests and replies, without socket, TLS or parsing.

The application takes the parts of a request as arguments and returns the parts of a reply. Each request carries
``state``, from which the embedded server reads the caller's identity.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

from allotment.client.time_limits import TimeLimits
from allotment.client.transport import Call, Lines, Reply, Stream

Answer = tuple[int, Mapping[str, str], bytes | AsyncGenerator[bytes, None]]
"""Status, headers, and the body or, for a stream, its pieces."""
Application = Callable[
    [str, str, Mapping[str, str], Mapping[str, str], bytes, Mapping[str, Any]], Awaitable[Answer]
]
"""Takes method, path, query, headers, body and state; returns an answer."""


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
            await asyncio.sleep(0)  # a stream begins when it is requested, not when it is first read
            yield Stream(status, headers, _batches(_begun(first, body)))
        finally:
            first.cancel()
            try:  # the reader already has the result; only our own cancellation matters here
                await asyncio.gather(first, return_exceptions=True)
            finally:
                await body.aclose()

    async def close(self) -> None:
        """Does nothing: no resources are open."""


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
