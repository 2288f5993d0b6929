"""Which pods a workload comes to, and which workloads pods are of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allotment.api.manifests.manifest import read_manifest
from allotment.autoscaler.simulate.workload_pods import Workload, WorkloadID, like, owners_of, workload_of
from tests.autoscaler.scenario.test_scenario_run import replica
from tests.autoscaler.scenarios import workload
from tests.autoscaler.simulate.test_drain import of
from tests.builders.typed import pod


def read(kind: str, **spec: Any) -> Workload:
    [located] = read_manifest(
        json.dumps(workload(kind, "w", pod("p", labels={"app": "w"}), **spec)), "w.yaml"
    )
    found = workload_of(located)
    assert found.workload is not None, found.errors
    return found.workload


SIZES: dict[str, tuple[str, dict[str, Any], int]] = {
    "a deployment by default": ("Deployment", {}, 1),
    "a deployment": ("Deployment", {"replicas": 3}, 3),
    "a deployment that leaves it open": ("Deployment", {"replicas": None}, 1),
    "a set of none": ("StatefulSet", {"replicas": 0}, 0),
    "a replication controller": ("ReplicationController", {"replicas": 2}, 2),
    "a job by default": ("Job", {}, 1),
    "a job of one pod at a time": ("Job", {"completions": 4}, 1),
    "a job of several at a time": ("Job", {"parallelism": 3}, 3),
    "no more than are needed": ("Job", {"parallelism": 3, "completions": 2}, 2),
    "a job that waits": ("Job", {"parallelism": 3, "suspend": True}, 0),
}


@pytest.mark.parametrize(("kind", "spec", "count"), SIZES.values(), ids=SIZES)
def test_how_many_pods(kind: str, spec: dict[str, Any], count: int) -> None:
    assert read(kind, **spec).replicas == count


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job"])
def test_pods_know_their_workload(kind: str) -> None:
    made = read(kind).pod(7)
    assert (made.metadata.name, made.metadata.labels["app"]) == ("w-7", "w")
    assert WorkloadID(kind, "default", "w") in owners_of(made)
    assert made.metadata.uid


def test_the_clusters_own_pods_know_theirs_and_more_can_be_made_like_them() -> None:
    web = WorkloadID("Deployment", "default", "web")
    found = replica("web-x-1")
    assert list(owners_of(found)) == [WorkloadID("ReplicaSet", "default", "web-x"), web]
    another = like(web, found).pod(0)
    assert list(owners_of(another)) == list(owners_of(found))
    assert another.metadata.uid != found.metadata.uid
    assert list(owners_of(of("DaemonSet", pod("p")))) == list(owners_of(pod("p"))) == []
