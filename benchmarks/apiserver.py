"""How fast the API server is, beside the real kube-apiserver and etcd in the same run: ``make bench``.

Everything goes over TLS to a server in a process of its own, from one Python load client with 32 requests in flight; every
acknowledged write is fsynced by both. The client shares the machine with the server, and costs about as much. Rates and
times are the best of several rounds. The real one is what ``make kubernetes`` built; where it is absent its column stays empty.

Processor time is that of our server's process alone, commits included. An event's is what updates cost more with watchers
than without, for each of them. ``--only processor`` measures nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.kubernetes.control_plane import Absent, control_plane

from allotment.client.connection import load

IN_FLIGHT = 32
OBJECTS = 2_000
WATCHERS = 50
UPDATES = 600
PODS = CLAIMS = 10_000
SLICES = 5_000
IDLE_WATCHES = 1_000
WATCHERS_COUNTED = (0, 1, 10)
ALLOT = Path(sys.executable).with_name("allot")


@dataclass
class Row:
    """One line of the table."""

    scenario: str
    reach: str
    unit: str
    ours: float | None = None
    upstream: float | None = None


class Load:
    """A client of one server."""

    def __init__(self, kubeconfig: Path) -> None:
        self._connection = load(kubeconfig)

    async def __aenter__(self) -> Load:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._connection.ssl or True)
        self._session = aiohttp.ClientSession(
            self._connection.server, connector=connector, timeout=aiohttp.ClientTimeout(total=None)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def send(self, method: str, path: str, obj: Any = None) -> bytes:
        async with self._session.request(method, path, json=obj) as reply:
            body = await reply.read()
            if reply.status >= 300:
                raise RuntimeError(f"{method} {path}: {reply.status} {body[:300]!r}")
            return body

    @contextlib.asynccontextmanager
    async def watch(self, path: str) -> AsyncIterator[aiohttp.ClientResponse]:
        async with self._session.get(path) as reply:
            yield reply

    async def many(self, count: int, call: Callable[[int], Awaitable[object]]) -> float:
        """Seconds that so many calls took together."""
        waiting = iter(range(count))

        async def work() -> None:
            for number in waiting:
                await call(number)

        start = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
        return time.perf_counter() - start


# --- what is stored ---


def config_map(number: int, version: int = 0) -> dict[str, Any]:
    meta = {"name": f"c{number:06d}", "labels": {"v": str(version)}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": "x" * 500}}


def pod(number: int) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "registry.example.com/team/train:1.2.3",
        "command": ["python", "train.py", "--shard", str(number)],
        "env": [{"name": f"SETTING_{each}", "value": "value"} for each in range(5)],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "claims": [{"name": "gpu"}]},
    }
    spec = {
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": f"p{number:06d}"}],
    }
    meta = {"name": f"p{number:06d}", "labels": {"app": "train", "shard": str(number)}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def claim(number: int) -> dict[str, Any]:
    exactly = {
        "deviceClassName": "gpu.example.com",
        "selectors": [{"cel": {"expression": 'device.attributes["gpu.example.com"].model == "large"'}}],
    }
    requests = [{"name": "gpu", "exactly": exactly}]
    meta = {"name": f"p{number:06d}"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": {"devices": {"requests": requests}},
    }


def slice_(number: int) -> dict[str, Any]:
    devices = [
        {
            "name": f"gpu-{each}",
            "attributes": {
                "model": {"string": "large"},
                "uuid": {"string": f"GPU-{number:08x}-{each}"},
                "index": {"int": each},
                "driverVersion": {"version": "570.1.2"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for each in range(8)
    ]
    node = f"node-{number:05d}"
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpu"},
        "spec": spec,
    }


# --- scenarios ---


async def requests(load: Load, round_: int) -> dict[str, float]:
    """Creates, gets, lists and watch fan-out over config maps in a namespace of its own."""
    namespace = f"bench-{round_}"
    await load.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    creates = await load.many(OBJECTS, lambda n: load.send("POST", path, config_map(n)))
    gets = await load.many(2 * OBJECTS, lambda n: load.send("GET", f"{path}/c{n % OBJECTS:06d}"))
    lists = []
    for _ in range(5):
        start = time.perf_counter()
        listing = json.loads(await load.send("GET", path))
        lists.append(time.perf_counter() - start)
    assert len(listing["items"]) == OBJECTS
    return {
        "creates": OBJECTS / creates,
        "gets": 2 * OBJECTS / gets,
        "list": min(lists),
        "events": await fan_out(load, path, listing["metadata"]["resourceVersion"]),
    }


async def fan_out(load: Load, path: str, version: str) -> float:
    """Watch events a second that arrive at all watchers together."""
    async with watching(load, path, version, WATCHERS, UPDATES) as all_seen:
        start = time.perf_counter()
        await load.many(UPDATES, lambda n: load.send("PUT", f"{path}/c{n:06d}", config_map(n, 1)))
        await all_seen()
        return WATCHERS * UPDATES / (time.perf_counter() - start)


@contextlib.asynccontextmanager
async def watching(
    load: Load, path: str, version: str, watchers: int, updates: int
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Watches that have begun; the function returns when each has seen so many updates."""
    ready = asyncio.Semaphore(0)

    async def watch() -> None:
        seen = 0
        async with load.watch(f"{path}?watch=1&resourceVersion={version}") as reply:
            ready.release()
            async for chunk in reply.content.iter_any():
                seen += chunk.count(b'"type":"MODIFIED"')
                if seen >= updates:
                    return

    tasks = [asyncio.create_task(watch()) for _ in range(watchers)]
    for _ in tasks:
        await ready.acquire()

    async def all_seen() -> None:
        await asyncio.wait_for(asyncio.gather(*tasks), 120)

    yield all_seen


