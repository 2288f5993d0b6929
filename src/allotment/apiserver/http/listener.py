"""The socket side: connections, TLS, and bounds on what a peer may do before the application sees it.

httptools reads HTTP; here it is told to whom a connection belongs (the peer's certificate), how large a head may be, and what
becomes of peers that send or read too slowly. A request goes to the application as soon as its head is there; one that is
sent behind another waits for its turn, and so does the refusal of what is no request. A listener stops gracefully: it
accepts no more, lets requests under way finish, then closes.

There is no ASGI between the parser and the application: its scopes and messages, with timers that were set and cancelled for
each request, were a third of what a small request cost apart from TLS. A connection has one timer, which looks when it
rings whether its time has been put off meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from asyncio import TimerHandle
from collections import deque
from contextlib import aclosing, suppress
from email.utils import formatdate
from http import HTTPStatus
from math import inf
from typing import Any, cast
from urllib.parse import unquote

import httptools

from allotment.api.status import BadRequest, StatusError
from allotment.apiserver.http.app import App
from allotment.apiserver.http.reply import Reply, Stream
from allotment.apiserver.http.request import Disconnected, Request

log = logging.getLogger("allotment.apiserver")

MAX_HEADERS = 64 * 1024
MAX_HEADER_COUNT = 200
MAX_CONNECTIONS = 25_000
MAX_WAITING = 100  # requests of a connection behind the one that is being answered
HANDSHAKE_SECONDS = 10.0
REQUEST_SECONDS = 30.0  # that a request may take to arrive, headers and body
PIECE = 256 * 1024
MAX_UNREAD = 64 * 1024  # bytes of a body that wait for the application; then no more is read
MAX_DISCARDED = 8 * 1024 * 1024
STALLED_SECONDS = 60.0  # that a peer may leave what we send it unread
KEEP_ALIVE_SECONDS = 120.0
GOODBYE_SECONDS = 5.0  # that a peer may take to end TLS properly
BACKLOG = 2048

_PHRASES = {each.value: each.phrase for each in HTTPStatus}
_STATUS_LINES = [f"HTTP/1.1 {code} {_PHRASES.get(code, '')}\r\n".encode() for code in range(600)]
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class _HeadTooLarge(StatusError):
    code = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE.value


class _Exchange:
    """One request and its reply. Head and body of a reply go out in one piece: over TLS every write is a record."""

    __slots__ = (
        "_body",
        "_connection",
        "_headers",
        "_method",
        "_path",
        "_query",
        "_waiter",
        "begun",
        "chunks",
        "complete",
        "continues",
        "disconnected",
        "keep_alive",
        "more",
    )

    def __init__(
        self, connection: Connection, method: str, url: bytes, headers: list[tuple[bytes, bytes]]
    ) -> None:
        parsed = httptools.parse_url(url)
        self._method = method
        self._path = (parsed.path or b"/").decode("ascii")
        self._query = parsed.query or b""
        self._headers = headers
        self._connection = connection
        self._body = bytearray()
        self._waiter: asyncio.Future[None] | None = None
        self.more = True  # of the request is to come
        self.begun = self.complete = False  # the reply has gone out, in part and whole
        self.disconnected = False
        self.keep_alive = True
        self.chunks = True  # are something that the peer can read
        self.continues = False  # the peer waits to be told that its body is wanted

    async def run(self, app: App) -> None:
        """Has the request answered."""
        certificate = self._connection.certificate
        path = unquote(self._path) if "%" in self._path else self._path
        request = Request(self._method, path, self._query, self._headers, peer=self, certificate=certificate)
        try:
            await app.answer(request, self._reply)
        except Disconnected:
            pass
        except Exception:
            log.exception("reply failed: %s %s", self._method, path)
        finally:
            if not self.complete:
                self._connection.close()

    # --- what the peer sends ---

    def feed(self, body: bytes) -> None:
        self._body += body
        if len(self._body) > MAX_UNREAD:
            self._connection.pause_reading()
        self.wake()

    def wake(self) -> None:
        """Something has changed for whoever waits."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def leave(self) -> None:
        """Nobody is there any more to be answered."""
        self.disconnected = True
        self.wake()

    async def piece(self) -> tuple[bytes, bool]:
        if self.continues:
            self.continues = False
            self._connection.transport.write(_CONTINUE)
        while self.more and not self._body and not self.disconnected:
            await self._wait()
        if self.disconnected:
            raise Disconnected
        piece, self._body = bytes(self._body), bytearray()
        return piece, self.more

    async def gone(self) -> None:
        while not self.disconnected and not self.complete:
            self._body.clear()  # of a request that needs none
            await self._wait()

    async def _wait(self) -> None:
        self._connection.resume_reading()
        self._waiter = self._connection.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # --- what it gets ---

    async def _reply(self, answer: Reply | Stream) -> None:
        self.begun = True
        if self.continues and self.more:  # its body may come now or not: who could tell it from a request?
            self.continues = self.keep_alive = False
        if isinstance(answer, Stream):
            await self._stream(answer)
        else:
            length = b"content-length: %d\r\n" % len(answer.body)
            await self._write(self._head(answer, length), b"" if self._method == "HEAD" else answer.body)
        if not self.disconnected:
            self.complete = True
            self.wake()
            self._connection.answered(self)

    async def _stream(self, answer: Stream) -> None:
        """In chunks, or to the end of the connection for a peer of HTTP/1.0."""
        chunks = self.chunks
        async with aclosing(answer.lines) as lines:
            await self._write(self._head(answer, b"transfer-encoding: chunked\r\n" if chunks else b""))
            async for batch in lines:
                if self.disconnected:
                    return
                if chunks and batch:
                    await self._write(b"%x\r\n" % len(batch), batch, b"\r\n")
                else:
                    await self._write(b"", batch)
        await self._write(b"0\r\n\r\n" if chunks else b"")

    def _head(self, answer: Reply | Stream, length: bytes) -> bytes:
        return _head(answer, length, self._connection.listener.date, self.keep_alive)

    async def _write(self, before: bytes, body: bytes = b"", after: bytes = b"") -> None:
        """In pieces, with a look at the peer between them: TLS takes any amount at once and tells of no delay."""
        connection = self._connection
        pieces: list[bytes | memoryview] = [b"".join((before, body, after))]
        if len(body) > PIECE:
            view = memoryview(body)
            pieces = [before, *(view[start : start + PIECE] for start in range(0, len(body), PIECE)), after]
        for piece in pieces:
            if connection.writable is not None and not self.disconnected:
                await connection.writable
            if self.disconnected:
                return
            connection.transport.write(piece)


