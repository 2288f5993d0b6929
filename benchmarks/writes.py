"""What the writes cost that a pod with a claim needs on its way, in a process that runs server and components together.

``make bench`` runs it. Prints a table and, with ``--json FILE``, writes it down. Each write is made many times, 32 of
them in flight, as a component makes it: through the client in process, with uid and version where it patches. *loop* is the processor
time of the event loop's thread, which is what bounds a single process; *process* adds the thread that commits; *wall*
also has what others on the machine take. *registry* is the loop's time for the same write without client and HTTP layer.
Every figure is the best of several rounds, each in a namespace of its own.

A watch event is what it costs one watcher in process to read a change, of the many that it has missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import uvloop

from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry.body import accepted
from allotment.apiserver.registry.call import WriteContext, Written
from allotment.apiserver.registry.catalogue import ServedResource
from allotment.apiserver.server import ApiServer, Options, now
from allotment.client.client import Client, Collection, PatchType
from allotment.client.in_process import InProcessTransport
from allotment.daemons.memory import spare_collector

Obj = dict[str, Any]

COUNT = 1000
IN_FLIGHT = 32
SWITCH_SECONDS = 0.0005  # as a process sets it whose other threads only wait for the disk
DEVICES = 10  # of a node
WATCHED = "watch event to one watcher in process"
PODS, CLAIMS, EVENTS = ("v1", "pods"), ("resource.k8s.io/v1", "resourceclaims"), ("v1", "events")

_PATCHES = {PODS: "STRATEGIC", CLAIMS: "MERGE"}
"""How components patch them."""


@dataclass(slots=True)
class Cost:
    """Of one write, in milliseconds."""

    loop: float
    process: float
    wall: float


@dataclass(frozen=True, slots=True)
class Row:
    write: str
    loop: float
    process: float
    wall: float
    registry: float | None


# --- what is written ---


def pod(number: int, namespace: str) -> Obj:
    resources = {"claims": [{"name": "device"}], "requests": {"cpu": "100m"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{number}", "namespace": namespace},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            "resourceClaims": [{"name": "device", "resourceClaimTemplateName": "one"}],
        },
    }


def claim(number: int, namespace: str, owner: Obj) -> Obj:
    reference = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "name": f"p{number}-device",
        "namespace": namespace,
        "annotations": {"resource.kubernetes.io/pod-claim-name": "device"},
        "finalizers": ["resource.kubernetes.io/delete-protection"],
        "ownerReferences": [reference],
    }
    request = {"name": "device", "exactly": {"deviceClassName": "gpu.example.com"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": [request]}},
    }


def claim_named(number: int) -> Obj:
    return {
        "status": {"resourceClaimStatuses": [{"name": "device", "resourceClaimName": f"p{number}-device"}]}
    }


def allocated(number: int, namespace: str, consumer: Obj) -> Obj:
    node = f"{namespace}-n{number // DEVICES}"
    device = f"gpu-{number % DEVICES}"
    result = {"request": "device", "driver": "gpu.example.com", "pool": node, "device": device}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    metadata = consumer["metadata"]
    return {
        "status": {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [term]},
            },
            "reservedFor": [{"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}],
        }
    }


def binding(number: int, namespace: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": f"p{number}", "namespace": namespace},
        "target": {"kind": "Node", "name": f"{namespace}-n{number // DEVICES}"},
    }


def scheduled(number: int, namespace: str, about: Obj) -> Obj:
    """The event that a scheduler writes of a pod."""
    name, node = f"p{number}", f"{namespace}-n{number // DEVICES}"
    regarding = {"kind": "Pod", "namespace": namespace, "name": name, "uid": about["metadata"]["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{number:016x}", "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", **regarding},
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "message": f"Successfully assigned {namespace}/{name} to {node}",
        "reportingComponent": "default-scheduler",
        "reportingInstance": "default-scheduler-0",
    }


def labelled(number: int) -> Obj:
    return {"metadata": {"labels": {"number": f"n{number}"}}}


# --- two ways to write it ---


class Way(Protocol):
    async def create(self, kind: tuple[str, str], obj: Obj) -> Obj: ...

    async def patch(self, kind: tuple[str, str], obj: Obj, patch: Obj, subresource: str) -> Obj: ...

    async def bind(self, body: Obj) -> None: ...


class ByClient:
    """As components write: client, HTTP layer, registry and store."""

    def __init__(self, client: Client) -> None:
        self._of: dict[tuple[str, str], Collection[Obj]] = {
            kind: client.plain(*kind) for kind in (PODS, CLAIMS, EVENTS)
        }

    async def create(self, kind: tuple[str, str], obj: Obj) -> Obj:
        return await self._of[kind].create(obj)

    async def patch(self, kind: tuple[str, str], obj: Obj, patch: Obj, subresource: str) -> Obj:
        meta = obj["metadata"]
        return await self._of[kind].patch(
            meta["name"],
            patch,
            meta["namespace"],
            type_=PatchType[_PATCHES[kind]],
            subresource=subresource,
            uid=meta["uid"],
            version=meta["resourceVersion"],
        )

    async def bind(self, body: Obj) -> None:
        meta = body["metadata"]
        await self._of[PODS].act(meta["name"], "binding", body, meta["namespace"])


class ByRegistry:
    """Registry and store alone."""

    def __init__(self, server: ApiServer) -> None:
        self._registry = server.registry

    async def create(self, kind: tuple[str, str], obj: Obj) -> Obj:
        served, call = self._served(kind), self._call("create")
        sent = accepted(served, obj, [], call)
        return await _stored(self._registry.writes.create(served, obj["metadata"]["namespace"], sent, call))

    async def patch(self, kind: tuple[str, str], obj: Obj, patch: Obj, subresource: str) -> Obj:
        meta = obj["metadata"]
        same = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        patch = {**patch, "metadata": {**patch.get("metadata", {}), **same}}
        where = (self._served(kind), meta["namespace"], meta["name"], PatchType[_PATCHES[kind]])
        return await _stored(self._registry.patches.patch(*where, patch, self._call("patch"), subresource))

    async def bind(self, body: Obj) -> None:
        meta, served = body["metadata"], self._served(PODS)
        action = served.resource.actions["binding"]
        where = (served, meta["namespace"], meta["name"], "binding", action)
        await self._registry.actions.run(*where, body, self._call("create")).record()

    def _served(self, kind: tuple[str, str]) -> ServedResource:
        group, _, version = kind[0].rpartition("/")
        served = self._registry.catalogue.find(group, version, kind[1])
        assert isinstance(served, ServedResource)
        return served

    def _call(self, verb: str) -> WriteContext:
        return WriteContext(ADMINISTRATOR, now(), "allot", verb=verb)


async def _stored(written: Written) -> Obj:
    """What the caller gets to see: of a reply, too, somebody has to read name, uid and version."""
    return msgspec.json.decode((await written.record()).data, type=Obj)


# --- measuring ---


async def timed(write: Callable[[int], Awaitable[None]]) -> Cost:
    """The cost of one of many writes."""
    numbers = iter(range(COUNT))

    async def worker() -> None:
        for number in numbers:
            await write(number)

    async def work() -> None:
        await asyncio.gather(*[worker() for _ in range(IN_FLIGHT)])

    return await timed_once(work())


async def timed_once(work: Awaitable[None]) -> Cost:
    """The cost of one part of a work that has many."""
    gc.collect()
    before = time.thread_time(), time.process_time(), time.perf_counter()
    await work
    after = time.thread_time(), time.process_time(), time.perf_counter()
    return Cost(*((late - early) / COUNT * 1000 for early, late in zip(before, after, strict=True)))


async def round_of(way: Way, client: Client, namespace: str) -> AsyncIterator[tuple[str, Cost]]:
    """Each kind of write, in the order in which a pod needs them."""
    pods: dict[int, Obj] = {}
    claims: dict[int, Obj] = {}

    async def create_pod(number: int) -> None:
        pods[number] = await way.create(PODS, pod(number, namespace))

    async def create_claim(number: int) -> None:
        claims[number] = await way.create(CLAIMS, claim(number, namespace, pods[number]))

    async def name_claim(number: int) -> None:
        pods[number] = await way.patch(PODS, pods[number], claim_named(number), "status")

    async def allocate(number: int) -> None:
        wanted = allocated(number, namespace, pods[number])
        claims[number] = await way.patch(CLAIMS, claims[number], wanted, "status")

    async def label(number: int) -> None:
        claims[number] = await way.patch(CLAIMS, claims[number], labelled(number), "")

    async def bind(number: int) -> None:
        await way.bind(binding(number, namespace))

    async def tell(number: int) -> None:
        await way.create(EVENTS, scheduled(number, namespace, pods[number]))

    yield "create pod", await timed(create_pod)
    yield "create claim", await timed(create_claim)
    yield "patch pod status", await timed(name_claim)
    yield "patch claim status", await timed(allocate)
    yield "bind pod", await timed(bind)
    yield "create event", await timed(tell)
    since = max(int(each["metadata"]["resourceVersion"]) for each in claims.values())
    yield "patch claim label", await timed(label)
    yield WATCHED, await timed_once(read_events(client.plain(*CLAIMS), namespace, since))


async def read_events(claims: Collection[Obj], namespace: str, since: int) -> None:
    """Reads a change of each claim."""
    async with claims.watch(namespace, since=str(since)) as events:
        left = COUNT
        async for _ in events:
            left -= 1
            if not left:
                return


class Best:
    """The lowest figures so far, by write."""

    def __init__(self) -> None:
        self.costs: dict[str, Cost] = {}

    def note(self, write: str, cost: Cost) -> None:
        best = self.costs.setdefault(write, cost)
        best.loop, best.process, best.wall = (
            min(best.loop, cost.loop),
            min(best.process, cost.process),
            min(best.wall, cost.wall),
        )


async def measured(rounds: int) -> list[Row]:
    whole, part = Best(), Best()
    async with serving() as (server, client):
        ways: tuple[tuple[Way, Best, str], ...] = (
            (ByClient(client), whole, "client"),
            (ByRegistry(server), part, "registry"),
        )
        for number in range(rounds):
            for way, best, name in ways:
                namespace = f"{name}-{number}"
                await make_namespace(client, namespace)
                async for write, cost in round_of(way, client, namespace):
                    best.note(write, cost)
    return list(rows(whole, part))


def rows(whole: Best, part: Best) -> Iterator[Row]:
    for write, cost in whole.costs.items():
        registry = None if write == WATCHED else part.costs[write].loop
        yield Row(write, cost.loop, cost.process, cost.wall, registry)


async def make_namespace(client: Client, name: str) -> None:
    namespaces = client.plain("v1", "namespaces", namespaced=False)
    await namespaces.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[ApiServer, Client]]:
    with tempfile.TemporaryDirectory() as folder:
        server = ApiServer(Options(Path(folder)))
        await server.start()
        spare_collector()  # as a process does that runs long
        try:
            async with Client(InProcessTransport(server.app, {"identity": ADMINISTRATOR})) as client:
                yield server, client
        finally:
            await server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the rows there as well")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_SECONDS)
    found = uvloop.run(measured(options.rounds))
    print("| write, ms each | loop | process | wall | registry |\n|---|---:|---:|---:|---:|")
    for row in found:
        registry = "" if row.registry is None else f"{row.registry:.3f}"
        print(f"| {row.write} | {row.loop:.3f} | {row.process:.3f} | {row.wall:.3f} | {registry} |")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps([asdict(row) for row in found], indent=1))


if __name__ == "__main__":
    main()
