"""Peers that mean harm to one connection after the other, over plain sockets in the test's own event loop.

What a server in a process does to them over TLS is in ``test_hostile.py``. Here every test ends with a look at what is left: no task,
no open socket, no connection, no watch, no byte that waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.auth.token_file import digest_of
from allotment.apiserver.http import limits
from allotment.apiserver.http.connection import HttpConnection
from allotment.apiserver.http.listener import Listener
from allotment.apiserver.http.reply import Response
from allotment.apiserver.http.request import ClientGone, Request
from tests.apiserver.http.serving import CONFIGMAPS, PATIENCE, Serving, configmap, serving
from tests.apiserver.http.test_listener import Peer

SECRET = "sesame-open"
AUTH = f"Authorization: Bearer {SECRET}\r\n".encode()
HOST = b"Host: x\r\n"
REVIEW = b"/apis/authentication.k8s.io/v1/selfsubjectreviews"
WHO = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()


def get(path: str, headers: bytes = b"", method: str = "GET", version: str = "1.1") -> bytes:
    return f"{method} {path} HTTP/{version}\r\n".encode() + HOST + AUTH + headers + b"\r\n"


def post(path: str, body: bytes, headers: bytes = b"") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + HOST + AUTH + headers + b"\r\n" + body


def chunked(path: str, headers: bytes = AUTH) -> bytes:
    return f"POST {path} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n".encode() + HOST + headers + b"\r\n"


WATCH = get(f"{CONFIGMAPS}?watch=1")


class World:
    """A server that listens without TLS."""

    def __init__(self, ours: Serving, listening: Listener) -> None:
        self.ours, self.listener = ours, listening
        self.app = ours.server.app

    @asynccontextmanager
    async def peer(self) -> AsyncIterator[Peer]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port, limit=2**24)
        try:
            yield Peer(reader, writer)
        finally:
            writer.transport.abort()

    async def whole(self, said: bytes) -> bytes:
        """All that comes until the server ends the connection."""
        async with self.peer() as peer:
            await peer.say(said)
            return await peer.ended()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0)


def sockets() -> int:
    """That are open in this process."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one by which we look is gone by now
            found += os.readlink(each).startswith("socket:")
    return found


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    tokens = {digest_of(SECRET): ADMINISTRATOR}
    async with serving(folder / "data", tokens=tokens) as ours:
        open_before, tasks_before = sockets(), len(asyncio.all_tasks())
        listening = Listener(ours.server.app, "127.0.0.1", 0, None)
        await listening.start()
        found = World(ours, listening)
        yield found
        found.app.end_watches()
        await listening.stop(1.0)
        app = found.app
        await until(lambda: not listening.connections and not listening.tasks)
        await until(lambda: not (app.requests or app.watches or listening.unsent.total or app._bodies.total))
        await until(lambda: len(asyncio.all_tasks()) <= tasks_before and sockets() <= open_before)


def statuses(answers: bytes) -> list[int]:
    """Of replies one after the other, none of which is long."""
    found = []
    while answers:
        head, _, answers = answers.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        found.append(int(lines[0].split()[1]))
        length = next(int(line.split()[1]) for line in lines if line.startswith(b"content-length"))
        assert len(answers) >= length
        answers = answers[length:]
    return found


def run(folder: Path, attack: Callable[[World], Any]) -> None:
    async def main() -> None:
        async with world(folder) as found:
            await attack(found)

    asyncio.run(main())


# --- what is no request ---

