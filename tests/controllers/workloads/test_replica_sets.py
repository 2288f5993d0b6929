"""Replica sets against the embedded server, with a kubelet of the test's own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from allotment.api.core import Pod
from allotment.api.status import Conflict
from allotment.client.form import Obj
from allotment.client.transport import Disconnected
from allotment.controllers.workloads.replica_sets import ReplicaSets
from tests.controllers.cluster import Cluster, Component, in_cluster
from tests.controllers.failing import Failing, Fault, Held, with_each_write_failing
from tests.controllers.workloads.workload_objects import (
    HERE,
    Clock,
    Kubelet,
    replica_set,
    web_pod,
)

APPS = "apps/v1"


async def start(cluster: Cluster, part: Component | None = None, **options: Any) -> Component:
    part = part or cluster.component()
    for kind in (("v1", "events"), (APPS, "replicasets")):
        await cluster.seen.plain(*kind).synced()
    await part.start(ReplicaSets(part.client, part.informers, part.recorder, **options))
    return part


def status(cluster: Cluster, name: str = "web") -> Obj:
    found = cluster.seen.plain(APPS, "replicasets").get(name, HERE)
    return {} if found is None else found["status"]


async def scale(cluster: Cluster, replicas: int, name: str = "web") -> None:
    await cluster.admin.plain(APPS, "replicasets").patch(name, {"spec": {"replicas": replicas}}, HERE)


def test_pods_come_and_are_counted(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        kubelet, sets = Kubelet(cluster), cluster.seen.plain(APPS, "replicasets")
        [made] = await cluster.create(replica_set())
        await cluster.eventually(lambda: len(kubelet.seen) == 3, "three pods")
        for each in kubelet.seen.all():
            [owner] = each.metadata.owner_references
            assert (owner.kind, owner.name, owner.uid) == ("ReplicaSet", "web", made["metadata"]["uid"])
            assert owner.controller
            assert each.metadata.generate_name == "web-"
            assert len(each.metadata.name) == len("web-") + 5
        await kubelet.run(kubelet.seen.all()[0].metadata.name)
        await cluster.eventually(lambda: status(cluster).get("availableReplicas") == 1)
        await cluster.quiet()
        assert sets.get("web", HERE) is not None
        assert status(cluster) == {
            "replicas": 3,
            "fullyLabeledReplicas": 3,
            "readyReplicas": 1,
            "availableReplicas": 1,
            "observedGeneration": 1,
        }
        assert sum("SuccessfulCreate: Created pod: web-" in told for told in cluster.events("web")) == 3

    in_cluster(tmp_path, scenario)


def test_a_pod_that_ends_or_is_deleted_is_replaced(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        kubelet = Kubelet(cluster)
        await cluster.create(replica_set())
        await cluster.eventually(lambda: len(kubelet.seen) == 3)
        first, second, _ = kubelet.seen.all()
        await kubelet.phase(first.metadata.name, "Failed")
        await kubelet.bind(second.metadata.name)  # so that its deletion takes its time
        await cluster.admin.of(Pod).delete(second.metadata.name, HERE)
        await cluster.eventually(lambda: len(kubelet.seen) == 5, "two more")
        await cluster.quiet()
        assert len(kubelet.seen) == 5
        assert status(cluster)["replicas"] == 3

    in_cluster(tmp_path, scenario)


def test_those_go_first_that_lose_least(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        names = iter(["bound-new", "bound-old", "unbound", "unready", "cheap"])
        await start(cluster, now=clock, suffix=lambda: next(names))
        kubelet = Kubelet(cluster)
        await cluster.create(replica_set(replicas=5))
        await cluster.eventually(lambda: len(kubelet.seen) == 5)
        for name in ("bound-new", "bound-old", "unready", "cheap"):
            await kubelet.bind(f"web-{name}", node=name)
        await kubelet.phase("web-unready", "Running")
        await kubelet.run("web-bound-new", clock.stamp(-10))
        await kubelet.run("web-bound-old", clock.stamp(-100))
        await kubelet.run("web-cheap", clock.stamp(-1000))
        cost = {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}
        await cluster.admin.of(Pod).patch("web-cheap", {"metadata": cost}, HERE)
        order = ["web-unbound", "web-unready", "web-cheap", "web-bound-new", "web-bound-old"]
        for replicas in (4, 3, 2, 1, 0):
            await cluster.quiet()
            await scale(cluster, replicas)
            await cluster.eventually(lambda: len(kubelet.alive()) == len(order) - 1)
            order.pop(0)
            assert {each.metadata.name for each in kubelet.alive()} == set(order)

    in_cluster(tmp_path, scenario)


def test_orphans_are_taken_over_and_strangers_are_not(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        stranger = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
        [owner] = await cluster.create(stranger)
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }
        await cluster.create(
            web_pod("orphan", ownerReferences=[reference]),  # owned, but not controlled
            web_pod("foreign", ownerReferences=[{**reference, "controller": True}]),
            web_pod("other", labels={"app": "other"}),
        )
        await start(cluster)
        kubelet = Kubelet(cluster)
        [made] = await cluster.create(replica_set(replicas=2))
        await cluster.eventually(lambda: status(cluster).get("replicas") == 2)
        await cluster.quiet()
        adopted = kubelet.seen.get("orphan", HERE)
        assert adopted is not None
        assert [each.uid for each in adopted.metadata.owner_references] == [
            owner["metadata"]["uid"],
            made["metadata"]["uid"],
        ]
        assert len(kubelet.seen) == 4  # one was made
        await scale(cluster, 0)
        await cluster.eventually(lambda: len(kubelet.alive()) == 2)
        await cluster.quiet()
        assert {each.metadata.name for each in kubelet.alive()} == {"foreign", "other"}

    in_cluster(tmp_path, scenario)


def test_a_name_that_somebody_has_is_left_to_them(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        names = iter(["taken", "free"])
        await cluster.create(web_pod("web-taken", labels={"app": "other"}))
        await start(cluster, suffix=lambda: next(names))
        await cluster.create(replica_set(replicas=1))
        await cluster.eventually(lambda: status(cluster).get("replicas") == 1)
        kubelet = Kubelet(cluster)
        assert {each.metadata.name for each in kubelet.alive()} == {"web-taken", "web-free"}

    in_cluster(tmp_path, scenario)


def test_a_pod_that_does_not_match_any_more_is_let_go_and_replaced(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        kubelet = Kubelet(cluster)
        await cluster.create(replica_set(replicas=1))
        [first] = await cluster.eventually(kubelet.seen.all)
        await cluster.admin.of(Pod).patch(
            first.metadata.name, {"metadata": {"labels": {"app": "debug"}}}, HERE
        )
        await cluster.eventually(lambda: len(kubelet.seen) == 2, "another one")
        await cluster.quiet()
        released = kubelet.seen.get(first.metadata.name, HERE)
        assert released is not None
        assert released.metadata.owner_references == ()
        assert released.metadata.deletion_timestamp is None

    in_cluster(tmp_path, scenario)


def test_availability_comes_with_time(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        part = await start(cluster, now=clock)
        kubelet = Kubelet(cluster)
        await cluster.create(replica_set(replicas=1, minReadySeconds=30))
        [only] = await cluster.eventually(kubelet.seen.all)
        await kubelet.run(only.metadata.name, clock.stamp())
        await cluster.eventually(lambda: status(cluster).get("readyReplicas") == 1)
        await cluster.quiet()
        assert status(cluster).get("availableReplicas", 0) == 0
        [reconciler] = part.reconcilers
        again = await reconciler.reconcile((HERE, "web"))
        assert again is not None
        assert again.after == pytest.approx(30)
        clock.move(30)
        reconciler.queue.add((HERE, "web"))  # as the timer does
        await cluster.eventually(lambda: status(cluster).get("availableReplicas") == 1)

    in_cluster(tmp_path, scenario)


def test_a_refused_creation_is_said_and_tried_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        hard = {"hard": {"pods": "2"}}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": hard}
        await cluster.create(quota)
        await start(cluster)
        kubelet = Kubelet(cluster)
        await cluster.create(replica_set(replicas=50))
        await cluster.eventually(lambda: status(cluster).get("conditions"), "a condition")
        [condition] = status(cluster)["conditions"]
        assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
        assert "exceeded quota" in condition["message"]
        refused = await cluster.eventually(
            lambda: [told for told in cluster.events("web") if told.startswith("FailedCreate")]
        )
        assert "exceeded quota" in refused[0]
        assert len(kubelet.seen) == 2
        await cluster.admin.plain("v1", "resourcequotas").delete("few", HERE)
        await cluster.eventually(lambda: len(kubelet.seen) == 50, "all of them")
        await cluster.eventually(lambda: not status(cluster).get("conditions"), "the condition to go")

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.soak)])
def test_whatever_write_fails_there_is_never_a_pod_too_many(tmp_path: Path, step: int) -> None:
    async def life(cluster: Cluster, connection: Failing) -> None:
        numbers, kubelet, most = count(), Kubelet(cluster), 0
        await start(cluster, cluster.component(through=connection.through), suffix=lambda: str(next(numbers)))

        def watch(_old: Pod | None, _new: Pod | None) -> None:
            nonlocal most
            most = max(most, len([each for each in kubelet.alive() if each.metadata.name != "foreign"]))

        kubelet.seen.on_change(watch)
        await cluster.create(web_pod("orphan"), web_pod("foreign", labels={"app": "other"}), replica_set())
        await cluster.eventually(lambda: status(cluster).get("replicas") == 3)
        await cluster.quiet()
        assert len(kubelet.alive()) == 4
        await scale(cluster, 1)
        await cluster.eventually(lambda: status(cluster).get("replicas") == 1)
        await cluster.quiet()
        assert len(kubelet.alive()) == 2
        assert most == 3, "a pod too many for a while"
        assert kubelet.seen.get("foreign", HERE) is not None

    writes = with_each_write_failing(tmp_path, life, step)
    assert {each.split()[0] for each in writes} == {"POST", "PATCH", "DELETE"}


def test_an_old_copy_makes_nothing_twice(tmp_path: Path) -> None:
    """The watch of pods stands still while the reconciler is called again: it waits for its own pods to appear."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.create(replica_set(replicas=10))
        watch = Held()
        part = cluster.component(through=watch.through)
        reconciler = ReplicaSets(part.client, part.informers, part.recorder)
        await part.start()
        watch.hold("/pods")
        await reconciler.reconcile((HERE, "web"))
        second = asyncio.create_task(reconciler.reconcile((HERE, "web")))
        await watch.waiting.wait()
        assert len((await cluster.admin.of(Pod).list(HERE)).items) == 10
        assert not second.done()
        watch.release()
        with suppress(Conflict):  # its copy of the set may be old, too; that only delays the status
            await second
        assert len((await cluster.admin.of(Pod).list(HERE)).items) == 10

    in_cluster(tmp_path, scenario)


