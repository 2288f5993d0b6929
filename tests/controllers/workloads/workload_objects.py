"""What tests of workloads share: builders and a kubelet that does as it is told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from allotment.api.core import Pod
from allotment.client.form import Obj
from tests.builders.plain import pod
from tests.controllers.cluster import Cluster

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


def web_pod(name: str, labels: dict[str, str] | None = None, **meta: Any) -> Obj:
    return pod(name, labels or {"app": "web"}, image="one", meta=meta)


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
