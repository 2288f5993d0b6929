"""Requests over HTTP to the server of a connection, with keep-alive, TLS and automatic renewal of credentials."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from allotment.client.connection import Connection
from allotment.client.transport import Call, Disconnected, Lines, Reply, Stream

__all__ = ["HttpTransport"]

MAX_REPLY = 512 * 1024 * 1024
"""The most bytes read of one reply; a list of everything in a very large cluster is a tenth of it."""

_CONNECT_SECONDS = 10.0


class HttpTransport:
    """A transport to one server. Sessions open on first use, in the event loop that uses them."""

    def __init__(self, connection: Connection, *, user_agent: str = "allot") -> None:
        self._connection = connection
        self._user_agent = user_agent
        self._session: aiohttp.ClientSession | None = None
        self._base = connection.server.rstrip("/")

    async def call(self, call: Call) -> Reply:
        try:
            async with self._request(
                call, aiohttp.ClientTimeout(call.timeout, connect=_CONNECT_SECONDS)
            ) as answer:
                body = await _bounded(answer)
                return Reply(answer.status, _headers(answer), body)
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise self._disconnected(call, exc) from exc

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        timeout = aiohttp.ClientTimeout(call.timeout, connect=_CONNECT_SECONDS)
        async with AsyncExitStack() as stack:
            try:
                answer = await stack.enter_async_context(self._request(call, timeout))
            except (aiohttp.ClientError, TimeoutError, OSError) as exc:
                raise self._disconnected(call, exc) from exc
            yield Stream(answer.status, _headers(answer), self._batches(call, answer))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def _request(
        self, call: Call, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = CIMultiDict([("User-Agent", self._user_agent), *await self._connection.headers()])
        headers.extend(call.headers)
        url = URL(self._base + call.path.replace("%", "%25")).with_query(dict(call.query))
        async with self._open().request(
            call.method, url, headers=headers, data=call.body, timeout=timeout, allow_redirects=False
        ) as answer:
            if answer.status == 401:
                # the next request fetches a new token in place of an expired one
                self._connection.forget_token()
            yield answer

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            connector = aiohttp.TCPConnector(limit=0, ssl=self._connection.ssl or True, keepalive_timeout=60)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        return self._session

    async def _batches(self, call: Call, answer: aiohttp.ClientResponse) -> AsyncIterator[list[bytes]]:
        lines = Lines()
        try:
            async for chunk in answer.content.iter_any():
                if batch := lines.feed(chunk):
                    yield batch
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise self._disconnected(call, exc) from exc
        if rest := lines.rest():
            yield [rest]

    def _disconnected(self, call: Call, exc: Exception) -> Disconnected:
        why = str(exc) or type(exc).__name__
        if isinstance(exc, asyncio.TimeoutError):
            why = f"no answer within {call.timeout} s"
        elif expired := self._connection.expired():
            why = expired
        return Disconnected(f"{call.method} {self._base}{call.path}: {why}")


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    chunks, size = [], 0
    async for chunk in answer.content.iter_any():
        size += len(chunk)
        if size > MAX_REPLY:
            raise aiohttp.ClientPayloadError(f"the reply is longer than {MAX_REPLY} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}
