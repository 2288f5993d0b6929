"""Deployments and their replica sets against the embedded server, with a kubelet of the test's own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from allotment.api.core import Pod
from allotment.api.status import NotFound
from allotment.client.form import Obj
from allotment.controllers.workloads.deployments import Deployments
from allotment.controllers.workloads.replica_sets import ReplicaSets
from tests.controllers.cluster import Cluster, Component, in_cluster
from tests.controllers.failing import Failing, in_a_storm
from tests.controllers.workloads.workload_objects import (
    HERE,
    Clock,
    Kubelet,
    deployment,
    replica_set,
    template,
)

APPS = "apps/v1"
KEY = (HERE, "web")


async def start(cluster: Cluster, part: Component | None = None, **options: Any) -> Component:
    part = part or cluster.component()
    for kind in (("v1", "events"), (APPS, "replicasets"), (APPS, "deployments")):
        await cluster.seen.plain(*kind).synced()
    await cluster.seen.of(Pod).synced()
    await part.start(
        Deployments(part.client, part.informers, part.recorder, **options),
        ReplicaSets(part.client, part.informers, part.recorder, **options),
    )
    return part


class Runner(Kubelet):
    """A kubelet that starts every pod and lets deleted ones go, as they come."""

    def __init__(self, cluster: Cluster, since: str = "") -> None:
        super().__init__(cluster)
        self._cluster, self._since = cluster, since
        self.starts = True
        self._begun: set[str] = set()
        self.fewest_ready = 10**9
        self.counting = False
        self.seen.on_change(self._count)

    def _count(self, _old: Pod | None, _new: Pod | None) -> None:
        ready = [each for each in self.alive() if any(c.status == "True" for c in each.status.conditions)]
        if self.counting:
            self.fewest_ready = min(self.fewest_ready, len(ready))

    async def until(self, condition: Any, what: str = "") -> None:
        """Runs what there is to run until the condition holds."""

        while True:
            await self._cluster.eventually(lambda: condition() or self._todo(), what)
            if condition():
                return
            for each in self._todo():
                self._begun.add(each.metadata.uid)
                with suppress(NotFound):  # deleted meanwhile
                    await self.run(each.metadata.name, self._since)

    def _todo(self) -> list[Pod]:
        return [each for each in self.alive() if self.starts and each.metadata.uid not in self._begun]


def found(cluster: Cluster) -> Obj:
    return cluster.seen.plain(APPS, "deployments").get("web", HERE) or {}


def status(cluster: Cluster) -> Obj:
    told: Obj = found(cluster).get("status", {})
    return told


def condition(cluster: Cluster, type_: str) -> tuple[str, str]:
    for each in status(cluster).get("conditions", ()):
        if each["type"] == type_:
            return each["status"], each["reason"]
    return "", ""


def sets(cluster: Cluster) -> dict[str, int]:
    """Sizes of the replica sets by image."""
    return {
        each["spec"]["template"]["spec"]["containers"][0]["image"]: each["spec"]["replicas"]
        for each in cluster.seen.plain(APPS, "replicasets").all()
    }


def done(cluster: Cluster, replicas: int = 3) -> bool:
    """What ``kubectl rollout status`` looks at."""
    told = status(cluster)
    names = ("replicas", "updatedReplicas", "availableReplicas")
    seen = told.get("observedGeneration", 0) >= found(cluster)["metadata"]["generation"] if told else False
    return seen and all(told.get(name) == replicas for name in names)


async def change(cluster: Cluster, **spec: Any) -> None:
    changed = await cluster.admin.plain(APPS, "deployments").patch("web", {"spec": spec}, HERE)
    await cluster.seen.plain(APPS, "deployments").reached(int(changed["metadata"]["resourceVersion"]))


def test_a_deployment_runs_and_says_so(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        kubelet = Runner(cluster)
        await cluster.create(deployment())
        await kubelet.until(lambda: done(cluster))
        await cluster.quiet()
        [only] = cluster.seen.plain(APPS, "replicasets").all()
        mark = only["metadata"]["labels"]["pod-template-hash"]
        assert only["metadata"]["name"] == f"web-{mark}"
        assert only["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": mark}
        assert all(each.metadata.labels["pod-template-hash"] == mark for each in kubelet.seen.all())
        revision = "deployment.kubernetes.io/revision"
        assert found(cluster)["metadata"]["annotations"][revision] == "1"
        assert only["metadata"]["annotations"][revision] == "1"
        assert condition(cluster, "Available") == ("True", "MinimumReplicasAvailable")
        assert condition(cluster, "Progressing") == ("True", "NewReplicaSetAvailable")
        assert status(cluster)["observedGeneration"] == found(cluster)["metadata"]["generation"]
        told = f"ScalingReplicaSet: Scaled up replica set web-{mark} from 0 to 3"
        await cluster.eventually(lambda: told in cluster.events("web"))

    in_cluster(tmp_path, scenario)


def test_an_update_rolls_within_its_bounds_and_a_rollback_finds_the_old_set(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        kubelet = Runner(cluster)
        update = {"maxSurge": 1, "maxUnavailable": 1}
        await cluster.create(deployment(replicas=4, strategy={"rollingUpdate": update}))
        await kubelet.until(lambda: done(cluster, 4))
        kubelet.counting, asked = True, []
        sizes = cluster.seen.plain(APPS, "replicasets")
        sizes.on_change(lambda _old, _new: asked.append(sum(sets(cluster).values())))
        await change(cluster, template=template(image="two"))
        await kubelet.until(lambda: done(cluster, 4) and sets(cluster) == {"one": 0, "two": 4})
        await cluster.quiet()
        assert max(asked) == 5
        assert kubelet.fewest_ready >= 3
        await change(cluster, template=template(image="one"))
        await kubelet.until(lambda: done(cluster, 4) and sets(cluster) == {"one": 4, "two": 0})
        await cluster.quiet()
        assert found(cluster)["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
        assert condition(cluster, "Progressing") == ("True", "NewReplicaSetAvailable")

    in_cluster(tmp_path, scenario)


def test_recreate_waits_for_the_end_of_the_old_pods(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        kubelet = Runner(cluster)
        await cluster.create(deployment(replicas=2, strategy={"type": "Recreate"}))
        await kubelet.until(lambda: done(cluster, 2))
        old = [each.metadata.name for each in kubelet.seen.all()]
        for name in old:
            await kubelet.bind(name)  # so that deletion takes its time
        await change(cluster, template=template(image="two"))
        await cluster.eventually(lambda: not kubelet.alive())
        await cluster.quiet()
        assert sets(cluster) == {"one": 0}
        await kubelet.purge(old[0])
        await cluster.quiet()
        assert sets(cluster) == {"one": 0}
        await kubelet.purge(old[1])
        await kubelet.until(lambda: done(cluster, 2) and sets(cluster) == {"one": 0, "two": 2})

    in_cluster(tmp_path, scenario)


def test_a_paused_deployment_scales_but_does_not_roll(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        kubelet = Runner(cluster)
        await cluster.create(deployment(replicas=2))
        await kubelet.until(lambda: done(cluster, 2))
        await change(cluster, paused=True, template=template(image="two"))
        await cluster.eventually(lambda: condition(cluster, "Progressing") == ("Unknown", "DeploymentPaused"))
        await change(cluster, replicas=5)
        await kubelet.until(lambda: status(cluster).get("availableReplicas") == 5)
        await cluster.quiet()
        assert sets(cluster) == {"one": 5}
        await change(cluster, paused=False)
        await kubelet.until(lambda: done(cluster, 5))
        assert sets(cluster) == {"one": 0, "two": 5}

    in_cluster(tmp_path, scenario)


def test_scaling_during_a_rollout_keeps_the_proportion(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        kubelet = Runner(cluster)
        update = {"maxSurge": 2, "maxUnavailable": 0}
        await cluster.create(deployment(replicas=6, strategy={"rollingUpdate": update}))
        await kubelet.until(lambda: done(cluster, 6))
        kubelet.starts = False  # the new pods do not come up
        await change(cluster, template=template(image="two"))
        await cluster.eventually(lambda: sets(cluster) == {"one": 6, "two": 2})
        await cluster.quiet()
        await change(cluster, replicas=14)
        await cluster.eventually(lambda: sets(cluster) == {"one": 12, "two": 4})
        kubelet.starts = True
        await kubelet.until(lambda: done(cluster, 14))
        assert sets(cluster) == {"one": 0, "two": 14}

    in_cluster(tmp_path, scenario)


def test_old_sets_go_beyond_the_history_limit(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        kubelet = Runner(cluster)
        await cluster.create(deployment(replicas=1, revisionHistoryLimit=1))
        await kubelet.until(lambda: done(cluster, 1))
        for image in ("two", "three", "four"):
            await change(cluster, template=template(image=image))
            await kubelet.until(lambda: done(cluster, 1))
            await cluster.quiet()
        assert sets(cluster) == {"three": 0, "four": 1}

    in_cluster(tmp_path, scenario)


def test_a_rollout_that_does_not_move_is_stuck_after_its_deadline(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        part = await start(cluster, now=clock)
        reconciler = part.reconcilers[0]
        await cluster.create(deployment(progressDeadlineSeconds=60))
        await cluster.eventually(lambda: status(cluster).get("updatedReplicas") == 3)
        await cluster.quiet()
        clock.move(59)
        again = await reconciler.reconcile(KEY)
        assert again is not None
        assert again.after == pytest.approx(2)
        assert condition(cluster, "Progressing")[0] == "True"
        clock.move(2)
        reconciler.queue.add(KEY)  # as the timer does
        await cluster.eventually(
            lambda: condition(cluster, "Progressing") == ("False", "ProgressDeadlineExceeded")
        )
        assert condition(cluster, "Available") == ("False", "MinimumReplicasUnavailable")
        await Runner(cluster, clock.stamp()).until(lambda: done(cluster))
        await cluster.eventually(lambda: condition(cluster, "Progressing")[1] == "NewReplicaSetAvailable")

    in_cluster(tmp_path, scenario)


def test_a_set_of_somebody_else_under_our_name_is_not_touched(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        part = await start(cluster)
        kubelet = Runner(cluster)
        await cluster.create(deployment(replicas=1))
        await kubelet.until(lambda: done(cluster, 1))
        [ours] = cluster.seen.plain(APPS, "replicasets").all()
        name = ours["metadata"]["name"]
        admin = cluster.admin.plain(APPS, "deployments")
        await admin.delete("web", HERE)
        await cluster.eventually(lambda: not cluster.seen.plain(APPS, "replicasets").all())
        foreign = replica_set(name, 0, selector={"matchLabels": {"app": "x"}}, template=template("x"))
        await cluster.create(foreign)
        await cluster.create(deployment(replicas=1))
        await kubelet.until(lambda: done(cluster, 1))
        assert status(cluster)["collisionCount"] == 1
        there = cluster.seen.plain(APPS, "replicasets").get(name, HERE)
        assert there is not None
        assert "ownerReferences" not in there["metadata"]
        part.check()

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize(
    ("noted", "next_"),
    [
        pytest.param("1000000000000000000", "1000000000000000001", id="of 19 digits"),
        pytest.param("9223372036854775807", "9223372036854775807", id="as large as numbers are"),
        pytest.param("99999999999999999999", "2", id="too large for a number"),
        pytest.param("three", "2", id="no number"),
        pytest.param("\N{ARABIC-INDIC DIGIT FIVE}", "2", id="digits of another script"),
        pytest.param("-5", "2", id="below zero"),
    ],
)
def test_the_next_revision_follows_the_highest_one(tmp_path: Path, noted: str, next_: str) -> None:
    """Of the numbers that are there, which anybody may write; what is none was replaced by the set's own number, 1."""

    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        await cluster.create(deployment(replicas=0))
        await cluster.eventually(lambda: cluster.seen.plain(APPS, "replicasets").all())
        [only] = cluster.seen.plain(APPS, "replicasets").all()
        sets, deployments = cluster.admin.plain(APPS, "replicasets"), cluster.admin.plain(APPS, "deployments")
        revision = "deployment.kubernetes.io/revision"
        note = {"metadata": {"annotations": {revision: noted}}}
        await deployments.patch("web", {"spec": {"paused": True}}, HERE)
        await sets.patch(only["metadata"]["name"], note, HERE)
        await cluster.quiet()
        image = {"template": deployment(image="two")["spec"]["template"], "paused": False}
        await deployments.patch("web", {"spec": image}, HERE)
        await cluster.eventually(lambda: len(cluster.seen.plain(APPS, "replicasets").all()) == 2)
        await cluster.quiet()
        noted_now = {
            each["metadata"]["name"]: each["metadata"]["annotations"][revision]
            for each in cluster.seen.plain(APPS, "replicasets").all()
        }
        del noted_now[only["metadata"]["name"]]
        assert list(noted_now.values()) == [next_]

    in_cluster(tmp_path, scenario)


