"""Simulated drivers make the binding conditions of their devices true, after a while, and keep to their own devices."""

from pathlib import Path
from typing import Any

from allotment.api.resource import ResourceClaim
from allotment.client.form import Obj
from allotment.controllers.controller import Again
from allotment.controllers.simulation.driver import SimulatedDrivers
from allotment.controllers.simulation.prepare import ClaimKey
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.simulation.simulated import Time, allocation, gpu_claim, slice_

C = ClaimKey("default", "c")
CONDITIONS: Obj = {"bindingConditions": ["Attached", "Warm"], "bindingFailureConditions": ["Broken"]}


async def drivers(cluster: Cluster, time: Time) -> SimulatedDrivers:
    part = cluster.component()
    played = SimulatedDrivers(part.client, part.informers, part.recorder, now=time.now)
    await part.start(played)
    return played


def played_slice(seconds: str | None, **spec: Any) -> Obj:
    made = slice_("gpu-0", **spec)
    made["spec"]["devices"][0] |= CONDITIONS
    if seconds is not None:
        made["metadata"]["annotations"] = {"allotment.dev/binding-seconds": seconds}
    return made


async def allocate(cluster: Cluster, time: Time, pool: str = "ada") -> None:
    await cluster.create(gpu_claim())
    given = allocation("gpu-0", pool=pool, **CONDITIONS)
    given["allocationTimestamp"] = time.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    claims = cluster.admin.plain("resource.k8s.io/v1", "resourceclaims")
    await claims.patch("c", {"status": {"allocation": given}}, "default", subresource="status")


def conditions(cluster: Cluster) -> dict[str, str]:
    found = cluster.seen.of(ResourceClaim).get("c", "default") or ResourceClaim()
    return {each.type: each.status for device in found.status.devices for each in device.conditions}


def test_conditions_come_true_after_the_time_that_the_slice_says(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        played = await drivers(cluster, time)
        await cluster.create(played_slice("60"))
        await allocate(cluster, time)
        await cluster.quiet()
        assert await played.reconcile(C) == Again(60.0, "its devices are not ready yet")
        assert conditions(cluster) == {}
        time.pass_(60)
        assert await played.reconcile(C) is None
        await cluster.eventually(lambda: conditions(cluster) == {"Attached": "True", "Warm": "True"})
        found = await cluster.admin.of(ResourceClaim).get("c", "default")
        await cluster.quiet()
        assert await played.reconcile(C) is None  # done is done
        assert (await cluster.admin.of(ResourceClaim).get("c", "default")) == found

    in_cluster(tmp_path, scenario)


def test_by_itself_when_no_time_is_needed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        await drivers(cluster, time)
        await cluster.create(played_slice("0"))
        await allocate(cluster, time)
        await cluster.eventually(lambda: conditions(cluster) == {"Attached": "True", "Warm": "True"})

    in_cluster(tmp_path, scenario)


def test_devices_of_real_drivers_are_left_to_them(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        await drivers(cluster, time)
        cluster.seen.of(ResourceClaim)
        await cluster.create(played_slice(None), played_slice("0", pool="other", nodeName="ada"))
        await allocate(cluster, time)
        await cluster.quiet()
        assert conditions(cluster) == {}

    in_cluster(tmp_path, scenario)


def test_what_another_driver_reports_stays(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        played = await drivers(cluster, time)
        await cluster.create(played_slice("60"))
        await allocate(cluster, time)
        said = {"driver": "gpu.example.com", "pool": "ada", "device": "gpu-0", "data": {"fan": "loud"}}
        claims = cluster.admin.plain("resource.k8s.io/v1", "resourceclaims")
        await claims.patch("c", {"status": {"devices": [said]}}, "default", subresource="status")
        await cluster.quiet()
        time.pass_(60)
        await played.reconcile(C)
        await cluster.eventually(lambda: conditions(cluster))
        found = await claims.get("c", "default")
        (device,) = found["status"]["devices"]
        assert device["data"] == {"fan": "loud"}

    in_cluster(tmp_path, scenario)
