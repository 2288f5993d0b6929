"""A server with a dashboard and a small cluster on it: two teams, a claim and a pending pod each, and people with different rights."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from allotment.api.codec import to_builtins
from allotment.api.meta import ApiStruct
from allotment.api.status import AlreadyExists
from allotment.apiserver.auth.identity import Identity
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.client.client import Client
from allotment.client.form import resource_of
from allotment.daemons.demo_objects import administrator
from allotment.daemons.embedded import dashboard_of
from tests.apiserver.http.serving import Serving, serving
from tests.insight.fleet import GPU, V1, Json, pool_counts, slice_of, team_claim

RBAC = "rbac.authorization.k8s.io"
_MERGE = {"content-type": "application/merge-patch+json"}
CONTROLLERS = Identity("allotment:controllers", ("system:authenticated",))


def person(name: str) -> Identity:
    return Identity(name, ("system:authenticated",))


class World:
    """Changes the cluster, and looks at it as somebody."""

    def __init__(self, serving: Serving) -> None:
        self.server = serving.server
        self.client: Client = administrator(self.server)

    def as_(self, identity: Identity | None) -> Serving:
        return Serving(self.server, identity)

    async def fleet(self, identity: Identity) -> Any:
        reply = await self.as_(identity).call("GET", "/ui/api/fleet")
        assert reply.status == 200, reply.body
        return reply.json

    async def namespace(self, name: str) -> None:
        await self.client.plain("v1", "namespaces", namespaced=False).create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )

    async def slice(self, name: str, *devices: str | Json) -> None:
        await self.client.plain(V1, "resourceslices", namespaced=False).create(slice_of(name, *devices))

    async def claim(self, name: str, *held: str, namespace: str, pool: str = "node-1") -> None:
        """A claim that holds devices."""
        obj = team_claim(name, *held, namespace=namespace, pool=pool)
        status = obj.pop("status")
        claims = self.client.plain(V1, "resourceclaims")
        await claims.create(obj)
        await claims.patch(name, {"status": status}, namespace, subresource="status")

    async def pod(self, name: str, namespace: str, message: str = "") -> None:
        pods = self.client.plain("v1", "pods")
        containers = [{"name": "c", "image": "i"}]
        meta = {"name": name, "namespace": namespace}
        await pods.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers}}
        )
        told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        await pods.patch(name, {"status": {"conditions": [told]}}, namespace, subresource="status")

    async def pod_wanting(self, name: str, namespace: str, **requests: str) -> None:
        """A pod with so much for itself."""
        container = {"name": "c", "image": "i", "resources": {"requests": requests}}
        meta = {"name": name, "namespace": namespace}
        await self.client.plain("v1", "pods").create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
        )

    async def wants(self, name: str, count: int, namespace: str) -> None:
        """A pod with a claim for so many devices, and what a scheduler needs to judge it."""
        meta = {"name": name, "namespace": namespace}
        for node in ("node-1", "node-2"):
            await self.client.plain("v1", "nodes", namespaced=False).create(
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
            )
        suits = [{"cel": {"expression": f'device.driver == "{GPU}"'}}]
        await self.client.plain(V1, "deviceclasses", namespaced=False).create(
            {
                "apiVersion": V1,
                "kind": "DeviceClass",
                "metadata": {"name": "gpu"},
                "spec": {"selectors": suits},
            }
        )
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}}
        await self.client.plain(V1, "resourceclaims").create(
            {
                "apiVersion": V1,
                "kind": "ResourceClaim",
                "metadata": meta,
                "spec": {"devices": {"requests": [request]}},
            }
        )
        spec = {
            "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "c"}]}}],
            "resourceClaims": [{"name": "c", "resourceClaimName": name}],
        }
        await self.client.plain("v1", "pods").create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        )

    async def put(self, obj: ApiStruct, status: Json | None = None) -> None:
        """Creates an object that needs no namespace, or gives it another status."""
        where = resource_of(type(obj))
        collection = self.client.plain(where.api_version, where.plural, namespaced=False)
        made = {"apiVersion": where.api_version, "kind": where.kind, **to_builtins(obj)}
        with suppress(AlreadyExists):
            await collection.create(made)
        if status is not None:
            await collection.patch(made["metadata"]["name"], {"status": status}, subresource="status")

    async def counts(self, pool: str, total: int, allocated: int) -> None:
        """What the controller of pools would write."""
        obj = pool_counts(pool, total, allocated, total - allocated)
        path = "/apis/resource.k8s.io/v1beta2/resourcepools"
        caller = self.as_(CONTROLLERS)
        made = await caller.call("POST", path, obj)
        assert made.status == 201, made.body
        name = made.json["metadata"]["name"]
        told = await caller.call("PATCH", f"{path}/{name}/status", {"status": obj["status"]}, _MERGE)
        assert told.status == 200, told.body

    async def role(self, name: str, verbs: str, group: str, resources: str) -> None:
        rule = {"verbs": verbs.split(","), "apiGroups": [group], "resources": resources.split(",")}
        await self.client.plain(f"{RBAC}/v1", "clusterroles", namespaced=False).create(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRole",
                "metadata": {"name": name},
                "rules": [rule],
            }
        )

    async def bind(self, user: str, role: str, namespace: str = "") -> None:
        kind = "RoleBinding" if namespace else "ClusterRoleBinding"
        meta = {"name": f"{user}-{role}".replace(":", "-"), **({"namespace": namespace} if namespace else {})}
        await self.client.plain(f"{RBAC}/v1", f"{kind.lower()}s", namespaced=bool(namespace)).create(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": kind,
                "metadata": meta,
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
            }
        )


@asynccontextmanager
async def world(folder: Path, catalogue: Catalogue | None = None, **options: Any) -> AsyncIterator[World]:
    """See the module; people are bound by tests."""
    machines = catalogue or Catalogue()
    async with serving(folder, **options) as served, dashboard_of(served.server, machines):
        made = World(served)
        for team in ("team-a", "team-b"):
            await made.namespace(team)
        await made.slice("node-1", _gpu("gpu-0"), _gpu("gpu-1"), _gpu("gpu-2"))
        await made.slice("node-2", "gpu-0")
        await made.claim("alpha", "gpu-0", namespace="team-a")
        await made.claim("beta", "gpu-1", namespace="team-b")
        await made.counts("node-1", 3, 2)
        await made.counts("node-2", 1, 0)
        await made.pod("wants-a", "team-a", "0/2 nodes: 2 have only 1 gpu, need 9")
        await made.pod("wants-b", "team-b")
        yield made


def _gpu(name: str) -> Json:
    return {
        "name": name,
        "attributes": {"model": {"string": "titan"}, "numa": {"int": 1}, "tags": {"strings": ["x", "y"]}},
        "capacity": {"memory": {"value": "80Gi"}},
    }


__all__ = ["GPU", "World", "person", "world"]
