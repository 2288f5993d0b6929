"""Pods, templates, groups and claims for tests of the controllers of claims, and what scheduler and node would do to them."""

from __future__ import annotations

from typing import Any

from allotment.api.claim_marks import FINALIZER
from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim
from allotment.client.client import PatchType
from allotment.client.form import Obj
from allotment.controllers.claims.claim_release import ClaimRelease
from allotment.controllers.claims.template_claims import TemplateClaims
from tests.builders.plain import claim, claim_template, owned, pod
from tests.controllers.cluster import Cluster, Component

NAMESPACE = "default"
V1 = "resource.k8s.io/v1"


def labelling_template(
    name: str = "one-gpu", /, labels: dict[str, str] | None = None, **annotations: str
) -> Obj:
    """A template whose claims get these labels and annotations."""
    made = claim_template(name, namespace=NAMESPACE)
    made["spec"]["metadata"] = {"labels": labels, "annotations": annotations} if labels else {}
    return made


def semantic_spec(mode: str) -> Obj:
    """The spec of a semantic claim."""
    return {"resourceClassName": "acme", "allocationMode": mode}


def claiming_pod(
    name: str, /, *templates: str, group: str = "", claims: tuple[str, ...] = (), **spec: Any
) -> Obj:
    """A pod with entries ``a``, ``b``… for its templates, and entries of their own names for claims."""
    entries = [
        {"name": letter, "resourceClaimTemplateName": each}
        for letter, each in zip("abcdef", templates, strict=False)
    ]
    entries += [{"name": claim, "resourceClaimName": claim} for claim in claims]
    if entries:
        spec["resourceClaims"] = entries
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return pod(name, namespace=NAMESPACE, image="none", **spec)


def group(name: str, /, *templates: str) -> Obj:
    entries = [
        {"name": letter, "resourceClaimTemplateName": each}
        for letter, each in zip("abcdef", templates, strict=False)
    ]
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}, "resourceClaims": entries},
    }


def finalized_claim(
    name: str, /, *, owner: Obj | None = None, finalizers: tuple[str, ...] = (FINALIZER,)
) -> Obj:
    made = claim(name, namespace=NAMESPACE, meta={"finalizers": list(finalizers)})
    return made if owner is None else owned(made, owner, controller=True)


def consumer(of: Obj) -> Obj:
    """The entry by which a claim is reserved for a pod or a group."""
    meta = of["metadata"]
    where = {"resource": "pods"} if of["kind"] == "Pod" else _GROUPS
    return {**where, "name": meta["name"], "uid": meta["uid"]}


_GROUPS = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups"}


def allocation(device: str) -> Obj:
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "pool", "device": device}
    return {"devices": {"results": [result]}}


async def controllers(cluster: Cluster, *, workers: int = 4, **how: Any) -> Component:
    """Both reconcilers, running. ``how`` is for the component."""
    part = cluster.component(**how)
    made = TemplateClaims(part.client, part.informers, part.recorder)
    await part.start(made, ClaimRelease(part.client, part.informers), workers=workers)
    return part


async def give(cluster: Cluster, name: str, *users: Obj, device: str = "") -> None:
    """What the scheduler does to a claim: a device of its own, and reservations for pods and groups."""
    status = {"allocation": allocation(device or name), "reservedFor": [consumer(user) for user in users]}
    await change(cluster, V1, "resourceclaims", name, {"status": status}, "status")


async def change(
    cluster: Cluster, api_version: str, plural: str, name: str, patch: Obj, subresource: str = ""
) -> None:
    kind = cluster.admin.plain(api_version, plural)
    await kind.patch(name, patch, NAMESPACE, subresource=subresource, type_=PatchType.MERGE)


async def bind(cluster: Cluster, name: str) -> None:
    target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node"}}
    await cluster.admin.plain("v1", "pods").act(name, "binding", target, NAMESPACE)


async def finish(cluster: Cluster, name: str, phase: str = "Succeeded") -> None:
    await change(cluster, "v1", "pods", name, {"status": {"phase": phase}}, "status")


async def remove(cluster: Cluster, name: str, api_version: str = "v1", plural: str = "pods") -> None:
    await cluster.admin.plain(api_version, plural).delete(name, NAMESPACE, grace_seconds=0)


def claims_of(cluster: Cluster) -> dict[str, ResourceClaim]:
    """The claims that there are, by name, but for those that others left on a server that many tests use."""
    found = [
        each for each in cluster.seen.of(ResourceClaim).all() if each.metadata.uid not in cluster.strangers
    ]
    return {each.metadata.name: each for each in found if each.metadata.namespace == NAMESPACE}


def recorded(cluster: Cluster, name: str) -> dict[str, str]:
    """The claims that a pod's status names."""
    found = cluster.seen.of(Pod).get(name, NAMESPACE)
    statuses = found.status.resource_claim_statuses if found else ()
    return {status.name: status.resource_claim_name or "" for status in statuses}


async def until_recorded(cluster: Cluster, name: str, entries: int = 1) -> dict[str, str]:
    """The claims that a pod's status names, once there are so many."""
    await cluster.eventually(lambda: len(recorded(cluster, name)) == entries, f"{entries} claims of {name}")
    return recorded(cluster, name)
