"""Calls an ASGI application in the same process: no socket, no TLS, the same requests and replies.

``state`` travels in the scope as a server would set it for a connection; the embedded server reads the caller's identity
from it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode

from allotment.client.transport import Call, Disconnected, Lines, Reply, Stream

Message = dict[str, Any]
Application = Callable[
    [dict[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]
]

MAX_PENDING = 4 * 1024 * 1024
"""Bytes a stream may hold unread before the application has to wait, as it would for a slow connection."""


class InProcessTransport:
    """A transport into an application of this process and this event loop."""

    def __init__(self, application: Application, state: Mapping[str, Any] | None = None) -> None:
        self._application = application
        self._state = dict(state or {})

    async def call(self, call: Call) -> Reply:
        exchange = _Exchange(call.body)
        try:
            async with asyncio.timeout(call.timeout):
                await self._application(self._scope(call), exchange.receive, exchange.collect)
        except TimeoutError as exc:
            raise Disconnected(f"{call.method} {call.path}: no answer within {call.timeout} s") from exc
        if not exchange.status:
            raise Disconnected(f"{call.method} {call.path}: the application gave no answer")
        return Reply(exchange.status, exchange.headers, b"".join(exchange.chunks))

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        exchange = _Exchange(call.body)
        running = asyncio.ensure_future(self._run(call, exchange))
        try:
            await exchange.started.wait()
            if not exchange.status:
                raise Disconnected(f"{call.method} {call.path}: the application gave no answer")
            yield Stream(exchange.status, exchange.headers, exchange.lines())
        finally:
            exchange.leave()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def close(self) -> None:
        """Nothing is held open."""

    async def _run(self, call: Call, exchange: _Exchange) -> None:
        try:
            await self._application(self._scope(call), exchange.receive, exchange.pass_on)
        finally:
            exchange.end()

    def _scope(self, call: Call) -> dict[str, Any]:
        headers = [(name.lower().encode(), value.encode()) for name, value in call.headers.items()]
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": call.method,
            "scheme": "https",
            "path": call.path,
            "raw_path": quote(call.path).encode(),
            "query_string": urlencode(call.query).encode(),
            "headers": headers,
            "client": None,
            "server": None,
            "state": dict(self._state),
        }


class _Exchange:
    """One request's two halves, as the application sees them. Of the two ways to send, a call collects and a stream
    passes on."""

    def __init__(self, body: bytes | None) -> None:
        self._body: bytes | None = body or b""
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.chunks: deque[bytes] = deque()
        self.started = asyncio.Event()
        self._left = asyncio.Event()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._ended = False
        self._pending = 0

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def collect(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begin(message)
        elif message.get("body"):
            self.chunks.append(message["body"])

    async def pass_on(self, message: Message) -> None:
        await self.collect(message)
        self._pending += len(message.get("body", b""))
        self._news.set()
        if self._pending > MAX_PENDING:
            self._room.clear()
            await self._room.wait()

    async def lines(self) -> AsyncIterator[bytes]:
        lines = Lines()
        while True:
            await self._news.wait()
            while self.chunks:
                chunk = self.chunks.popleft()
                self._pending -= len(chunk)
                self._room.set()
                for line in lines.feed(chunk):
                    yield line
            if self._ended:
                if rest := lines.rest():
                    yield rest
                return
            self._news.clear()

    def leave(self) -> None:
        """The caller is gone."""
        self._left.set()
        self._room.set()

    def end(self) -> None:
        """The application is done."""
        self._ended = True
        self._news.set()
        self.started.set()

    def _begin(self, message: Message) -> None:
        self.status = message["status"]
        self.headers = {name.decode().lower(): value.decode() for name, value in message.get("headers", ())}
        self.started.set()
