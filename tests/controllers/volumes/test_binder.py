"""Claims and volumes find each other on the embedded server, and part again when a claim goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from allotment.api.core import Node, Pod
from allotment.api.storage import (
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    PersistentVolume,
    PersistentVolumeClaim,
    is_bound,
)
from allotment.controllers.volumes.binder import VolumeBinder
from allotment.controllers.volumes.ephemeral_claims import EphemeralClaims
from allotment.controllers.volumes.provisioner import PROVISIONER
from tests.controllers.cluster import Cluster, in_cluster

Obj = dict[str, Any]
FAST, LATE, MADE = "fast", "late", "made"


def storage_class(name: str, provisioner: str, mode: str = "Immediate") -> Obj:
    meta = {"name": name}
    return {"metadata": meta, "provisioner": provisioner, "volumeBindingMode": mode}


def volume(name: str, size: str = "10Gi", storage: str = FAST, **spec: Any) -> Obj:
    whole = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage,
        "hostPath": {"path": "/mnt"},
        **spec,
    }
    return {"metadata": {"name": name}, "spec": whole}


def volume_claim(name: str, size: str = "5Gi", storage: str = FAST, **spec: Any) -> Obj:
    whole = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": storage,
        **spec,
    }
    return {"metadata": {"name": name}, "spec": whole}


class Scene:
    """A cluster with the controllers on it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.volumes, self.claims = cluster.seen.of(PersistentVolume), cluster.seen.of(PersistentVolumeClaim)
        self._plain = {
            "pv": cluster.admin.plain("v1", "persistentvolumes", namespaced=False),
            "pvc": cluster.admin.plain("v1", "persistentvolumeclaims"),
            "sc": cluster.admin.plain("storage.k8s.io/v1", "storageclasses", namespaced=False),
        }

    async def start(self) -> None:
        part = self.cluster.component()
        binder = VolumeBinder(part.client, part.informers, part.recorder)
        await part.start(binder, EphemeralClaims(part.client, part.informers, part.recorder), workers=1)
        for made in (
            storage_class(FAST, "kubernetes.io/no-provisioner"),
            storage_class(LATE, "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
            storage_class(MADE, PROVISIONER, "WaitForFirstConsumer"),
            storage_class("other", "disk.example.com"),
        ):
            await self._plain["sc"].create(
                {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **made}
            )

    async def put(self, *objects: Obj) -> None:
        for obj in objects:
            if "capacity" in obj["spec"]:
                await self._plain["pv"].create({"apiVersion": "v1", "kind": "PersistentVolume", **obj})
            else:
                made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **obj}
                await self._plain["pvc"].create(made, "default")

    async def patch_claim(self, name: str, patch: Obj) -> None:
        await self._plain["pvc"].patch(name, patch, "default")

    async def drop_claim(self, name: str) -> None:
        await self._plain["pvc"].delete(name, "default")

    def claim(self, name: str) -> PersistentVolumeClaim | None:
        return self.claims.get(name, "default")

    def has(self, name: str, volume: str) -> bool:
        """Whether a claim and a volume are bound to each other, in all four places."""
        claim, found = self.claim(name), self.volumes.get(volume)
        if claim is None or found is None or found.spec.claim_ref is None:
            return False
        return (
            (is_bound(claim), claim.spec.volume_name, claim.status.phase) == (True, volume, "Bound")
            and found.status.phase == "Bound"
            and found.spec.claim_ref.uid == claim.metadata.uid
        )

    def phase(self, volume: str) -> str:
        found = self.volumes.get(volume)
        return found.status.phase or "" if found is not None else "gone"

    async def until(self, condition: Callable[[], bool]) -> None:
        await self.cluster.eventually(condition)


Play = Callable[[Scene], Awaitable[None]]


async def _smallest(scene: Scene) -> None:
    await scene.put(
        volume("small", "1Gi"), volume("large", "90Gi"), volume("right", "6Gi"), volume_claim("c")
    )
    await scene.until(lambda: scene.has("c", "right"))
    assert scene.phase("small") == scene.phase("large") == "Available"


async def _later(scene: Scene) -> None:
    await scene.put(volume_claim("c"))
    await scene.cluster.quiet()
    assert not is_bound(scene.claim("c"))  # type: ignore[arg-type]  # it is there
    await scene.put(volume("v"))
    await scene.until(lambda: scene.has("c", "v"))


async def _one_each(scene: Scene) -> None:
    await scene.put(*(volume_claim(f"c{number}") for number in range(3)), volume("v0"), volume("v1"))
    await scene.until(lambda: sum(scene.phase(f"v{number}") == "Bound" for number in range(2)) == 2)
    await scene.cluster.quiet()
    bound = [each.spec.volume_name for each in scene.claims.all() if is_bound(each)]
    assert sorted(map(str, bound)) == ["v0", "v1"]


async def _named(scene: Scene) -> None:
    await scene.put(volume_claim("c", volumeName="v"), volume_claim("d", volumeName="v"), volume("v"))
    await scene.until(lambda: scene.has("c", "v") or scene.has("d", "v"))
    await scene.cluster.quiet()
    assert not (scene.has("c", "v") and scene.has("d", "v"))


async def _meant(scene: Scene) -> None:
    ref = {"namespace": "default", "name": "c"}
    await scene.put(volume("meant", claimRef=ref), volume("smaller", "5Gi"), volume_claim("c"))
    await scene.until(lambda: scene.has("c", "meant"))