async def processor(load: Load, round_: int, pid: int) -> dict[str, float]:
    """Seconds of the server's processor time for one request; ``updates N`` with N watchers."""
    namespace = f"processor-{round_}"
    await load.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    pods, maps = (f"/api/v1/namespaces/{namespace}/{plural}" for plural in ("pods", "configmaps"))

    async def cost(call: Callable[[int], Awaitable[object]]) -> float:
        before = spent(pid)
        await load.many(OBJECTS, call)
        return (spent(pid) - before) / OBJECTS

    costs = {
        "create": await cost(lambda n: load.send("POST", pods, pod(n))),
        "get": await cost(lambda n: load.send("GET", f"{pods}/p{n:06d}")),
    }
    await load.many(OBJECTS, lambda n: load.send("POST", maps, config_map(n)))
    for watchers in WATCHERS_COUNTED:
        version = json.loads(await load.send("GET", f"{maps}?limit=1"))["metadata"]["resourceVersion"]
        async with watching(load, maps, version, watchers, OBJECTS) as all_seen:
            before = spent(pid)

            async def update(number: int, version: int = watchers + 1) -> None:
                await load.send("PUT", f"{maps}/c{number:06d}", config_map(number, version))

            await load.many(OBJECTS, update)
            await all_seen()
            costs[f"updates {watchers}"] = (spent(pid) - before) / OBJECTS
    return costs


async def fill(load: Load) -> None:
    await load.send("POST", "/api/v1/namespaces", {"metadata": {"name": "fleet"}})
    pods = "/api/v1/namespaces/fleet/pods"
    claims = "/apis/resource.k8s.io/v1/namespaces/fleet/resourceclaims"
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    await load.many(PODS, lambda n: load.send("POST", pods, pod(n)))
    await load.many(CLAIMS, lambda n: load.send("POST", claims, claim(n)))
    await load.many(SLICES, lambda n: load.send("POST", slices, slice_(n)))


async def best_list(load: Load, path: str, count: int) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        body = await load.send("GET", path)
        times.append(time.perf_counter() - start)
    assert body.count(b'"uid"') >= count
    return min(times)


async def idle_watches(load: Load, memory: Callable[[], float]) -> float:
    """Megabytes that many watches on which nothing happens cost, each with a connection of its own."""
    before = memory()
    async with contextlib.AsyncExitStack() as open_:
        for number in range(IDLE_WATCHES):
            path = f"/api/v1/namespaces/quiet-{number}/configmaps?watch=1&allowWatchBookmarks=true"
            await open_.enter_async_context(load.watch(path))
        return memory() - before


# --- servers ---


