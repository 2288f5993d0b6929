"""Jobs against the embedded server, with a kubelet of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from allotment.api.core import Pod
from allotment.api.status import NotFound
from allotment.client.form import Obj
from allotment.controllers.workloads.job_tally import TRACKING
from allotment.controllers.workloads.jobs import Jobs
from tests.controllers.cluster import Cluster, Component, in_cluster
from tests.controllers.failing import Failing, Held, in_a_storm, with_each_write_failing
from tests.controllers.workloads.workload_objects import (
    HERE,
    Clock,
    Kubelet,
    job,
    template,
    web_pod,
)

BATCH = "batch/v1"
KEY = (HERE, "work")


async def start(cluster: Cluster, part: Component | None = None, **options: Any) -> Component:
    part = part or cluster.component()
    for kind in (("v1", "events"), (BATCH, "jobs")):
        await cluster.seen.plain(*kind).synced()
    await cluster.seen.of(Pod).synced()
    cluster.seen.plain(BATCH, "jobs").on_change(judge)
    await part.start(Jobs(part.client, part.informers, part.recorder, **options))
    return part


BROKEN: list[str] = []


@pytest.fixture(autouse=True)
def _statuses_are_what_upstream_accepts() -> Iterator[None]:
    BROKEN.clear()
    yield
    assert BROKEN == []


def judge(before: Obj | None, after: Obj | None) -> None:
    """Upstream's rules for statuses of jobs, which the embedded server does not have."""
    if after is None:
        return
    old, new = ((each or {}).get("status") or {} for each in (before, after))
    was, holds = _true(old), _true(new)
    over, waiting = holds & {"Complete", "Failed"}, new.get("uncountedTerminatedPods") or {}
    free = after["spec"].get("suspend") or ("Suspended" in was and "Suspended" not in holds)
    rules = {
        "a verdict and its end": ("Complete" in holds) <= ("SuccessCriteriaMet" in holds)
        and ("Failed" in holds) <= ("FailureTarget" in holds),
        "one verdict": not holds >= {"SuccessCriteriaMet", "FailureTarget"},
        "verdicts stand": holds >= was - {"Suspended"},
        "the end has a time": ("Complete" in holds) == ("completionTime" in new),
        "it ends after it began": new.get("completionTime", "z") >= new.get("startTime", ""),
        "what ended began": not over or "startTime" in new,
        "what ended has no pods": not over or not (new.get("active") or new.get("terminating")),
        "what ended is counted": not over or not any(waiting.values()),
        "ready are active": (new.get("ready") or 0) <= (new.get("active") or 0),
        "counts do not fall": all(
            (new.get(name) or 0) >= (old.get(name) or 0) for name in ("succeeded", "failed")
        ),
        "the start stays": free or "startTime" not in old or old["startTime"] == new.get("startTime"),
        "a uid waits once": len(uids := [*(waiting.get("succeeded") or ()), *(waiting.get("failed") or ())])
        == len(set(uids)),
    }
    BROKEN.extend(rule for rule, kept in rules.items() if not kept)


def _true(told: Obj) -> set[str]:
    return {each["type"] for each in told.get("conditions") or () if each["status"] == "True"}


class Runner(Kubelet):
    """Ends each pod once, as told by its number in order of appearance."""

    def __init__(self, cluster: Cluster, outcome: Callable[[int], str] = lambda _: "Succeeded") -> None:
        super().__init__(cluster)
        self._cluster, self._outcome = cluster, outcome
        self._ended: set[str] = set()
        self.most = 0
        self.seen.on_change(lambda _old, _new: self._count())

    def _count(self) -> None:
        self.most = max(self.most, len([each for each in self.alive() if each.status.phase == "Pending"]))

    async def until(self, condition: Callable[[], Any], what: str = "") -> None:
        while True:
            await self._cluster.eventually(lambda: condition() or self._todo(), what)
            if condition():
                return
            for each in self._todo():
                outcome = self._outcome(len(self._ended))
                self._ended.add(each.metadata.uid)
                with suppress(NotFound):
                    await self.phase(each.metadata.name, outcome, since="2029-12-31T00:00:00Z")

    def _todo(self) -> list[Pod]:
        return [
            each
            for each in self.alive()
            if each.status.phase == "Pending" and each.metadata.uid not in self._ended
        ]