NO_REQUEST = {
    "HTTP of the future": get("/healthz", version="2.0"),
    "HTTP of the past": b"GET /healthz\r\n\r\n",
    "a name of bytes": get("/healthz", b"\xff\xfe: x\r\n"),
    "a value with a zero": get("/healthz", b"X: a\0b\r\n"),
    "a folded value": get("/healthz", b"X: a\r\n b\r\n"),
    "a path of bytes": b"GET /\xc3\xa9 HTTP/1.1\r\n\r\n",
    "a length twice": get("/healthz", b"Content-Length: 0\r\nContent-Length: 0\r\n"),
    "a length with a sign": get("/healthz", b"Content-Length: +0\r\n"),
    "a list of lengths": get("/healthz", b"Content-Length: 0, 0\r\n"),
    "a length behind chunks": chunked("/healthz", b"Content-Length: 3\r\n") + b"0\r\n\r\n",
    "chunks twice": chunked("/healthz", b"Transfer-Encoding: chunked\r\n") + b"0\r\n\r\n",
    "chunks without a name": get("/healthz", b"Transfer-Encoding:\r\n"),
    "a body behind another protocol": post("/healthz", b"{}", b"Upgrade: h2c\r\nConnection: upgrade\r\n"),
    "chunks behind another protocol": chunked("/healthz", b"Upgrade: h2c\r\nConnection: upgrade\r\n"),
    "a tunnel": b"CONNECT other:443 HTTP/1.1\r\n\r\n",
}


def test_what_is_no_request_is_refused_in_words_and_ends_the_connection(tmp_path: Path) -> None:
    async def attack(world: World) -> None:
        for what, said in NO_REQUEST.items():
            answer = await world.whole(said + get("/healthz"))
            assert statuses(answer) == [400], what
            head, _, body = answer.partition(b"\r\n\r\n")
            assert b"connection: close" in head, what
            status = json.loads(body)
            assert (status["kind"], status["reason"], status["code"]) == ("Status", "BadRequest", 400)

    run(tmp_path, attack)


ENDLESS = {
    "a header's name": (get("/healthz")[:-2], b"x" * 4096),
    "a header's value": (get("/healthz")[:-2] + b"X: ", b"x" * 4096),
    "a path": (b"GET /", b"x" * 4096),
    "headers": (get("/healthz")[:-2], b"X: y\r\n" * 700),
    "lines before a request": (b"\r\n", b"\r\n" * 2048),
    "a chunk's extension": (chunked(CONFIGMAPS) + b"1;a=", b"x" * 4096),
    "a trailer's value": (chunked(CONFIGMAPS) + b"1\r\n{\r\n0\r\nX: ", b"x" * 4096),
    "trailers": (chunked(CONFIGMAPS) + b"1\r\n{\r\n0\r\n", b"X: y\r\n" * 700),
}


def test_what_never_ends_is_refused_when_it_is_too_much(tmp_path: Path) -> None:
    async def go_on(peer: Peer, start: bytes, more: bytes) -> tuple[bytes, int]:
        await peer.say(start)
        ended, said = asyncio.ensure_future(peer.ended()), 0
        async with asyncio.timeout(PATIENCE):
            while not ended.done():
                with contextlib.suppress(ConnectionError):
                    await peer.say(more)
                    said += len(more)
                await asyncio.sleep(0)
        return await ended, said

    async def attack(world: World) -> None:
        for what, (start, more) in ENDLESS.items():
            async with world.peer() as peer:
                answer, said = await go_on(peer, start, more)
                assert statuses(answer) in ([431], []), what  # it may come too late for who is cut off
                assert said < 16 * limits.MAX_HEADERS, what

    run(tmp_path, attack)


def test_a_trailer_is_no_header(tmp_path: Path) -> None:
    """Who goes through the headers in front of us does not see it."""
    body = b"Content-Type: application/json\r\n"

    async def attack(world: World) -> None:
        chunk = b"%x\r\n%b\r\n0\r\n" % (len(WHO), WHO)
        nobody = chunked(REVIEW.decode(), body) + chunk
        async with world.peer() as peer:
            await peer.say(nobody + AUTH + b"\r\n")
            assert (await peer.reply())[0] == 403
            await peer.say(chunked(REVIEW.decode(), body + AUTH) + chunk + b"Impersonate-User: eve\r\n\r\n")
            status, told = await peer.reply()
            assert (status, told["status"]["userInfo"]["username"]) == (201, ADMINISTRATOR.name)

    run(tmp_path, attack)


# --- one behind the other ---


