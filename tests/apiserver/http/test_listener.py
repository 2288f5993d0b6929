"""Connections: TLS and who the peer is, bounds on what it may send, and a stop that leaves nothing half done."""

from __future__ import annotations

import asyncio
import datetime
import gc
import json
import socket
import ssl
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from allotment.apiserver.http import limits
from allotment.apiserver.http.connection import HttpConnection
from allotment.apiserver.server import ApiServer
from tests.apiserver.http.serving import CONFIGMAPS, PATIENCE, configmap, serving

PODS = "/api/v1/namespaces/default/pods"


class Peer:
    """A client that says exactly what a test wants it to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def say(self, text: bytes) -> None:
        self.writer.write(text)
        await self.writer.drain()

    async def request(self, method: str, path: str, body: bytes = b"", headers: str = "") -> tuple[int, Any]:
        if body and "content-type" not in headers.lower():
            headers += "Content-Type: application/json\r\n"
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        await self.say(head.encode() + body)
        return await self.reply()

    async def reply(self) -> tuple[int, Any]:
        head = (await self._within(self.reader.readuntil(b"\r\n\r\n"))).decode()
        sizes = [
            line.partition(":")[2] for line in head.lower().split("\r\n") if line.startswith("content-length")
        ]
        if sizes:
            body = await self._within(self.reader.readexactly(int(sizes[0])))
        else:
            body = b"".join([chunk async for chunk in self._chunks()])
        return int(head.split()[1]), json.loads(body) if body[:1] == b"{" else body.decode()

    async def _chunks(self) -> AsyncIterator[bytes]:
        """Of a reply that the server made as we took it."""
        while size := int(await self._within(self.reader.readline()), 16):
            yield (await self._within(self.reader.readexactly(size + 2)))[:-2]
        await self._within(self.reader.readline())

    async def ended(self) -> bytes:
        """What still comes until the server closes."""
        try:
            return bytes(await self._within(self.reader.read()))
        except ConnectionError:
            return b""

    async def _within(self, work: Any) -> Any:
        return await asyncio.wait_for(work, PATIENCE)


ADMINISTRATORS = ("system:masters",)


def trust(
    server: ApiServer, folder: Path, user: str | None, groups: Sequence[str] = ADMINISTRATORS
) -> ssl.SSLContext:
    """What a client needs to talk to the server, as this user or as nobody."""
    authority = server.certificates.authority
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    if user is not None:
        credential = authority.issue_client(user, groups, datetime.datetime.now(datetime.UTC))
        (folder / "client.crt").write_bytes(credential.certificate)
        (folder / "client.key").write_bytes(credential.key)
        context.load_cert_chain(folder / "client.crt", folder / "client.key")
    return context


@asynccontextmanager
async def peer(
    server: ApiServer, folder: Path, user: str | None = "admin", groups: Sequence[str] = ADMINISTRATORS
) -> AsyncIterator[Peer]:
    context = trust(server, folder, user, groups)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context, limit=2**24)
    try:
        yield Peer(reader, writer)
    finally:
        writer.transport.abort()


def test_a_certificate_tells_who_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            body = json.dumps(
                {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            ).encode()
            path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
            status, review = await client.request("POST", path, body)
            assert status == 201
            assert review["status"]["userInfo"]["username"] == "admin"
            async with peer(ours.server, tmp_path, None) as nobody:
                status, _ = await nobody.request("GET", CONFIGMAPS)
                assert status == 403

    asyncio.run(main())


def test_many_requests_on_one_connection_also_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            for number in range(3):
                body = json.dumps(configmap(f"c{number}")).encode()
                assert (await client.request("POST", CONFIGMAPS, body))[0] == 201
            one = f"GET {CONFIGMAPS}/c0 HTTP/1.1\r\nHost: x\r\n\r\n"
            two = f"GET {CONFIGMAPS}/c1 HTTP/1.1\r\nHost: x\r\n\r\n"
            await client.say((one + two).encode())
            names = [(await client.reply())[1]["metadata"]["name"] for _ in range(2)]
            assert names == ["c0", "c1"]

    asyncio.run(main())


def test_who_asks_for_another_protocol_is_answered_in_this_one_and_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            headers = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            status, told = await client.request("GET", f"{PODS}/a/exec", headers=headers)
            assert (status, told["reason"]) == (404, "NotFound")

    asyncio.run(main())
    assert not caplog.records


def test_a_body_that_is_too_large_is_refused_and_the_connection_lives(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            status, told = await client.request("POST", CONFIGMAPS, b"x" * (4 * 1024 * 1024))
            assert (status, told["reason"]) == (413, "RequestEntityTooLarge")
            assert (await client.request("GET", "/healthz"))[0] == 200

    asyncio.run(main())


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 300 + b"\r\n",
    ],
    ids=["a long path", "a long header", "many headers"],
)
def test_headers_beyond_the_bounds_are_refused(tmp_path: Path, head: bytes) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            await client.say(head)
            assert (await client.ended())[:12] == b"HTTP/1.1 431"

    asyncio.run(main())


def test_what_is_no_http_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            await client.say(b"hello, is this the API server?\r\n\r\n")
            assert (await client.ended())[:12] == b"HTTP/1.1 400"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"", b""),
        (b"GET /healthz HT", b"HTTP/1.1 408"),
        (b"POST " + CONFIGMAPS.encode() + b" HTTP/1.1\r\nContent-Length: 100\r\n\r\n{", b"HTTP/1.1 408"),
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_a_request_that_does_not_arrive_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes, answer: bytes
) -> None:
    monkeypatch.setattr(limits, "REQUEST_SECONDS", 0.05)

    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            await client.say(said)
            assert (await client.ended())[:12] == answer
            assert ours.server.app.requests == 0

    asyncio.run(main())


def test_an_idle_connection_is_closed_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KEEP_ALIVE_SECONDS", 0.05)

    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            assert (await client.request("GET", "/healthz"))[0] == 200
            assert await client.ended() == b""

    asyncio.run(main())


def test_a_timer_that_rings_when_nothing_is_due_leaves_the_connection_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            for _ in range(2):
                assert (await client.request("GET", "/healthz"))[0] == 200
                (connection,) = ours.server._listener.connections  # type: ignore[union-attr]  # it listens
                connection._deadline.ring()  # set when the connection began; by now it is due much later

    asyncio.run(main())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_connection_may_be_closed_twice(tmp_path: Path, run: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            assert (await client.request("GET", "/healthz"))[0] == 200
            (connection,) = ours.server._listener.connections  # type: ignore[union-attr]  # it listens
            connection.close()
            connection.close()
            assert await client.ended() == b""

    run(main())
    assert not caplog.records


def test_who_waits_to_be_told_to_go_on_is_told(tmp_path: Path) -> None:
    body = json.dumps(configmap("a")).encode()
    head = (
        f"POST {CONFIGMAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
    )

    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            await client.say(head.encode())
            assert b"100 Continue" in await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), PATIENCE)
            await client.say(body)
            assert (await client.reply())[0] == 201

    asyncio.run(main())


@pytest.mark.parametrize("path", [CONFIGMAPS, "/healthz"])
def test_a_head_without_a_body_and_an_old_client_whose_connection_ends(tmp_path: Path, path: str) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            await client.say(f"HEAD {path} HTTP/1.0\r\n\r\n".encode())
            head, _, body = (await client.ended()).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 ")
            assert b"\r\nconnection: close" in head
            assert b"\r\ncontent-length: " in head
            assert body == b""

    asyncio.run(main())


def test_a_reader_that_does_not_read_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STALLED_SECONDS", 0.05)

    def ask(server: ApiServer) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", server.port))
        wrapped = trust(server, tmp_path, "admin").wrap_socket(connection, server_hostname="127.0.0.1")
        wrapped.sendall(f"GET {CONFIGMAPS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return wrapped

    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours:
            for number in range(20):
                await ours.call("POST", CONFIGMAPS, configmap(f"c{number}", k="x" * 900_000))
            with await asyncio.to_thread(ask, ours.server):
                connections = ours.server._listener.connections  # type: ignore[union-attr]  # it listens
                async with asyncio.timeout(PATIENCE):
                    while connections:
                        await asyncio.sleep(0.01)

    asyncio.run(main())


def test_what_a_peer_that_is_gone_held_is_free_at_once(tmp_path: Path) -> None:
    """Not when garbage is collected next, which a busy server does seldom: TLS alone holds a quarter of a megabyte."""

    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours:
            assert ours.server._listener is not None
            held: list[weakref.ref[HttpConnection]] = []
            for said in (b"", b"GET /healthz HT", f"GET {CONFIGMAPS}?watch=1 HTTP/1.1\r\n\r\n".encode()):
                async with peer(ours.server, tmp_path) as client:
                    assert (await client.request("GET", "/healthz"))[0] == 200
                    await client.say(said)
                    while said.endswith(b"\n") and not ours.server.app.watches:
                        await asyncio.sleep(0)
                    held += [weakref.ref(each) for each in ours.server._listener.connections]
            async with asyncio.timeout(PATIENCE):
                while any(each() is not None for each in held):
                    await asyncio.sleep(0.001)
            assert len(held) == 3

    gc.disable()
    try:
        uvloop.run(main())
    finally:
        gc.enable()


def test_a_stop_does_not_wait_for_half_a_request(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as client:
            await client.say(f"POST {CONFIGMAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{".encode())
            while not ours.server.app.requests:
                await asyncio.sleep(0)
            await ours.server.stop()
            assert await client.ended() == b""

    asyncio.run(main())


def test_a_stop_ends_watches_and_answers_what_is_under_way(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path / "data", port=0) as ours,
            peer(ours.server, tmp_path) as watcher,
            peer(ours.server, tmp_path) as writer,
        ):
            await watcher.say(f"GET {CONFIGMAPS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert b"200 OK" in await watcher.reader.readuntil(b"\r\n\r\n")
            body = json.dumps(configmap("a")).encode()
            written = asyncio.ensure_future(writer.request("POST", CONFIGMAPS, body))
            while not ours.server.app.requests:
                await asyncio.sleep(0)
            await ours.server.stop()
            assert (await written)[0] == 201
            assert (await watcher.ended()).endswith(b"0\r\n\r\n")  # ended, not broken off
        async with serving(tmp_path / "data") as again:
            assert (await again.call("GET", f"{CONFIGMAPS}/a")).status == 200

    asyncio.run(main())
