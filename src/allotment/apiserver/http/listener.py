"""The socket side: connections, TLS, and bounds on what a peer may do before the application sees it.

uvicorn's httptools protocol does HTTP; here it learns about the peer's certificate, header sizes, and peers that send or read
too slowly. A listener stops gracefully: it accepts no more, lets requests under way finish, then closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from asyncio import TimerHandle
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

log = logging.getLogger("allotment.apiserver")

MAX_HEADERS = 64 * 1024
MAX_HEADER_COUNT = 200
MAX_CONNECTIONS = 25_000
REQUEST_SECONDS = 30.0  # that a request may take to arrive, headers and body
PIECE = 256 * 1024
MAX_DISCARDED = 8 * 1024 * 1024
STALLED_SECONDS = 60.0  # that a peer may leave what we send it unread
KEEP_ALIVE_SECONDS = 120
GOODBYE_SECONDS = 5.0  # that a peer may take to end TLS properly
BACKLOG = 2048

_REFUSAL = b"HTTP/1.1 %b\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"


class _Exchange(RequestResponseCycle):
    """One request and its reply. Head and body of a reply go out in one piece: over TLS every write is a record."""

    _head: bytes | None = None

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._begin(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        head, self._head = self._head or b"", None
        body, more = message.get("body", b""), message.get("more_body", False)
        if self.chunked_encoding:
            piece = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            await self._write(head, b"".join((piece, b"" if more else b"0\r\n\r\n")))
        else:
            await self._write(head, b"" if self.scope["method"] == "HEAD" else body)
        if not more:
            self._complete()

    async def _write(self, head: bytes, body: bytes) -> None:
        """In pieces, with a look at the peer between them: TLS takes any amount at once and tells of no delay."""
        if len(body) <= PIECE:
            self.transport.write(head + body)
            return
        self.transport.write(head)
        view = memoryview(body)
        for start in range(0, len(body), PIECE):
            if self.flow.write_paused:
                await self.flow.drain()
            if self.disconnected:
                return
            self.transport.write(view[start : start + PIECE])

    def _begin(self, message: Any) -> None:
        self.response_started = True
        self.waiting_for_100_continue = False
        parts = [STATUS_LINE[message["status"]]]
        self.chunked_encoding = message["status"] not in (204, 304)
        for name, value in (*self.default_headers, *message["headers"]):
            if name == b"content-length":
                self.chunked_encoding = False
            parts += (name, b": ", value, b"\r\n")
        if not self.keep_alive:
            parts.append(b"connection: close\r\n")
        if self.chunked_encoding:
            parts.append(b"transfer-encoding: chunked\r\n")
        parts.append(b"\r\n")
        self._head = b"".join(parts)

    def _complete(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


class Connection(HttpToolsProtocol):
    """One peer. ``scope["state"]["peer_certificate"]`` is its certificate (DER), if TLS verified one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.access_log = False
        self.app_state = dict(self.app_state)
        self._header_bytes = 0
        self._discarded = 0
        self._arrival_timer: TimerHandle | None = None
        self._stall_timer: TimerHandle | None = None
        self._wait_timer: TimerHandle | None = None  # of a request that waits for the one before it
        self._running: RequestResponseCycle | None = None

    def _unsupported_upgrade_warning(self) -> None:
        """Who asks for another protocol (``kubectl exec``) is answered in this one; the log need not hear of it."""

    def connection_made(self, transport: Any) -> None:
        if len(self.connections) >= MAX_CONNECTIONS:
            self.transport = transport
            transport.abort()
            return
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self.app_state["peer_certificate"] = tls.getpeercert(binary_form=True)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timers()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = (
                True  # uvicorn tells only the last request, which may be one that waits
            )
            self._running.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if (
            self.parser is not None and not self.transport.is_closing()
        ):  # nothing more is read of a peer that was refused
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """The parser gave up: on bad syntax, or as we told it to (``_count``)."""
        if self._header_bytes > MAX_HEADERS:
            self._refuse(b"431 Request Header Fields Too Large", b"the request's headers are too large\n")
        else:
            self._refuse(b"400 Bad Request", b"this is no HTTP request\n")

    def on_message_begin(self) -> None:
        self._header_bytes = self._discarded = 0
        if self._arrival_timer is None:
            self._expect_request()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        if len(self.headers) >= MAX_HEADER_COUNT:
            self._count(MAX_HEADERS)
        if name.lower() == b"transfer-encoding" and value.strip().lower() != b"chunked":
            raise ValueError(
                "only chunks are read"
            )  # the parser would take what is compressed for plain text
        super().on_header(name, value)

    def on_message_complete(self) -> None:
        if self._arrival_timer is not None:
            self._arrival_timer.cancel()
            self._arrival_timer = None
        super().on_message_complete()

    def on_headers_complete(self) -> None:
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        scope: Any = self.scope
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = url.path
        scope["query_string"] = url.query or b""
        version = self.parser.get_http_version()
        before, self.cycle = (
            self.cycle,
            _Exchange(
                scope=scope,
                transport=self.transport,
                flow=self.flow,
                logger=self.logger,
                access_logger=self.access_logger,
                access_log=False,
                default_headers=self.server_state.default_headers,
                message_event=asyncio.Event(),
                expect_100_continue=self.expect_100_continue,
                keep_alive=version != "1.0" and self.parser.should_keep_alive(),
                on_response=self.on_response_complete,
            ),
        )
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:  # sent before the last one was answered: it waits, and as we read no more we would not see the peer leave
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))
            if self._wait_timer is None:
                self._wait_timer = self.loop.call_later(STALLED_SECONDS, self._abort)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        if self._wait_timer is not None and not self.pipeline:
            self._wait_timer.cancel()
            self._wait_timer = None
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        """A client that was answered early may still be sending: it is heard out, within bounds, to read its answer."""
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > MAX_DISCARDED:
                self._abort()
            return
        super().on_body(body)

    def on_response_complete(self) -> None:
        if self.cycle.more_body and self._arrival_timer is None:
            self._expect_request()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._stall_timer = self.loop.call_later(STALLED_SECONDS, self._abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        super().resume_writing()

    def shutdown(self) -> None:
        """The server stops: a request that has arrived is answered, half a one is not waited for."""
        if self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            self._abort()
        else:
            super().shutdown()

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > MAX_HEADERS:
            raise ValueError("the headers are too large")  # ends the parser, which calls send_400_response

    def _expect_request(self) -> None:
        self._arrival_timer = self.loop.call_later(REQUEST_SECONDS, self._abort)

    def _refuse(self, status: bytes, text: bytes) -> None:
        self._cancel_timers()
        self.transport.write(_REFUSAL % (status, len(text), text))
        self.transport.close()

    def _abort(self) -> None:
        self.transport.abort()

    def _cancel_timers(self) -> None:
        for timer in (self._arrival_timer, self._stall_timer, self._wait_timer):
            if timer is not None:
                timer.cancel()
        self._arrival_timer = self._stall_timer = self._wait_timer = None


class Listener:
    """Serves an ASGI application on a port. ``tls`` None serves plain HTTP, for tests."""

    def __init__(self, app: Any, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        self._config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            proxy_headers=False,
            interface="asgi3",
        )
        self._state = ServerState()
        self._host, self._port, self._tls = host, port, tls
        self._server: asyncio.Server | None = None
        self._clock: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to accept. Raises OSError, as for a port in use."""
        loop = asyncio.get_running_loop()
        self._config.load()
        self._server = await loop.create_server(
            lambda: Connection(self._config, self._state, {}, loop),
            self._host,
            self._port,
            ssl=self._tls,
            ssl_handshake_timeout=REQUEST_SECONDS if self._tls else None,
            ssl_shutdown_timeout=GOODBYE_SECONDS if self._tls else None,
            backlog=BACKLOG,
        )
        self._clock = asyncio.create_task(self._tell_the_time())

    @property
    def port(self) -> int:
        """The port, also where 0 asked for any that is free."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self, seconds: float = 10.0) -> None:
        """Accepts no more, waits for the requests under way (watches must have been ended), and closes."""
        if self._server is None:
            return
        self._server.close()
        if self._clock is not None:
            self._clock.cancel()
        for connection in list(self._state.connections):
            connection.shutdown()
        tasks = list(self._state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            if not task.done():
                task.cancel()
        for connection in list(self._state.connections):
            with contextlib.suppress(RuntimeError):
                connection.transport.close()
        self._server = None

    async def _tell_the_time(self) -> None:
        """Keeps the Date header right."""
        while True:
            date = formatdate(usegmt=True).encode()
            self._state.default_headers[:] = [(b"date", date)]
            await asyncio.sleep(1.0)