async def _waits(scene: Scene) -> None:
    await scene.put(volume("v", storage=LATE), volume_claim("c", storage=LATE))
    await scene.cluster.quiet()
    assert scene.phase("v") == "Available"
    claim_ = scene.claim("c")
    assert claim_ is not None
    ref = {"namespace": "default", "name": "c", "uid": claim_.metadata.uid}
    await scene._plain["pv"].patch("v", {"spec": {"claimRef": ref}})  # as a scheduler does
    await scene.until(lambda: scene.has("c", "v"))


async def _kept(scene: Scene) -> None:
    await scene.put(volume("v"), volume_claim("c"))
    await scene.until(lambda: scene.has("c", "v"))
    await scene.drop_claim("c")
    await scene.until(lambda: scene.phase("v") == "Released")
    await scene.put(volume_claim("c"))  # another one by the name: what the first left is not for it
    await scene.cluster.quiet()
    assert not is_bound(scene.claim("c"))  # type: ignore[arg-type]  # it is there


async def _lost(scene: Scene) -> None:
    await scene.put(volume("v"), volume_claim("c"))
    await scene.until(lambda: scene.has("c", "v"))
    await scene._plain["pv"].delete("v")
    await scene.until(lambda: (found := scene.claim("c")) is not None and found.status.phase == "Lost")


async def _made(scene: Scene) -> None:
    labels = {
        "allotment.dev/simulated": "true",
        "kubernetes.io/hostname": "n",
        "topology.kubernetes.io/zone": "z",
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}
    await scene.cluster.create(node)
    await scene.cluster.eventually(lambda: scene.cluster.seen.of(Node).get("n"))
    await scene.put(volume_claim("c", storage=MADE))
    await scene.cluster.quiet()
    assert not scene.volumes.all()
    await scene.patch_claim("c", {"metadata": {"annotations": {SELECTED_NODE: "n"}}})
    await scene.until(lambda: any(is_bound(each) for each in scene.claims.all()))
    (made,) = scene.volumes.all()
    assert made.spec.node_affinity is not None
    assert made.spec.node_affinity.required is not None
    (term,) = made.spec.node_affinity.required.node_selector_terms
    assert [(test.key, test.values) for test in term.match_expressions] == [
        ("topology.kubernetes.io/zone", ("z",))
    ]
    await scene.drop_claim("c")
    await scene.until(lambda: not scene.volumes.all())


async def _real_node(scene: Scene) -> None:
    await scene.cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}})
    await scene.put(volume_claim("c", storage=MADE))
    await scene.patch_claim("c", {"metadata": {"annotations": {SELECTED_NODE: "real"}}})
    await scene.until(lambda: "ProvisioningFailed: node real is not simulated" in scene.cluster.events("c"))
    await scene.until(
        lambda: (found := scene.claim("c")) is not None and SELECTED_NODE not in found.metadata.annotations
    )


async def _others(scene: Scene) -> None:
    await scene.put(volume_claim("c", storage="other"))
    await scene.until(
        lambda: (
            (found := scene.claim("c")) is not None
            and found.metadata.annotations.get(STORAGE_PROVISIONER) == "disk.example.com"
        )
    )
    assert not scene.volumes.all()


async def _default(scene: Scene) -> None:
    marked = {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}
    unnamed = volume_claim("c")
    del unnamed["spec"]["storageClassName"]
    await scene.put(volume("v"), unnamed, volume_claim("none", storage=""))
    await scene.cluster.quiet()
    await scene._plain["sc"].patch(FAST, marked)
    await scene.until(lambda: scene.has("c", "v"))
    none = scene.claim("none")
    assert none is not None
    assert none.spec.storage_class_name == ""


async def _ephemeral(scene: Scene) -> None:
    spec = volume_claim("x")["spec"]
    ephemeral = {
        "name": "scratch",
        "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": spec}},
    }
    container = {"name": "main", "image": "busybox"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container], "volumes": [ephemeral]},
    }
    await scene.put(volume("v"))
    await scene.cluster.create(pod)
    await scene.until(lambda: scene.has("p-scratch", "v"))
    made, owner = scene.claim("p-scratch"), scene.cluster.seen.of(Pod).get("p", "default")
    assert made is not None
    assert owner is not None
    assert made.metadata.labels == {"a": "b"}
    assert [each.uid for each in made.metadata.owner_references] == [owner.metadata.uid]


@pytest.mark.parametrize(
    "play",
    [
        pytest.param(_smallest, id="the smallest that fits"),
        pytest.param(_later, id="a volume that comes later"),
        pytest.param(_one_each, id="no volume for two claims"),
        pytest.param(_named, id="a volume by its name"),
        pytest.param(_meant, id="a volume that is meant for the claim"),
        pytest.param(_waits, id="only what a scheduler gives, where a pod is waited for"),
        pytest.param(_kept, id="a volume without its claim is kept"),
        pytest.param(_lost, id="a claim without its volume is lost"),
        pytest.param(_made, id="a simulated volume comes and goes"),
        pytest.param(_real_node, id="nothing is simulated for a real node"),
        pytest.param(_others, id="other provisioners make their own"),
        pytest.param(_ephemeral, id="an ephemeral volume"),
        pytest.param(_default, id="the default class, for claims that name none"),
    ],
)
def test_claims_and_volumes(tmp_path: Path, play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        scene = Scene(cluster)
        await scene.start()
        await play(scene)

    in_cluster(tmp_path, scenario)
