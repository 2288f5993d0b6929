"""Kinds are followed while the server has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.client.form import Obj, ResourcePath
from allotment.client.transport import Call, Disconnected, Reply, Stream, Transport
from allotment.controllers.semantic.vendor_kinds import VendorKind, VendorKinds
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


def object_of(kind: str, name: str) -> Obj:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}}


class Scene:
    """A cluster with the kinds followed in it, and what was told of their objects."""

    def __init__(
        self,
        cluster: Cluster,
        *kinds: VendorKind,
        through: Callable[[Transport], Transport] = lambda beneath: beneath,
    ) -> None:
        self.cluster = cluster
        self.component = cluster.component(ADMINISTRATOR, through)
        self.kinds = VendorKinds(self.component.client, self.component.informers, kinds)
        self.told: list[tuple[str, str]] = []
        self.kinds.on_change(self._hear)
        self.definitions = cluster.admin.plain(
            "apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False
        )

    def _hear(self, resource: ResourcePath, old: Obj | None, new: Obj | None) -> None:
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


def test_informers_start_and_stop_with_definitions(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        scene = Scene(cluster, A)
        await scene.start()
        await scene.until(lambda: scene.kinds.is_gone(A), "the kind is not there")
        assert scene.kinds.find(A) is None
        for kind in ("Alpha", "Beta"):
            await scene.definitions.create(definition(kind))
        await scene.until(lambda: scene.kinds.find(A), "it is followed once it is defined")
        await scene.until(lambda: scene.kinds.is_served(GROUP, "Beta"), "others are known")
        assert scene.kinds.find(B) is None
        await cluster.admin.plain(f"{GROUP}/v1", "alphas").create(object_of("Alpha", "x"))
        await scene.until(lambda: scene.told == [("x", "there")], "its objects are told")
        await scene.definitions.delete(f"alphas.{GROUP}")
        await scene.until(lambda: scene.kinds.find(A) is None, "the definition is gone")
        assert scene.told[1:] == [("x", "gone")]
        assert scene.kinds.is_gone(A)
        await scene.definitions.create(definition("Alpha"))
        await cluster.eventually(lambda: not scene.kinds.is_gone(A))
        await scene.until(lambda: scene.kinds.find(A), "and again")

    in_cluster(tmp_path, scenario)


def test_a_version_that_somebody_names_is_shared_with_those_who_name_none(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        old, new = VendorKind(GROUP, "Alpha", "v1beta1"), VendorKind(GROUP, "Alpha", "v1")
        scene = Scene(cluster, old, new, A)
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