@contextlib.contextmanager
def ours(folder: Path, *options: str) -> Iterator[tuple[Path, int, float]]:
    """``allot up`` in a process: kubeconfig, process id, and the seconds until it answered."""
    log = folder / "log"
    with log.open("w") as out:
        start = time.perf_counter()
        process = subprocess.Popen(
            [ALLOT, "up", "--data-dir", folder / "data", "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "Ctrl-C" in line:
                    break
            else:
                raise SystemExit(f"the server did not start:\n{log.read_text()}")
            yield folder / "data" / "kubeconfig", process.pid, time.perf_counter() - start
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def resident(pid: int) -> float:
    """Megabytes of memory that a process has."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found.group(1)) / 1024 if found else float("nan")


def spent(pid: int) -> float:
    """Seconds of processor time that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def processor_rounds(kubeconfig: Path, pid: int, count: int) -> dict[str, float]:
    """The least of several rounds: request by request, and what a watcher adds to an update."""
    best: dict[str, float] = {}
    async with Load(kubeconfig) as load:
        for number in range(count):
            for name, value in (await processor(load, number, pid)).items():
                best[name] = min(best.get(name, value), value)
    alone = best["updates 0"]
    events = {f"event {n}": (best[f"updates {n}"] - alone) / n for n in WATCHERS_COUNTED if n}
    return {"create": best["create"], "get": best["get"], **events}


async def rounds(kubeconfig: Path, count: int) -> dict[str, float]:
    best: dict[str, float] = {}
    async with Load(kubeconfig) as load:
        for number in range(count):
            for name, value in (await requests(load, number)).items():
                better = min if name == "list" else max
                best[name] = better(best.get(name, value), value)
    return best


def measure(count: int, only_processor: bool) -> list[Row]:
    rows = processor_rows(count)
    return rows if only_processor else measure_all(count) + rows


def processor_rows(count: int) -> list[Row]:
    rows = {
        "create": Row("processor time of a pod's creation over TLS", "", "µs"),
        "get": Row("processor time of a get over TLS", "", "µs"),
        "event 1": Row("processor time of a watch event over TLS, 1 watcher", "", "µs"),
        "event 10": Row("processor time of a watch event over TLS, each of 10 watchers", "", "µs"),
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        ours(Path(folder), "--no-scheduler", "--no-controllers") as (kubeconfig, pid, _),
    ):
        say("ours, processor time ...")
        for name, value in uvloop.run(processor_rounds(kubeconfig, pid, count)).items():
            rows[name].ours = value
    return list(rows.values())


def measure_all(count: int) -> list[Row]:
    rows = {
        "creates": Row("creates, 32 in flight, fsynced", "≥ 1,491 /s", "/s"),
        "gets": Row("gets, 32 in flight", "≥ 3,414 /s", "/s"),
        "list": Row("list of 2,000 config maps", "≤ 49 ms", "ms"),
        "events": Row("watch events to 50 watchers", "≥ 35,000 /s", "/s"),
        "pods": Row("list of 10,000 pods, of 25,000 objects", "≤ 250 ms", "ms"),
        "start": Row("start-up with 25,000 objects", "≤ 3 s", "s"),
        "memory": Row("resident with 25,000 objects, after a restart", "≤ 600 MB", "MB"),
        "filled": Row("resident with 25,000 objects, after writing them", "≤ 600 MB", "MB"),
        "watches": Row("1,000 idle watches over TLS", "≤ 60 MB", "MB"),
    }
    with tempfile.TemporaryDirectory() as folder:
        say("ours ...")
        for name, value in measure_ours(Path(folder), count).items():
            rows[name].ours = value
    try:
        with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder)) as plane:
            say("kube-apiserver and etcd ...")
            for name, value in uvloop.run(rounds(plane.kubeconfig, count)).items():
                rows[name].upstream = value
    except Absent as absent:
        say(f"the real one is left out: {absent}")
    return list(rows.values())


def measure_ours(folder: Path, count: int) -> dict[str, float]:
    found: dict[str, float] = {}
    with ours(folder) as (kubeconfig, pid, _):
        found |= uvloop.run(rounds(kubeconfig, count))
    fleet = folder / "fleet"
    fleet.mkdir()
    with ours(fleet) as (kubeconfig, pid, _):

        async def filled() -> None:
            async with Load(kubeconfig) as load:
                await fill(load)

        uvloop.run(filled())
        found["filled"] = resident(pid)
    with ours(fleet) as (kubeconfig, pid, seconds):
        found["start"] = seconds
        found["memory"] = resident(pid)

        async def looked_at() -> tuple[float, float]:
            async with Load(kubeconfig) as load:
                idle = await idle_watches(load, lambda: resident(pid))
                return await best_list(load, "/api/v1/pods", PODS), idle

        found["pods"], found["watches"] = uvloop.run(looked_at())
    return found


def shown(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    value *= {"ms": 1e3, "µs": 1e6}.get(unit, 1)
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:,.3g} {unit}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the rows there as well")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["processor"], help="measure processor time and nothing else")
    options = parser.parse_args()
    rows = measure(options.rounds, options.only == "processor")
    print("| scenario | goal | ours | kube-apiserver + etcd |\n|---|---|---:|---:|")
    for row in rows:
        print(
            f"| {row.scenario} | {row.reach} | {shown(row.ours, row.unit)} | {shown(row.upstream, row.unit)} |"
        )
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
