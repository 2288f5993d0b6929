"""Hostile peers: whatever they send or leave unread, they are refused or cut off, and the server goes on within its memory.

The server is a process (``allot up``), the peers are raw TLS sockets. After each test it must still answer, must have logged no
surprise, and must not have grown by more than a bound.
"""

from __future__ import annotations

import asyncio
import datetime
import gzip
import json
import resource
import socket
import ssl
import struct
import warnings
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from allotment.apiserver.http import limits
from allotment.apiserver.http.priority import LEVELS, WORKLOAD
from allotment.apiserver.http.seats import Seats
from tests.apiserver.http.hostility import CONFIGMAPS, PATIENCE, Answer, Peer, Target, request
from tests.apiserver.http.serving import person, serving
from tests.apiserver.http.test_listener import peer
from tests.apiserver.killing import ready, up
from tests.corpus import unavailable
from tests.kubernetes.certificates import Authority

MIB = 1024 * 1024
GROWTH = 150 * MIB
"""From the start on, over all tests."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("hostile") / "data"
    with up(folder) as process:
        ready(process, folder)
        yield Target(process, folder)


@pytest.fixture
def target(server: Target) -> Iterator[Target]:
    yield server
    server.validate()
    server.shrinks_below(server.at_first + GROWTH)


def post(target: Target, body: bytes, content_type: str = "application/json", more: str = "") -> Answer:
    return target.ask("POST", CONFIGMAPS, body, f"Content-Type: {content_type}\r\n{more}")


HEAD = b"POST " + CONFIGMAPS.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

BROKEN = {
    "two different lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n",
    "a length that is no number": HEAD + b"Content-Length: 0x10\r\n\r\n{}",
    "a length beyond all numbers": HEAD + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
    "a length and chunks": HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks twice": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "compressed chunks": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a tunnel": b"CONNECT other:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes in the path": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "no path": b"GET ?x=1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "an address that is none": b"GET http://[::x/readyz HTTP/1.1\r\nHost: x\r\n\r\n",
    "chunks of no number": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a chunk of a negative size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
    "a chunk longer than said": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}{}{}{}\r\n0\r\n\r\n",
    "a chunk of a huge size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    "a name with a blank": b"GET /readyz HTTP/1.1\r\nHost : x\r\n\r\n",
    "a folded header": b"GET /readyz HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
    "a bare return": b"GET /readyz HTTP/1.1\r\nHost: x\rX: y\r\n\r\n",
    "a zero in a header": b"GET /readyz HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n",
    "a zero in the path": b"GET /read\0yz HTTP/1.1\r\nHost: x\r\n\r\n",
    "another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a method nobody knows": b"FROB /readyz HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes": bytes(range(256)) * 16,
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_no_proper_http_gets_400_or_nothing(target: Target, what: str) -> None:
    with target.peer() as peer:
        peer.say(BROKEN[what])
        assert peer.answer().status in (0, 400)
        assert peer.closed()


def test_a_second_request_cannot_be_smuggled_in_a_body(target: Target) -> None:
    inner = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
    smuggled = (
        b"POST /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        % 5
    )
    with target.peer() as peer:
        peer.say(smuggled + inner)
        assert peer.answer().status in (0, 400)
        assert peer.answer().status == 0


BODIES = {
    "levels without end": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 400),
    "brackets without end": (b"[" * 2_000_000, 400),
    "a number without end": (b'{"metadata":{"name":"a","generation":' + b"9" * 1_000_000 + b"}}", 400),
    "an exponent without end": (b'{"metadata":{"name":"a","generation":1e999999999}}', 400),
    "bytes that are no text": (b'{"metadata":{"name":"\xff\xfe\x80"}}', 400),
    "half a surrogate": (b'{"metadata":{"name":"ok-1"},"data":{"k":"\\ud800"}}', 400),
    "a name of a megabyte": (json.dumps({"metadata": {"name": "a" * MIB}}).encode(), 422),
    "a name that leads elsewhere": (b'{"metadata":{"name":"../../etc/passwd"}}', 422),
    "a name with a zero": (b'{"metadata":{"name":"a\\u0000b"}}', 422),
    "a namespace that leads elsewhere": (b'{"metadata":{"name":"a","namespace":"../kube-system"}}', 400),
    "20,000 labels of the wrong kind": (
        json.dumps({"metadata": {"name": "a", "labels": {f"-{n}": "" for n in range(20_000)}}}).encode(),
        422,
    ),
    "half an object": (b'{"metadata":{"name":"a"', 400),
    "nothing": (b"", 400),
}


@pytest.mark.parametrize("what", BODIES)
def test_hostile_json_is_refused(target: Target, what: str) -> None:
    body, status = BODIES[what]
    answer = post(target, body)
    assert answer.status == status, answer.body[:300]
    assert len(answer.body) < 5 * max(len(body), 100_000)
    assert json.loads(answer.body)["kind"] == "Status"


def test_of_a_key_that_stands_twice_the_last_counts_and_strict_validation_refuses_it(target: Target) -> None:
    body = b'{"metadata":{"name":"twice"},"data":{"k":"1"},"data":{"k":"2"}}'
    strict = target.ask("POST", CONFIGMAPS + "?fieldValidation=Strict&dryRun=All", body)
    assert (strict.status, b"duplicate field" in strict.body) == (400, True)
    loose = target.ask("POST", CONFIGMAPS + "?dryRun=All", body)
    assert json.loads(loose.body)["data"] == {"k": "2"}


YAML = {
    "laughter": b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(98, 112)),
    "depth": b"[" * 100_000,
    "flow without end": b"{" * 100_000 + b"a",
    "dashes without end": b"- " * 100_000,
    "an object of Python": b"!!python/object/apply:os.system ['true']",
    "itself": b"&a [*a]",
    "binary": b"\x00\x01\x02",
}


@pytest.mark.parametrize("what", YAML)
@pytest.mark.parametrize("way", ["create", "apply"])
def test_hostile_yaml_is_refused(target: Target, what: str, way: str) -> None:
    if way == "create":
        answer = post(target, YAML[what], "application/yaml")
    else:
        path = f"{CONFIGMAPS}/a?fieldManager=m"
        answer = target.ask("PATCH", path, YAML[what], "Content-Type: application/apply-patch+yaml\r\n")
    assert 400 <= answer.status < 500, answer.body[:300]


def deep_protobuf(levels: int) -> bytes:
    data = b""
    for _ in range(levels):
        data = b"\x0a" + _varint(len(data)) + data
    return data


def _varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


ENVELOPE = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12"
PROTOBUF = {
    "no magic": b"\x0a\x02v1",
    "only magic": b"k8s\0",
    "a length beyond the end": ENVELOPE + b"\xff\xff\xff\xff\x0f" + b"x",
    "a number without end": b"k8s\0" + b"\xff" * 1000,
    "groups": b"k8s\0\x0b\x0c",
    "field zero": b"k8s\0\x00\x00",
    "depth": ENVELOPE + (lambda d: _varint(len(d)) + d)(deep_protobuf(5000)),
    "a type nobody knows": b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Foo\x12\x00",
    "many empty fields": ENVELOPE + _varint(2 * MIB) + b"\x12\x00" * MIB,
}


@pytest.mark.parametrize("what", PROTOBUF)
def test_hostile_protobuf_is_refused(target: Target, what: str) -> None:
    answer = post(target, PROTOBUF[what], "application/vnd.kubernetes.protobuf")
    assert 400 <= answer.status < 500, answer.body[:300]


def test_compressed_bodies_are_not_taken(target: Target) -> None:
    bomb = gzip.compress(b"\0" * (100 * MIB))
    answer = post(target, bomb, more="Content-Encoding: gzip\r\n")
    assert answer.status in (400, 415)


PATHS = {
    "/api/v1/namespaces/default/configmaps/..": (400, 404),
    "/api/v1/namespaces/default/configmaps/%2e%2e": (404,),
    "/api/v1/namespaces/default/../kube-system/configmaps": (404,),
    "/api/v1/namespaces/%2e%2e/configmaps/x": (404,),
    "/api/v1/namespaces/default/configmaps/..%2f..%2fetc%2fpasswd": (404,),
    "/api/v1/namespaces/default%2fkube-system/configmaps/x": (404,),
    "/api/v1/namespaces/default/configmaps/%00": (404,),
    "/api/v1/namespaces/default/configmaps/%ff%fe": (404,),
    "/api/v1/namespaces/default/configmaps/%zz": (400, 404),
    "/%2e%2e/%2e%2e/etc/passwd": (404,),
    "/openapi/v3/../../etc/passwd": (404,),
    "/openapi/v3/%2e%2e%2f%2e%2e%2fetc%2fpasswd": (404,),
    "//api/v1/namespaces": (404,),
    "/api/v1/": (200, 404),
    "/readyz/../version": (404,),
    "/" + "a/" * 10_000: (404,),
    CONFIGMAPS + "/" + "a" * 30_000: (404,),
    CONFIGMAPS + "?" + "a=b&" * 10_000: (400,),
    CONFIGMAPS + "?labelSelector=" + "a," * 10_000: (200, 400),
    CONFIGMAPS + "?labelSelector=" + "(" * 10_000: (400,),
    CONFIGMAPS + "?labelSelector=a%20in%20(" + "b," * 10_000 + "c)": (200, 400),
    CONFIGMAPS + "?fieldSelector=" + "metadata.name%3d%3d" * 1000: (400,),
    CONFIGMAPS + "?limit=" + "9" * 1000: (400,),
    CONFIGMAPS + "?limit=-5": (200,),
    CONFIGMAPS + "?resourceVersion=" + "9" * 1000: (400,),
    CONFIGMAPS + "?resourceVersion=9223372036854775807": (504,),
    CONFIGMAPS + "?resourceVersion=%ff": (400,),
    CONFIGMAPS + "?continue=" + "A" * 10_000: (400,),
    CONFIGMAPS + "?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi9hIn0": (400,),
    CONFIGMAPS + "?watch=1&timeoutSeconds=" + "9" * 100: (400,),
    CONFIGMAPS + "?fieldManager=" + "a" * 1000 + "&dryRun=Some": (200,),
}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:60])
def test_absurd_paths_and_queries_are_answered_in_words(target: Target, path: str) -> None:
    answer = target.ask("GET", path)
    assert answer.status in PATHS[path], answer.body[:300]


def test_a_body_over_the_limit_is_refused_before_it_is_sent(target: Target) -> None:
    with target.peer() as peer:
        peer.say(HEAD + b"Content-Length: 1000000000\r\n\r\n{")
        answer = peer.answer()
        assert answer.status == 413


def test_chunks_over_the_limit_are_refused_while_they_come(target: Target) -> None:
    before = target.memory()
    with target.peer() as peer:
        peer.say(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(64):
            peer.say(b"40000\r\n" + b" " * 0x40000 + b"\r\n")
        assert peer.answer().status in (0, 413)
    assert target.memory() - before < 40 * MIB


@pytest.mark.parametrize("part", [0.0, 0.1, 0.3, 0.5, 0.9, 0.99])
def test_clients_that_leave_in_the_middle(target: Target, part: float) -> None:
    """Of the head, of the body, before the answer, or in the middle of a watch; by a reset as well as properly."""
    body = json.dumps({"metadata": {"generateName": "left-"}, "data": {"k": "x" * 1000}}).encode()
    whole = request("POST", CONFIGMAPS, body, "Content-Type: application/json\r\n")
    watch = request("GET", CONFIGMAPS + "?watch=1")
    for number in range(20):
        with target.peer() as peer:
            peer.say((whole if number % 2 else watch)[: int(len(whole) * part) or None])
            if number % 4 == 1:
                linger = struct.pack("ii", 1, 0)  # the end is a reset
                peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    assert target.ask("GET", CONFIGMAPS + "?limit=1").status == 200


def test_2000_connections_at_once_are_served(target: Target) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 5000:
        unavailable(f"a limit of 5,000 open files (it is {hard})")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 5000), hard))
    with ExitStack() as stack:
        peers: list[Peer] = []
        for _ in range(2000):
            session = peers[0].socket.session if peers else None
            peers.append(stack.enter_context(target.peer(session=session)))
            assert peers[-1].ask("GET", "/readyz").status == 200
        for peer in peers:
            peer.say(request("GET", "/livez"))
        assert {peer.answer().status for peer in peers} == {200}
        watching = peers[:500]
        for peer in watching:
            peer.say(request("GET", CONFIGMAPS + "?watch=1&resourceVersion=0"))
        assert target.ask("GET", CONFIGMAPS).status == 200


def test_readers_that_never_read_a_big_list_do_not_cost_memory_without_end(target: Target) -> None:
    for number in range(12):
        target.create(f"big-{number}", 900_000)
    before = target.memory()
    with ExitStack() as stack:
        peers = [stack.enter_context(target.peer(receive_buffer=4096)) for _ in range(100)]
        for peer in peers:
            peer.say(request("GET", CONFIGMAPS))
        for _ in range(30):
            assert target.ask("GET", "/readyz").status == 200
            assert target.memory() - before < 150 * MIB
        listed = target.ask("GET", CONFIGMAPS)  # others are none the worse for it
        assert listed.status == 200
        assert len(json.loads(listed.body)["items"]) >= 12
    assert target.ask("DELETE", CONFIGMAPS).status == 200


def test_readers_that_never_read_a_busy_watch_are_closed(target: Target) -> None:
    before = target.memory()
    with ExitStack() as stack:
        peers = [stack.enter_context(target.peer(receive_buffer=4096)) for _ in range(20)]
        for peer in peers:
            peer.say(request("GET", CONFIGMAPS + "?watch=1"))
        writer = stack.enter_context(target.peer())
        for number in range(30):
            obj = {"metadata": {"name": f"busy-{number}"}, "data": {"k": "x" * 900_000}}
            assert writer.ask("POST", CONFIGMAPS, json.dumps(obj).encode()).status == 201
            assert target.memory() - before < 300 * MIB
    assert target.ask("DELETE", CONFIGMAPS).status == 200


@pytest.mark.parametrize("start", [b"GET /readyz HTTP/1.1\r\nX: ", HEAD + b"Content-Length: 100000\r\n\r\n"])
def test_a_request_that_trickles_in_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    """What counts is when all of it is there, not when the last byte came."""
    monkeypatch.setattr(limits, "REQUEST_SECONDS", 0.2)

    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as slow:
            await slow.say(start)
            gone = asyncio.ensure_future(slow.ended())
            async with asyncio.timeout(PATIENCE):
                while not gone.done():
                    with suppress(ConnectionError):
                        await slow.say(b"x")
                    await asyncio.wait([gone], timeout=0.01)
            assert ours.server.app.requests == 0

    asyncio.run(main())


def test_a_body_that_has_not_come_takes_no_seat(tmp_path: Path) -> None:
    """Half requests, however many, keep nobody waiting: a request takes its seat when all of it is there."""

    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, AsyncExitStack() as stack:
            app = ours.server.app
            level = replace(WORKLOAD, seats=1, flow_queue=1, queue=1)
            app.seats = Seats(app._metrics, [level if each is WORKLOAD else each for each in LEVELS])
            jane = await person(ours, "jane")
            many = [await stack.enter_async_context(peer(ours.server, tmp_path, jane, ())) for _ in range(6)]
            bodies = [json.dumps({"metadata": {"name": f"slow-{number}"}}).encode() for number in range(5)]
            for each, body in zip(many, bodies, strict=False):
                await each.say(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body[:5])
            async with asyncio.timeout(PATIENCE):
                while app.requests < 5:
                    await asyncio.sleep(0)
            assert app.seats.queues["workload"].seated == 0
            assert (await many[5].request("GET", CONFIGMAPS))[0] == 200
            assert [(await many[5].request("GET", path))[0] for path in ("/readyz", "/livez")] == [200, 200]
            for each, body in zip(many, bodies, strict=False):
                await each.say(body[5:])
                assert (await each.reply())[0] == 201

    asyncio.run(main())


def test_bodies_may_not_hold_too_much_of_one_user(tmp_path: Path) -> None:
    """Who holds more is told to come back, and nobody else."""

    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, AsyncExitStack() as stack:
            app = ours.server.app
            app._bodies.most_each = 150_000
            names = [await person(ours, name) for name in ("jane", "john")]
            jane = [
                await stack.enter_async_context(peer(ours.server, tmp_path, names[0], ())) for _ in range(2)
            ]
            john = await stack.enter_async_context(peer(ours.server, tmp_path, names[1], ()))
            for each in (jane[0], john):
                await each.say(HEAD + b"Content-Length: 100001\r\n\r\n" + b" " * 100_000)
            async with asyncio.timeout(PATIENCE):
                while app._bodies.total < 200_000:
                    await asyncio.sleep(0)
            body = b" " * 100_000
            status, told = await jane[1].request("POST", CONFIGMAPS, body)
            assert (status, told["details"]["retryAfterSeconds"]) == (429, 1)
            for each in (jane[0], john):
                await each.say(b" ")
                assert (await each.reply())[0] == 400
            assert app._bodies.total == 0
            assert (await jane[1].request("GET", CONFIGMAPS))[0] == 200

    asyncio.run(main())


def test_a_body_that_dribbles_is_cut_off_by_its_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.1)
    monkeypatch.setattr(limits, "BODY_RATE", 10_000)

    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours, peer(ours.server, tmp_path) as slow:
            await slow.say(HEAD + b"Content-Length: 1000000\r\n\r\n")
            gone = asyncio.ensure_future(slow.ended())
            async with asyncio.timeout(PATIENCE):
                while not gone.done():
                    with suppress(ConnectionError):
                        await slow.say(b"x")
                    await asyncio.wait([gone], timeout=0.02)
            answer = await gone
            assert answer[:12] == b"HTTP/1.1 408"
            assert b"the request's body came too slowly" in answer
            assert ours.server.app.requests == 0

    asyncio.run(main())


def test_a_client_that_leaves_while_its_write_is_on_its_way_costs_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours:
            for number in range(30):
                body = json.dumps({"metadata": {"name": f"c-{number}"}}).encode()
                async with peer(ours.server, tmp_path) as client:
                    await client.say(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                    for _ in range(number):
                        await asyncio.sleep(0)
            async with asyncio.timeout(PATIENCE):
                while ours.server.app.requests:
                    await asyncio.sleep(0)
            kept = (await ours.call("GET", CONFIGMAPS)).json["items"]
            assert all(each["metadata"]["uid"] for each in kept)  # whole, or not there
            assert ours.server.app._bodies_of_exempt.total == 0

    asyncio.run(main())


def test_a_request_sent_behind_a_watch_does_not_keep_it_after_the_client_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STALLED_SECONDS", 0.1)

    async def main() -> None:
        async with serving(tmp_path / "data", port=0) as ours:
            app = ours.server.app
            async with peer(ours.server, tmp_path) as client:
                await client.say(request("GET", CONFIGMAPS + "?watch=1") + request("GET", "/readyz"))
                async with asyncio.timeout(PATIENCE):
                    while not app.watches:
                        await asyncio.sleep(0)
            async with asyncio.timeout(PATIENCE):
                while app.watches:
                    await asyncio.sleep(0)

    asyncio.run(main())


def test_nobody_without_tls_gets_a_word(target: Target) -> None:
    with socket.create_connection(target.address, timeout=30) as plain:
        plain.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        with suppress(ConnectionError):
            assert not plain.recv(1000).startswith(b"HTTP/1.1 200")


TOKENS = {
    "a signature by nobody": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeXN0ZW06YWRtaW4ifQ.",
    "lists in place of claims": "W1tb.W1tb.AAAA",
    "dots without end": "a." * 20_000,
    "bytes": "\xff\xfe",
    "nothing": "",
}


@pytest.mark.parametrize("what", TOKENS)
def test_tokens_that_prove_nothing_are_refused(target: Target, what: str) -> None:
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname, nobody.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(target.address, timeout=30) as plain, nobody.wrap_socket(plain) as tls:
        peer = Peer(tls)
        answer = peer.ask("GET", CONFIGMAPS, headers=f"Authorization: Bearer {TOKENS[what]}\r\n")
        assert answer.status in ((401, 403) if what == "nothing" else (401,)), answer.body[:300]


def test_a_certificate_of_another_authority_proves_nothing(target: Target, tmp_path: Path) -> None:
    pair = Authority(tmp_path, datetime.datetime.now(datetime.UTC)).client("admin", ["system:masters"])
    impostor = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    impostor.check_hostname, impostor.verify_mode = False, ssl.CERT_NONE
    impostor.load_cert_chain(pair.certificate, pair.key)
    with (
        socket.create_connection(target.address, timeout=30) as plain,
        suppress(ssl.SSLError, ConnectionError),
        impostor.wrap_socket(plain) as tls,
    ):
        assert Peer(tls).ask("GET", CONFIGMAPS).status in (0, 401, 403)


def test_old_tls_is_refused(target: Target) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that it is old is the point
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(target.address, timeout=30) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(plain)
