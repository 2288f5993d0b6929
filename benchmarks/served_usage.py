"""How fast the counts of a large cluster follow its claims, and how fast people get them, through ``allot up``.

The server has 1,000 nodes with 8 devices and 10,000 claims; the controller that counts is a process of its own. Changes are
claims that give their device back or get it again, at a steady rate, each in another pool than the ones before it. A change
is *seen* when a watch of ResourcePools shows the pool with the new count, timed from when the claim's write was sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from allotment.api.codec import to_builtins
from benchmarks.apiserver import ALLOT, Load, ours, resident
from benchmarks.fleets import CLASSES, DRIVER, claim, gpu, nic, node, node_name, node_slice, request

Json = dict[str, Any]

POOLS, GPUS, CLAIMS, DEVICES = 1_000, 7, 10, 8
RATE, CHANGES = 200, 2_000
IDLE_SECONDS = 5.0
NAMESPACES = 50
RESOURCES = "/apis/resource.k8s.io/v1"
COUNTS = "/apis/resource.k8s.io/v1beta2/resourcepools"
PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Times in seconds, memory in megabytes."""

    seen: list[float]  # of each change
    idle_writes: int
    memory: float
    pools: tuple[float, float]  # `allot pools`: wall and processor
    top: tuple[float, float]  # `allot top --once`

    @property
    def slow(self) -> float:
        return statistics.quantiles(self.seen, n=20)[-1]


# --- what there is ---


class Writer(Load):
    """A client that patches too."""

    async def __aenter__(self) -> Writer:
        await super().__aenter__()
        return self

    async def patch(self, path: str, patch: Json) -> None:
        kind = {"Content-Type": "application/merge-patch+json"}
        async with self._session.patch(path, data=json.dumps(patch), headers=kind) as reply:
            if reply.status >= 300:
                raise RuntimeError(f"PATCH {path}: {reply.status} {await reply.text()}")


def written(obj: Any) -> Json:
    found: Json = to_builtins(obj)
    return found


def claim_of(number: int) -> Json:
    return {"metadata": {"name": f"claim-{number}"}, "spec": written(claim("any", request("device")))["spec"]}


def allocation(number: int) -> Json:
    """Claims go round the pools: each pool gets six GPUs taken, then shares of its card."""
    pool, turn = number % POOLS, number // POOLS
    result: Json = {"request": "device", "driver": DRIVER, "pool": node_name(pool)}
    if turn < GPUS - 1:
        result |= {"device": f"gpu-{turn}"}
    else:
        share = {"shareID": str(uuid.UUID(int=number)), "consumedCapacity": {"bandwidth": "1G"}}
        result |= {"device": "nic-0", **share}
    return {"devices": {"results": [result]}}


def path_of(number: int) -> str:
    return f"{RESOURCES}/namespaces/team-{number % NAMESPACES}/resourceclaims"


async def fill(load: Writer) -> None:
    async def node_and_slice(number: int) -> None:
        await load.send("POST", "/api/v1/nodes", written(node(number)))
        devices = [*[gpu(number, index) for index in range(GPUS)], nic(number, 0)]
        await load.send("POST", f"{RESOURCES}/resourceslices", written(node_slice(number, devices)))

    async def held(number: int) -> None:
        await load.send("POST", path_of(number), claim_of(number))
        await hold(load, number, allocation(number))

    await load.many(
        NAMESPACES, lambda n: load.send("POST", "/api/v1/namespaces", {"metadata": {"name": f"team-{n}"}})
    )
    for each in CLASSES:
        await load.send("POST", f"{RESOURCES}/deviceclasses", written(each))
    await load.many(POOLS, node_and_slice)
    await load.many(POOLS * CLAIMS, held)


async def hold(load: Writer, number: int, what: Json | None) -> None:
    """Gives a claim its device, or takes it away."""
    await load.patch(f"{path_of(number)}/claim-{number}/status", {"status": {"allocation": what}})


# --- what is measured ---


class _Summary(msgspec.Struct, rename="camel"):
    allocated_devices: int = 0


class _Status(msgspec.Struct):
    summary: _Summary = msgspec.field(default_factory=_Summary)


class _Spec(msgspec.Struct, rename="camel"):
    pool_name: str


