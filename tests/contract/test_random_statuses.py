"""Random statuses of every kind, written to the real server and to ours: both take the same ones.

A status that the real server refuses must not be stored, since controllers read it; what it takes, odd as it may be, we take too.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from allotment.api.schema.schema import schema_of
from allotment.apiserver.registry import kinds
from allotment.apiserver.registry.catalogue import found_in
from allotment.apiserver.registry.resource import Resource
from tests.apiserver.odd_objects import bases, value
from tests.apiserver.registry.kinds.record import NAMESPACE
from tests.builders.plain import Obj
from tests.contract.api import Api, Https
from tests.contract.embedded import Embedded
from tests.kubernetes.control_plane import ControlPlane, client_context

TRIES = 15
RESOURCES = {
    resource.id: resource
    for resource in found_in(kinds)
    if resource.status and resource.plural not in ("namespaces", "podgroups")
    if resource.group not in ("karpenter.sh", "allotment.dev", "resource.k8s.io", "apiextensions.k8s.io")
}
LAX = (
    r"status\.(ephemeral|init)?[cC]ontainerStatuses\[",
    r"status\.extendedResourceClaimStatus",
    r"status\.nodeAllocatableResourceClaimStatuses",
    r"status\.declaredFeatures",
    r"status\.(capacity|allocatable|allocatedResources|allocatedResourceStatuses|addresses)",
    r"status\.(attach|detach)Error",
)
"""Fields whose contents ours does not check; docs/compatibility.md says so."""


@pytest.fixture
def both(kubernetes: ControlPlane, embedded: Embedded) -> Iterator[tuple[Api, Api]]:
    there = Https(
        kubernetes.url, client_context(kubernetes.ca, kubernetes.admin), client_context(kubernetes.ca)
    )
    here = embedded.in_process()
    yield Api("kubernetes", there, kubernetes.compact), Api("process", here, embedded.forget)
    there.close()
    here.close()


@pytest.mark.kubernetes
@pytest.mark.parametrize("throw", [1, 2])
def test_the_same_statuses_are_taken(both: tuple[Api, Api], throw: int) -> None:
    for api in both:
        _prepare(api)
    dice = Random(throw)
    wrong = [
        fault
        for number, (id_, base) in enumerate(bases())
        if id_ in RESOURCES
        for fault in _compare(both, RESOURCES[id_], base, f"random-{number}", dice)
    ]
    assert not wrong


def _prepare(api: Api) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    api.eventually(lambda: api.get(account).status == 200 or None, "the service account")


def _compare(both: tuple[Api, Api], resource: Resource, base: Obj, name: str, dice: Random) -> Iterator[str]:
    obj = copy.deepcopy(base)
    obj["metadata"]["name"] = name
    inside = f"/namespaces/{NAMESPACE}" if resource.namespaced else ""
    if resource.namespaced:
        obj["metadata"]["namespace"] = NAMESPACE
    root = "apis" if resource.group else "api"
    path = f"/{root}/{resource.api_version}{inside}/{resource.plural}"
    if any(api.post(path, obj).status >= 300 for api in both):
        return
    schema = schema_of(resource.api_version, resource.kind).properties["status"]
    for _ in range(TRIES):
        status: Any = value(schema, dice, 6)
        if status and dice.random() < 0.5:  # one part alone is refused less often
            chosen = dice.choice(sorted(status))
            status = {chosen: status[chosen]}
        real, ours = (api.patch(f"{path}/{name}/status?dryRun=All", {"status": status}) for api in both)
        if real.status < 300 <= ours.status:
            yield f"{resource.id}: only ours refuses {status}: {ours.message}"
        elif ours.status < 300 <= real.status:
            fields = [cause["field"] for cause in real.causes]
            if not all(re.match("|".join(LAX), field) for field in fields):
                yield f"{resource.id}: only Kubernetes refuses {status}: {real.message}"
    for api in both:
        api.delete(f"{path}/{name}?gracePeriodSeconds=0")
