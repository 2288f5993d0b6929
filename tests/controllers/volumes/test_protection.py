"""Finalizers that protect volumes elsewhere hold claims and volumes here while they are in use, and no longer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from allotment.api.core import Pod
from allotment.api.storage import PersistentVolume, PersistentVolumeClaim
from allotment.controllers.volumes.protection import CLAIM_IN_USE, VOLUME_IN_USE, VolumeProtection
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.volumes.test_binder import volume, volume_claim
from tests.controllers.workloads.workload_objects import HERE, web_pod

Obj = dict[str, Any]
OTHER = "example.com/hold"


def using(name: str, node: str, claim: str) -> Obj:
    made = web_pod(name)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    return {**made, "spec": {**made["spec"], "nodeName": node, "volumes": volumes}}


def test_what_is_in_use_stays_and_what_is_not_goes(tmp_path: Path) -> None:
    """Unless somebody else holds it as well."""

    async def scenario(cluster: Cluster) -> None:
        part = cluster.component()
        await part.start(VolumeProtection(part.client, part.informers))
        claims = cluster.admin.plain("v1", "persistentvolumeclaims")
        volumes = cluster.admin.plain("v1", "persistentvolumes", namespaced=False)
        for name in ("used", "idle", "held"):
            made = volume_claim(name)
            made["metadata"]["finalizers"] = [CLAIM_IN_USE, *([OTHER] if name == "held" else [])]
            await claims.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", **made}, HERE)
        uid = (await claims.get("used", HERE))["metadata"]["uid"]
        mine = volume("mine", claimRef={"name": "used", "namespace": HERE, "uid": uid})
        mine["metadata"]["finalizers"] = [VOLUME_IN_USE]
        await volumes.create({"apiVersion": "v1", "kind": "PersistentVolume", **mine})
        await claims.patch("used", {"spec": {"volumeName": "mine"}}, HERE)
        await cluster.create(using("user", "n", "used"), using("waits", "", "idle"))
        for name in ("used", "idle", "held"):
            await claims.delete(name, HERE)
        await volumes.delete("mine")
        seen, pv = cluster.seen.of(PersistentVolumeClaim), cluster.seen.of(PersistentVolume)
        await cluster.eventually(lambda: seen.get("idle", HERE) is None, "nobody uses it")
        await cluster.quiet()
        held = seen.get("held", HERE)
        assert held is not None
        assert held.metadata.finalizers == (OTHER,)
        assert seen.get("used", HERE) is not None
        assert pv.get("mine") is not None
        await cluster.admin.of(Pod).delete("user", HERE, grace_seconds=0)
        await cluster.eventually(lambda: seen.get("used", HERE) is None, "its pod is gone")
        await cluster.eventually(lambda: pv.get("mine") is None, "its claim is gone")

    in_cluster(tmp_path, scenario)
