"""What tests of workloads share: builders, a kubelet that does as it is told, and a connection that fails on demand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from allotment.api.core import Pod
from allotment.client.form import Obj
from allotment.client.transport import Call, Disconnected, Reply, Stream, Transport
from tests.controllers.cluster import Cluster, in_cluster

HERE = "default"
START = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class Clock:
    """A clock that stands until it is moved."""

    time: datetime = START

    def __call__(self) -> datetime:
        return self.time

    def move(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    def stamp(self, seconds: float = 0) -> str:
        return (self.time + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def template(app: str = "web", image: str = "one", **spec: Any) -> Obj:
    containers = [{"name": "main", "image": image}]
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": containers, **spec}}


def replica_set(name: str = "web", replicas: int = 3, **spec: Any) -> Obj:
    selector = {"matchLabels": {"app": "web"}}
    body = {"replicas": replicas, "selector": selector, "template": template(), **spec}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": body}


def deployment(name: str = "web", replicas: int = 3, image: str = "one", **spec: Any) -> Obj:
    selector = {"matchLabels": {"app": "web"}}
    body = {"replicas": replicas, "selector": selector, "template": template(image=image), **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": body}


def job(name: str = "work", **spec: Any) -> Obj:
    wanted = {"template": template("work", restartPolicy="Never"), **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": wanted}


def pod(name: str, labels: dict[str, str] | None = None, **meta: Any) -> Obj:
    spec = {"containers": [{"name": "main", "image": "one"}]}
    metadata = {"name": name, "labels": labels or {"app": "web"}, **meta}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Kubelet:
    """Sets pods' statuses as told, and lets those go that were deleted; binds them as it starts them."""

    def __init__(self, cluster: Cluster) -> None:
        self._pods = cluster.admin.of(Pod)
        self._plain = cluster.admin.plain("v1", "pods")
        self.seen = cluster.seen.of(Pod)

    def alive(self) -> list[Pod]:
        return [each for each in self.seen.all() if each.metadata.deletion_timestamp is None]

    async def bind(self, name: str, node: str = "node") -> None:
        target = {"target": {"kind": "Node", "name": node}}
        await self._plain.act(name, "binding", {"metadata": {"name": name}, **target}, HERE)

    async def phase(self, name: str, phase: str, *, ready: bool = False, since: str = "") -> None:
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since or None}
        status = {"phase": phase, "conditions": [condition]}
        await self._pods.patch(name, {"status": status}, HERE, subresource="status")

    async def run(self, name: str, since: str = "") -> None:
        await self.phase(name, "Running", ready=True, since=since)

    async def purge(self, name: str) -> None:
        """The end of a deletion, as a kubelet brings it about."""
        await self._pods.delete(name, HERE, grace_seconds=0)


class Fault(Enum):
    """How a write goes wrong."""

    CONFLICT = "conflict"
    LOST_REQUEST = "no answer, not carried out"
    LOST_REPLY = "no answer, carried out"


class Through:
    """A connection that passes everything on."""

    _inner: Transport

    def through(self, inner: Transport) -> Transport:
        self._inner = inner
        return self

    async def call(self, call: Call) -> Reply:
        return await self._inner.call(call)

    def stream(self, call: Call) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(call)

    async def close(self) -> None:
        await self._inner.close()


@dataclass
class Flaky(Through):
    """A connection whose writes fail as the plan says for their numbers. They are noted; events do not count."""

    plan: Callable[[int], Fault | None] = lambda _: None
    writes: list[str] = field(default_factory=list)

    async def call(self, call: Call) -> Reply:
        if call.method == "GET" or "/events" in call.path:
            return await super().call(call)
        fault = self.plan(len(self.writes))
        self.writes.append(f"{call.method} {call.path}")
        if fault is None:
            return await super().call(call)
        if fault is Fault.CONFLICT:
            status = {"status": "Failure", "reason": "Conflict", "message": "made up", "code": 409}
            return Reply(409, {}, json.dumps({"kind": "Status", "apiVersion": "v1", **status}).encode())
        if fault is Fault.LOST_REPLY:
            await super().call(call)
        raise Disconnected("made up")


class Held(Through):
    """A connection on which watches of some kinds can be made to stand still."""

    def __init__(self) -> None:
        self._held = ""
        self._open = asyncio.Event()
        self.waiting = asyncio.Event()
        self._open.set()

    def hold(self, ending: str) -> None:
        """Nothing comes from watches of paths that end so, until :meth:`release`."""
        self._held = ending
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        async with super().stream(call) as stream:
            yield replace(stream, lines=self._lines(call.path, stream.lines))

    async def _lines(self, path: str, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            if not self._open.is_set() and path.endswith(self._held):
                self.waiting.set()
                await self._open.wait()
            yield line


Life = Callable[[Cluster, Flaky], Awaitable[None]]


def with_each_write_failing(folder: Path, life: Life) -> list[str]:
    """Lives a life undisturbed, and then again for each of its writes, which fails, and the two after it in the other ways:
    so over all lives each write fails in each way. Returns the undisturbed writes."""
    calm = Flaky()
    in_cluster(folder / "calm", partial(_live, life, calm))
    for at in range(-2, len(calm.writes)):
        plan = {at + number: fault for number, fault in enumerate(Fault)}
        in_cluster(folder / str(at), partial(_live, life, Flaky(plan.get)))
    return calm.writes


def in_a_storm(folder: Path, seed: int, life: Life) -> None:
    """Lives a life in which three of ten writes fail, in ways that the seed says."""
    chance = Random(seed)
    plan = [chance.choice([*[None] * 7, *Fault]) for _ in range(200)]
    in_cluster(folder, partial(_live, life, Flaky(dict(enumerate(plan)).get)))


async def _live(life: Life, connection: Flaky, cluster: Cluster) -> None:
    await life(cluster, connection)
