"""Machines that are played: with values for what was bound, and with all that can go wrong."""

from __future__ import annotations

from pathlib import Path

from allotment.api.autoscaling import NodeClaim
from allotment.api.core import Node, Pod
from allotment.api.resource import ResourceSlice
from allotment.autoscaler.catalogue.node_claims import ClaimProgress, claim_of
from allotment.autoscaler.catalogue.overlays import evaluate
from tests.autoscaler.build import (
    GPU,
    NIC,
    ROOT,
    binding,
    catalogue,
    device,
    devices,
    pool,
    template,
    type_,
)
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.machines.cloud import SkewedClock
from tests.controllers.machines.world import AT_ONCE, claim, delete, follow, running, state, told, until
from tests.controllers.simulation.simulated import placed_pod

PAIRED = devices(
    template("gpus", GPU, device("gpu-0"), device("gpu-1")),
    template("nics", NIC, device("nic-0"), device("nic-1")),
    bindings=[
        binding(("gpus", "gpu-0"), ("nics", "nic-0")),
        binding(("gpus", "gpu-1"), ("nics", "nic-1")),
    ],
)


async def settled(cluster: Cluster, wanted: ClaimProgress | None, name: str = "c") -> None:
    await follow(cluster)
    await cluster.quiet()
    assert state(cluster, name) is wanted


def test_what_was_bound_is_equal_and_nothing_else_is(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        types = catalogue(type_("pairs", dynamicResources=PAIRED), pool("p"))
        await running(cluster, types=types)
        [machine] = evaluate(types).machines
        for name in ("c", "d"):
            made = claim_of(machine, {}, name=name)
            made.metadata.annotations.update(AT_ONCE)
            await cluster.admin.of(NodeClaim).create(made)
        for name in ("c", "d"):
            await until(cluster, ClaimProgress.INITIALIZED, name)
            assert told(cluster, "DevicesAsPredicted", name).status == "True"
        roots = {
            (each.spec.node_name, device.name): device.attributes[ROOT].string_value
            for each in cluster.seen.of(ResourceSlice).all()
            for device in each.spec.devices
        }
        assert len(roots) == 8
        for node in ("c", "d"):
            for number in "01":
                assert roots[node, f"gpu-{number}"] == roots[node, f"nic-{number}"]
        assert len(set(roots.values())) == 4

    in_cluster(tmp_path, scenario)


def test_pods_run_on_it_and_go_with_it(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await running(cluster)
        await claim(cluster)
        await until(cluster, ClaimProgress.INITIALIZED)
        await cluster.create(placed_pod("p", on="c"))

        def phase() -> str | None:
            found = cluster.seen.of(Pod).get("p", "default")
            return found.status.phase if found is not None else None

        await cluster.eventually(lambda: phase() == "Running", "the pod to run")
        await delete(cluster)
        await until(cluster, None)
        assert phase() is None
        await cluster.eventually(lambda: not cluster.seen.of(Node).all(), "the node to go")

    in_cluster(tmp_path, scenario)


def test_nodes_and_devices_take_their_time(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = SkewedClock()
        part = await running(cluster, clock=clock)
        await claim(
            cluster,
            annotations={"allotment.dev/boot-seconds": "50", "allotment.dev/publish-seconds": "100"},
            startupTaints=[{"key": "cni", "effect": "NoSchedule"}],
        )
        await settled(cluster, ClaimProgress.LAUNCHED)
        assert not cluster.seen.of(Node).all()
        clock.pass_(51)
        part.look_again()
        await settled(cluster, ClaimProgress.REGISTERED)
        assert told(cluster, "Initialized").reason == "StartupTaintsExist"
        assert not cluster.seen.of(ResourceSlice).all()
        clock.pass_(101)
        part.look_again()
        await settled(cluster, ClaimProgress.INITIALIZED)

    in_cluster(tmp_path, scenario)


STOCK = {
    "all": ("*", ClaimProgress.FAILED),
    "type": ("small, large", ClaimProgress.FAILED),
    "place": ("large/a", ClaimProgress.FAILED),
    "kind": ("large/a/on-demand", ClaimProgress.FAILED),
    "another-place": ("large/b", ClaimProgress.INITIALIZED),
    "another-kind": ("large/a/spot", ClaimProgress.INITIALIZED),
    "nothing": ("", ClaimProgress.INITIALIZED),
}


def test_the_stock_is_what_the_annotation_says(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await running(cluster)
        for name, (said, _) in STOCK.items():
            await claim(cluster, name, annotations={"allotment.dev/out-of-stock": said})
        for name, (_, wanted) in STOCK.items():
            await until(cluster, wanted, name)

    in_cluster(tmp_path, scenario)


def test_a_fault_that_passes(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = SkewedClock()
        part = await running(cluster, clock=clock)
        await claim(cluster, annotations={"allotment.dev/failing-seconds": "60"})
        await settled(cluster, ClaimProgress.LAUNCHING)
        assert told(cluster, "Launched").reason == "LaunchFailed"
        clock.pass_(61)
        part.look_again()
        await settled(cluster, ClaimProgress.INITIALIZED)

    in_cluster(tmp_path, scenario)


def test_devices_that_are_missing_are_told(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await running(cluster)
        await claim(cluster, annotations={"allotment.dev/missing-devices": "1"})
        await until(cluster, ClaimProgress.INITIALIZED)
        assert told(cluster, "DevicesAsPredicted").message == "gpu.example.com/gpu-1: is missing"

    in_cluster(tmp_path, scenario)


def test_annotations_that_make_no_sense_do_no_harm(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await running(cluster)
        nonsense = {"allotment.dev/failing-seconds": "soon", "allotment.dev/missing-devices": "-1"}
        await claim(cluster, annotations=nonsense)
        await until(cluster, ClaimProgress.INITIALIZED)
        assert told(cluster, "DevicesAsPredicted").status == "True"

    in_cluster(tmp_path, scenario)
