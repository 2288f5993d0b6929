"""The end of a node: who is waited for, who is not, and for how long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from allotment.api.core import Node, Pod
from allotment.autoscaler.catalogue.node_claims import ClaimProgress
from allotment.client.form import Obj
from allotment.controllers.workloads.disruption_budgets import DisruptionBudgets
from tests.builders.plain import pod
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.machines.cloud import Cloud, SkewedClock
from tests.controllers.machines.world import Part, claim, delete, follow, running, state, told, until
from tests.controllers.taints.evictions import going, marks


def placed_pod(name: str, on: str, spec: Obj | None = None, **meta: Any) -> Obj:
    return pod(name, {"app": "a"}, namespace="default", meta=meta, nodeName=on, **(spec or {}))


async def running_pod(cluster: Cluster, made: Obj) -> None:
    await cluster.create(made)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    pods = cluster.admin.plain("v1", "pods")
    await pods.patch(made["metadata"]["name"], {"status": status}, "default", subresource="status")


async def ended(cluster: Cluster, name: str) -> None:
    """As a kubelet says it."""
    await cluster.admin.of(Pod).delete(name, "default", grace_seconds=0)


async def ready(cluster: Cluster, cloud: Cloud, **spec: Any) -> tuple[Part, str]:
    """A claim that is initialised, and the name of its node."""
    part = await running(cluster, cloud, clock=SkewedClock())
    await claim(cluster, **spec)
    await until(cluster, ClaimProgress.INITIALIZED)
    return part, cluster.seen.of(Node).all()[0].metadata.name


async def settled(cluster: Cluster, wanted: ClaimProgress | None) -> None:
    await follow(cluster)
    await cluster.quiet()
    assert state(cluster) is wanted


def test_pods_are_evicted_and_waited_for_before_the_machine_ends(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cloud = Cloud(cluster)
        _, node = await ready(cluster, cloud)
        for name in ("one", "two"):
            await running_pod(cluster, placed_pod(name, node))
        await delete(cluster)
        await settled(cluster, ClaimProgress.GOING)
        assert going(cluster, "one")
        assert going(cluster, "two")
        assert [(each.key, each.effect) for each in cluster.seen.of(Node).all()[0].spec.taints] == [
            ("karpenter.sh/disrupted", "NoSchedule")
        ]
        assert told(cluster, "Drained").message == "2 pods are still running"
        assert cloud.running
        await ended(cluster, "one")
        await settled(cluster, ClaimProgress.GOING)
        assert told(cluster, "Drained").message == "1 pods are still running"
        await ended(cluster, "two")
        await settled(cluster, None)
        assert not cloud.running
        assert not cluster.seen.of(Node).all()

    in_cluster(tmp_path, scenario)


DAEMON = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}]
NOT_WAITED_FOR: dict[str, dict[str, Any]] = {
    "of a DaemonSet": {"ownerReferences": DAEMON},
    "static": {"annotations": {"kubernetes.io/config.mirror": "x"}},
    "tolerates the taint": {"spec": {"tolerations": [{"operator": "Exists"}]}},
}


@pytest.mark.parametrize("case", NOT_WAITED_FOR)
def test_pods_that_belong_to_the_node_do_not_hold_it(tmp_path: Path, case: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        cloud = Cloud(cluster)
        _, node = await ready(cluster, cloud)
        await running_pod(cluster, placed_pod("stays", node, **NOT_WAITED_FOR[case]))
        await delete(cluster)
        await settled(cluster, None)
        assert not cloud.running
        assert marks(cluster, "stays") == []  # it was not evicted

    in_cluster(tmp_path, scenario)


async def guarded(cluster: Cluster, node: str) -> None:
    """A pod that a budget lets nobody evict."""
    part = cluster.component()
    await part.start(DisruptionBudgets(part.client, part.informers, part.recorder))
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }
    budgets = cluster.admin.plain("policy/v1", "poddisruptionbudgets")
    await budgets.create(budget)
    await running_pod(cluster, placed_pod("dear", node, spec={"terminationGracePeriodSeconds": 20}))
    cluster.seen.plain("policy/v1", "poddisruptionbudgets")
    await cluster.quiet()


def test_a_budget_holds_the_node_as_long_as_it_wants(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cloud = Cloud(cluster)
        part, node = await ready(cluster, cloud)
        await guarded(cluster, node)
        await delete(cluster)
        for _ in range(2):
            await settled(cluster, ClaimProgress.GOING)
            assert told(cluster, "Drained").message == (
                "1 pods are still running, 1 of them held back by disruption budgets"
            )
            assert not going(cluster, "dear")
            part.look_again()
        await cluster.admin.plain("policy/v1", "poddisruptionbudgets").delete("b", "default")
        await cluster.quiet()
        part.look_again()
        await settled(cluster, ClaimProgress.GOING)
        assert going(cluster, "dear")

    in_cluster(tmp_path, scenario)


def test_a_grace_period_is_the_end_of_all_waiting(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock, cloud = SkewedClock(), Cloud(cluster)
        part = await running(cluster, cloud, clock=clock)
        await claim(cluster, terminationGracePeriod="1m0s")
        await until(cluster, ClaimProgress.INITIALIZED)
        await guarded(cluster, cluster.seen.of(Node).all()[0].metadata.name)
        await delete(cluster)
        await settled(cluster, ClaimProgress.GOING)
        assert not going(cluster, "dear")
        clock.pass_(45)  # as much as the pod wants is hardly left
        part.look_again()
        await settled(cluster, ClaimProgress.GOING)
        assert going(cluster, "dear")
        assert cloud.running
        clock.pass_(20)
        part.look_again()
        await settled(cluster, None)
        assert not cloud.running

    in_cluster(tmp_path, scenario)


def test_the_node_stays_until_its_machine_has_ended(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cloud = Cloud(cluster)
        part, _ = await ready(cluster, cloud)
        cloud.stuck = True
        await delete(cluster)
        await settled(cluster, ClaimProgress.GOING)
        assert cluster.seen.of(Node).all()
        cloud.stuck = False
        part.look_again()
        await settled(cluster, None)
        assert not cluster.seen.of(Node).all()

    in_cluster(tmp_path, scenario)
