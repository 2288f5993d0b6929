"""``/metrics`` and ``/healthz`` of a component that runs alone: minimal HTTP for Prometheus and a probe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

MAX_HEAD = 16 * 1024
SCRAPE_SECONDS = 5.0


@asynccontextmanager
async def serving_metrics(
    host: str, port: int, registry: Callable[[], CollectorRegistry]
) -> AsyncIterator[int]:
    """Serves while the context lasts, and yields the port. Raises OSError if the port is not available."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(SCRAPE_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_reply(head, registry()))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, host, port, limit=MAX_HEAD)
    async with server:
        yield server.sockets[0].getsockname()[1]


def _reply(head: bytes, registry: CollectorRegistry) -> bytes:
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    if method not in ("GET", "HEAD"):
        return _http("405 Method Not Allowed", b"only GET\n")
    if path == "/metrics":
        answer = _http("200 OK", generate_latest(registry), CONTENT_TYPE_LATEST)
    elif path == "/healthz":
        answer = _http("200 OK", b"ok\n")
    else:
        answer = _http("404 Not Found", b"there are /metrics and /healthz\n")
    return answer if method == "GET" else answer[: answer.index(b"\r\n\r\n") + 4]


def _http(status: str, body: bytes, content_type: str = "text/plain; charset=utf-8") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
