"""ResourcePools follow slices, claims and taint rules, through the server: made, kept up, removed, and never written in vain."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from allotment.allocator.pool import PoolID
from allotment.api.codec import decode
from allotment.api.pools import (
    ResourcePool,
    ResourcePoolSpec,
    ResourcePoolStatus,
    ResourcePoolStatusRequest,
)
from allotment.api.resource import DeviceTaintRule, ResourceSlice
from allotment.api.semantic import NodeResourceSlice
from allotment.api.status import Invalid
from allotment.client.form import Obj, resource_of
from allotment.controllers.controller import Again
from allotment.controllers.pools.followed_usage import FollowedUsage
from allotment.controllers.pools.metrics import PoolNumbers
from allotment.controllers.pools.pool_heartbeat import PoolHeartbeat
from allotment.controllers.pools.pool_status import INT32, pool_status, status_patch
from allotment.controllers.pools.pool_status_requests import PoolStatusRequests, cut
from allotment.controllers.pools.resource_pools import UPDATE_PAUSE, Pools
from allotment.usage.counter import NAME, NAMESPACE, standstill
from allotment.usage.pool import PoolUsage, compute_pool_usage
from tests.checkout import CHECKOUT
from tests.controllers.claims.claim_objects import finalized_claim
from tests.controllers.claims.test_metrics import numbers
from tests.controllers.cluster import PATIENCE, Cluster, Component, in_cluster
from tests.controllers.failing import Failing, Fault, with_each_write_failing

EXAMPLES = CHECKOUT / "examples" / "kubernetes"
V1, GPU = "resource.k8s.io/v1", "gpu.example.com"


class Clock:
    """A second later each time it is asked, so that a time that was written anew shows."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 2, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time


def gpus(
    name: str = "s",
    *devices: str,
    pool: str = "node-1",
    driver: str = GPU,
    node: str | None = "node-1",
    generation: int = 1,
    count: int = 1,
) -> Obj:
    """A slice; of a pool without a node, one that all nodes reach."""
    return {
        "apiVersion": V1,
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            **({"nodeName": node} if node else {"allNodes": True}),
            "devices": [{"name": each} for each in devices],
        },
    }


async def take(cluster: Cluster, name: str, device: str, pool: str = "node-1", driver: str = GPU) -> None:
    """A claim that holds a device."""
    await cluster.create(finalized_claim(name, finalizers=()))
    result = {"request": "gpu", "driver": driver, "pool": pool, "device": device}
    status = {"allocation": {"devices": {"results": [result]}}}
    await cluster.admin.plain(V1, "resourceclaims").patch(
        name, {"status": status}, "default", subresource="status"
    )


async def counting(
    cluster: Cluster, *, pause: float = 0.0, numbers: PoolNumbers | None = None, **how: Any
) -> Component:
    """Both reconcilers, running."""
    part = cluster.component(**how)
    followed = FollowedUsage(
        part.informers, rules=resource_of(DeviceTaintRule), node_slices=resource_of(NodeResourceSlice)
    )
    now = Clock()
    await part.start(
        Pools(part.client, part.informers, followed, numbers=numbers, pause=pause, now=now),
        PoolStatusRequests(part.client, part.informers, followed, now=now),
    )
    return part


def pools(cluster: Cluster) -> dict[str, ResourcePool]:
    return {pool.metadata.name: pool for pool in cluster.seen.of(ResourcePool).all()}


def counts(pool: ResourcePool | None) -> tuple[int, int, int, int]:
    """Total, allocated, available, unavailable."""
    if pool is None:
        return (-1, -1, -1, -1)
    found = pool.status.summary
    return (
        found.total_devices,
        found.allocated_devices,
        found.available_devices,
        found.unavailable_devices or 0,
    )


def conditions(pool: ResourcePool) -> dict[str, str]:
    return {each.type: f"{each.status} {each.reason}" for each in pool.status.conditions}


