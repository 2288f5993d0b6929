"""Machines for pods that find no place: what is asked for, when, how often, and what pods are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from allotment.api.autoscaling import NodeClaim, NodeGroup, NodeOverlay, NodePool
from allotment.api.batch import PodGroup
from allotment.api.codec import to_builtins
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.client.form import ResourcePath, resource_of
from allotment.client.places import PLACES
from allotment.controllers.autoscaling.batch import Batch
from allotment.controllers.autoscaling.followed_cluster import FollowedCluster
from allotment.controllers.autoscaling.metrics import AutoscalingMetrics
from allotment.controllers.autoscaling.provisioning import Provisioning
from allotment.controllers.machines.market import Market
from tests.autoscaler.build import GPU, catalogue, gpus, pool, type_
from tests.controllers.cluster import Cluster, Component, in_cluster
from tests.controllers.failing import CRASHES, Failing, Fault
from tests.controllers.simulation.simulated import Time

TYPES = catalogue(
    type_("cheap", {"a": "2", "b": "3"}, dynamicResources=gpus(2)),
    type_("dear", {"a": "9"}, dynamicResources=gpus(4)),
    pool("p"),
)
CLAIMS = resource_of(NodeClaim)
GROUPS = PLACES[PodGroup][0]


def provisioning(part: Component, machines: Catalogue = TYPES, **more: Any) -> Provisioning:
    market = Market(
        part.informers,
        machines,
        pools=resource_of(NodePool),
        groups=resource_of(NodeGroup),
        overlays=resource_of(NodeOverlay),
    )
    cluster = FollowedCluster(part.informers, {PodGroup: GROUPS})
    given = {"batch": Batch(idle=0.0), "numbers": AutoscalingMetrics(), **more}
    return Provisioning(part.client, part.informers, part.recorder, cluster, market, place=CLAIMS, **given)


async def begin(cluster: Cluster, machines: Catalogue = TYPES, **more: Any) -> Component:
    cluster.seen.of(NodeClaim)
    part = cluster.component()
    await part.start(provisioning(part, machines, **more))
    return part


async def create(cluster: Cluster, place: ResourcePath, obj: Any) -> None:
    await cluster.admin.plain(place.api_version, place.plural, namespaced=place.namespaced).create(obj, "")


GPUS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{GPU}"'}}]},
}


async def wanting(cluster: Cluster, *names: str, gpus: int = 1, **spec: Any) -> None:
    """Pods that want so many GPUs each, and that the scheduler has found no place for."""
    for name in names:
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": gpus}}
        claim = {"devices": {"requests": [request]}}
        container = {"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
        entry = {"name": "gpu", "resourceClaimName": name}
        await cluster.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": name},
                "spec": claim,
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name},
                "spec": {"containers": [container], "resourceClaims": [entry], **spec},
            },
        )
    for name in names:
        await refuse(cluster, name)


async def refuse(cluster: Cluster, name: str) -> None:
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    pods = cluster.admin.plain("v1", "pods")
    await pods.patch(name, {"status": {"conditions": [told]}}, "default", subresource="status")


def claims(cluster: Cluster) -> list[NodeClaim]:
    return sorted(cluster.seen.of(NodeClaim).all(), key=lambda each: each.metadata.creation_timestamp or "")


def machines(cluster: Cluster) -> list[str]:
    """``type/zone`` of what is asked for."""
    labels = [each.metadata.labels for each in claims(cluster)]
    return sorted(
        f"{each['node.kubernetes.io/instance-type']}/{each['topology.kubernetes.io/zone']}" for each in labels
    )


async def mark(cluster: Cluster, claim: NodeClaim, type_: str, status: str, reason: str = "Because") -> None:
    condition = {
        "type": type_,
        "status": status,
        "reason": reason,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    place = cluster.admin.plain(CLAIMS.api_version, CLAIMS.plural, namespaced=False)
    await place.patch(claim.metadata.name, {"status": {"conditions": [condition]}}, subresource="status")


def test_pods_that_wait_get_the_cheapest_machines_and_hear_of_it_once(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(GPUS)
        await wanting(cluster, "x", "y", "z")
        await begin(cluster)
        await cluster.eventually(lambda: len(claims(cluster)) == 2)
        await cluster.quiet()
        assert machines(cluster) == ["cheap/a", "cheap/a"]
        words = "TriggeredScaleUp: 1 machine cheap in a is being launched, at 2 an hour"
        assert [cluster.events(name) for name in "xyz"] == [[words]] * 3
        await refuse(cluster, "x")  # whatever makes it look again
        await cluster.quiet()
        assert len(claims(cluster)) == 2
        assert cluster.events("x") == [words]

    in_cluster(tmp_path, scenario)


def test_pods_that_the_scheduler_has_not_refused_get_none(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(GPUS)
        await begin(cluster)
        await cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "x"},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
        )
        await cluster.quiet()
        assert machines(cluster) == []

    in_cluster(tmp_path, scenario)


def test_what_comes_together_is_planned_for_together(tmp_path: Path) -> None:
    """One by one they would have got the cheap machine for two, and another one."""

    async def scenario(cluster: Cluster) -> None:
        time = Time()
        await cluster.create(GPUS)
        part = await begin(
            cluster,
            catalogue(
                *TYPES.pools.values(),
                type_("cheap", {"a": "4"}, dynamicResources=gpus(2)),
                type_("dear", {"a": "5"}, dynamicResources=gpus(4)),
            ),
            batch=Batch(idle=0.01, most=1000.0),
            now=time.now,
        )
        await wanting(cluster, "x", "y", "z")
        await cluster.eventually(lambda: part.reconcilers[0].queue._timers)
        time.pass_(0.01)
        await cluster.eventually(lambda: claims(cluster))
        assert machines(cluster) == ["dear/a"]

    in_cluster(tmp_path, scenario)


def test_what_is_out_of_stock_is_replaced_by_another_offer_and_in_the_end_the_pod_says_so(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(GPUS)
        await begin(cluster)
        await wanting(cluster, "x")
        for offer in ("cheap/a", "cheap/b", "dear/a"):
            await cluster.eventually(lambda: [each for each in claims(cluster) if not each.status.conditions])
            assert offer in machines(cluster)
            [newest] = [each for each in claims(cluster) if not each.status.conditions]
            await mark(cluster, newest, "Launched", "False", "InsufficientCapacity")
        await cluster.eventually(lambda: any("no machine helps" in each for each in cluster.events("x")))
        await cluster.quiet()
        assert len(claims(cluster)) == 3
        assert cluster.events("x")[-1] == (
            "NotTriggerScaleUp: no machine helps: no machine is available; could not be launched: "
            "cheap in a (InsufficientCapacity), cheap in b (InsufficientCapacity), dear in a (InsufficientCapacity)"
        )

    in_cluster(tmp_path, scenario)


def test_who_no_machine_helps_is_told_why_and_helped_when_there_is_another_machine(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(GPUS)
        await begin(
            cluster,
            catalogue(type_("big", dynamicResources=gpus(8)), type_("small", dynamicResources=gpus(1))),
        )
        await wanting(cluster, "x", gpus=4)
        await cluster.eventually(lambda: cluster.events("x"))
        assert cluster.events("x") == ["NotTriggerScaleUp: no machine helps: no machine is available"]
        only = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["small"]}
        await create(cluster, resource_of(NodePool), to_builtins(pool("little", only)))
        await cluster.eventually(lambda: len(cluster.events("x")) == 2)
        assert cluster.events("x")[1].startswith(
            "NotTriggerScaleUp: no machine helps: none of 1 instance types fits: has"
        )
        await create(cluster, resource_of(NodePool), to_builtins(pool("all")))
        await cluster.eventually(lambda: claims(cluster))
        assert machines(cluster) == ["big/a"]

    in_cluster(tmp_path, scenario)


def test_a_gang_is_planned_for_whole_or_not_at_all(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(GPUS)
        group = {"schedulingPolicy": {"gang": {"minCount": 3}}}
        await create(
            cluster,
            GROUPS,
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": "g", "namespace": "default"},
                "spec": group,
            },
        )
        limited = catalogue(*TYPES.types.values(), pool("p", limits={"cpu": "16"}))
        part = await begin(cluster, limited)
        member = {"schedulingGroup": {"podGroupName": "g"}}
        await wanting(cluster, "x", "y", "z", gpus=4, **member)
        await cluster.eventually(lambda: cluster.events("z"))
        await cluster.quiet()
        assert machines(cluster) == []  # the limit is good for two
        assert "only 2 of its gang default/g have a place, and 3 must" in cluster.events("x")[-1]
        await part.stop()
        await begin(cluster)
        await cluster.eventually(lambda: len(claims(cluster)) == 3)
        await cluster.quiet()
        assert (
            cluster.events("x")[-1]
            == "TriggeredScaleUp: 3 machines dear in a are being launched, at 27 an hour"
        )

    in_cluster(tmp_path, scenario)


# --- failures ---


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("at", [1, 2])
def test_whatever_write_fails_nothing_is_launched_twice(tmp_path: Path, at: int, fault: Fault) -> None:
    """The pods are three, of which one comes only after the failure, so that the second plan is not the first."""

    async def scenario(cluster: Cluster) -> None:
        cluster.seen.of(NodeClaim)
        await cluster.create(GPUS)
        failing = Failing.once(at, fault)
        part = cluster.component(through=failing.through)
        await wanting(cluster, "x", "y", gpus=2)
        await part.start(provisioning(part))
        await failing.strike()
        if fault in CRASHES:
            await part.stop()
            part = cluster.component()
            await wanting(cluster, "z", gpus=2)
            await part.start(provisioning(part))
        else:
            await wanting(cluster, "z", gpus=2)
        await cluster.eventually(lambda: len(claims(cluster)) >= 3)
        await cluster.quiet()
        assert machines(cluster) == ["cheap/a"] * 3

    in_cluster(tmp_path, scenario)


def test_a_claim_that_the_server_refuses_does_not_keep_others_from_theirs(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.seen.of(NodeClaim)
        await cluster.create(GPUS)
        failing = Failing({1: Fault.FAILED, 3: Fault.FAILED}.get)
        part = cluster.component(through=failing.through)
        await wanting(cluster, "x", "y", gpus=2)
        await part.start(provisioning(part))
        await cluster.eventually(lambda: len(claims(cluster)) == 2)
        assert len(failing.writes) == 4  # two, then the one that is missing until it is there

    in_cluster(tmp_path, scenario)
