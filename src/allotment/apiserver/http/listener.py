"""The port on which an application is served, and its connections.

There is no ASGI between the parser and the application: its scopes and messages, and timers set and cancelled for each
request, made up a third of the cost of a small request apart from TLS. A listener stops gracefully: it accepts no more
connections, finishes the requests in progress, then closes.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import sys
from email.utils import formatdate

from allotment.apiserver.http import limits
from allotment.apiserver.http.app import App
from allotment.apiserver.http.connection import HttpConnection
from allotment.apiserver.http.holdings import BufferHoldings

_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", 25 if sys.platform == "linux" else None)
"""Python's socket module has this name from 3.12 on."""
_OTHER_FILES = 200
"""Open files other than connections."""


class Listener:
    """Serves an application on a port. ``tls`` None serves plain HTTP, for tests."""

    def __init__(self, app: App, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        self.app = app
        self.connections: set[HttpConnection] = set()
        self.unsent: BufferHoldings[HttpConnection] = BufferHoldings(
            limits.MAX_UNSENT, limits.MAX_UNSENT_EACH
        )
        self.max_connections = limits.MAX_CONNECTIONS
        self._owned: dict[str, dict[HttpConnection, None]] = {}  # connections by owner, oldest first
        self.tasks: set[asyncio.Task[None]] = set()
        self.buffer = memoryview(bytearray(limits.READ_AT_ONCE))
        self.date = b""  # the present value of the header
        self.stopping = False
        self._host, self._port, self._tls = host, port, tls
        self._server: asyncio.Server | None = None
        self._clock: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to accept connections. Raises OSError, for example for a port in use."""
        self.max_connections = min(self.max_connections, _files() - _OTHER_FILES)
        self.app.follow_connections(self.unsent, self.connections)
        loop = asyncio.get_running_loop()
        self._clock = asyncio.create_task(self._tell_the_time())
        self._server = await loop.create_server(
            lambda: HttpConnection(self, loop),
            self._host,
            self._port,
            ssl=self._tls,
            ssl_handshake_timeout=limits.HANDSHAKE_SECONDS if self._tls else None,
            ssl_shutdown_timeout=limits.GOODBYE_SECONDS if self._tls else None,
            backlog=limits.BACKLOG,
        )
        if _NOTSENT_LOWAT is not None:
            for each in self._server.sockets:  # connections inherit this option
                each.setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, limits.MAX_UNSENT_IN_KERNEL)

    @property
    def port(self) -> int:
        """The port, even if port 0 requested any free one."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def come(self, connection: HttpConnection) -> None:
        """Admits every peer, since it may be an administrator.

        If there are too many connections, the owner with the most loses one, preferably an idle one.
        """
        if len(self.connections) >= self.max_connections:
            most = max(self._owned.values(), key=len)
            victim = next((each for each in most if each.idle), next(iter(most)))
            self.gone(victim)
            victim.transport.abort()
        self.connections.add(connection)
        self._owned.setdefault(connection.owner, {})[connection] = None

    def gone(self, connection: HttpConnection) -> None:
        self.connections.discard(connection)
        owned = self._owned.get(connection.owner, {})
        owned.pop(connection, None)
        if not owned:
            self._owned.pop(connection.owner, None)

    def moved(self, connection: HttpConnection, owner: str) -> None:
        known = connection in self.connections
        self.gone(connection)
        connection.owner = owner
        if known:
            self.connections.add(connection)
            self._owned.setdefault(owner, {})[connection] = None

    async def stop(self, seconds: float = 10.0) -> None:
        """Stops accepting, waits for the requests in progress (watches must have been ended), and closes."""
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
        self.tasks.difference_update(late)  # a task that never began does not remove itself
        for connection in list(self.connections):
            connection.end()

    async def _tell_the_time(self) -> None:
        """Updates the Date header."""
        while True:
            self.date = b"date: %b\r\n" % formatdate(usegmt=True).encode()
            await asyncio.sleep(1.0)


def _files() -> int:
    """Raises the limit of open files as far as allowed, and returns it. A shell's default is often 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.MAX_CONNECTIONS + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    return max(soft, allowed)
