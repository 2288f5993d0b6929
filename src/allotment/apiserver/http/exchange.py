"""One request and its reply over a connection.

The application gets the request once its head has arrived, and reads the body when it wants it; until then the body waits
here, within bounds. Head and body of a reply are written in one piece, and so is each batch of a stream: over TLS every
write is a record, and often a system call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import aclosing
from itertools import chain
from typing import Protocol
from urllib.parse import unquote

import httptools

from allotment.apiserver.http import limits
from allotment.apiserver.http.app import App
from allotment.apiserver.http.parser import Head
from allotment.apiserver.http.reply import Response, StreamResponse
from allotment.apiserver.http.request import ClientGone, Request
from allotment.apiserver.http.response import CHUNKED, CONTINUE, LAST_CHUNK, head_of, length_of

log = logging.getLogger("allotment.apiserver")


class PeerConnection(Protocol):
    """What an exchange needs from its connection."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    certificate: bytes | None
    address: str
    writable: asyncio.Future[None] | None
    """Set while the peer has not read what we sent."""

    @property
    def date(self) -> bytes:
        """The Date header."""

    async def room(self, held: int) -> None:
        """Returns when the peer has read what we sent, or is gone. Meanwhile ``held`` bytes are held for it."""

    def sent(self, size: int) -> None:
        """Records how many bytes have been written."""

    def is_of(self, user: str) -> None:
        """Records that the peer has authenticated as this user."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def answered(self, exchange: Exchange) -> None:
        """Records that the whole reply has been written."""

    def over(self, exchange: Exchange) -> None:
        """Records that nothing more will be done for this request, answered or not."""


class Exchange:
    """Handles one request, starting with its head; call ``run`` once.

    The connection passes on further input, and reports when the peer is gone.
    """

    __slots__ = (
        "_body",
        "_head",
        "_line",
        "_path",
        "_query",
        "_waiter",
        "begun",
        "complete",
        "continues",
        "disconnected",
        "keep_alive",
        "more",
        "task",
    )

    def __init__(self, line: PeerConnection, head: Head) -> None:
        """Raises httptools' error for an invalid URL."""
        parsed = httptools.parse_url(head.url)
        path = (parsed.path or b"/").decode("ascii")
        self._path = unquote(path) if "%" in path else path
        self._query = parsed.query or b""
        self._head = head
        self._line = line
        self._body: bytes | bytearray = b""
        self._waiter: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None  # the task that runs the exchange
        self.more = True  # whether more of the request will follow
        self.begun = self.complete = False  # whether the reply has been sent in part, and completely
        self.disconnected = False
        self.keep_alive = head.keep_alive
        self.continues = head.continues

    async def run(self, app: App) -> None:
        """Gets the answer from the application and sends it."""
        head = self._head
        request = Request(
            head.method,
            self._path,
            self._query,
            head.headers,
            peer=self,
            certificate=self._line.certificate,
            address=self._line.address,
        )
        request.judged = self._line.is_of
        try:
            await app.answer(request, self._reply)
        except ClientGone:
            pass
        except Exception:
            log.exception("reply failed: %s %s", head.method, self._path)
        finally:
            self._line.over(self)

    # --- what the peer sends ---

    def feed(self, body: bytes) -> None:
        if not self._body:
            self._body = body  # usually the whole body, which is not copied
        elif isinstance(self._body, bytearray):
            self._body += body
        else:
            self._body = bytearray(self._body) + body
        if len(self._body) > limits.MAX_UNREAD:
            self._line.pause_reading()
        self.wake()

    def wake(self) -> None:
        """Wakes the waiting task after a change."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def leave(self) -> None:
        """Records that the client is gone, so nobody will read the answer."""
        self.disconnected = True
        self.wake()

    async def piece(self) -> tuple[bytes, bool]:
        if self.continues:
            self.continues = False
            self._line.transport.write(CONTINUE)
        while self.more and not self._body and not self.disconnected:
            await self._wait()
        if self.disconnected:
            raise ClientGone
        piece, self._body = bytes(self._body), b""
        return piece, self.more

    async def gone(self) -> None:
        while not self.disconnected and not self.complete:
            self._body = b""  # for a request without a body
            await self._wait()

    async def _wait(self) -> None:
        self._line.resume_reading()
        self._waiter = self._line.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # --- what it gets ---

    async def _reply(self, answer: Response | StreamResponse) -> None:
        self.begun = True
        # we could not tell its body, which may still come, from the next request
        if self.continues and self.more:
            self.continues = self.keep_alive = False
        if isinstance(answer, StreamResponse):
            await self._stream(answer)
        else:
            head = head_of(answer, length_of(answer.body), self._line.date, self.keep_alive)
            await self._write(head, b"" if self._head.method == "HEAD" else answer.body)
        if not self.disconnected:
            self.complete = True
            self.wake()
            self._line.answered(self)

    async def _stream(self, answer: StreamResponse) -> None:
        """Sends a stream in chunks or, to an HTTP/1.0 peer, until the end of the connection."""
        chunks = self._head.chunks
        async with aclosing(answer.lines) as lines:
            await self._write(head_of(answer, CHUNKED if chunks else b"", self._line.date, self.keep_alive))
            async for batch in lines:
                if self.disconnected:
                    return
                if chunks and batch:
                    await self._write(b"%x\r\n" % len(batch), batch, b"\r\n")
                else:
                    await self._write(b"", batch)
                del batch  # the next batch may take long
        await self._write(LAST_CHUNK if chunks else b"")

    async def _write(self, before: bytes, body: bytes | memoryview = b"", after: bytes = b"") -> None:
        """Writes in pieces and checks the peer between them: TLS accepts any amount at once and reports no congestion."""
        line, size = self._line, len(body)
        if size <= limits.WRITE_PIECE_BYTES:
            pieces: Iterable[bytes | memoryview] = (b"".join((before, body, after)),)
        else:
            view = memoryview(body)
            starts = range(0, size, limits.WRITE_PIECE_BYTES)
            pieces = chain(
                (before,), (view[start : start + limits.WRITE_PIECE_BYTES] for start in starts), (after,)
            )
        for piece in pieces:
            if line.writable is not None and not self.disconnected:
                await line.room(size)
            if self.disconnected:
                return
            line.transport.write(piece)
            line.sent(len(piece))