def _head(answer: Reply | Stream, length: bytes, date: bytes, keep_alive: bool) -> bytes:
    parts = [_STATUS_LINES[answer.status], date, b"content-type: ", answer.content_type, b"\r\n", length]
    for name, value in answer.headers:
        parts += (name, b": ", value, b"\r\n")
    parts.append(b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
    return b"".join(parts)


class Connection(asyncio.Protocol):
    """One peer. ``certificate`` is its own (DER), if TLS verified one; ``writable`` is there while it has to be waited for."""

    def __init__(self, listener: Listener, loop: asyncio.AbstractEventLoop) -> None:
        self.listener = listener
        self.loop = loop
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # there before anything else happens
        self.certificate: bytes | None = None
        self.writable: asyncio.Future[None] | None = None
        self._parser: Any = httptools.HttpRequestParser(self)  # None when the connection is gone
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._header_bytes = self._discarded = 0
        self._unheard = 0  # bytes since the parser last told us something: it may be keeping them
        self._in_head = False
        self._arriving = False  # a request's first byte is there, its last is not
        self._continues = False
        self._latest: _Exchange | None = None
        self._running: _Exchange | None = None
        self._waiting: deque[_Exchange] = deque()  # sent before the last one was answered
        self._refusal: Reply | None = None  # of what came behind those, the last that was read
        self._reading = True
        self._due = inf  # when the peer has to have done what it is waited for
        self._timer: TimerHandle | None = None
        self._rings = inf  # the timer; perhaps before that
        self._stall_timer: TimerHandle | None = None
        self._wait_timer: TimerHandle | None = None

    # --- the connection ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop has its own class
        if self.listener.stopping or len(self.listener.connections) >= MAX_CONNECTIONS:
            self.transport.abort()
            return
        self.listener.connections.add(self)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self.certificate = tls.getpeercert(binary_form=True)
        self._expect(REQUEST_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self.listener.connections.discard(self)
        for timer in (self._timer, self._stall_timer, self._wait_timer):
            if timer is not None:
                timer.cancel()
        for exchange in (self._running, self._latest):
            if exchange is not None and not exchange.complete:
                exchange.leave()
        self.resume_writing()
        self._parser = self._running = self._latest = None  # what a peer left unread is freed at once

    def data_received(self, data: bytes) -> None:
        latest = self._latest
        if self._parser is None or self._refusal is not None or self.transport.is_closing():
            return  # nothing more is read of a peer that was refused
        if latest is not None and not latest.keep_alive and not latest.more:
            return  # nor behind the last request
        self._unheard += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # who asks for another protocol (``kubectl exec``) is answered in this one
        except httptools.HttpParserError:  # bad syntax, or as we told it to
            if self._header_bytes <= MAX_HEADERS:
                self._refuse(BadRequest("this is no HTTP request that the server can read"))
                return
        if max(self._header_bytes, self._unheard) > MAX_HEADERS:
            self._refuse(_HeadTooLarge(f"the request's headers are too large: limit is {MAX_HEADERS}"))

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Unless requests wait: to read on would only make them more."""
        if not self._reading and not self._waiting:
            self._reading = True
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        self.writable = self.loop.create_future()
        self._stall_timer = self.loop.call_later(STALLED_SECONDS, self._abort)

    def resume_writing(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        if self.writable is not None:
            if not self.writable.done():
                self.writable.set_result(None)
            self.writable = None

    def shutdown(self) -> None:
        """The server stops: a request that has arrived is answered, half a one is not waited for."""
        exchange = self._running
        if exchange is None or exchange.complete:
            self.close()
        elif exchange.more:
            self._abort()
        else:
            exchange.keep_alive = False  # what waits behind it is not begun any more

    def end(self) -> None:
        """The server has stopped: what is not answered by now never will be."""
        if self._running is None or self._running.complete:
            self.close()
        else:
            self._abort()

    # --- a request as it is parsed ---

    def on_message_begin(self) -> None:
        self._url, self._headers = b"", []
        self._header_bytes = self._discarded = self._unheard = 0
        self._in_head = True
        self._continues = False
        if not self._arriving:
            self._arriving = True
            self._expect(REQUEST_SECONDS)

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self._headers
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > MAX_HEADERS or len(headers) >= MAX_HEADER_COUNT:
            self._count(MAX_HEADERS)
        if not self._in_head:
            return  # behind the body anything may be said, and nothing of it counts
        name = name.lower()
        if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
            # the parser would take what is compressed for plain text
            raise ValueError("only chunks are read")
        if name == b"expect" and value.lower() == b"100-continue":
            self._continues = True
        headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        exchange = self._exchange()
        before, self._latest = self._latest, exchange
        if before is None or before.complete:
            self._start(exchange)
            return
        if len(self._waiting) >= MAX_WAITING:
            raise ValueError("too many requests at once")
        self._waiting.append(exchange)
        self.pause_reading()  # so we would not see the peer leave
        if self._wait_timer is None:
            self._wait_timer = self.loop.call_later(STALLED_SECONDS, self._abort)

    def _exchange(self) -> _Exchange:
        parser = self._parser
        version, upgrade = parser.get_http_version(), parser.should_upgrade()
        if version not in ("1.1", "1.0"):
            raise ValueError("another version of HTTP")
        if upgrade and any(
            name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
            for name, value in self._headers
        ):
            raise ValueError("a body that the parser would take for the other protocol")
        exchange = _Exchange(self, parser.get_method().decode("ascii"), self._url, self._headers)
        exchange.chunks = version == "1.1"
        exchange.keep_alive = version == "1.1" and parser.should_keep_alive() and not upgrade
        exchange.continues = self._continues
        return exchange

    def on_body(self, body: bytes) -> None:
        """A client that was answered early may still be sending: it is heard out, within bounds, to read its answer."""
        exchange = self._latest
        assert exchange is not None
        self._unheard = 0
        if not exchange.complete:
            exchange.feed(body)
            return
        self._discarded += len(body)
        if self._discarded > MAX_DISCARDED:
            self._abort()

    def on_message_complete(self) -> None:
        exchange = self._latest
        assert exchange is not None
        self._arriving = False
        self._due = inf
        self._unheard = 0
        exchange.more = False
        exchange.wake()
        if exchange.complete:
            self._expect(KEEP_ALIVE_SECONDS)

    # --- one request after the other ---

    def _start(self, exchange: _Exchange) -> None:
        self._running = exchange
        tasks = self.listener.tasks
        task = self.loop.create_task(exchange.run(self.listener.app))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def answered(self, exchange: _Exchange) -> None:
        """A reply has gone out."""
        if not exchange.keep_alive:
            self.close()
        if not self.transport.is_closing():
            self._go_on()

    def _go_on(self) -> None:
        """With what was sent before the last reply had gone out, or with what comes now."""
        if self._wait_timer is not None:
            self._wait_timer.cancel()
            self._wait_timer = None
        if self._waiting:
            self._start(self._waiting.popleft())
            if self._waiting:
                self._wait_timer = self.loop.call_later(STALLED_SECONDS, self._abort)
            self.resume_reading()
        elif self._refusal is not None:
            body = self._refusal.body
            head = _head(self._refusal, b"content-length: %d\r\n" % len(body), self.listener.date, False)
            self.transport.write(head + body)
            self.close()
        else:
            self.resume_reading()
            if not self._arriving:
                self._expect(KEEP_ALIVE_SECONDS)

    def _expect(self, seconds: float) -> None:
        """Ends the connection unless, by then, something else is expected."""
        due = self._due = self.loop.time() + seconds
        if due < self._rings:
            self._set(due)

    def _set(self, rings: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings = self.loop.call_at(rings, self._ring), rings

    def _ring(self) -> None:
        self._timer, self._rings = None, inf
        if self._due > self.loop.time():
            if self._due < inf:
                self._set(self._due)
        elif self._arriving or self._latest is None:
            self._abort()
        else:
            self.close()

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > MAX_HEADERS:
            raise ValueError("the headers are too large")  # ends the parser

    def _refuse(self, error: StatusError) -> None:
        """Ends the connection over what cannot be read, when all that came before has been answered."""
        self._refusal = Reply.error(error)
        self._arriving, self._due = False, inf
        broken = self._latest
        if broken is not None and broken.more:  # its body is what is wrong
            if broken.begun:
                self.close()  # it has had its answer, and there is no other
                return
            broken.leave()
            if broken is self._running:
                self._running = None
            elif broken in self._waiting:
                self._waiting.remove(broken)
        if self._running is None or self._running.complete:
            self._go_on()

    def close(self) -> None:
        """After what was written has gone out."""
        with suppress(RuntimeError):  # of uvloop, when the socket under TLS is closed and we are not yet told
            self.transport.close()

    def _abort(self) -> None:
        self.transport.abort()


class Listener:
    """Serves an application on a port. ``tls`` None serves plain HTTP, for tests."""

    def __init__(self, app: App, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        self.app = app
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.date = b""  # the header, as it is now
        self.stopping = False
        self._host, self._port, self._tls = host, port, tls
        self._server: asyncio.Server | None = None
        self._clock: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to accept. Raises OSError, as for a port in use."""
        loop = asyncio.get_running_loop()
        self._clock = asyncio.create_task(self._tell_the_time())
        self._server = await loop.create_server(
            lambda: Connection(self, loop),
            self._host,
            self._port,
            ssl=self._tls,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if self._tls else None,
            ssl_shutdown_timeout=GOODBYE_SECONDS if self._tls else None,
            backlog=BACKLOG,
        )

    @property
    def port(self) -> int:
        """The port, also where 0 asked for any that is free."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self, seconds: float = 10.0) -> None:
        """Accepts no more, waits for the requests under way (watches must have been ended), and closes."""
        if self._clock is not None:
            self._clock.cancel()
        if self._server is None or self.stopping:
            return
        self.stopping = True
        self._server.close()
        for connection in list(self.connections):
            connection.shutdown()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=seconds)
        late = list(self.tasks)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        for connection in list(self.connections):
            connection.end()

    async def _tell_the_time(self) -> None:
        """Keeps the Date header right."""
        while True:
            self.date = b"date: %b\r\n" % formatdate(usegmt=True).encode()
            await asyncio.sleep(1.0)
