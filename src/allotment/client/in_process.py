"""Calls an API server in the same process: no socket, no TLS, no parsing, the same requests and replies.

The application takes the pieces of a request as they are and gives those of a reply. ``state`` goes with each request;
the embedded server reads the caller's identity from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from math import inf
from typing import Any

from allotment.client.transport import Call, Disconnected, Lines, Reply, Stream

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
        self._limits = _TimeLimits()

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
            yield Stream(status, headers, _lines(_once(body)))
            return
        first = asyncio.ensure_future(anext(body, b""))
        try:
            await asyncio.sleep(0)  # a stream begins when it is asked for, not when it is first read
            yield Stream(status, headers, _lines(_begun(first, body)))
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


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    lines = Lines()
    async for piece in pieces:
        for line in lines.feed(piece):
            yield line
    if rest := lines.rest():
        yield rest


class _TimeLimits:
    """The time limits of many calls with one timer, which looks when it rings whose time is up: a timer for each, as
    ``asyncio.timeout`` has it, costs more than reading an object."""

    def __init__(self) -> None:
        self._calls: dict[asyncio.Task[Any], _TimeLimit] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings = inf

    def of(self, call: Call) -> _TimeLimit:
        """A context in which the call has its time; raises Disconnected when it is up."""
        return _TimeLimit(self, call)

    def begin(self, task: asyncio.Task[Any], limit: _TimeLimit, seconds: float) -> None:
        loop = task.get_loop()
        limit.due = loop.time() + seconds
        self._calls[task] = limit
        if limit.due < self._rings:
            self._set(loop, limit.due)

    def end(self, task: asyncio.Task[Any]) -> None:
        del self._calls[task]

    def _set(self, loop: asyncio.AbstractEventLoop, rings: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings = loop.call_at(rings, self._ring, loop), rings

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._rings = None, inf
        now = loop.time()
        for task, limit in self._calls.items():
            if limit.due <= now and not limit.passed:
                limit.passed = True
                task.cancel()
        left = [limit.due for limit in self._calls.values() if not limit.passed]
        if left:
            self._set(loop, min(left))


class _TimeLimit:
    """Of one call, made by the task that makes it."""

    __slots__ = ("_call", "_cancelling", "_limits", "_task", "due", "passed")

    def __init__(self, limits: _TimeLimits, call: Call) -> None:
        self._limits, self._call = limits, call
        self.due, self.passed = inf, False

    def __enter__(self) -> None:
        task = self._task = asyncio.current_task()
        if task is not None and self._call.timeout is not None:
            self._cancelling = task.cancelling()
            self._limits.begin(task, self, self._call.timeout)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, _: object) -> None:
        task, call = self._task, self._call
        if task is None or call.timeout is None:
            return
        self._limits.end(task)
        if self.passed and task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise Disconnected(f"{call.method} {call.path}: no answer within {call.timeout} s") from exc