def test_what_is_sent_at_once_is_answered_in_its_order(tmp_path: Path) -> None:
    async def attack(world: World) -> None:
        await world.ours.call("POST", CONFIGMAPS, configmap("large", k="x" * 900_000))
        paths = ["/healthz", f"{CONFIGMAPS}/large", "/nowhere", CONFIGMAPS, "/version"] * 10
        async with world.peer() as peer:
            await peer.say(b"".join(map(get, paths)))
            assert [(await peer.reply())[0] for _ in paths] == [200, 200, 404, 200, 200] * 10

    run(tmp_path, attack)


BEHIND = {
    "no request": (b"nonsense\r\n\r\n", 400),
    "a chunk that is none": (chunked(CONFIGMAPS) + b"zz\r\n", 400),
    "two lengths": (NO_REQUEST["a length twice"], 400),
    "too large a head": (get("/healthz", b"X: " + b"x" * 70_000 + b"\r\n"), 431),
}


def test_a_refusal_waits_for_its_turn(tmp_path: Path) -> None:
    """Else it would be taken for the answer to another request: a write that has happened would look refused."""

    async def attack(world: World) -> None:
        for what, (broken, status) in BEHIND.items():
            answers = await world.whole(get("/healthz") + get("/version") + broken)
            assert statuses(answers) == [200, 200, status], what

    run(tmp_path, attack)


def test_a_refusal_does_not_get_into_a_watch(tmp_path: Path) -> None:
    async def attack(world: World) -> None:
        async with world.peer() as peer:
            await peer.say(WATCH)
            await until(lambda: world.app.watches)
            await peer.say(b"nonsense\r\n\r\n" * 10_000)
            await world.ours.call("POST", CONFIGMAPS, configmap("a"))
            (connection,) = world.listener.connections
            await until(lambda: connection._refusal)
            world.app.end_watches()
            _, _, rest = (await peer.ended()).partition(b"\r\n\r\n")
            stream, _, refusal = rest.partition(b"\r\n0\r\n\r\n")
            assert b'"ADDED"' in stream
            assert statuses(refusal) == [400]

    run(tmp_path, attack)


def test_a_request_has_one_answer_even_if_it_turns_out_to_be_broken(tmp_path: Path) -> None:
    async def attack(world: World) -> None:
        async with world.peer() as peer:
            await peer.say(chunked("/healthz"))
            assert (await peer.reply())[0] == 405
            await peer.say(b"zz\r\n")
            assert await peer.ended() == b""

    run(tmp_path, attack)


def test_requests_behind_a_watch_are_not_piled_up(tmp_path: Path) -> None:
    async def attack(world: World) -> None:
        async with world.peer() as peer:
            await peer.say(WATCH + get("/healthz"))
            await until(lambda: world.app.watches)
            (connection,) = world.listener.connections
            peer.writer.write(get("/healthz") * 100_000)
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(connection._waiting) == 1

    run(tmp_path, attack)


def test_of_requests_at_once_only_so_many_are_taken(tmp_path: Path) -> None:
    async def attack(world: World) -> None:
        answers = statuses(await world.whole(get("/healthz") * 400))  # in one piece, or nearly
        assert answers[-1] == 400
        assert set(answers[:-1]) == {200}
        assert limits.MAX_PIPELINED <= len(answers[:-1]) < 400

    run(tmp_path, attack)


def test_who_gets_answers_may_have_more_requests_waiting_for_long(tmp_path: Path) -> None:
    """What ends a connection is that nothing moves, not that something always waits."""

    async def attack(world: World) -> None:
        async with world.peer() as peer:
            await peer.say(WATCH + get(f"{CONFIGMAPS}?watch=1") + WATCH)
            await until(lambda: world.app.watches)
            (connection,) = world.listener.connections
            await until(lambda: len(connection._waiting) == 2)
            before = connection._wait_timer
            assert before is not None
            for stream in world.app._streams:
                stream.end()
            await until(lambda: len(connection._waiting) == 1)
            assert before.cancelled()
            assert connection._wait_timer is not None
            await until(lambda: world.app._streams)
            for stream in world.app._streams:
                stream.end()
            await until(lambda: not connection._waiting)
            assert connection._wait_timer is None

    run(tmp_path, attack)


# --- other ways to speak HTTP ---