class _Pool(msgspec.Struct):
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    object: _Pool


class _List(msgspec.Struct):
    metadata: dict[str, Any]
    items: list[_Pool]


class Counts:
    """The counts that the server shows, followed, and who waits for which."""

    def __init__(self, load: Writer) -> None:
        self._load = load
        self.allocated: dict[str, int] = {}
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        found = msgspec.json.decode(await self._load.send("GET", COUNTS), type=_List)
        for pool in found.items:
            self._take(pool)
        task = asyncio.create_task(self._follow(found.metadata["resourceVersion"]))
        try:
            yield
        finally:
            task.cancel()

    async def _follow(self, version: str) -> None:
        left, decoder = b"", msgspec.json.Decoder(_Event)
        async with self._load.watch(f"{COUNTS}?watch=1&resourceVersion={version}") as reply:
            async for chunk in reply.content.iter_any():
                *lines, left = (left + chunk).split(b"\n")
                for line in lines:
                    self._take(decoder.decode(line).object)

    def _take(self, pool: _Pool) -> None:
        self.allocated[pool.spec.pool_name] = pool.status.summary.allocated_devices
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until(self, pool: str, allocated: int) -> None:
        while self.allocated.get(pool) != allocated:
            await self._changed.wait()


async def seen_after(load: Writer, counts: Counts) -> list[float]:
    """How long each of many changes took to be seen, begun at a steady rate."""
    times: list[float] = []

    async def one(number: int) -> None:
        back = number // POOLS % 2 == 0  # the first claim of each pool gives its GPU back, then gets it again
        mine, pool = number % POOLS, node_name(number % POOLS)
        start = time.perf_counter()
        await hold(load, mine, None if back else allocation(mine))
        await counts.until(pool, GPUS - 1 if back else GPUS)
        times.append(time.perf_counter() - start)

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        start = time.perf_counter()
        for number in range(CHANGES):
            await asyncio.sleep(max(start + number / RATE - time.perf_counter(), 0))
            tasks.create_task(one(number))
    return times


async def revision(load: Writer) -> int:
    return int(json.loads(await load.send("GET", f"{COUNTS}?limit=1"))["metadata"]["resourceVersion"])


def command_seconds(kubeconfig: Path, *arguments: str, runs: int = 5) -> tuple[float, float]:
    """The best of several runs of a command, from its start to its end; and the least processor time that it took."""
    times, cpus = [], []
    for _ in range(runs):
        start, before = time.perf_counter(), os.times()
        subprocess.run([ALLOT, *arguments, "--kubeconfig", kubeconfig], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
        after = os.times()
        cpus.append(
            after.children_user + after.children_system - before.children_user - before.children_system
        )
    return min(times), min(cpus)


@contextlib.contextmanager
def counting(kubeconfig: Path) -> Iterator[int]:
    """The controller in a process: its id."""
    mine, user = kubeconfig.with_name("controllers.kubeconfig"), "allotment:controllers"
    subprocess.run(
        [ALLOT, "kubeconfig", "--user", user, "--data-dir", kubeconfig.parent, "-o", mine], check=True
    )
    command = [str(ALLOT), "controllers", "--only", "pools", "--no-leader-elect", "--kubeconfig", str(mine)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


async def _run(kubeconfig: Path) -> tuple[list[float], int]:
    async with Writer(kubeconfig) as load:
        await fill(load)
    async with Writer(kubeconfig) as load:
        counts = Counts(load)
        async with counts.followed(), asyncio.timeout(PATIENCE):
            await asyncio.gather(*(counts.until(node_name(pool), GPUS) for pool in range(POOLS)))
            seen = await seen_after(load, counts)
        before = await revision(load)
        await asyncio.sleep(IDLE_SECONDS)
        return seen, await revision(load) - before


def measure() -> Outcome:
    with (
        tempfile.TemporaryDirectory() as folder,
        ours(Path(folder), "--no-scheduler", "--no-controllers") as (kubeconfig, _, _),
        counting(kubeconfig) as pid,
    ):
        seen, writes = uvloop.run(_run(kubeconfig))
        memory = resident(pid)
        pools = command_seconds(kubeconfig, "pools")
        return Outcome(seen, writes, memory, pools, command_seconds(kubeconfig, "top", "--once", runs=2))