def test_a_creation_whose_answer_was_lost_is_not_made_good_by_another_pod(tmp_path: Path) -> None:
    """The pod is there, nobody said so, and the watch does not show it yet."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.create(replica_set(replicas=1))
        watch, connection = Held(), Failing.once(1, Fault.LOST)
        part = cluster.component(through=lambda inner: watch.through(connection.through(inner)))
        reconciler = ReplicaSets(part.client, part.informers, part.recorder)
        await part.start()
        watch.hold("/pods")
        with pytest.raises(Disconnected):
            await reconciler.reconcile((HERE, "web"))
        await reconciler.reconcile((HERE, "web"))
        assert len((await cluster.admin.of(Pod).list(HERE)).items) == 1
        assert [each.split()[0] for each in connection.writes[:2]] == ["POST", "POST"]
        watch.release()

    in_cluster(tmp_path, scenario)


def test_a_crash_after_some_creations_is_made_good(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        kubelet = Kubelet(cluster)
        part = await start(cluster)
        await cluster.create(replica_set(replicas=20))
        await cluster.eventually(lambda: len(kubelet.seen) >= 4)
        await part.stop()
        await start(cluster)
        await cluster.eventually(lambda: status(cluster).get("replicas") == 20 == len(kubelet.alive()))

    in_cluster(tmp_path, scenario)