def test_who_asks_for_another_protocol_gets_one_answer_and_nothing_is_read_behind_it(tmp_path: Path) -> None:
    upgrade = get(
        "/version", b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AA\r\n"
    )

    async def attack(world: World) -> None:
        assert statuses(await world.whole(upgrade + get("/healthz"))) == [200]
        async with world.peer() as peer:
            await peer.say(upgrade)
            await until(lambda: world.app.requests or not world.listener.tasks)
            await peer.say(get(CONFIGMAPS, method="DELETE"))
            assert statuses(await peer.ended()) == [200]

    run(tmp_path, attack)


def test_a_body_that_is_not_wanted_is_not_asked_for(tmp_path: Path) -> None:
    head = b"Content-Length: 100000000\r\nExpect: 100-continue\r\nContent-Type: application/json\r\n"

    async def attack(world: World) -> None:
        answer = await world.whole(get(CONFIGMAPS, head, "POST"))
        assert statuses(answer) == [413]
        assert b"connection: close" in answer  # we cannot know whether the body comes now
        assert statuses(
            await world.whole(get("/healthz", b"Expect: 100-continue\r\nConnection: close\r\n"))
        ) == [200]

    run(tmp_path, attack)


def test_an_old_client_reads_a_watch_without_chunks(tmp_path: Path) -> None:
    async def attack(world: World) -> None:
        await world.ours.call("POST", CONFIGMAPS, configmap("a"))
        async with world.peer() as peer:
            await peer.say(get(f"{CONFIGMAPS}?watch=1", b"Connection: keep-alive\r\n", version="1.0"))
            await until(lambda: world.app.watches)
            world.app.end_watches()
            head, _, body = (await peer.ended()).partition(b"\r\n\r\n")
            assert b"transfer-encoding" not in head
            assert [json.loads(line)["object"]["metadata"]["name"] for line in body.splitlines()] == ["a"]

    run(tmp_path, attack)


PATHS = ["/", "/healthz", "/version", "/metrics", "/api", "/apis", "/openapi/v3", CONFIGMAPS, "/nowhere", "*"]


def test_a_head_has_no_body_whatever_it_asks_for(tmp_path: Path) -> None:
    async def attack(world: World) -> None:
        async with world.peer() as peer:
            for path in [*PATHS, f"{CONFIGMAPS}/a", f"{CONFIGMAPS}?watch=1"]:
                await peer.say(get(path, method="HEAD"))
                head = await asyncio.wait_for(peer.reader.readuntil(b"\r\n\r\n"), PATIENCE)
                assert head.startswith(b"HTTP/1.1 ")
            await peer.say(get("/healthz"))
            assert await peer.reply() == (200, "ok")  # and not what a HEAD has left behind

    run(tmp_path, attack)


TARGETS = {
    "http://else/healthz": 200,
    "http://user:word@else:1/healthz?verbose=1": 200,
    "http://else": 404,
    "*": 404,
    "//healthz": 404,
    "/healthz#part": 200,
    f"{CONFIGMAPS}/%252e%252e%252fa": 404,
    f"{CONFIGMAPS}/a%2fstatus%2f": 404,
    f"{CONFIGMAPS}/%00": 404,
    f"{CONFIGMAPS}/%c0%af": 404,
    f"{CONFIGMAPS}/%ed%a0%80": 404,
    f"{CONFIGMAPS}/%": 404,
    f"{CONFIGMAPS}/" + "%41" * 20_000: 404,
    f"{CONFIGMAPS}?%ff=1": 400,
}


def test_strange_targets_are_answered(tmp_path: Path) -> None:
    async def attack(world: World) -> None:
        async with world.peer() as peer:
            found = {}
            for target in TARGETS:
                await peer.say(get(target))
                found[target] = (await peer.reply())[0]
            assert found == TARGETS

    run(tmp_path, attack)


def test_of_two_who_a_request_says_it_is_from_the_first_counts(tmp_path: Path) -> None:
    async def attack(world: World) -> None:
        wrong = b"Authorization: Bearer nobodys\r\n"
        async with world.peer() as peer:
            await peer.say(get(CONFIGMAPS, wrong + b"Host: y\r\n"))
            assert (await peer.reply())[0] == 200
            await peer.say(b"GET %b HTTP/1.1\r\n%b%b\r\n" % (CONFIGMAPS.encode(), wrong, AUTH))
            assert (await peer.reply())[0] == 401

    run(tmp_path, attack)


