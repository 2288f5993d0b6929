"""From pods that find no place to machines that run them, and back to nothing: with a real scheduler, and simulated machines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from allotment.api.autoscaling import NodeClaim
from allotment.api.core import Node, Pod
from allotment.client.form import Obj
from allotment.controllers.autoscaling.scale_down import REPLACES
from tests.autoscaler.build import catalogue, gpus, type_
from tests.controllers.autoscaling.loop import (
    at_once,
    autoscaling,
    end,
    gpu_pod,
    kinds,
    looping,
    running,
)
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.failing import CRASHES, Failing, Fault

SCHEDULING = "scheduling.k8s.io/v1beta1"


def claims(cluster: Cluster) -> list[NodeClaim]:
    return cluster.seen.of(NodeClaim).all()


async def all_run(cluster: Cluster, *names: str) -> dict[str, str]:
    await cluster.eventually(lambda: running(cluster).keys() == set(names), f"{names} run")
    return running(cluster)


async def nothing_left(cluster: Cluster) -> None:
    await cluster.eventually(
        lambda: not cluster.seen.of(Node).all() and not claims(cluster), "all machines go"
    )


def test_machines_come_for_pods_and_go_when_these_have_gone(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        async with looping(cluster):
            await cluster.create(gpu_pod("x"), gpu_pod("y"), gpu_pod("z"))
            where = await all_run(cluster, "x", "y", "z")
            assert sorted(kinds(cluster).values()) == ["two/a", "two/a"]
            assert sorted(Counter(where.values()).values()) == [1, 2]
            await cluster.create(gpu_pod("w"))  # there is room
            assert (await all_run(cluster, "w", "x", "y", "z"))["w"] in where.values()
            assert len(claims(cluster)) == 2
            await end(cluster, "w", "x", "y", "z")
            await nothing_left(cluster)

    in_cluster(tmp_path, scenario)


def test_a_gang_gets_its_machines_whole(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        async with looping(cluster):
            group: Obj = {
                "apiVersion": SCHEDULING,
                "kind": "PodGroup",
                "metadata": {"name": "g", "namespace": "default"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
            }
            await cluster.create(group)
            members = [gpu_pod(name, 4, schedulingGroup={"podGroupName": "g"}) for name in ("x", "y", "z")]
            await cluster.create(*members[:2])
            await cluster.eventually(lambda: "waits for 1 more pod of its gang" in str(cluster.events("y")))
            await cluster.quiet()
            assert claims(cluster) == []
            await cluster.create(members[2])
            where = await all_run(cluster, "x", "y", "z")
            assert len(set(where.values())) == 3

    in_cluster(tmp_path, scenario)


def test_what_is_out_of_stock_is_had_elsewhere(tmp_path: Path) -> None:
    types = catalogue(
        type_("two", {"a": "2", "b": "3"}, dynamicResources=gpus(2)),
        at_once(annotations={"allotment.dev/out-of-stock": "two/a"}),
    )

    async def scenario(cluster: Cluster) -> None:
        async with looping(cluster, types):
            await cluster.create(gpu_pod("x"))
            await all_run(cluster, "x")
            assert list(kinds(cluster).values()) == ["two/b"]

    in_cluster(tmp_path, scenario)


def test_a_pod_says_that_its_machines_cannot_be_had(tmp_path: Path) -> None:
    types = catalogue(
        type_("two", {"a": "2", "b": "3"}, dynamicResources=gpus(2)),
        at_once(annotations={"allotment.dev/out-of-stock": "*"}),
    )

    async def scenario(cluster: Cluster) -> None:
        async with looping(cluster, types):
            await cluster.create(gpu_pod("x"))
            await cluster.eventually(lambda: "no machine helps" in str(cluster.events("x")))
            assert "two in a (InsufficientCapacity), two in b (InsufficientCapacity)" in str(
                cluster.events("x")
            )
            assert kinds(cluster) == {}

    in_cluster(tmp_path, scenario)


def replicas(name: str, count: int, gpus: int = 1) -> Obj:
    """Pods that come back when they are evicted."""
    made = gpu_pod(name, gpus)
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": made["spec"]},
        },
    }


async def scale(cluster: Cluster, name: str, count: int) -> None:
    await cluster.admin.plain("apps/v1", "replicasets").patch(name, {"spec": {"replicas": count}}, "default")


async def four_wait(cluster: Cluster) -> None:
    """For the machines that come for four pods to be planned at once, the scheduler must have refused all of them before."""
    await cluster.create(replicas("web", 4))
    await cluster.eventually(lambda: sum(map(refused, cluster.seen.of(Pod).all())) == 4, "four pods wait")


def refused(pod: Pod) -> bool:
    return any(each.type == "PodScheduled" and each.status == "False" for each in pod.status.conditions)


def of(cluster: Cluster, name: str) -> list[Pod]:
    return [each for each in cluster.seen.of(Pod).all() if each.metadata.name.startswith(name)]


def test_cheaper_machines_come_before_dear_ones_go(tmp_path: Path) -> None:
    """Four pods are on the machine for four; when three have gone, the one that is left moves to a cheaper machine."""

    async def scenario(cluster: Cluster) -> None:
        types = catalogue(
            type_("one", {"a": "1.5"}, dynamicResources=gpus(1)),
            type_("four", {"a": "4"}, dynamicResources=gpus(4)),
            at_once(),
        )
        async with looping(cluster, types, autoscaled=False):
            await four_wait(cluster)
            await autoscaling(cluster, types)
            await cluster.eventually(lambda: len(running(cluster)) == 4)
            assert list(kinds(cluster).values()) == ["four/a"]
            [old] = claims(cluster)
            await scale(cluster, "web", 1)
            await cluster.eventually(lambda: list(kinds(cluster).values()) == ["one/a"])
            await cluster.eventually(lambda: set(running(cluster).values()) == set(kinds(cluster)))
            await cluster.quiet()
            [new] = claims(cluster)
            assert new.metadata.annotations[REPLACES] == old.metadata.name
            assert (
                "Consolidated: removed, because it is not needed: 1 machine for 1, 1 pod moves, saving 2.5 an hour"
                in (cluster.events(old.metadata.name))
            )

    in_cluster(tmp_path, scenario)


def test_everything_stays_if_a_cheaper_machine_cannot_be_had_and_that_is_not_tried_for_ever(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: Cluster) -> None:
        types = catalogue(
            type_("one", {"a": "1.5"}, dynamicResources=gpus(1)),
            type_("four", {"a": "4"}, dynamicResources=gpus(4)),
            at_once(annotations={"allotment.dev/out-of-stock": "one"}),
        )
        async with looping(cluster, types, autoscaled=False):
            await four_wait(cluster)
            await autoscaling(cluster, types)
            await cluster.eventually(lambda: len(running(cluster)) == 4)
            [old] = claims(cluster)
            await scale(cluster, "web", 1)
            words = "ReplacingFailed: it stays: its replacements failed, or are no longer sufficient"
            await cluster.eventually(lambda: words in cluster.events(old.metadata.name))
            await cluster.quiet()
            assert [each.metadata.name for each in claims(cluster) if each.status.node_name] == [
                old.metadata.name
            ]
            assert [REPLACES in each.metadata.annotations for each in claims(cluster)] == [False, False]
            assert list(running(cluster).values()) == [old.metadata.name]
            await scale(cluster, "web", 0)  # what needs no replacement goes all the same
            await cluster.eventually(lambda: not kinds(cluster))

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize(
    "fault", [Fault.LOST, Fault.CRASH_BEFORE, Fault.CRASH_AFTER], ids=lambda fault: fault.name.lower()
)
@pytest.mark.parametrize("at", [2, 3])
def test_an_exchange_is_finished_whatever_write_fails(tmp_path: Path, at: int, fault: Fault) -> None:
    """The writes: the first machine, its replacement, the deletion of the first."""

    async def scenario(cluster: Cluster) -> None:
        types = catalogue(
            type_("one", {"a": "1.5"}, dynamicResources=gpus(1)),
            type_("four", {"a": "4"}, dynamicResources=gpus(4)),
            at_once(),
        )
        async with looping(cluster, types, autoscaled=False):
            failing = Failing.once(at, fault)
            await four_wait(cluster)
            part = await autoscaling(cluster, types, failing)
            await cluster.eventually(lambda: len(running(cluster)) == 4)
            await scale(cluster, "web", 1)
            await failing.strike()
            if fault in CRASHES:
                await part.stop()
                await autoscaling(cluster, types)
            await cluster.eventually(lambda: list(kinds(cluster).values()) == ["one/a"])
            await cluster.eventually(lambda: set(running(cluster).values()) == set(kinds(cluster)))

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize("at", [2, 3])
@pytest.mark.parametrize(
    "fault", [Fault.LOST, Fault.CRASH_BEFORE, Fault.CRASH_AFTER], ids=lambda fault: fault.name.lower()
)
def test_whatever_write_fails_machines_are_neither_too_many_nor_left(
    tmp_path: Path, at: int, fault: Fault
) -> None:
    """Two claims are made and one deleted, then the other; whatever becomes of one of these writes, both come and both go."""

    async def scenario(cluster: Cluster) -> None:
        async with looping(cluster, autoscaled=False):
            made: set[str] = set()
            cluster.seen.of(NodeClaim).on_change(lambda _, new: made.add(new.metadata.name) if new else None)
            failing = Failing.once(at, fault)
            part = await autoscaling(cluster, failing=failing)
            await cluster.create(gpu_pod("x", 2), gpu_pod("y", 2))
            if fault in CRASHES and at < 3:
                await failing.strike()
                await part.stop()
                await autoscaling(cluster)
            await all_run(cluster, "x", "y")
            await end(cluster, "x")
            await cluster.eventually(lambda: fault in CRASHES or len(claims(cluster)) == 1)
            if fault in CRASHES and at == 3:
                await failing.strike()
                await part.stop()
                await autoscaling(cluster)
            await end(cluster, "y")
            await nothing_left(cluster)
            assert len(made) == 2

    in_cluster(tmp_path, scenario)