def test_a_set_that_matches_no_longer_is_let_go(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        await cluster.create(deployment(replicas=0))
        sets = cluster.seen.plain(APPS, "replicasets")
        [only] = await cluster.eventually(sets.all)
        name = only["metadata"]["name"]
        await cluster.admin.plain(APPS, "replicasets").patch(
            name, {"metadata": {"labels": {"app": "x"}}}, HERE
        )
        await cluster.eventually(lambda: len(sets.all()) > 1 or not _owners(sets.get(name, HERE)))
        await cluster.quiet()
        assert not _owners(sets.get(name, HERE))

    in_cluster(tmp_path, scenario)


def _owners(replica_set: Obj | None) -> list[Obj]:
    assert replica_set is not None
    return replica_set["metadata"].get("ownerReferences") or []


def test_sets_that_were_left_behind_are_taken_over(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        kubelet = Runner(cluster)
        await cluster.create(deployment(replicas=2))
        await kubelet.until(lambda: done(cluster, 2))
        pods = {each.metadata.uid for each in kubelet.seen.all()}
        await cluster.admin.plain(APPS, "deployments").delete("web", HERE, propagation="Orphan")
        await cluster.eventually(lambda: not found(cluster))
        [made] = await cluster.create(deployment(replicas=2))
        await kubelet.until(lambda: done(cluster, 2))
        [adopted] = cluster.seen.plain(APPS, "replicasets").all()
        assert adopted["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert {each.metadata.uid for each in kubelet.seen.all()} == pods

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize("seed", range(4))
def test_in_a_storm_of_failures_a_rollout_still_ends_with_one_set_for_each_template(
    tmp_path: Path, seed: int
) -> None:
    async def life(cluster: Cluster, connection: Failing) -> None:
        await start(cluster, cluster.component(through=connection.through))
        kubelet = Runner(cluster)
        await cluster.create(deployment(replicas=2))
        await kubelet.until(lambda: done(cluster, 2))
        await change(cluster, template=template(image="two"))
        await kubelet.until(lambda: done(cluster, 2))
        await cluster.quiet()
        assert sets(cluster) == {"one": 0, "two": 2}
        assert len(cluster.seen.plain(APPS, "replicasets")) == 2
        assert len(kubelet.alive()) == 2
        assert len(connection.writes) > 20

    in_a_storm(tmp_path, seed, life)