# --- who leaves ---


LEFT = {
    "nothing": b"",
    "a watch": WATCH,
    "a large list": get(CONFIGMAPS),
    "half a body": post(CONFIGMAPS, b"{}")[:-1],
    "half a head": WATCH[:-1],
}


@pytest.mark.parametrize("reset", [True, False], ids=["by a reset", "by half"])
def test_who_leaves_leaves_nothing_behind(tmp_path: Path, reset: bool) -> None:
    def leave(leaver: socket.socket) -> None:
        if reset:
            leaver.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            leaver.close()
        else:
            leaver.shutdown(socket.SHUT_WR)

    async def attack(world: World) -> None:
        for number in range(4):
            await world.ours.call("POST", CONFIGMAPS, configmap(f"c{number}", k="x" * 900_000))
        for said in LEFT.values():
            for turns in (0, 1, 5, 20):
                with socket.create_connection(("127.0.0.1", world.listener.port)) as leaver:
                    leaver.sendall(said)
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    leave(leaver)
                    await until(lambda: not world.listener.connections)

    run(tmp_path, attack)


def test_readers_who_do_not_read_hold_little_and_nobody_up(tmp_path: Path) -> None:
    """A watch of large objects has no more of them in hand than it is sending."""

    async def attack(world: World) -> None:
        for number in range(30):
            await world.ours.call("POST", CONFIGMAPS, configmap(f"c{number}", k="x" * 900_000))
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(20):
                lazy = stack.enter_context(socket.socket())
                lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                lazy.connect(("127.0.0.1", world.listener.port))
                lazy.sendall(WATCH)
            await until(lambda: world.app.watches == 20)
            await until(lambda: all(each.writable for each in world.listener.connections))
            peer = await stack.enter_async_context(world.peer())
            await peer.say(get(f"{CONFIGMAPS}/c0"))
            assert (await peer.reply())[0] == 200
            for each in list(world.listener.connections):
                assert each.transport.get_write_buffer_size() <= 2 * limits.WRITE_PIECE_BYTES

    run(tmp_path, attack)


def test_of_readers_who_leave_too_much_unread_the_largest_are_closed_and_the_others_kept(
    tmp_path: Path,
) -> None:
    async def attack(world: World) -> None:
        for name, size in (("small", 500_000), ("large", 900_000)):
            await world.ours.call("POST", CONFIGMAPS, configmap(name, k="x" * size))
        most = world.listener.unsent.most_each = 3_000_000
        async with contextlib.AsyncExitStack() as stack:

            def lazy(name: str) -> None:
                peer = stack.enter_context(socket.socket())
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                peer.connect(("127.0.0.1", world.listener.port))
                peer.sendall(get(f"{CONFIGMAPS}?watch=1&fieldSelector=metadata.name={name}"))

            def stalled() -> int:
                return len(world.listener.unsent._owned.get(ADMINISTRATOR.name, ()))

            for number in range(1, 4):
                lazy("small")
                while stalled() < number:
                    await asyncio.sleep(0)
            small = set(world.listener.connections)
            for _ in range(6):
                lazy("large")
            await until(lambda: len(world.listener.connections) < 9 and world.app._metrics.closed_streams)
            await until(lambda: world.app.watches == len(world.listener.connections))
            assert world.listener.unsent.total <= most
            assert small <= world.listener.connections
            peer = await stack.enter_async_context(world.peer())
            await peer.say(get(f"{CONFIGMAPS}/large"))
            assert (await peer.reply())[0] == 200
            text = (await world.ours.call("GET", "/metrics")).body
            assert b"allotment_streams_closed_total" in text
            assert b"allotment_unsent_bytes" in text

    run(tmp_path, attack)


