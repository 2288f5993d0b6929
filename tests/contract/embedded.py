"""Our server for a test session: it runs in a thread with an event loop of its own, and answers over TLS and in process.

``InProcess`` calls the application directly, as the client's in-process transport does, but from a test's thread and
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
from allotment.apiserver.http import reply
from allotment.apiserver.http.request import Peer, Request
from allotment.apiserver.server import ApiServer, Options
from tests.contract.api import PATIENCE, Call, Https, Reply, Stream
from tests.kubernetes.certificates import Pair
from tests.kubernetes.control_plane import client_context, write_kubeconfig

T = TypeVar("T")


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
        answer = self._embedded.call(self._embedded.server.app.answer(_request(call)))
        assert isinstance(answer, reply.Response), f"{call.path}: no reply but a stream"
        return Reply(answer.status, _headers(answer), answer.body)

    @contextlib.contextmanager
    def stream(self, call: Call) -> Iterator[Stream]:
        exchange = _Exchange()
        running = asyncio.run_coroutine_threadsafe(self._passed_on(call, exchange), self._embedded.loop)
        try:
            assert exchange.started.wait(PATIENCE), f"{call.path}: no reply"
            yield Stream(exchange.status, exchange.headers, exchange.line)
        finally:
            self._embedded.loop.call_soon_threadsafe(exchange.left.set)
            running.cancel()

    async def _passed_on(self, call: Call, exchange: _Exchange) -> None:
        try:
            await self._embedded.server.app.answer(_request(call, exchange), exchange.send)
        finally:
            exchange.pieces.put(None)

    def close(self) -> None:
        """Nothing is open."""


class _Exchange:
    """One request and its reply: the application's side on the loop, ``line`` on the test's thread."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: tuple[tuple[str, str], ...] = ()
        self.pieces: queue.Queue[bytes | None] = queue.Queue()
        self.started = threading.Event()
        self.left = asyncio.Event()
        self._rest = b""

    async def piece(self) -> tuple[bytes, bool]:
        return b"", False

    async def gone(self) -> None:
        await self.left.wait()

    async def send(self, answer: reply.Response | reply.StreamResponse) -> None:
        self.status, self.headers = answer.status, _headers(answer)
        self.started.set()
        if isinstance(answer, reply.Response):
            self.pieces.put(answer.body)
            return
        async for batch in answer.lines:
            self.pieces.put(batch)

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


def _request(call: Call, peer: Peer | None = None) -> Request:
    path, _, query = call.path.partition("?")
    headers = [
        (name.lower().encode(), each.encode())
        for name, value in call.headers.items()
        for each in (value.split(",") if name == "Impersonate-Group" else [value])
    ]
    identity = ADMINISTRATOR if call.credentials else None
    return Request(
        call.method, unquote(path), query.encode(), headers, call.body or b"", peer=peer, identity=identity
    )


def _headers(answer: reply.Response | reply.StreamResponse) -> tuple[tuple[str, str], ...]:
    sent = [(b"content-type", answer.content_type), *answer.headers]
    return tuple((name.decode().lower(), value.decode()) for name, value in sent)
