"""Our HTTP layer beside aiohttp's and uvicorn's: ``.venv/bin/python benchmarks/http_servers.py``.

Each serves the same bytes from a process of its own: 1 KiB of JSON for a GET, nothing else, so that what differs is parsing, dispatch and
writing. The client sends from 32 connections, one request at a time on each, over TLS or plain HTTP. Requests per second are the best of the rounds, in which servers
take turns; processor time is the server's. The last column is what becomes of a peer that sends half a head and falls silent.

uvicorn is not a dependency: without it its row is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aiohttp import web

from allotment.apiserver.auth.certificates import Certificates
from allotment.apiserver.http.app import App
from allotment.apiserver.http.listener import Listener
from allotment.apiserver.http.reply import Response

SERVERS = ("ours", "aiohttp", "uvicorn")
BODY = b'{"kind":"ConfigMap","data":{"key":"' + b"x" * 986 + b'"}}'
PATH = "/api/v1/namespaces/default/configmaps/one?resourceVersion=0"
REQUEST = (
    f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
    "User-Agent: benchmark\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n"
).encode()
CONNECTIONS = 32
SECONDS = 3.0
ROUNDS = 3
SILENT_SECONDS = 20.0


class Constant:
    """What a listener needs of an application, and one answer."""

    def follow_connections(self, *_: Any) -> None: ...

    def end_watches(self) -> None: ...

    async def answer(self, request: Any, send: Any) -> None:
        await send(Response(200, BODY))


async def ours(tls: ssl.SSLContext | None) -> int:
    listener = Listener(cast(App, Constant()), "127.0.0.1", 0, tls)
    await listener.start()
    return listener.port


async def aiohttp(tls: ssl.SSLContext | None) -> int:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=BODY, content_type="application/json")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    port: int = runner.addresses[0][1]
    return port


async def uvicorn(tls: ssl.SSLContext | None) -> int:
    library: Any = import_module("uvicorn")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": BODY})

    config = library.Config(
        app, port=0, lifespan="off", http="httptools", access_log=False, log_level="error"
    )
    config.load()
    config.ssl = tls
    server = library.Server(config)
    RUNNING.append(asyncio.create_task(server.serve()))
    while not server.started:
        await asyncio.sleep(0.01)
    port: int = server.servers[0].sockets[0].getsockname()[1]
    return port


RUNNING: list[asyncio.Task[None]] = []


async def serve(name: str, folder: Path | None) -> None:
    """Prints its port, and at the end of its input what processor time it took."""
    tls = None
    if folder is not None:
        tls = Certificates.open(folder, {"localhost"}, datetime.now(UTC)).server_context()
    print(await {"ours": ours, "aiohttp": aiohttp, "uvicorn": uvicorn}[name](tls), flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(used.ru_utime + used.ru_stime, flush=True)


@dataclass
class Row:
    rate: float = 0.0
    cost: float = field(default=float("inf"))  # µs
    silent: str = ""


class Served:
    """A server in a process of its own."""

    def __init__(self, name: str, folder: Path | None) -> None:
        command = [sys.executable, __file__, "--serve", name, *(["--folder", str(folder)] if folder else [])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def processor(self) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._line())

    def end(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


class Peer(asyncio.Protocol):
    """Sends a request, reads the whole reply, sends the next."""

    def __init__(self) -> None:
        self.replies = self._size = self._read = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        if not self._read:
            head = data.index(b"\r\n\r\n") + 4
            assert data.startswith(b"HTTP/1.1 200"), data
            self._size = head + len(BODY)
        self._read += len(data)
        if self._read == self._size:
            self._read = 0
            self.replies += 1
            self._transport.write(REQUEST)


async def load(port: int, tls: ssl.SSLContext | None) -> float:
    """Requests per second."""
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(
            Peer, "127.0.0.1", port, ssl=tls, server_hostname="localhost" if tls else None
        )
        for _ in range(CONNECTIONS)
    ]
    await asyncio.sleep(0.5)
    before, begun = sum(peer.replies for _, peer in made), time.perf_counter()
    await asyncio.sleep(SECONDS)
    rate = (sum(peer.replies for _, peer in made) - before) / (time.perf_counter() - begun)
    for transport, _ in made:
        transport.abort()
    return rate


async def fall_silent(port: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST[:40])
    begun = time.perf_counter()
    try:
        said = await asyncio.wait_for(reader.read(), SILENT_SECONDS)
        return f"{said[9:12].decode() or 'closed'} after {time.perf_counter() - begun:.0f} s"
    except TimeoutError:
        return f"still open after {SILENT_SECONDS:.0f} s"
    finally:
        writer.close()


def measure(names: list[str], folder: Path | None) -> dict[str, Row]:
    rows = {name: Row() for name in names}
    trust = None
    if folder is not None:
        trust = ssl.create_default_context()
        Certificates.open(folder, {"localhost"}, datetime.now(UTC))
        trust.load_verify_locations(folder / "ca.crt")
    for _ in range(ROUNDS):
        for name, row in rows.items():
            served = Served(name, folder)
            try:
                before = served.processor()
                rate = uvloop.run(load(served.port, trust))
                cost = (served.processor() - before) / (rate * (SECONDS + 0.5)) * 1e6
                row.rate, row.cost = max(row.rate, rate), min(row.cost, cost)
                if folder is None and not row.silent:
                    row.silent = uvloop.run(fall_silent(served.port))
            finally:
                served.end()
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--serve", choices=SERVERS, help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.serve:
        uvloop.run(serve(chosen.serve, chosen.folder))
        return
    names = [name for name in SERVERS if name != "uvicorn" or find_spec("uvicorn")]
    with tempfile.TemporaryDirectory() as folder:
        for words, place in (("plain", None), ("TLS", Path(folder))):
            for name, row in measure(names, place).items():
                print(
                    f"{words:6} {name:8} {row.rate:8,.0f} requests/s {row.cost:7.1f} µs each  {row.silent}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
