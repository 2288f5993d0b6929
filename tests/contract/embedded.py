"""Our server for a test session: it runs in a thread with an event loop of its own, and answers over TLS and in process.

``InProcess`` calls the ASGI application directly, as the client's in-process transport does, but from a test's thread and
with nothing of the client's between.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import queue
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.server import ApiServer, Options
from tests.contract.api import PATIENCE, Call, Https, Reply, Stream
from tests.kubernetes.certificates import Pair
from tests.kubernetes.control_plane import client_context, write_kubeconfig

T = TypeVar("T")
Message = dict[str, Any]


class Embedded:
    """A running server of ours."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="api server", daemon=True)
        self.server = ApiServer(Options(data_dir=folder / "data", port=0))

    def __enter__(self) -> Embedded:
        self._thread.start()
        self.call(self.server.start())
        authority = self.server.certificates.authority
        credential = authority.issue_client("admin", ["system:masters"], datetime.datetime.now(datetime.UTC))
        self.ca = self._folder / "ca.crt"
        self.admin = Pair(self._folder / "admin.crt", self._folder / "admin.key")
        for path, text in (
            (self.ca, authority.certificate),
            (self.admin.certificate, credential.certificate),
            (self.admin.key, credential.key),
        ):
            path.write_bytes(text)
        self.kubeconfig = self._folder / "kubeconfig"
        write_kubeconfig(self.kubeconfig, self.server.url, self.ca, self.admin)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call(self.server.stop())
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(PATIENCE)
            self.loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs something on the server's loop and waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def over_tls(self) -> Https:
        return Https(self.server.url, client_context(self.ca, self.admin), client_context(self.ca))

    def in_process(self) -> InProcess:
        return InProcess(self)

    def forget(self, revision: int) -> None:
        """Compacts the history up to a revision."""
        self.call(self.server.store.compact(revision))

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


class InProcess:
    """Straight into the application."""

    def __init__(self, embedded: Embedded) -> None:
        self._embedded = embedded

    def send(self, call: Call) -> Reply:
        return self._embedded.call(self._collected(call))

    async def _collected(self, call: Call) -> Reply:
        exchange = _Exchange(call)
        await self._embedded.server.app(_scope(call), exchange.receive, exchange.send)
        return Reply(exchange.status, exchange.headers, b"".join(exchange.parts))

    @contextlib.contextmanager
    def stream(self, call: Call) -> Iterator[Stream]:
        exchange = _Exchange(call)
        running = asyncio.run_coroutine_threadsafe(self._passed_on(call, exchange), self._embedded.loop)
        try:
            assert exchange.started.wait(PATIENCE), f"{call.path}: no reply"
            yield Stream(exchange.status, exchange.headers, exchange.line)
        finally:
            self._embedded.loop.call_soon_threadsafe(exchange.left.set)
            running.cancel()

    async def _passed_on(self, call: Call, exchange: _Exchange) -> None:
        try:
            await self._embedded.server.app(_scope(call), exchange.receive, exchange.send)
        finally:
            exchange.pieces.put(None)

    def close(self) -> None:
        """Nothing is open."""


class _Exchange:
    """One request and its reply: the application's side on the loop, ``line`` on the test's thread."""

    def __init__(self, call: Call) -> None:
        self._body: bytes | None = call.body or b""
        self.status = 0
        self.headers: tuple[tuple[str, str], ...] = ()
        self.parts: list[bytes] = []
        self.pieces: queue.Queue[bytes | None] = queue.Queue()
        self.started = threading.Event()
        self.left = asyncio.Event()
        self._rest = b""

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = tuple((key.decode().lower(), value.decode()) for key, value in message["headers"])
            self.started.set()
        else:
            self.parts.append(message.get("body", b""))
            self.pieces.put(message.get("body", b""))

    def line(self, timeout: float) -> bytes:
        while b"\n" not in self._rest:
            try:
                piece = self.pieces.get(timeout=timeout)
            except queue.Empty:
                raise TimeoutError("no event in time") from None
            if piece is None:
                rest, self._rest = self._rest, b""
                return rest
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line + b"\n"


def _scope(call: Call) -> Message:
    path, _, query = call.path.partition("?")
    headers = [
        (name.lower().encode(), each.encode())
        for name, value in call.headers.items()
        for each in (value.split(",") if name == "Impersonate-Group" else [value])
    ]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": call.method,
        "scheme": "https",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "client": None,
        "server": None,
        "state": {"identity": ADMINISTRATOR} if call.credentials else {},
    }
