"""Disruption budgets against the embedded server: the numbers, and evictions that hold to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from allotment.api.core import Pod
from allotment.api.status import TooManyRequests
from allotment.client.form import Obj
from allotment.controllers.workloads.disruption_budgets import DisruptionBudgets
from allotment.controllers.workloads.replica_sets import ReplicaSets
from tests.controllers.cluster import Cluster, Component, in_cluster
from tests.controllers.failing import Failing, with_each_write_failing
from tests.controllers.workloads.workload_objects import (
    HERE,
    Clock,
    Kubelet,
    replica_set,
    web_pod,
)

POLICY = "policy/v1"
KEY = (HERE, "keep")
ANY = {"matchLabels": {"app": "web"}}


def budget(**spec: Any) -> Obj:
    body = {"selector": ANY, **spec}
    return {"apiVersion": POLICY, "kind": "PodDisruptionBudget", "metadata": {"name": "keep"}, "spec": body}


async def start(cluster: Cluster, part: Component | None = None, **options: Any) -> Component:
    part = part or cluster.component()
    await cluster.seen.plain(POLICY, "poddisruptionbudgets").synced()
    await cluster.seen.plain("v1", "events").synced()
    await cluster.seen.of(Pod).synced()
    await part.start(DisruptionBudgets(part.client, part.informers, part.recorder, **options))
    return part


def status(cluster: Cluster) -> Obj:
    found = cluster.seen.plain(POLICY, "poddisruptionbudgets").get("keep", HERE)
    told: Obj = {} if found is None else found["status"]
    return told


def numbers(cluster: Cluster) -> tuple[int, int, int, int]:
    """Expected, wanted healthy, healthy, and how many may go."""
    names = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    expected, wanted, healthy, spare = (status(cluster).get(name, 0) for name in names)
    return expected, wanted, healthy, spare


async def evict(cluster: Cluster, name: str) -> None:
    body = {"apiVersion": POLICY, "kind": "Eviction", "metadata": {"name": name, "namespace": HERE}}
    await cluster.admin.of(Pod).act(name, "eviction", body, HERE)


@pytest.mark.parametrize(
    ("spec", "ready", "expected"),
    [
        pytest.param({"minAvailable": 2}, 4, (4, 2, 4, 2), id="a number must stay"),
        pytest.param({"minAvailable": 2}, 1, (4, 2, 1, 0), id="too few already"),
        pytest.param({"minAvailable": "50%"}, 4, (5, 3, 4, 1), id="a part of the set's size, rounded up"),
        pytest.param({"maxUnavailable": 2}, 4, (5, 3, 4, 1), id="a number may be missing"),
        pytest.param({"maxUnavailable": "30%"}, 4, (5, 3, 4, 1), id="a part may be missing, rounded up"),
        pytest.param({"maxUnavailable": "100%"}, 4, (5, 0, 4, 4), id="all may"),
        pytest.param({}, 4, (0, 0, 4, 0), id="no rule allows nothing"),
        pytest.param({"minAvailable": 1, "selector": {}}, 4, (4, 1, 4, 3), id="an empty selector means all"),
        pytest.param({"minAvailable": 0, "selector": None}, 4, (0, 0, 0, 0), id="none means nothing"),
    ],
)
def test_what_may_go(
    tmp_path: Path, spec: dict[str, Any], ready: int, expected: tuple[int, int, int, int]
) -> None:
    """Four pods of a set that wants five, whose controller is away."""

    async def scenario(cluster: Cluster) -> None:
        kubelet = Kubelet(cluster)
        [owner] = await cluster.create(replica_set(replicas=5))
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
        owners = [{**reference, "uid": owner["metadata"]["uid"]}]
        await cluster.create(*(web_pod(f"p{number}", ownerReferences=owners) for number in range(4)))
        for number in range(ready):
            await kubelet.run(f"p{number}")
        await cluster.create(budget(**spec))
        await start(cluster)
        await cluster.eventually(lambda: status(cluster).get("observedGeneration") == 1)
        await cluster.quiet()
        assert numbers(cluster) == expected
        [told] = status(cluster)["conditions"]
        assert told["type"] == "DisruptionAllowed"
        spare = expected[3] > 0
        assert (told["status"], told["reason"]) == (
            ("True", "SufficientPods") if spare else ("False", "InsufficientPods")
        )

    in_cluster(tmp_path, scenario)


def test_the_size_of_a_stranger_is_not_guessed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        stranger = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
        [owner] = await cluster.create(stranger)
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "controller": True}
        await cluster.create(web_pod("p", ownerReferences=[{**reference, "uid": owner["metadata"]["uid"]}]))
        await cluster.create(budget(maxUnavailable=1))
        await Kubelet(cluster).run("p")
        await start(cluster)
        await cluster.eventually(lambda: status(cluster).get("conditions"))
        [told] = status(cluster)["conditions"]
        assert (told["status"], told["reason"]) == ("False", "SyncFailed")
        assert "1 pods" in told["message"]
        assert numbers(cluster)[3] == 0

    in_cluster(tmp_path, scenario)


def test_evictions_hold_to_the_budget_and_replacements_renew_it(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        part = await start(cluster)
        await part.start(ReplicaSets(part.client, part.informers, part.recorder))
        kubelet = Kubelet(cluster)
        await cluster.create(replica_set(replicas=2), budget(maxUnavailable=1))
        await cluster.eventually(lambda: len(kubelet.seen) == 2)
        first, second = [each.metadata.name for each in kubelet.seen.all()]
        for name in (first, second):
            await kubelet.bind(name)
            await kubelet.run(name)
        await cluster.eventually(lambda: numbers(cluster) == (2, 1, 2, 1))
        await evict(cluster, first)
        with pytest.raises(TooManyRequests):
            await evict(cluster, second)
        await cluster.eventually(
            lambda: numbers(cluster) == (2, 1, 1, 0) and not status(cluster).get("disruptedPods")
        )
        [third] = await cluster.eventually(
            lambda: [each.metadata.name for each in kubelet.alive() if each.metadata.name != second]
        )
        await kubelet.run(third)
        await cluster.eventually(lambda: numbers(cluster) == (2, 1, 2, 1))
        await evict(cluster, second)

    in_cluster(tmp_path, scenario)


def test_an_evicted_pod_that_stays_counts_again_after_two_minutes(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        await cluster.create(web_pod("a"), web_pod("b"), budget(minAvailable=1))
        kubelet = Kubelet(cluster)
        for name in ("a", "b"):
            await kubelet.run(name)
        noted = {"status": {"disruptedPods": {"a": clock.stamp(), "gone": clock.stamp()}}}
        budgets = cluster.admin.plain(POLICY, "poddisruptionbudgets")
        await budgets.patch("keep", noted, HERE, subresource="status")
        part = await start(cluster, now=clock)
        await cluster.eventually(lambda: numbers(cluster) == (2, 1, 1, 0))
        assert status(cluster)["disruptedPods"] == {"a": clock.stamp()}
        await cluster.quiet()
        again = await part.reconcilers[0].reconcile(KEY)
        assert again is not None
        assert again.after == pytest.approx(120)
        clock.move(120)
        part.reconcilers[0].queue.add(KEY)
        await cluster.eventually(lambda: numbers(cluster) == (2, 1, 2, 1))
        assert not status(cluster).get("disruptedPods")
        await cluster.eventually(lambda: any(told.startswith("NotDeleted") for told in cluster.events("a")))

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.soak)])
def test_whatever_write_fails_no_disruption_is_given_twice(tmp_path: Path, step: int) -> None:
    async def life(cluster: Cluster, connection: Failing) -> None:
        await start(cluster, cluster.component(through=connection.through))
        kubelet = Kubelet(cluster)
        await cluster.create(*(web_pod(name) for name in "abc"), budget(minAvailable=2))
        for name in "abc":
            await kubelet.bind(name)
            await kubelet.run(name)
        await cluster.eventually(lambda: numbers(cluster) == (3, 2, 3, 1))
        await evict(cluster, "a")
        with pytest.raises(TooManyRequests):
            await evict(cluster, "b")
        await cluster.quiet()
        with pytest.raises(TooManyRequests):
            await evict(cluster, "b")
        assert numbers(cluster)[2:] == (2, 0)

    with_each_write_failing(tmp_path, life, step)