def status(cluster: Cluster) -> Obj:
    found = cluster.seen.plain(BATCH, "jobs").get("work", HERE)
    told: Obj = {} if found is None else found.get("status", {})
    return told


def true(cluster: Cluster) -> dict[str, str]:
    """The conditions that hold, with their reasons."""
    told = status(cluster).get("conditions", ())
    return {each["type"]: each["reason"] for each in told if each["status"] == "True"}


def held(cluster: Cluster) -> list[str]:
    """Pods that still have the finalizer."""
    return [each.metadata.name for each in cluster.seen.of(Pod).all() if TRACKING in each.metadata.finalizers]


COMPLETE = {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}


@pytest.mark.parametrize(
    ("spec", "pods", "most"),
    [
        pytest.param({}, 1, 1, id="one pod"),
        pytest.param({"completions": 5, "parallelism": 2}, 5, 2, id="five, two at a time"),
        pytest.param({"completions": 2, "parallelism": 5}, 2, 2, id="no more than needed"),
        pytest.param({"parallelism": 3}, 3, 3, id="a queue of work: the first success ends it"),
        pytest.param({"completions": 0}, 0, 0, id="nothing to do"),
    ],
)
def test_a_job_runs_to_its_end(tmp_path: Path, spec: dict[str, Any], pods: int, most: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        kubelet = Runner(cluster)
        await cluster.create(job(**spec))
        await kubelet.until(lambda: "Complete" in true(cluster))
        await cluster.quiet()
        assert true(cluster) == COMPLETE
        told = status(cluster)
        assert told.get("succeeded", 0) == pods == len(kubelet.seen)
        assert told["completionTime"] >= told["startTime"]
        assert not told.get("active")
        assert not any(told.get("uncountedTerminatedPods", {}).values())
        assert kubelet.most <= most
        assert held(cluster) == []
        await cluster.eventually(lambda: "Completed: Job completed" in cluster.events("work"))

    in_cluster(tmp_path, scenario)


def test_an_indexed_job_has_a_pod_for_each_index(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        await start(cluster, now=clock)
        kubelet = Runner(cluster, lambda number: "Failed" if number == 1 else "Succeeded")
        await cluster.create(job(completions=4, parallelism=2, completionMode="Indexed"))
        await kubelet.until(lambda: "Complete" in true(cluster))
        assert status(cluster)["completedIndexes"] == "0-3"
        assert (status(cluster)["succeeded"], status(cluster)["failed"]) == (4, 1)
        label = "batch.kubernetes.io/job-completion-index"
        indexes = sorted(each.metadata.annotations[label] for each in kubelet.seen.all())
        assert len(indexes) == 5  # one twice
        assert set(indexes) == {"0", "1", "2", "3"}
        assert all(
            each.metadata.name.startswith(f"work-{each.metadata.labels[label]}-")
            for each in kubelet.seen.all()
        )

    in_cluster(tmp_path, scenario)


def test_a_succeeded_pod_counts_although_somebody_deletes_it(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        kubelet = Runner(cluster)
        part = await start(cluster)
        await cluster.create(job(completions=2, parallelism=1))
        [first] = await cluster.eventually(kubelet.seen.all)
        await part.stop()  # nobody counts
        await kubelet.phase(first.metadata.name, "Succeeded")
        await kubelet.purge(first.metadata.name)
        await start(cluster)
        await kubelet.until(lambda: "Complete" in true(cluster))
        assert status(cluster)["succeeded"] == 2
        assert kubelet.seen.get(first.metadata.name, HERE) is None

    in_cluster(tmp_path, scenario)


def test_too_many_failures_fail_the_job(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster, now=Clock())
        kubelet = Runner(cluster, lambda _: "Failed")
        await cluster.create(job(completions=3, parallelism=1, backoffLimit=2))
        await kubelet.until(lambda: "Failed" in true(cluster))
        assert true(cluster) == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
        assert status(cluster)["failed"] == 3
        assert "completionTime" not in status(cluster)
        told = "BackoffLimitExceeded: Job has reached the specified backoff limit"
        await cluster.eventually(lambda: told in cluster.events("work"))
        await cluster.eventually(lambda: held(cluster) == [])

    in_cluster(tmp_path, scenario)


def test_after_a_failure_the_next_pod_waits(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        part = await start(cluster, now=clock)
        kubelet = Kubelet(cluster)
        await cluster.create(job())
        [first] = await cluster.eventually(kubelet.seen.all)
        await kubelet.phase(first.metadata.name, "Failed", since=clock.stamp())
        await cluster.eventually(lambda: status(cluster).get("failed") == 1)
        await cluster.quiet()
        assert len(kubelet.seen) == 1
        again = await part.reconcilers[0].reconcile(KEY)
        assert again is not None
        assert again.after == pytest.approx(10)
        clock.move(10)
        part.reconcilers[0].queue.add(KEY)  # as the timer does
        await cluster.eventually(lambda: len(kubelet.seen) == 2)

    in_cluster(tmp_path, scenario)


def test_a_deadline_ends_the_job_and_its_pods(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        part = await start(cluster, now=clock)
        kubelet = Kubelet(cluster)
        await cluster.create(job(parallelism=2, completions=2, activeDeadlineSeconds=60))
        await cluster.eventually(lambda: status(cluster).get("active") == 2)
        bound = kubelet.seen.all()[0].metadata.name
        await kubelet.bind(bound)
        clock.move(60)
        part.reconcilers[0].queue.add(KEY)
        await cluster.eventually(lambda: "FailureTarget" in true(cluster))
        await cluster.quiet()
        assert true(cluster) == {"FailureTarget": "DeadlineExceeded"}  # a pod is still ending
        assert status(cluster)["terminating"] == 1
        await kubelet.purge(bound)
        await cluster.eventually(lambda: true(cluster).get("Failed") == "DeadlineExceeded")
        assert len(kubelet.seen) == 0
        assert status(cluster)["failed"] == 2

    in_cluster(tmp_path, scenario)


def test_a_suspended_job_has_no_pods_and_starts_afresh(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        await start(cluster, now=clock)
        kubelet, jobs = Runner(cluster), cluster.admin.plain(BATCH, "jobs")
        await cluster.create(job(parallelism=2, completions=2))
        await cluster.eventually(lambda: status(cluster).get("active") == 2)
        await jobs.patch("work", {"spec": {"suspend": True}}, HERE)
        await cluster.eventually(
            lambda: true(cluster) == {"Suspended": "JobSuspended"} and not len(kubelet.seen)
        )
        await cluster.quiet()
        assert "startTime" not in status(cluster)
        clock.move(100)
        await jobs.patch("work", {"spec": {"suspend": False}}, HERE)
        await kubelet.until(lambda: true(cluster) == COMPLETE)
        assert status(cluster)["startTime"] == clock.stamp()
        assert not status(cluster).get("failed"), "suspending is no failure"
        await cluster.eventually(lambda: "Resumed: Job resumed" in cluster.events("work"))

    in_cluster(tmp_path, scenario)


def test_a_finished_job_goes_after_its_time(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        part = await start(cluster, now=clock)
        kubelet = Runner(cluster)
        await cluster.create(job(ttlSecondsAfterFinished=30))
        await kubelet.until(lambda: "Complete" in true(cluster))
        await cluster.quiet()
        again = await part.reconcilers[0].reconcile(KEY)
        assert again is not None
        assert again.after == pytest.approx(30)
        clock.move(30)
        part.reconcilers[0].queue.add(KEY)
        await cluster.eventually(lambda: not status(cluster) and not len(kubelet.seen), "job and pod to go")

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
def test_pods_of_a_deleted_job_are_not_held(tmp_path: Path, propagation: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        kubelet = Kubelet(cluster)
        await cluster.create(job(parallelism=2, completions=2))
        await cluster.eventually(lambda: status(cluster).get("active") == 2)
        await cluster.admin.plain(BATCH, "jobs").delete("work", HERE, propagation=propagation)
        await cluster.eventually(lambda: not cluster.seen.plain(BATCH, "jobs").all(), "the job to go")
        await cluster.eventually(lambda: held(cluster) == [], "pods to be let go")
        left = 2 if propagation == "Orphan" else 0
        await cluster.eventually(lambda: len(kubelet.seen) == left)

    in_cluster(tmp_path, scenario)


def test_a_pod_that_was_left_behind_is_taken_over_and_counted(tmp_path: Path) -> None:
    """Also one that ended before the job was there, and one whose labels change only now."""

    async def scenario(cluster: Cluster) -> None:
        kubelet = Kubelet(cluster)
        selector: Obj = {"manualSelector": True, "selector": {"matchLabels": {"app": "work"}}}
        await cluster.create(
            web_pod("runs", {"app": "work"}),
            web_pod("ended", {"app": "work"}),
            web_pod("other", {"app": "other"}),
        )
        await kubelet.phase("ended", "Succeeded")
        await start(cluster)
        [made] = await cluster.create(job(completions=3, parallelism=3, **selector))
        await cluster.eventually(lambda: status(cluster).get("succeeded") == 1, "the pod that ended counts")
        await cluster.quiet()
        owned = {each.metadata.name for each in kubelet.seen.all() if uids(each) == [made["metadata"]["uid"]]}
        assert {"runs", "ended"} < owned
        assert len(owned) == 3, "one was made besides"
        runs = kubelet.seen.get("runs", HERE)
        assert runs is not None
        assert TRACKING in runs.metadata.finalizers
        pods = cluster.admin.of(Pod)
        await pods.patch("other", {"metadata": {"labels": {"app": "work"}}}, HERE)
        await cluster.eventually(lambda: _owned(kubelet, "other"), "it is taken over")

    in_cluster(tmp_path, scenario)


def test_a_pod_that_matches_no_longer_is_let_go_and_replaced(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        kubelet = Kubelet(cluster)
        await start(cluster)
        await cluster.create(job())
        first = (await cluster.eventually(kubelet.seen.all))[0].metadata.name
        labels = {"batch.kubernetes.io/controller-uid": "another"}
        await cluster.admin.of(Pod).patch(first, {"metadata": {"labels": labels}}, HERE)
        await cluster.eventually(lambda: len(kubelet.seen.all()) == 2, "another is made")
        await cluster.quiet()
        free = kubelet.seen.get(first, HERE)
        assert free is not None
        assert (uids(free), free.metadata.finalizers) == ([], ())

    in_cluster(tmp_path, scenario)


def test_pods_that_a_job_leaves_behind_can_be_deleted(tmp_path: Path) -> None:
    """Also those of a selector of one's own, which have no label with the job's name, and one that never had a job."""

    async def scenario(cluster: Cluster) -> None:
        kubelet = Kubelet(cluster)
        await start(cluster)
        own: Obj = {"manualSelector": True, "selector": {"matchLabels": {"app": "work"}}}
        await cluster.create(job(**own), web_pod("alone", finalizers=[TRACKING]))
        await cluster.eventually(lambda: len(kubelet.seen.all()) == 2)
        (made,) = (each for each in kubelet.seen.all() if each.metadata.name != "alone")
        assert "batch.kubernetes.io/job-name" not in made.metadata.labels
        await cluster.admin.plain(BATCH, "jobs").delete("work", HERE, propagation="Orphan")
        await cluster.eventually(lambda: not held(cluster), "they lose the finalizer")

    in_cluster(tmp_path, scenario)


def uids(found: Pod) -> list[str]:
    return [owner.uid for owner in found.metadata.owner_references]


def _owned(kubelet: Kubelet, name: str) -> bool:
    found = kubelet.seen.get(name, HERE)
    return found is not None and bool(uids(found))


def test_an_old_copy_of_the_job_makes_nothing_too_many(tmp_path: Path) -> None:
    """The watch of jobs stands still: the reconciler waits for its own last word before it counts again."""

    async def scenario(cluster: Cluster) -> None:
        watch = Held()
        part = cluster.component(through=watch.through)
        reconciler = Jobs(part.client, part.informers, part.recorder)
        await part.start()
        await cluster.create(job(completions=3, parallelism=2))
        await cluster.eventually(lambda: part.informers.plain(BATCH, "jobs").get("work", HERE))
        watch.hold("/jobs")
        await reconciler.reconcile(KEY)
        again = asyncio.create_task(reconciler.reconcile(KEY))
        await watch.waiting.wait()
        assert not again.done()
        assert len((await cluster.admin.of(Pod).list(HERE)).items) == 2
        watch.release()
        await again

    in_cluster(tmp_path, scenario)


def test_a_pod_that_is_seen_before_its_job_stays_to_be_counted(tmp_path: Path) -> None:
    """Another controller of jobs has made it, say, and was replaced by this one."""

    async def scenario(cluster: Cluster) -> None:
        watch = Held()
        part = cluster.component(through=watch.through)
        reconciler = Jobs(part.client, part.informers, part.recorder)
        await part.start()
        await cluster.create(job("first"))
        await cluster.eventually(lambda: part.informers.plain(BATCH, "jobs").get("first", HERE))
        watch.hold("/jobs")
        (made,) = await cluster.create(job())
        owner = {"apiVersion": BATCH, "kind": "Job", "name": "work", "uid": made["metadata"]["uid"]}
        owners = [{**owner, "controller": True}]
        await cluster.create(web_pod("seen", ownerReferences=owners, finalizers=[TRACKING]))
        await cluster.eventually(lambda: part.informers.of(Pod).get("seen", HERE))
        await reconciler.reconcile(KEY)
        assert (await cluster.admin.of(Pod).get("seen", HERE)).metadata.finalizers == (TRACKING,)
        watch.release()

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param(
            {"backoffLimitPerIndex": 1, "completionMode": "Indexed", "completions": 2},
            "backoffLimitPerIndex",
            id="a field",
        ),
        pytest.param({"completionMode": "Indexed", "completions": 100_001}, "at most 100000", id="a size"),
    ],
)
def test_what_is_not_supported_is_said(tmp_path: Path, spec: dict[str, Any], told: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start(cluster)
        await cluster.create(job(**spec))
        await cluster.eventually(lambda: any(told in each for each in cluster.events("work")))
        await cluster.quiet()
        assert len(cluster.seen.of(Pod)) == 0

    in_cluster(tmp_path, scenario)


def test_a_refused_pod_is_said_and_tried_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        hard = {"hard": {"pods": "0"}}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": hard}
        await cluster.create(quota)
        await start(cluster)
        kubelet = Runner(cluster)
        await cluster.create(job())
        await cluster.eventually(lambda: any("FailedCreate" in told for told in cluster.events("work")))
        await cluster.admin.plain("v1", "resourcequotas").delete("none", HERE)
        await kubelet.until(lambda: true(cluster) == COMPLETE)

    in_cluster(tmp_path, scenario)


def life(**spec: Any) -> Callable[[Cluster, Failing], Any]:
    async def live(cluster: Cluster, connection: Failing) -> None:
        await start(cluster, cluster.component(through=connection.through), now=Clock())
        kubelet = Runner(cluster, lambda number: "Failed" if number == 1 else "Succeeded")
        stranger = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}}
        await cluster.create({**stranger, "spec": template("other")["spec"]})
        await kubelet.phase("other", "Running")
        await cluster.create(job(completions=3, parallelism=2, **spec))
        await kubelet.until(lambda: "Complete" in true(cluster))
        await cluster.quiet()
        told = status(cluster)
        assert (told["succeeded"], told["failed"]) == (3, 1)
        await cluster.eventually(lambda: held(cluster) == [])
        assert len(kubelet.seen) == 5  # three that succeeded, one that failed, one of somebody else
        assert kubelet.most <= 2

    return live


@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.soak)])
def test_whatever_write_fails_each_pod_is_counted_once(tmp_path: Path, step: int) -> None:
    assert len(with_each_write_failing(tmp_path, life(), step)) > 8


@pytest.mark.parametrize("seed", range(4))
def test_in_a_storm_of_failures_each_pod_is_counted_once(tmp_path: Path, seed: int) -> None:
    in_a_storm(tmp_path, seed, life(completionMode="Indexed" if seed % 2 else "NonIndexed"))
