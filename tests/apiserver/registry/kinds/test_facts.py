"""What a kind says of itself is complete, and agrees with the others."""

from __future__ import annotations

import pytest

from allotment.api.schema.schema import schema_of
from allotment.apiserver.registry import kinds
from allotment.apiserver.registry.catalogue import found_in
from allotment.apiserver.registry.kinds.namespace import RESOURCES as NAMESPACES
from allotment.apiserver.registry.kinds.serviceaccount import RESOURCES as ACCOUNTS
from allotment.apiserver.registry.resource import Resource
from tests.apiserver.registry.kinds.pods import running_pod

ALL = list(found_in(kinds))
WATCHED_BY_KUBE_SCHEDULER = {
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "deviceclasses.resource.k8s.io",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "poddisruptionbudgets.policy",
    "pods",
    "replicasets.apps",
    "replicationcontrollers",
    "resourceclaims.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "services",
    "statefulsets.apps",
    "storageclasses.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
}


def test_what_kube_scheduler_watches_is_there() -> None:
    assert {resource.id for resource in ALL} >= WATCHED_BY_KUBE_SCHEDULER


def test_no_two_kinds_share_a_name() -> None:
    ids = [resource.id for resource in ALL]
    assert len(ids) == len(set(ids))
    shorts = [short for resource in ALL for short in resource.short_names]
    assert len(shorts) == len(set(shorts))


@pytest.mark.parametrize("resource", ALL, ids=lambda resource: resource.id)
def test_a_kind_is_described(resource: Resource) -> None:
    if not resource.schemas:
        assert schema_of(resource.api_version, resource.kind).properties
    bodies = [(each.api_version, each.kind) for each in resource.actions.values()]
    bodies += [(each.api_version, each.kind) for each in resource.views.values()]
    for api_version, kind in bodies:
        assert schema_of(api_version, kind).properties
    assert resource.group == "resource.k8s.io" or resource.doc.endswith(".")


def test_a_namespace_is_held_until_its_finalizers_are_gone() -> None:
    strategy = NAMESPACES[0].strategy
    namespace = {"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}, "status": {}}
    assert strategy.held(namespace)
    NAMESPACES[0].views["finalize"].write(namespace, {"spec": {"finalizers": []}})
    assert not strategy.held(namespace)


@pytest.mark.parametrize(
    ("target", "asked", "expected"),
    [
        (running_pod(), None, None),  # on no node: goes at once
        (running_pod(nodeName="n", terminationGracePeriodSeconds=30), None, 30),
        (running_pod(nodeName="n", terminationGracePeriodSeconds=30), 5, 5),
        (running_pod(nodeName="n", terminationGracePeriodSeconds=30), 0, None),
        (running_pod(nodeName="n", terminationGracePeriodSeconds=30), -3, 1),
        (running_pod(nodeName="n", terminationGracePeriodSeconds=0), None, None),
        (running_pod(nodeName="n", terminationGracePeriodSeconds=30, phase="Failed"), None, None),
    ],
)
def test_pods_on_nodes_get_time_to_end(
    target: dict[str, object], asked: int | None, expected: int | None
) -> None:
    pods = next(resource for resource in ALL if resource.id == "pods")
    assert pods.strategy.grace_seconds(target, asked) == expected


def test_a_service_account_can_have_tokens() -> None:
    assert set(ACCOUNTS[0].actions) == {"token"}
