"""The numbers of a component that runs alone, over a few lines of HTTP that must bear anything."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry, Counter

from allotment.daemons.metrics_server import MAX_HEAD, serving_metrics


def answer(*requests: bytes) -> list[bytes]:
    """What the server sends to each, on a connection of its own."""
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc(3)

    async def run() -> list[bytes]:
        found = []
        async with serving_metrics("127.0.0.1", 0, lambda: registry) as port:
            for request in requests:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request)
                writer.write_eof()
                try:
                    found.append(await reader.read())
                except ConnectionResetError:  # it did not read to the end
                    found.append(b"")
                writer.close()
        return found

    return asyncio.run(run())


CASES = {
    "numbers": (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK", b"things_total 3.0"),
    "numbers with a query": (b"GET /metrics?x=1 HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK", b"things_total 3.0"),
    "health": (b"GET /healthz HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK", b"ok\n"),
    "another path": (b"GET /secret HTTP/1.1\r\n\r\n", b"HTTP/1.1 404", b"/metrics"),
    "another method": (b"POST /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 405", b"GET"),
    "no HTTP": (b"\xff\xfe\r\n\r\n", b"HTTP/1.1 405", b"GET"),
    "nothing": (b"", b"", b""),
    "half of a request": (b"GET /metrics HTTP/1.1\r\n", b"", b""),
    "more than anybody sends": (b"GET / HTTP/1.1\r\nx: " + b"y" * 2 * MAX_HEAD, b"", b""),
}


@pytest.mark.parametrize("path", [b"/healthz", b"/metrics", b"/secret"])
def test_a_head_is_the_same_without_the_body(path: bytes) -> None:
    short, whole = answer(*(method + b" " + path + b" HTTP/1.1\r\n\r\n" for method in (b"HEAD", b"GET")))
    assert short == whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"


@pytest.mark.parametrize("name", CASES)
def test_what_is_answered(name: str) -> None:
    request, start, content = CASES[name]
    (reply, after) = answer(request, CASES["health"][0])
    assert reply.startswith(start)
    assert content in reply
    assert bool(reply) is bool(start)
    assert after.endswith(b"ok\n")  # and the next one is served
