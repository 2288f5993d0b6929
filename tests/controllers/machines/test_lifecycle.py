"""NodeClaims from creation to a node with its devices, and to the end of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from allotment.api.autoscaling import NodeClaim
from allotment.api.codec import decode
from allotment.api.core import Node
from allotment.api.resource import ResourceSlice
from allotment.autoscaler.catalogue.node_claims import ClaimProgress, on_offer
from allotment.autoscaler.catalogue.overlays import evaluate
from tests.autoscaler.build import catalogue, gpus, is_type, pool, type_
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.machines.cloud import Cloud, SkewedClock, Trouble
from tests.controllers.machines.world import (
    TYPES,
    claim,
    delete,
    follow,
    running,
    seen,
    state,
    told,
    until,
)


async def settled(cluster: Cluster, wanted: ClaimProgress | None, name: str = "c") -> None:
    """Nothing more happens by itself, and the claim is so."""
    await follow(cluster)
    await cluster.quiet()
    assert state(cluster, name) is wanted


def names(cluster: Cluster, kind: type[Node] | type[ResourceSlice]) -> list[str]:
    return sorted(each.metadata.name for each in cluster.seen.of(kind).all())


def test_a_claim_becomes_a_node_with_its_devices_and_goes_without_a_trace(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await running(cluster)
        made = await claim(cluster)
        await until(cluster, ClaimProgress.INITIALIZED)
        found = seen(cluster)
        assert found is not None
        assert found.status.provider_id == f"simulated://{made.metadata.uid}"
        assert found.status.node_name == "c"
        for each in ("Launched", "Registered", "Initialized", "Ready", "DevicesAsPredicted"):
            assert told(cluster, each).status == "True", each
        node = cluster.seen.of(Node).get("c")
        assert node is not None
        assert node.spec.taints == ()
        assert node.metadata.labels["karpenter.sh/initialized"] == "true"
        assert [len(each.spec.devices) for each in cluster.seen.of(ResourceSlice).all()] == [2]
        await delete(cluster)
        await until(cluster, None)
        await cluster.eventually(lambda: not cluster.seen.of(Node).all(), "the node goes")
        await cluster.eventually(lambda: not cluster.seen.of(ResourceSlice).all(), "its slices go")
        await cluster.quiet()
        reasons = [each.split(":")[0] for each in cluster.events("c")]
        assert set(reasons) >= {"Launched", "Registered", "Initialized", "Draining", "Terminated"}

    in_cluster(tmp_path, scenario)


def test_a_node_gets_what_its_claim_says_when_it_joins(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await running(cluster, Cloud(cluster))
        taints = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
        starting = [{"key": "cni", "effect": "NoSchedule"}]
        made = await claim(cluster, taints=taints, startupTaints=starting)
        await settled(cluster, ClaimProgress.REGISTERED)
        assert told(cluster, "Initialized").reason == "StartupTaintsExist"
        assert told(cluster, "Ready").status == "False"
        node = cluster.seen.of(Node).all()[0]
        assert {(each.key, each.effect) for each in node.spec.taints} == {
            ("gpu", "NoSchedule"),
            ("cni", "NoSchedule"),
        }
        assert made.metadata.labels.items() <= node.metadata.labels.items()
        assert [(each.kind, each.uid) for each in node.metadata.owner_references] == [
            ("NodeClaim", made.metadata.uid)
        ]
        nodes = cluster.admin.of(Node)
        await nodes.patch(node.metadata.name, {"spec": {"taints": taints}})  # whoever waits for its network
        await settled(cluster, ClaimProgress.INITIALIZED)
        found = seen(cluster)
        assert found is not None
        assert found.status.node_name == node.metadata.name
        assert found.status.capacity == node.status.capacity

    in_cluster(tmp_path, scenario)


def test_a_claim_that_leaves_a_choice_is_told_what_was_chosen_before_it_is_launched(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await running(cluster, Cloud(cluster, {1: Trouble.FAILED}.get))
        made = {"metadata": {"name": "c"}, "spec": {"requirements": [is_type("large", "small")]}}
        await cluster.admin.of(NodeClaim).create(decode(NodeClaim, made))
        await settled(cluster, ClaimProgress.LAUNCHING)
        found = seen(cluster)
        assert found is not None
        assert found.metadata.finalizers == ("karpenter.sh/termination",)
        assert found.metadata.labels["node.kubernetes.io/instance-type"] == "small"  # the cheaper
        assert found.metadata.annotations["allotment.dev/drivers"] == ""

    in_cluster(tmp_path, scenario)


def test_what_is_out_of_stock_is_remembered_for_a_while_and_then_forgotten(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock, cloud = SkewedClock(), Cloud(cluster, {1: Trouble.OUT}.get)
        part = await running(cluster, cloud, clock=clock)
        await claim(cluster)
        await settled(cluster, ClaimProgress.FAILED)
        said = told(cluster, "Launched")
        assert (said.status, said.reason) == ("False", "InsufficientCapacity")
        assert cluster.events("c") == ["InsufficientCapacity: no p/large/a/on-demand today"]
        found = seen(cluster)
        assert found is not None
        offered = on_offer(evaluate(TYPES).machines, [found])
        assert {each.name for each in offered} == {"p/large/b/on-demand", "p/small/a/on-demand"}
        part.look_again()
        await settled(cluster, ClaimProgress.FAILED)
        clock.pass_(181)
        part.look_again()
        await settled(cluster, None)
        assert not cloud.running

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize(
    "trouble", [Trouble.FAILED, Trouble.STRANGE, Trouble.LOST], ids=lambda each: each.name
)
def test_other_failures_are_tried_again_and_nothing_is_launched_twice(
    tmp_path: Path, trouble: Trouble
) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock, cloud = SkewedClock(), Cloud(cluster, {1: trouble, 2: trouble}.get)
        part = await running(cluster, cloud, clock=clock)
        made = await claim(cluster)
        for _ in range(2):
            await settled(cluster, ClaimProgress.LAUNCHING)
            said = told(cluster, "Launched")
            assert (said.status, said.reason) == ("Unknown", "LaunchFailed")
            part.look_again()  # too early
            await settled(cluster, ClaimProgress.LAUNCHING)
            clock.pass_(30)
            part.look_again()
        await settled(cluster, ClaimProgress.INITIALIZED)
        assert cloud.launches == {made.metadata.uid: 1}

    in_cluster(tmp_path, scenario)


def test_what_fails_for_too_long_is_given_up_with_what_may_run_for_it(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock, cloud = SkewedClock(), Cloud(cluster, lambda number: Trouble.LOST)
        part = await running(cluster, cloud, clock=clock)
        await claim(cluster)
        await settled(cluster, ClaimProgress.LAUNCHING)
        clock.pass_(301)
        part.look_again()
        await settled(cluster, ClaimProgress.FAILED)
        assert told(cluster, "Launched").message == "given up: cloud: ConnectionResetError: gone"
        clock.pass_(181)
        part.look_again()
        await settled(cluster, None)
        assert not cloud.running
        assert names(cluster, Node) == []

    in_cluster(tmp_path, scenario)


def test_a_claim_for_a_machine_that_is_not_in_the_catalogue_waits_for_it(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        part = await running(cluster, Cloud(cluster), types=catalogue())
        await claim(cluster)
        await settled(cluster, ClaimProgress.LAUNCHING)
        assert (
            told(cluster, "Launched").message
            == "the catalogue has no machine that meets the claim's requirements"
        )
        part.market.use(TYPES)
        await settled(cluster, ClaimProgress.INITIALIZED)

    in_cluster(tmp_path, scenario)


def test_a_machine_of_which_no_node_comes_is_given_up(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock, cloud = SkewedClock(), Cloud(cluster)
        cloud.slow = True
        part = await running(cluster, cloud, clock=clock)
        await claim(cluster)
        await settled(cluster, ClaimProgress.LAUNCHED)
        clock.pass_(890)
        part.look_again()
        await settled(cluster, ClaimProgress.LAUNCHED)
        clock.pass_(20)
        part.look_again()
        await settled(cluster, None)
        assert not cloud.running
        assert any(each.startswith("RegistrationTimeout: ") for each in cluster.events("c"))

    in_cluster(tmp_path, scenario)


def test_a_node_that_does_not_get_ready_is_reported_once_and_kept(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock, cloud = SkewedClock(), Cloud(cluster)
        cloud.slow = True
        part = await running(cluster, cloud, clock=clock)
        made = await claim(cluster)
        await settled(cluster, ClaimProgress.LAUNCHED)
        node = await cloud.join(made.metadata.uid, ready=False)
        await settled(cluster, ClaimProgress.REGISTERED)
        assert told(cluster, "Initialized").reason == "NodeNotReady"
        for _ in range(2):
            clock.pass_(901)
            part.look_again()
            await settled(cluster, ClaimProgress.REGISTERED)
        assert told(cluster, "Initialized").status == "False"
        assert [each for each in cluster.events("c") if each.startswith("NotInitialized")] == [
            "NotInitialized: the node does not report that it is ready"
        ]
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        await cluster.admin.of(Node).patch(node.metadata.name, {"status": status}, subresource="status")
        await settled(cluster, ClaimProgress.INITIALIZED)

    in_cluster(tmp_path, scenario)


def test_devices_are_waited_for_and_held_against_the_prediction(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cloud = Cloud(cluster)
        cloud.slow = True
        await running(cluster, cloud)
        made = await claim(cluster)
        await settled(cluster, ClaimProgress.LAUNCHED)
        node = await cloud.join(made.metadata.uid, devices=1)
        await settled(cluster, ClaimProgress.INITIALIZED)  # the pool is complete, with less than was promised
        said = told(cluster, "DevicesAsPredicted")
        assert (said.status, said.reason) == ("False", "DevicesDiffer")
        assert said.message == "gpu.example.com/gpu-1: is missing"
        assert told(cluster, "Ready").status == "True"
        words = f"DevicesDiffer: {said.message}"  # events follow the condition
        names = ("c", node.metadata.name)
        await cluster.eventually(lambda: all(words in cluster.events(name) for name in names), "both events")
        slices = cluster.admin.of(ResourceSlice)
        [slice] = cluster.seen.of(ResourceSlice).all()
        full = [{"name": "gpu-0"}, {"name": "gpu-1"}]
        await slices.patch(slice.metadata.name, {"spec": {"devices": full}})
        await settled(cluster, ClaimProgress.INITIALIZED)
        assert told(cluster, "DevicesAsPredicted").status == "True"

    in_cluster(tmp_path, scenario)


def test_a_driver_that_has_not_published_holds_the_node_back(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await running(cluster, Cloud(cluster))
        await claim(cluster, annotations={"allotment.dev/drivers": "gpu.example.com,nic.example.com"})
        await settled(cluster, ClaimProgress.REGISTERED)
        said = told(cluster, "Initialized")
        assert said.reason == "DevicesNotPublished"
        assert said.message == "nic.example.com has not published all devices yet"

    in_cluster(tmp_path, scenario)


def test_two_nodes_with_one_id_are_nobodys(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cloud = Cloud(cluster)
        cloud.slow = True
        part = await running(cluster, cloud)
        made = await claim(cluster)
        await settled(cluster, ClaimProgress.LAUNCHED)
        await part.component.stop()
        node = await cloud.join(made.metadata.uid)
        twin = replace(node, metadata=replace(node.metadata, name="twin", uid="", resource_version=""))
        await cluster.admin.of(Node).create(twin)
        await running(cluster, cloud)
        await settled(cluster, ClaimProgress.LAUNCHED)
        assert told(cluster, "Registered").reason == "MultipleNodesFound"
        await cluster.admin.of(Node).delete("twin")
        await settled(cluster, ClaimProgress.INITIALIZED)
        await cluster.admin.of(Node).create(twin)  # too late: the claim has its node
        await settled(cluster, ClaimProgress.INITIALIZED)
        found = seen(cluster)
        assert found is not None
        assert found.status.node_name == node.metadata.name

    in_cluster(tmp_path, scenario)


def test_who_deletes_the_node_ends_the_machine(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cloud = Cloud(cluster)
        await running(cluster, cloud)
        await claim(cluster)
        await settled(cluster, ClaimProgress.INITIALIZED)
        await cluster.admin.of(Node).delete(names(cluster, Node)[0])
        await settled(cluster, None)
        assert not cloud.running
        assert any(each.startswith("NodeGone: ") for each in cluster.events("c"))

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize(("lasts", "goes"), [("1h0m0s", True), ("3h", False), ("Never", False)])
def test_a_node_gets_only_so_old(tmp_path: Path, lasts: str, goes: bool) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = SkewedClock()
        part = await running(cluster, Cloud(cluster), clock=clock)
        await claim(cluster, expireAfter=lasts)
        await settled(cluster, ClaimProgress.INITIALIZED)
        clock.pass_(2 * 3600)
        part.look_again()
        await settled(cluster, None if goes else ClaimProgress.INITIALIZED)

    in_cluster(tmp_path, scenario)


def test_a_claim_deleted_while_it_is_launched_leaves_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cloud = Cloud(cluster, {1: Trouble.HUNG}.get)
        part = await running(cluster, cloud)
        await claim(cluster)
        await cloud.struck.wait()  # it runs, and nobody has noted that
        await delete(cluster)
        await part.component.stop()
        assert cloud.running
        await running(cluster, cloud)
        await settled(cluster, None)
        assert not cloud.running
        await cluster.eventually(lambda: names(cluster, Node) == [], "the node goes with its owner")

    in_cluster(tmp_path, scenario)


def test_the_sweep_ends_machines_without_a_claim_and_claims_without_a_machine(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cloud = Cloud(cluster)
        part = await running(cluster, cloud)
        kept, lost = await claim(cluster, "kept"), await claim(cluster, "lost")
        forced = await claim(cluster, "forced")
        for name in ("kept", "lost", "forced"):
            await until(cluster, ClaimProgress.INITIALIZED, name)
        del cloud.running[lost.metadata.uid]  # somebody ended it in the cloud's own console
        await cluster.admin.of(NodeClaim).patch("forced", {"metadata": {"finalizers": None}})
        await delete(cluster, "forced")
        await settled(cluster, None, "forced")
        assert forced.metadata.uid in cloud.running
        part.look_again()
        await settled(cluster, None, "lost")
        assert list(cloud.running) == [kept.metadata.uid]
        assert any(each.startswith("MachineGone: ") for each in cluster.events("lost"))

    in_cluster(tmp_path, scenario)


def test_what_is_right_is_not_written_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        part = await running(cluster, Cloud(cluster))
        await claim(cluster)
        await settled(cluster, ClaimProgress.INITIALIZED)
        before = cluster.server.store.revision
        part.look_again()
        await settled(cluster, ClaimProgress.INITIALIZED)
        await part.component.stop()
        await running(cluster, part.provider.__call__)  # type: ignore[operator]  # the cloud is its own maker
        await settled(cluster, ClaimProgress.INITIALIZED)
        assert cluster.server.store.revision == before

    in_cluster(tmp_path, scenario)


def test_the_pool_of_the_cluster_counts(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        types = catalogue(type_("large", dynamicResources=gpus(2)))
        await running(cluster, Cloud(cluster), types=types)
        await claim(cluster)  # of a pool that is not there yet
        await settled(cluster, ClaimProgress.LAUNCHING)
        await cluster.admin.of(type(pool("p"))).create(pool("p"))
        await settled(cluster, ClaimProgress.INITIALIZED)

    in_cluster(tmp_path, scenario)