async def until(
    cluster: Cluster, expected: tuple[int, int, int, int], name: str = f"{GPU}.node-1"
) -> ResourcePool:
    await cluster.eventually(lambda: counts(pools(cluster).get(name)) == expected, f"{name}: {expected}")
    return pools(cluster)[name]


# --- the life of a pool ---


def test_a_pool_follows_its_slices_and_claims(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await counting(cluster)
        await cluster.create(gpus("s", "a", "b", "c"))
        made = await until(cluster, (3, 0, 3, 0))
        assert made.spec == ResourcePoolSpec(driver=GPU, pool_name="node-1", node_name="node-1")
        assert conditions(made) == {"Complete": "True AllSlicesPresent", "Valid": "True ValidationPassed"}
        assert (made.status.observed_slice_count, made.status.expected_slice_count) == (1, 1)
        assert made.status.observed_generation == 1

        await take(cluster, "one", "a")
        taken = await until(cluster, (3, 1, 2, 0))
        assert (taken.status.last_update_time or "") > (made.status.last_update_time or "")
        assert taken.status.conditions == made.status.conditions  # times of transition included
        rule = {"taint": {"key": "k", "effect": "NoSchedule"}, "deviceSelector": {"device": "b"}}
        await cluster.create(
            {"apiVersion": V1, "kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": rule}
        )
        await until(cluster, (3, 1, 1, 1))
        await cluster.admin.plain(V1, "resourceclaims").delete("one", "default")
        await until(cluster, (3, 0, 2, 1))

        await cluster.create(gpus("new", "x", generation=2, count=2))  # a driver on its way to the next one
        moving = await until(cluster, (1, 0, 0, 1))
        assert conditions(moving)["Complete"] == "False SlicesMissing"
        assert moving.status.observed_generation == 2
        assert any("older generation 1" in error for error in moving.status.validation_errors)
        await cluster.create(gpus("new-2", "y", generation=2, count=2))
        moved = await until(cluster, (2, 0, 2, 0))
        assert (
            moved.status.conditions[0].last_transition_time
            != moving.status.conditions[0].last_transition_time
        )
        assert moved.status.conditions[1] == made.status.conditions[1]
        assert moved.metadata.uid == made.metadata.uid

        await cluster.create(gpus("again", "y", generation=2, count=2))
        await cluster.eventually(
            lambda: conditions(pools(cluster)[f"{GPU}.node-1"])["Valid"] == "False DuplicateDevices",
            "the pool is not valid",
        )
        for name in ("s", "new", "new-2", "again"):
            await cluster.admin.plain(V1, "resourceslices", namespaced=False).delete(name)
        await cluster.eventually(lambda: not pools(cluster), "the pool is gone")

    in_cluster(tmp_path, scenario)


def test_a_pool_that_moves_gets_an_object_anew(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await counting(cluster)
        await cluster.create(gpus("s", "a", pool="p"))
        first = await until(cluster, (1, 0, 1, 0), f"{GPU}.p")
        await cluster.create(gpus("t", "b", pool="p", node=None, generation=2))
        await cluster.eventually(
            lambda: [pool.spec.node_name for pool in pools(cluster).values()] == [None], "no node"
        )
        (second,) = pools(cluster).values()
        assert second.metadata.name == first.metadata.name
        assert second.metadata.uid != first.metadata.uid

    in_cluster(tmp_path, scenario)


def test_early_pools_are_counted_too(tmp_path: Path) -> None:
    tree = {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "NodeResourceSlice",
        "metadata": {"name": "t"},
        "spec": {
            "nodeName": "node-1",
            "driverName": "cards.example.com",
            "partitionable": {"resourceInstances": [{"name": "card-0"}, {"name": "card-1"}]},
        },
    }

    async def scenario(cluster: Cluster) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
        await cluster.create(node)
        await counting(cluster)
        await cluster.create(tree)
        made = await until(cluster, (2, 0, 2, 0), "cards.example.com.node-1")
        assert made.spec.node_name == "node-1"

    in_cluster(tmp_path, scenario)


# --- writes ---


def test_at_rest_nothing_is_written(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        failing = Failing()
        part = await counting(cluster, through=failing.through)
        await cluster.create(gpus("s", "a", "b"), gpus("t", "c", pool="node-2", node="node-2"))
        await take(cluster, "one", "a")
        await until(cluster, (2, 1, 1, 0))
        await until(cluster, (1, 0, 1, 0), f"{GPU}.node-2")
        await cluster.quiet()
        written = len(failing.writes)
        # what does not bear on devices: a label, a reservation, a resync
        labels = {"metadata": {"labels": {"a": "b"}}}
        await cluster.admin.plain(V1, "resourceslices", namespaced=False).patch("s", labels)
        await cluster.admin.plain(V1, "resourceclaims").patch("one", labels, "default")
        await cluster.admin.of(ResourcePool).patch(f"{GPU}.node-1", labels)
        for pool in cluster.seen.of(ResourcePool).all():
            part.reconcilers[0].queue.add(PoolID(pool.spec.driver, pool.spec.pool_name))
        await cluster.quiet()
        assert failing.writes[written:] == []
        assert written <= 4  # two pools made, one claim seen

        await part.stop()  # another process finds all as it should be
        again = Failing()
        await counting(cluster, through=again.through)
        await cluster.quiet()
        assert again.writes == []

    in_cluster(tmp_path, scenario)


def test_a_burst_of_claims_is_one_write(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(gpus("s", *(f"d{number}" for number in range(20))))
        failing = Failing()
        await counting(cluster, pause=UPDATE_PAUSE, through=failing.through)
        await until(cluster, (20, 0, 20, 0))
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(take(cluster, f"c{number}", f"d{number}") for number in range(20)))
        await until(cluster, (20, 20, 0, 0))
        pauses = (asyncio.get_running_loop().time() - began) / UPDATE_PAUSE
        assert len(failing.writes) <= 2 + pauses  # it was made; one write a pause

    in_cluster(tmp_path, scenario)


async def _life(cluster: Cluster, failing: Failing) -> None:
    """Pools come, change and go; in the end what is there is what should be."""
    await counting(cluster, through=failing.through)
    await cluster.create(gpus("s", "a", "b"), gpus("t", "c", pool="node-2", node="node-2"))
    await until(cluster, (2, 0, 2, 0))
    await take(cluster, "one", "a")
    await until(cluster, (2, 1, 1, 0))
    await cluster.admin.plain(V1, "resourceslices", namespaced=False).delete("t")
    await cluster.eventually(lambda: list(pools(cluster)) == [f"{GPU}.node-1"], "one pool is left")


def test_whatever_write_fails_the_counts_are_right_in_the_end(tmp_path: Path) -> None:
    assert len(with_each_write_failing(tmp_path, _life, step=2)) >= 4


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER], ids=lambda each: each.name)
@pytest.mark.parametrize("at", [1, 2])
def test_another_process_goes_on_where_one_ended(tmp_path: Path, at: int, fault: Fault) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(gpus("s", "a", "b"), gpus("t", "c", pool="node-2", node="node-2"))
        failing = Failing.once(at, fault)
        part = await counting(cluster, through=failing.through)
        await failing.strike()
        await part.stop()
        await take(cluster, "one", "a")  # while nobody counts
        await cluster.admin.plain(V1, "resourceslices", namespaced=False).delete("t")
        await counting(cluster)
        await until(cluster, (2, 1, 1, 0))
        await cluster.eventually(lambda: list(pools(cluster)) == [f"{GPU}.node-1"], "one pool is left")

    in_cluster(tmp_path, scenario)


# --- objects ---


def test_switched_off_and_on_again_it_catches_up(tmp_path: Path) -> None:
    """Meanwhile pools can be read as they were, and nothing else stops."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.create(gpus("s", "a", "b"), gpus("t", "c", pool="node-2", node="node-2"))
        part = await counting(cluster)
        before = await until(cluster, (2, 0, 2, 0))
        await until(cluster, (1, 0, 1, 0), f"{GPU}.node-2")
        await part.stop()
        await take(cluster, "one", "a")
        await cluster.admin.plain(V1, "resourceslices", namespaced=False).delete("t")
        await cluster.create(gpus("u", "d", pool="node-3", node="node-3"))
        await cluster.quiet()
        assert pools(cluster)[f"{GPU}.node-1"] == before
        assert set(pools(cluster)) == {f"{GPU}.node-1", f"{GPU}.node-2"}
        await counting(cluster)
        await until(cluster, (2, 1, 1, 0))
        await until(cluster, (1, 0, 1, 0), f"{GPU}.node-3")
        await cluster.eventually(lambda: f"{GPU}.node-2" not in pools(cluster), "the pool that went is gone")

    in_cluster(tmp_path, scenario)


def test_pools_whose_names_would_be_the_same_have_an_object_each(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await counting(cluster)
        await cluster.create(
            gpus("one", "a", driver="a.b", pool="c.d"),
            gpus("two", "a", "b", driver="a.b.c", pool="d"),
            gpus("three", "a", "b", "c", pool="rack/shelf"),  # no name of an object
            gpus("four", "a", "b", "c", "d", driver="A.b", pool="c.d"),
        )
        await cluster.eventually(lambda: len(pools(cluster)) == 4, "an object each")
        found = pools(cluster)
        assert sorted(pool.status.summary.total_devices for pool in found.values()) == [1, 2, 3, 4]
        assert "a.b.c.d" in found
        named = {name: (pool.spec.driver, pool.spec.pool_name) for name, pool in found.items()}
        await cluster.quiet()
        assert named == {name: (p.spec.driver, p.spec.pool_name) for name, p in pools(cluster).items()}
        await cluster.admin.of(ResourcePool).delete("a.b.c.d")  # comes back, the others stay
        await cluster.eventually(
            lambda: len(pools(cluster)) == 4 and pools(cluster)["a.b.c.d"] != found["a.b.c.d"], "it is back"
        )
        assert named == {name: (p.spec.driver, p.spec.pool_name) for name, p in pools(cluster).items()}

    in_cluster(tmp_path, scenario)


def test_objects_that_stand_for_nothing_or_for_a_pool_twice_go(tmp_path: Path) -> None:
    def stray(name: str, pool: str) -> ResourcePool:
        spec = {"driver": GPU, "poolName": pool, "nodeName": "node-1"}
        return decode(ResourcePool, {"metadata": {"name": name}, "spec": spec})

    async def scenario(cluster: Cluster) -> None:
        await cluster.create(gpus("s", "a"))
        part = cluster.component()
        for each in (stray("older", "node-1"), stray("second", "node-1"), stray("nowhere", "gone")):
            await part.client.of(ResourcePool).create(each)
        await cluster.eventually(lambda: len(pools(cluster)) == 3, "all are there")
        await counting(cluster)
        await cluster.eventually(lambda: len(pools(cluster)) == 1, "one is left")
        (kept,) = pools(cluster).values()
        assert kept.spec.pool_name == "node-1"
        assert counts(await until(cluster, (1, 0, 1, 0), kept.metadata.name)) == (1, 0, 1, 0)

    in_cluster(tmp_path, scenario)


def test_pools_are_kept_as_custom_resources_too(tmp_path: Path) -> None:
    definition, *_ = yaml.safe_load_all((EXAMPLES / "resource_pools.yaml").read_text())

    async def scenario(cluster: Cluster) -> None:
        kinds = cluster.admin.plain("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
        await kinds.create(definition)
        place = replace(resource_of(ResourcePool), api_version="allotment.dev/v1beta2")
        seen = cluster.seen.at(place, ResourcePool)
        failing = Failing()
        part = cluster.component(through=failing.through)
        followed = FollowedUsage(part.informers)
        await part.start(Pools(part.client, part.informers, followed, place=place, pause=0.0, now=Clock()))
        await cluster.create(gpus("s", "a", "b"))
        await cluster.eventually(lambda: counts(seen.get(f"{GPU}.node-1")) == (2, 0, 2, 0), "counts")
        await take(cluster, "one", "a")
        await cluster.eventually(lambda: counts(seen.get(f"{GPU}.node-1")) == (2, 1, 1, 0), "counts")
        await cluster.quiet()
        assert [write.split()[0] for write in failing.writes] == ["POST", "PATCH", "PATCH"]
        assert not pools(cluster)
        found = cluster.admin.plain("allotment.dev/v1beta2", "resourcepools", namespaced=False)
        assert len((await found.list(fields="spec.nodeName=node-1")).items) == 1
        with pytest.raises(Invalid, match="field is immutable"):
            await found.patch(f"{GPU}.node-1", {"spec": {"nodeName": "node-2"}})

    in_cluster(tmp_path, scenario)


def test_nothing_is_removed_before_all_slices_are_known(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        failing = Failing()
        part = cluster.component(through=failing.through)
        made = Pools(part.client, part.informers, FollowedUsage(part.informers))
        early = asyncio.create_task(made.reconcile(PoolID(GPU, "node-1")))
        await cluster.create(gpus("s", "a"))
        assert not early.done()
        await part.start()  # its informers
        await asyncio.wait_for(early, PATIENCE)
        assert [write.split()[0] for write in failing.writes] == ["POST"]

    in_cluster(tmp_path, scenario)


# --- requests ---


def requests(cluster: Cluster) -> dict[str, ResourcePoolStatusRequest]:
    return {each.metadata.name: each for each in cluster.seen.of(ResourcePoolStatusRequest).all()}


def request(name: str, **spec: Any) -> ResourcePoolStatusRequest:
    return decode(ResourcePoolStatusRequest, {"metadata": {"name": name}, "spec": {"driver": GPU, **spec}})


def test_a_request_is_answered_once_and_goes_in_time(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(
            gpus("s", "a", "b"),
            gpus("t", "c", pool="node-2", node="node-2", count=2),
            gpus("u", "d", pool="node-3", node="node-3"),
            gpus("v", "e", driver="nic.example.com"),
        )
        await take(cluster, "one", "a")
        part = await counting(cluster)
        asked = cluster.admin.of(ResourcePoolStatusRequest)
        for each in (request("all"), request("few", limit=1), request("one", poolName="node-3")):
            await asked.create(each)
        await cluster.eventually(
            lambda: (
                len(requests(cluster)) == 3
                and all(each.status is not None for each in requests(cluster).values())
            ),
            "answers",
        )
        told = {name: each.status for name, each in requests(cluster).items()}
        whole, few, one = told["all"], told["few"], told["one"]
        assert whole is not None
        assert few is not None
        assert one is not None
        assert [(pool.pool_name, pool.node_name) for pool in whole.pools] == [
            (f"node-{number}", f"node-{number}") for number in (1, 2, 3)
        ]
        first, second, _ = whole.pools
        assert (first.total_devices, first.allocated_devices, first.available_devices) == (2, 1, 1)
        assert first.validation_error is None
        # upstream gives no counts and no answer here
        assert (second.total_devices, second.available_devices, second.unavailable_devices) == (1, 0, 1)
        assert (second.validation_error or "").startswith("PoolIncomplete: 1 of 2 slices")
        assert (few.pool_count, [pool.pool_name for pool in few.pools]) == (3, ["node-1"])
        assert (one.pool_count, [pool.pool_name for pool in one.pools]) == (1, ["node-3"])
        assert [(each.type, each.status) for each in whole.conditions] == [("Complete", "True")]

        await take(cluster, "two", "b")
        await until(cluster, (2, 2, 0, 0))
        await cluster.quiet()
        assert {name: each.status for name, each in requests(cluster).items()} == told
        await part.stop()
        part = cluster.component()
        followed = FollowedUsage(part.informers)
        later = Clock()
        later.time += timedelta(hours=1, minutes=1)
        await part.start(PoolStatusRequests(part.client, part.informers, followed, now=later))
        await cluster.eventually(lambda: not requests(cluster), "answers are gone")

    in_cluster(tmp_path, scenario)


def test_partitions_and_shared_devices_are_told_by_kind(tmp_path: Path) -> None:
    """As Kubernetes 1.37's request has them."""

    def half(number: int) -> Obj:
        use = {"counterSet": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}
        attributes = {"profile": {"string": "half"}}
        return {"name": f"half-{number}", "attributes": attributes, "consumesCounters": [use]}

    async def scenario(cluster: Cluster) -> None:
        counters, pieces, cards = gpus("s", count=2), gpus("t", count=2), gpus("u", pool="node-2")
        gpu = {"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}
        del counters["spec"]["devices"]
        counters["spec"]["sharedCounters"] = [gpu]
        pieces["spec"]["devices"] = [half(0), half(1)]
        card = {"name": "card", "allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "10G"}}}
        cards["spec"]["devices"] = [card]
        await cluster.create(counters, pieces, cards)
        await take(cluster, "one", "half-0")
        await counting(cluster)
        asked = cluster.admin.of(ResourcePoolStatusRequest)
        await asked.create(request("all", defaultPartitionTypeAttribute=f"{GPU}/profile"))
        await asked.create(request("wrong", defaultPartitionTypeAttribute=f"{GPU}/other"))
        await cluster.eventually(
            lambda: [each.status is not None for each in requests(cluster).values()] == [True, True],
            "answers",
        )
        told = {
            name: each.status.pools for name, each in requests(cluster).items() if each.status is not None
        }
        first, second = told["all"]
        assert [
            (each.attribute, each.type, each.total, each.allocatable) for each in first.partition_summary
        ] == [(f"{GPU}/profile", "half", 2, 1)]
        assert first.shareable_summary is None
        assert second.partition_summary == ()
        shared = second.shareable_summary
        assert shared is not None
        assert (shared.fully_available_devices, shared.partially_available_devices) == (1, 0)
        assert [(each.name, str(each.available)) for each in shared.capacity] == [("bandwidth", "10G")]
        wrong = told["wrong"][0]
        assert (wrong.validation_error or "").startswith("PartitionTypeMissing: device")
        assert (wrong.total_devices, wrong.partition_summary) == (2, ())

    in_cluster(tmp_path, scenario)


# --- numbers ---


def test_the_numbers(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        registry = CollectorRegistry()
        await cluster.create(gpus("s", "a", "b"))
        failing = Failing.once(1, Fault.FAILED)
        await counting(cluster, numbers=PoolNumbers(registry), through=failing.through)
        await take(cluster, "one", "a")
        await until(cluster, (2, 1, 1, 0))
        await cluster.quiet()
        found = numbers(registry)
        assert found["resourcepool_controller_pools_total"] == 1
        assert found["resourcepool_controller_claims_tracked"] == 1
        assert found["resourcepool_controller_sync_errors_total"] == 1
        assert found["resourcepool_controller_staleness_seconds"] == 0
        assert found["resourcepool_controller_sync_duration_seconds_count"] >= 2
        assert found['workqueue_depth{name="resourcepool"}'] == 0

    in_cluster(tmp_path, scenario)


def test_staleness_is_the_longest_wait_for_what_is_not_shown_yet() -> None:
    time = [0.0]
    made = PoolNumbers(clock=lambda: time[0])
    one, two = PoolID("d", "one"), PoolID("d", "two")
    assert made.staleness() == 0
    made.touched(one)
    time[0] = 3.0
    made.touched(one)
    made.touched(two)
    time[0] = 5.0
    assert made.staleness() == 5
    with pytest.raises(ValueError, match="no"), made.syncing(one):
        raise ValueError("no")
    assert made.staleness() == 5
    with made.syncing(one):
        time[0] = 6.0
        made.touched(one)  # may not be in what is being written
        time[0] = 7.0
    assert made.staleness() == 4
    with made.syncing(two):
        pass
    assert made.staleness() == 1
    with made.syncing(one):
        pass
    assert made.staleness() == 0


# --- what is written ---


def usage(**how: Any) -> PoolUsage:
    return compute_pool_usage([decode(ResourceSlice, gpus("s", "a", "b", **how))], [])


def test_a_status_that_says_the_same_is_the_same() -> None:
    first = pool_status(usage(), ResourcePoolStatus(), "2026-01-01T00:00:00Z")
    assert first.last_update_time == "2026-01-01T00:00:00Z"
    assert pool_status(usage(), first, "2026-01-02T00:00:00Z") is not first
    assert pool_status(usage(), first, "2026-01-02T00:00:00Z") == first
    second = pool_status(usage(generation=2), first, "2026-01-02T00:00:00Z")
    assert second.last_update_time == "2026-01-02T00:00:00Z"
    assert second.conditions == first.conditions
    third = pool_status(usage(count=2), second, "2026-01-03T00:00:00Z")
    assert [each.last_transition_time for each in third.conditions] == [
        "2026-01-03T00:00:00Z",
        "2026-01-01T00:00:00Z",
    ]


def test_a_patch_takes_away_what_is_no_more() -> None:
    before = decode(
        ResourcePoolStatus,
        {"validationErrors": ["x"] * 10, "truncatedErrorCount": 12, "observedGeneration": 1},
    )
    patch = status_patch(pool_status(usage(), before, "2026-01-01T00:00:00Z"), before)["status"]
    assert (patch["validationErrors"], patch["truncatedErrorCount"]) == (None, None)
    assert patch["summary"] == {
        "totalDevices": 2,
        "allocatedDevices": 0,
        "availableDevices": 2,
        "unavailableDevices": 0,
        "partiallyAllocatedDevices": 0,
    }


def test_a_driver_may_announce_more_slices_than_a_count_holds() -> None:
    status = pool_status(usage(count=2**40), ResourcePoolStatus(), "2026-01-01T00:00:00Z")
    assert status.expected_slice_count == INT32


def test_a_long_error_is_cut_where_a_character_ends() -> None:
    assert cut("x" * 256) == "x" * 256
    assert cut("x" + "ä" * 200) == "x" + "ä" * 127


def test_one_lease_says_that_pools_are_counted(tmp_path: Path) -> None:
    """Made once, and renewed with the rights that controllers have."""

    async def scenario(cluster: Cluster) -> None:
        part, clock = cluster.component(), Clock()
        beats = PoolHeartbeat(part.client, FollowedUsage(part.informers), PoolNumbers(), now=clock)
        leases = cluster.admin.plain("coordination.k8s.io/v1", "leases")
        await part.start()
        seen = []
        for _ in range(2):
            assert await beats.reconcile(NAME) == Again(10.0, "the lease must be renewed")
            seen.append(await leases.get(NAME, NAMESPACE))
        assert [standstill(each, clock.time) for each in seen] == ["", ""]
        assert seen[0]["spec"]["renewTime"] < seen[1]["spec"]["renewTime"]

    in_cluster(tmp_path, scenario)


def test_the_heartbeat_stands_still_with_a_pool_that_cannot_be_written(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        part, clock, waits = cluster.component(), Clock(), [0.0]
        counted = PoolNumbers(clock=lambda: waits[0])
        beats = PoolHeartbeat(part.client, FollowedUsage(part.informers), counted, now=clock)
        leases = cluster.admin.plain("coordination.k8s.io/v1", "leases")
        await part.start()
        pool = PoolID(GPU, "node-1")

        async def told() -> str:
            await beats.reconcile(NAME)
            return standstill(await leases.get(NAME, NAMESPACE), clock.time)

        counted.touched(pool)
        waits[0] = 3600.0
        with pytest.raises(RuntimeError), counted.syncing(pool):
            raise RuntimeError("nobody may write it")
        assert "counts of ResourcePools are as of 2026-01-01 23:00:01 UTC" in await told()
        with counted.syncing(pool):
            pass
        assert await told() == ""

    in_cluster(tmp_path, scenario)
