"""What a crowd of hostile peers costs: memory under watches that nobody reads, and how long an administrator waits meanwhile.

    python benchmarks/hostile_peers.py stalled [--peers 400] [--objects 8000] [--bytes 2000]
    python benchmarks/hostile_peers.py flood   [--peers 700] [--seconds 10]

``stalled``: so many peers ask for a watch of all objects, first state included, and read none of it. ``flood``: so many
connections of a user without rights send requests that every user may send, and never finish the body; half as many more
ask for what they may not see, as fast as they are refused. The server is ``allot up`` in a process of its own, over TLS.
Each prints one line of JSON; times are those of small gets of an administrator, each over a new connection in ``flood``.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import ssl
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.apiserver.http.hostility import CONFIGMAPS, Peer, Target, request
from tests.apiserver.killing import ready, up

from allotment.apiserver.auth.certificates import open_authority

MIB = 1024 * 1024
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
NAMESPACE = "/api/v1/namespaces/default"


@contextlib.contextmanager
def server() -> Iterator[tuple[Target, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with up(data) as process:
            ready(process, data)
            yield Target(process, data), data


def stalled(peers: int, objects: int, size: int) -> dict[str, object]:
    with server() as (target, _), contextlib.ExitStack() as stack:
        with target.peer() as writer:
            for number in range(objects):
                obj = {"metadata": {"name": f"c{number}"}, "data": {"k": "x" * size}}
                assert writer.ask("POST", CONFIGMAPS, json.dumps(obj).encode()).status == 201
        before = target.memory()
        readers: list[Peer] = []
        for _ in range(peers):
            session = readers[0].socket.session if readers else None
            readers.append(stack.enter_context(target.peer(receive_buffer=4096, session=session)))
            assert readers[-1].ask("GET", "/healthz").status == 200
        connected = target.memory()
        for each in readers:
            each.say(request("GET", f"{CONFIGMAPS}?watch=1"))
        peak, waited = 0, []
        with target.peer() as administrator:
            for _ in range(60):
                begun = time.perf_counter()
                assert administrator.ask("GET", NAMESPACE).status == 200
                waited.append(time.perf_counter() - begun)
                peak = max(peak, target.memory())
                time.sleep(0.05)
        return {
            "peers": peers,
            "state_MiB": round(objects * size / MIB),
            "connections_grew_MiB": (connected - before) // MIB,
            "watches_grew_MiB": (peak - connected) // MIB,
            **_times(waited),
        }


class Attacker(threading.Thread):
    """Some of the connections, of which two in three dribble and one asks."""

    def __init__(self, target: Target, context: ssl.SSLContext, peers: int) -> None:
        super().__init__(daemon=True)
        self.answers: Counter[int] = Counter()
        self.over = threading.Event()
        self.connected = threading.Event()
        self._target, self._context, self._peers = target, context, peers

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            half = f"POST {REVIEWS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{{"
            connected = [
                stack.enter_context(self._target.peer()) for _ in range(self._peers + self._peers // 2)
            ]
            self.connected.set()
            asking = connected[self._peers :]
            for each in connected[: self._peers]:
                each.say(half.encode())
            for each in asking:
                each.say(request("GET", CONFIGMAPS))
            while not self.over.is_set():
                for each in asking:
                    self.answers[each.answer().status] += 1
                    each.say(request("GET", CONFIGMAPS))


def flood(peers: int, seconds: float) -> dict[str, object]:
    with server() as (target, data):
        administrators = target.context
        context = _of_nobody_special(data)
        quiet = [_asked(target) for _ in range(20)]
        target.context = context
        attackers = [Attacker(target, context, peers // 7) for _ in range(7)]
        for each in attackers:
            each.start()
        for each in attackers:
            each.connected.wait()
        target.context = administrators
        waited: list[float] = []
        statuses: Counter[int] = Counter()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.perf_counter()
            with target.peer() as administrator:
                statuses[administrator.ask("GET", NAMESPACE).status] += 1
            waited.append(time.perf_counter() - begun)
        for each in attackers:
            each.over.set()
        return {
            "peers": peers,
            "administrator": dict(statuses),
            "attacker": dict(sum((each.answers for each in attackers), Counter())),
            "alone_ms_median": round(1000 * statistics.median(quiet), 1),
            **_times(waited),
        }


def _asked(target: Target) -> float:
    begun = time.perf_counter()
    assert target.ask("GET", NAMESPACE).status == 200
    return time.perf_counter() - begun


def _of_nobody_special(data: Path) -> ssl.SSLContext:
    now = datetime.datetime.now(datetime.UTC)
    folder = next(path.parent for path in data.rglob("ca.crt"))
    authority = open_authority(folder, now)
    credential = authority.issue_client("mallory", (), now)
    (data / "mallory.crt").write_bytes(credential.certificate)
    (data / "mallory.key").write_bytes(credential.key)
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    context.load_cert_chain(data / "mallory.crt", data / "mallory.key")
    return context


def _times(waited: list[float]) -> dict[str, object]:
    ordered = sorted(waited)
    return {
        "gets": len(waited),
        "ms_median": round(1000 * statistics.median(ordered), 1),
        "ms_99": round(1000 * ordered[int(len(ordered) * 0.99) - 1], 1),
        "ms_longest": round(1000 * ordered[-1], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("stalled", "flood"))
    parser.add_argument("--peers", type=int)
    parser.add_argument("--objects", type=int, default=8_000)
    parser.add_argument("--bytes", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    if args.what == "stalled":
        print(json.dumps(stalled(args.peers or 400, args.objects, args.bytes)))
    else:
        print(json.dumps(flood(args.peers or 700, args.seconds)))


if __name__ == "__main__":
    main()
