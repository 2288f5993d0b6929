"""Kinds are followed while somebody refers to them and the server has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.client.form import Obj, Resource
from allotment.client.transport import Call, Disconnected, Reply, Stream, Transport
from allotment.controllers import vendor_kinds
from allotment.controllers.vendor_kinds import VendorKind, VendorKinds
from tests.controllers.cluster import Cluster, in_cluster

GROUP = "v.example.com"
A, B = VendorKind(GROUP, "Alpha"), VendorKind(GROUP, "Beta")


def definition(kind: str, *versions: str) -> Obj:
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = [
        {"name": name, "served": True, "storage": number == 0, "schema": schema}
        for number, name in enumerate(versions or ("v1",))
    ]
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": served},
    }


def class_of(name: str, kind: VendorKind) -> Obj:
    return {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "ResourceClass",
        "metadata": {"name": name},
        "driverName": "d.example.com",
        "semanticParameters": True,
        "parametersRef": {"apiGroup": kind.group, "kind": kind.kind, "name": "x"},
    }


def claim_of(name: str, kind: VendorKind) -> Obj:
    reference = {"apiGroup": kind.group, "kind": kind.kind, "name": "x"}
    return {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"resourceClassName": "c", "parametersRef": reference},
    }


def object_of(kind: str, name: str) -> Obj:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}}


class Scene:
    """A cluster with the kinds followed in it, and what was told of their objects."""

    def __init__(
        self,
        cluster: Cluster,
        *always: VendorKind,
        through: Callable[[Transport], Transport] = lambda beneath: beneath,
    ) -> None:
        self.cluster = cluster
        self.component = cluster.component(ADMINISTRATOR, through)
        self.kinds = VendorKinds(self.component.client, self.component.informers, always)
        self.told: list[tuple[str, str]] = []
        self.kinds.on_change(self._hear)
        self.definitions = cluster.admin.plain(
            "apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False
        )
        self.classes = cluster.admin.plain("resource.k8s.io/v1alpha2", "resourceclasses", namespaced=False)

    def _hear(self, resource: Resource, old: Obj | None, new: Obj | None) -> None:
        obj = new or old or {}
        self.told.append((obj["metadata"]["name"], "there" if new else "gone"))
        self.cluster._news.set()

    async def start(self) -> None:
        for work in (self.kinds.run(), self.component.informers.run(), self.component.recorder.run()):
            self.component._spawn(work)
        await self.component.start()

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Informers of vendors' kinds start without anybody's notice, so this looks at every turn of the loop."""
        end = asyncio.get_running_loop().time() + 20
        while not condition():
            assert asyncio.get_running_loop().time() < end, f"not in time: {what}"
            self.component.check()
            await asyncio.sleep(0)


def test_informers_start_and_stop_with_classes_and_definitions(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        scene = Scene(cluster)
        await scene.start()
        await scene.classes.create(class_of("one", A))
        await scene.classes.create(class_of("two", A))
        await scene.until(lambda: scene.kinds.total == 1, "the kind is known")
        assert scene.kinds.find(A) is None
        assert scene.kinds.resolved == 0
        await scene.definitions.create(definition("Alpha"))
        await scene.until(lambda: scene.kinds.find(A), "it is followed once it is defined")
        assert scene.kinds.resolved == 1
        assert scene.kinds.is_served(GROUP, "Alpha")
        await cluster.admin.plain(f"{GROUP}/v1", "alphas").create(object_of("Alpha", "x"))
        await scene.until(lambda: scene.told == [("x", "there")], "its objects are told")
        await scene.classes.delete("one")
        await scene.until(lambda: scene.kinds._by_classes[A] == 1, "one class is left")
        assert scene.kinds.find(A) is not None
        await scene.classes.delete("two")
        await scene.until(lambda: scene.kinds.find(A) is None, "nobody refers to it any more")
        assert scene.told[1:] == [("x", "gone")]
        assert scene.kinds.total == 0
        await scene.classes.create(class_of("three", A))
        await scene.until(lambda: scene.told[2:] == [("x", "there")], "and again")
        await scene.definitions.delete(f"alphas.{GROUP}")
        await scene.until(lambda: scene.kinds.find(A) is None, "the definition is gone")
        assert scene.told[3:] == [("x", "gone")]
        assert scene.kinds.is_gone(A)
        assert (scene.kinds.total, scene.kinds.resolved) == (1, 0)

    in_cluster(tmp_path, scenario)


def test_claims_name_kinds_too_but_not_kubernetes_own_and_not_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: Cluster) -> None:
        monkeypatch.setattr(vendor_kinds, "MAX_FROM_CLAIMS", 1)
        scene = Scene(cluster)
        await scene.definitions.create(definition("Alpha"))
        await scene.definitions.create(definition("Beta"))
        claims = cluster.admin.plain("resource.k8s.io/v1alpha2", "resourceclaims")
        secrets, pods = VendorKind("", "Secret"), VendorKind("metrics.k8s.io", "PodMetrics")
        own = VendorKind("resource.k8s.io", "ResourceClaimParameters")
        for number, kind in enumerate((secrets, pods, own, A, B)):
            await claims.create(claim_of(f"c{number}", kind))
        await scene.start()
        await scene.until(lambda: scene.kinds.find(A), "a vendor's kind is followed")
        assert all(scene.kinds.find(kind) is None for kind in (secrets, pods, own, B))
        assert scene.kinds.total == 5
        assert scene.kinds.resolved == 4  # all but metrics
        await claims.delete("c3", "default")
        await scene.until(lambda: scene.kinds.find(B), "there is room for the other")

    in_cluster(tmp_path, scenario)


def test_a_version_that_somebody_names_is_shared_with_those_who_name_none(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        old, new = VendorKind(GROUP, "Alpha", "v1beta1"), VendorKind(GROUP, "Alpha", "v1")
        scene = Scene(cluster, old, new)
        await scene.classes.create(class_of("one", A))
        await scene.definitions.create(definition("Alpha", "v1", "v1beta1"))
        await scene.start()
        await scene.until(lambda: scene.kinds.find(A), "the kind is followed")
        assert scene.kinds.find(A) is scene.kinds.find(new)
        older = scene.kinds.find(old)
        assert older is not None
        assert older.collection.resource.api_version == f"{GROUP}/v1beta1"
        late: list[str] = []
        await cluster.admin.plain(f"{GROUP}/v1", "alphas").create(object_of("Alpha", "x"))
        await scene.until(lambda: len(scene.told) == 2, "both versions tell it")
        scene.kinds.on_change(lambda resource, old, new: late.append(resource.api_version))
        assert sorted(late) == [f"{GROUP}/v1", f"{GROUP}/v1beta1"]

    in_cluster(tmp_path, scenario)


class Away:
    """A server that does not answer what it serves at first."""

    def __init__(self, beneath: Transport) -> None:
        self._beneath = beneath
        self.refusals = 2

    async def call(self, call: Call) -> Reply:
        if call.path == "/apis" and self.refusals:
            self.refusals -= 1
            raise Disconnected("away")
        return await self._beneath.call(call)

    def stream(self, call: Call) -> AbstractAsyncContextManager[Stream]:
        return self._beneath.stream(call)

    async def close(self) -> None:
        await self._beneath.close()


def test_a_server_that_is_away_is_asked_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        scene = Scene(cluster, A, through=Away)
        await scene.definitions.create(definition("Alpha"))
        await scene.start()
        assert not scene.kinds.is_gone(B)  # nobody knows yet
        await scene.until(lambda: scene.kinds.find(A), "it is followed")

    in_cluster(tmp_path, scenario)
