"""The protocol by which a request reaches an API server and its reply comes back, with implementations over HTTP,
over a pipe to another process, and in process.

A transport knows bytes, not objects. It does not retry and does not raise for an error status: ``client`` does that. It
raises :class:`Disconnected` if there is no answer, so that callers need not know the library beneath.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import msgspec

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""The most bytes of one event in a stream. If a server sends more without a newline, the stream ends."""


class Disconnected(ConnectionError):
    """No answer, or a stream that broke: the server is gone, unreachable, or closed the connection.

    Whether a write took effect is unknown.
    """


class Call(msgspec.Struct, frozen=True):
    """One request. ``path`` starts with a slash and is not escaped; empty query values are sent as such."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    timeout: float | None = 60.0  # seconds for the whole answer; None for no limit


class Reply(msgspec.Struct, frozen=True):
    """A complete answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Stream:
    """A streamed answer: lines without their newline, grouped as they arrive. It ends when the server ends it."""

    status: int
    headers: Mapping[str, str]
    batches: AsyncIterator[Sequence[bytes]]

    async def lines(self) -> AsyncIterator[bytes]:
        """The lines one by one. Only one reader may use it."""
        async for batch in self.batches:
            for line in batch:
                yield line

    async def whole(self) -> Reply:
        """The rest as one body, for an error instead of a stream."""
        return Reply(self.status, self.headers, b"\n".join([line async for line in self.lines()]))


class Transport(Protocol):
    """Where requests go. Safe for many calls at once."""

    async def call(self, call: Call) -> Reply: ...

    def stream(self, call: Call) -> AbstractAsyncContextManager[Stream]:
        """The answer line by line; leaving the context ends the request."""
        ...

    async def close(self) -> None: ...


class Lines:
    """Assembles chunks into lines, within a bound."""

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = b"".join([*self._parts, whole[0]])
            self._parts, self._size = [], 0
        self._parts.append(rest)
        self._size += len(rest)
        if self._size > self._limit:
            raise Disconnected(f"the server sent more than {self._limit} bytes in one event")
        return [line for line in whole if line]

    def rest(self) -> bytes:
        """What came after the last newline."""
        return b"".join(self._parts)