def test_of_too_many_connections_who_has_most_loses_one_and_whoever_comes_gets_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 4)

    async def attack(world: World) -> None:
        async with contextlib.AsyncExitStack() as stack:
            ours = await stack.enter_async_context(world.peer())
            await ours.say(get("/healthz"))
            assert (await ours.reply())[0] == 200  # and it is known whose it is
            nobodys = [await stack.enter_async_context(world.peer()) for _ in range(3)]
            await nobodys[0].say(b"GET /healthz HT")  # busy: the others are less missed
            await until(lambda: sum(each._arriving for each in world.listener.connections) == 1)
            await until(lambda: len(world.listener.connections) == 4)
            late = await stack.enter_async_context(world.peer())
            await late.say(get("/healthz"))
            assert (await late.reply())[0] == 200
            assert await nobodys[1].ended() == b""
            assert len(world.listener.connections) == 4
            await ours.say(get("/healthz"))
            assert (await ours.reply())[0] == 200

    run(tmp_path, attack)


# --- TLS ---


def test_a_handshake_that_does_not_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HANDSHAKE_SECONDS", 0.05)

    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours:
            reader, writer = await asyncio.open_connection("127.0.0.1", ours.server.port)
            writer.write(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a ClientHello
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
            writer.transport.abort()

    asyncio.run(main())


def test_a_handshake_that_ends_after_the_stop_leads_nowhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours:
            server = ours.server
            authority = server.certificates.authority.certificate.decode()
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            listening = server._listener
            assert listening is not None
            await asyncio.sleep(0)
            await server.stop()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.start_tls(
                    ssl.create_default_context(cadata=authority), server_hostname="127.0.0.1"
                )
                writer.write(get("/healthz"))
                assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
            assert not listening.connections
            writer.transport.abort()

    asyncio.run(main())


# --- the stop ---


def test_a_watch_that_begins_while_the_server_stops_ends_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as found, found.peer() as peer:
            await peer.say(WATCH)
            await until(lambda: found.listener.tasks)
            assert not found.app.watches  # it has arrived and not begun
            found.app.end_watches()
            async with asyncio.timeout(PATIENCE):
                await found.listener.stop(2 * PATIENCE)
            assert (await peer.ended()).endswith(b"\r\n0\r\n\r\n")

    asyncio.run(main())


def test_a_stop_answers_what_has_begun_and_begins_nothing(tmp_path: Path) -> None:
    writes = [post(CONFIGMAPS, json.dumps(configmap(name)).encode()) for name in ("a", "b")]

    async def main() -> None:
        async with world(tmp_path) as found, found.peer() as peer:
            await peer.say(b"".join(writes) + get("/healthz")[:-1])
            await until(lambda: found.app.requests)
            await found.listener.stop()
            assert statuses(await peer.ended()) == [201]
            kept = (await found.ours.call("GET", CONFIGMAPS)).json["items"]
            assert "b" not in [each["metadata"]["name"] for each in kept]

    asyncio.run(main())


def test_a_stop_does_not_wait_longer_than_it_may_for_who_does_not_read(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as found:
            for number in range(20):
                await found.ours.call("POST", CONFIGMAPS, configmap(f"c{number}", k="x" * 900_000))
            with socket.create_connection(("127.0.0.1", found.listener.port)) as lazy:
                lazy.sendall(get(CONFIGMAPS))
                await until(lambda: any(each.writable for each in found.listener.connections))
                await found.listener.stop(0.05)
                assert not found.listener.tasks
                await until(lambda: not found.listener.connections)

    asyncio.run(main())


# --- what is written down ---


def test_secrets_are_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)

    async def attack(world: World) -> None:
        async with world.peer() as peer:
            for path in (f"{CONFIGMAPS}?token={SECRET}", f"/nowhere?{SECRET}", "/healthz"):
                await peer.say(get(path))
                await peer.reply()
            monkeypatch.setattr(world.app._paths, "find", lambda request: 1 / 0)  # a bug of ours
            await peer.say(get(f"/version?access_token={SECRET}"))
            assert (await peer.reply())[0] == 500
        await world.whole(get(f"/?{SECRET}") + b"Authorization: " + SECRET.encode() + b"\0\r\n\r\n")

    run(tmp_path, attack)
    assert "ZeroDivisionError" in caplog.text
    assert SECRET not in caplog.text
    assert not [record for record in caplog.records if SECRET in str(vars(record))]


def test_what_a_path_says_becomes_no_metric(tmp_path: Path) -> None:
    """Else each invented path would be kept for good."""
    reviews = REVIEW.decode()

    async def attack(world: World) -> None:
        for path in (f"{CONFIGMAPS}/a/invented", f"{reviews}/a/invented", "/apis/invented/v1/invented"):
            assert (await world.ours.call("POST", path, json.loads(WHO))).status in (404, 405)
        assert b"invented" not in (await world.ours.call("GET", "/metrics")).body

    run(tmp_path, attack)


# --- pieces ---


class _Wire(asyncio.Transport):
    """Takes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """It never says that it has had enough."""

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        """There is no more than was given."""

    resume_reading = pause_reading

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """It tells nobody anything."""


class _Echo:
    """Answers with what it was asked."""

    async def answer(self, request: Request, send: Callable[[Response], Any]) -> None:
        with contextlib.suppress(ClientGone):
            body = await request.body()
            heard = {
                "path": request.path,
                "headers": len(list(request.headers)),
                "body": body.decode("latin-1"),
            }
            await send(Response.of({"method": request.method, **heard}))


async def echoed(pieces: list[bytes]) -> bytes:
    app: Any = _Echo()
    listening = Listener(app, "", 0, None)
    wire = _Wire()
    connection = HttpConnection(listening, asyncio.get_running_loop())
    connection.connection_made(wire)
    for piece in pieces:
        connection.received(piece)
    while listening.tasks and not wire.closed:
        before = len(wire.written)
        for _ in range(5):
            await asyncio.sleep(0)
        if len(wire.written) == before:
            break  # it waits for more
    connection.connection_lost(None)
    await until(lambda: not listening.tasks)
    return bytes(wire.written)


SAID = st.lists(
    st.sampled_from(
        [
            get("/a"),
            get("/b%20c?d=e", b"X: " + b"y" * 300 + b"\r\n"),
            get("/c", method="HEAD"),
            get("/d", b"Connection: close\r\n"),
            get("/e", version="1.0"),
            get("/f", b"Upgrade: h2c\r\nConnection: upgrade\r\n"),
            post("/g", b"GET /smuggled HTTP/1.1\r\n\r\n"),
            chunked("/h") + b"3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nTrailer: t\r\n\r\n",
            chunked("/i") + b"3\r\nabcd\r\n",
            b"\r\n",
            b"nonsense\r\n\r\n",
            *NO_REQUEST.values(),
        ]
    ),
    min_size=1,
    max_size=5,
).map(b"".join)


@given(said=SAID, cuts=st.lists(st.integers(0, 1500), max_size=6))
@example(said=get("/a") + b"nonsense\r\n\r\n", cuts=[10])
def test_how_bytes_are_cut_into_pieces_changes_nothing(said: bytes, cuts: list[int]) -> None:
    async def main() -> None:
        edges = [0, *sorted(cut % (len(said) + 1) for cut in cuts), len(said)]
        pieces = [said[start:end] for start, end in pairwise(edges)]
        whole = await echoed([said])
        assert await echoed(pieces) == whole
        assert await echoed([bytes([each]) for each in said]) == whole
        assert b"smuggled HTTP" not in whole.replace(b'GET /smuggled HTTP/1.1\\r\\n\\r\\n"', b"")

    asyncio.run(main())


def test_peers_that_send_in_turns_into_one_buffer_do_not_hear_each_other(tmp_path: Path) -> None:
    """All connections read into the same memory."""

    async def attack(world: World) -> None:
        async with world.peer() as one, world.peer() as two:
            sent = [
                (peer, post(CONFIGMAPS, json.dumps(configmap(name)).encode()))
                for peer, name in ((one, "one"), (two, "two"))
            ]
            for part in (slice(0, 9), slice(9, 60), slice(60, -5), slice(-5, None)):
                for peer, said in sent:
                    await peer.say(said[part])
                    await asyncio.sleep(0)
            for peer, name in ((one, "one"), (two, "two")):
                status, told = await peer.reply()
                assert (status, told["metadata"]["name"]) == (201, name)

    run(tmp_path, attack)
