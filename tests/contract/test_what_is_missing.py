"""The page that says what is not there, held against the real server's discovery, the description of its API (which has the kinds
that wait behind feature gates too) and the real controllers' names.

Whatever the real server names is served here too, or listed in docs/compatibility.md; what is listed is not served, and
is something that Kubernetes has.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.registry.admissions.quota import Quotas
from allotment.apiserver.upkeep.collector import Collector
from allotment.apiserver.upkeep.namespaces import NamespaceEmptier, ServiceAccountGiver
from allotment.controllers.claims.claim_release import ClaimRelease
from allotment.controllers.nodes.node_lifecycle import NodeLifecycle
from allotment.controllers.nodes.orphaned_pods import OrphanedPods
from allotment.controllers.pools.pool_status_requests import PoolStatusRequests
from allotment.controllers.taints.device_taint_eviction import DeviceTaintEviction
from allotment.controllers.taints.node_taint_eviction import TaintEviction
from allotment.controllers.volumes.binder import VolumeBinder
from allotment.controllers.volumes.ephemeral_claims import EphemeralClaims
from allotment.controllers.workloads.deployments import Deployments
from allotment.controllers.workloads.disruption_budgets import DisruptionBudgets
from allotment.controllers.workloads.jobs import Jobs
from allotment.controllers.workloads.replica_sets import ReplicaSets
from tests.checkout import CHECKOUT
from tests.contract.api import Api
from tests.contract.embedded import Embedded
from tests.corpus import unavailable
from tests.kubernetes.control_plane import programs

PAGE = CHECKOUT / "docs" / "compatibility.md"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NAME = re.compile(r"`([^`]+)`")
COLLECTION = re.compile(
    r"/apis?/(?:([a-z0-9.]+\.[a-z0-9.]+|[a-z]+)/)?(v[a-z0-9]+)/(?:namespaces/\{namespace\}/)?([a-z]+)"
)

OURS: dict[str, Any] = {
    "clusterrole-aggregation-controller": "see docs/compatibility.md, On purpose",
    "deployment-controller": Deployments,
    "device-taint-eviction-controller": DeviceTaintEviction,
    "disruption-controller": DisruptionBudgets,
    "ephemeral-volume-controller": EphemeralClaims,
    "garbage-collector-controller": Collector,
    "job-controller": Jobs,
    "namespace-controller": NamespaceEmptier,
    "node-lifecycle-controller": NodeLifecycle,
    "persistentvolume-binder-controller": VolumeBinder,
    "pod-garbage-collector-controller": OrphanedPods,
    "replicaset-controller": ReplicaSets,
    "resourceclaim-controller": ClaimRelease,
    "resourcepoolstatusrequest-controller": PoolStatusRequests,
    "resourcequota-controller": Quotas,
    "serviceaccount-controller": ServiceAccountGiver,
    "taint-eviction-controller": TaintEviction,
    "ttl-after-finished-controller": Jobs,
}
"""Kubernetes' controllers, and what does their work here."""


def listed(heading: str) -> set[str]:
    """The names in the first column of the table below a heading of the page."""
    part = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in part.splitlines() if line.startswith("| `")]
    names = [name for row in rows for name in NAME.findall(row.split("|")[1])]
    assert len(names) == len(set(names)), f"{heading}: something is listed twice"
    return set(names)


def discovered(api: Api) -> Iterator[tuple[str, str]]:
    """Every resource and subresource: its plural with the group, and its version. Other tests' custom kinds are left out."""
    definitions = api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").must()["items"]
    custom = {each["spec"]["group"] for each in definitions}
    for root in ("/api", "/apis"):
        for group in api.get(root, headers={"Accept": DISCOVERY}).must()["items"]:
            suffix = group["metadata"].get("name") or ""
            if suffix in custom:
                continue
            for version in group["versions"]:
                for resource in version["resources"]:
                    parts = ["", *(f"/{each['subresource']}" for each in resource.get("subresources") or ())]
                    for part in parts:
                        name = f"{resource['resource']}{part}"
                        yield f"{name}.{suffix}" if suffix else name, version["version"]


def described() -> set[tuple[str, str]]:
    """The same by the paths that Kubernetes' own description of its API has."""
    asked = ["go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"]
    try:
        told = subprocess.run(
            asked, cwd=CHECKOUT / "tests" / "kubernetes", capture_output=True, text=True, check=True
        )
        text = (Path(told.stdout.strip()) / "api/openapi-spec/swagger.json").read_text()
    except (OSError, subprocess.CalledProcessError) as exc:
        unavailable(f"the description of Kubernetes' API (run `make kubernetes`): {exc}")
    found = filter(None, map(COLLECTION.fullmatch, json.loads(text)["paths"]))
    return {
        (name + (f".{group}" if group else ""), version)
        for group, version, name in (each.groups() for each in found)
    }


@pytest.fixture
def ours(embedded: Embedded) -> Iterator[Api]:
    transport = embedded.in_process()
    yield Api("process", transport, embedded.forget)
    transport.close()


def test_every_kind_is_served_or_listed(api: Api, ours: Api) -> None:
    here = set(discovered(ours))
    names = {name for name, _ in here}
    missing = listed("Kinds that are not there")
    assert not missing & (names | {f"{name}/{version}" for name, version in here}), "listed, but served"
    if not api.real:
        return
    there = set(discovered(api))
    untold = {
        name if name not in names else f"{name}/{version}"
        for name, version in there - here
        if name not in missing and ("/" not in name or (re.sub("/[a-z]+", "", name), version) in here)
    }
    assert untold <= missing, f"not served and not listed: {sorted(untold - missing)}"
    there |= described()
    known = {name for name, _ in there} | {f"{name}/{version}" for name, version in there}
    assert missing <= known, f"listed, but Kubernetes does not have it: {sorted(missing - known)}"


@pytest.mark.kubernetes
def test_every_kind_behind_a_feature_gate_is_served_or_listed(ours: Api) -> None:
    here, missing = set(discovered(ours)), listed("Kinds that are not there")
    untold = {
        (name, version)
        for name, version in described() - here
        if name not in missing and f"{name}/{version}" not in missing
    }
    assert not untold, f"not served and not listed: {sorted(untold)}"


@pytest.mark.kubernetes
def test_every_controller_is_there_or_listed() -> None:
    shown = subprocess.run(
        [programs() / "kube-controller-manager", "--help"], capture_output=True, text=True, check=True
    )
    everything = re.search(r"All controllers: ([a-z0-9, -]+)", shown.stdout)
    assert everything is not None
    names = set(everything[1].strip().split(", "))
    missing = listed("Controllers that are not there")
    assert not OURS.keys() & missing, "listed, but there"
    assert OURS.keys() | missing == names
