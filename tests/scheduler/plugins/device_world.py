"""A small cluster with the devices plugin: ask about a pod, reserve, take it back; every check ends with ``validate``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from allotment.api.core import Pod, PodResourceClaimStatus
from allotment.api.meta import ApiStruct, ObjectMeta, OwnerReference
from allotment.api.resource import (
    AllocationResult,
    Device,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from allotment.scheduler.binding.step import Step
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.framework import Cycle, Status, StatusCode
from allotment.scheduler.plugins.dynamic_resources import DynamicResources
from tests.allocator import build
from tests.builders.typed import cluster, node, slice_


class World:
    """See the module."""

    def __init__(self, *objects: ApiStruct, now: float = 1000.0, **options: Any) -> None:
        self.plugin = DynamicResources(**options)
        self.cluster: Cluster = cluster(build.class_("gpu"), build.class_(), *objects)
        self.now = now

    def show(self, *objects: ApiStruct) -> World:
        for each in objects:
            self.cluster.change(None, each)
        return self

    def gate(self, pod: Pod) -> Status:
        self.show(pod)
        return self.plugin.pre_enqueue(self.cluster.pods[key(pod)], self.cluster)

    def cycle(self, pod: Pod) -> Cycle:
        """An attempt for a pod after PreFilter, which must let it pass."""
        cycle = self.attempt(pod)
        status = self.plugin.pre_filter(cycle)
        assert status.code in (StatusCode.SUCCESS, StatusCode.SKIP), status
        return cycle

    def attempt(self, pod: Pod) -> Cycle:
        self.show(pod)
        return Cycle(self.cluster.pods[key(pod)], self.cluster, self.now)

    def refused(self, pod: Pod) -> str:
        """What PreFilter says against a pod."""
        status = self.plugin.pre_filter(self.attempt(pod))
        assert status.rejected or status.code is StatusCode.WAIT, status
        assert status.plugin == "DynamicResources"
        return status.words

    def verdicts(self, cycle: Cycle) -> dict[str, Status]:
        names = self.cluster.nodes if cycle.names is None else sorted(cycle.names)
        return {name: self.plugin.filter(cycle, self.cluster.nodes[name]) for name in names}

    def fitting(self, pod: Pod) -> list[str]:
        """The nodes that the plugin leaves for a pod."""
        return [name for name, status in self.verdicts(self.cycle(pod)).items() if status.ok]

    def words(self, pod: Pod) -> dict[str, str]:
        """What is said of the nodes that do not fit."""
        found = self.verdicts(self.cycle(pod))
        return {name: status.words for name, status in found.items() if not status.ok}

    def scores(self, pod: Pod) -> dict[str, int]:
        cycle = self.cycle(pod)
        return {name: self.plugin.score(cycle, info) for name, info in self.cluster.nodes.items()}

    def place(self, pod: Pod, on: str) -> tuple[Cycle, list[Step]]:
        """Reserves for a pod on a node, which must work; returns what is to be written."""
        cycle = self.cycle(pod)
        info = self.cluster.nodes[on]
        assert self.plugin.filter(cycle, info).ok
        assert self.plugin.reserve(cycle, info).ok
        self.cluster.validate()
        return cycle, list(self.plugin.pre_bind(cycle, info))


def key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def fleet(*names: str, devices: Sequence[Device | str] = ("d0", "d1")) -> list[ApiStruct]:
    """Nodes, each with these devices."""
    found: list[ApiStruct] = []
    for name in names:
        found += [node(name), slice_(name, *devices)]
    return found


def owned(claim: ResourceClaim, pod: Pod, entry: str = "gpu", **annotations: str) -> ResourceClaim:
    """A claim as the claim controller makes it from a template."""
    meta = replace(
        claim.metadata,
        owner_references=(
            OwnerReference(
                api_version="v1",
                kind="Pod",
                name=pod.metadata.name,
                uid=pod.metadata.uid,
                controller=True,
            ),
        ),
        annotations={"resource.kubernetes.io/pod-claim-name": entry, **annotations},
    )
    return replace(claim, metadata=meta)


def noted(pod: Pod, **claims: str | None) -> Pod:
    """The pod with the names of its claims in its status."""
    statuses = tuple(
        PodResourceClaimStatus(name=entry, resource_claim_name=name) for entry, name in claims.items()
    )
    return replace(pod, status=replace(pod.status, resource_claim_statuses=statuses))


def user(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def allocated(
    claim: ResourceClaim,
    *devices: str,
    on: str = "n1",
    pool: str | None = None,
    users: Sequence[ResourceClaimConsumerReference] = (),
    anywhere: bool = False,
    version: int = 1,
    **more: Any,
) -> ResourceClaim:
    """A claim with these devices of a node."""
    results = tuple(
        DeviceRequestAllocationResult(request="r", driver=build.DRIVER, pool=pool or on, device=name, **more)
        for name in devices
    )
    where = None if anywhere else build.selector(fields=[build.where("metadata.name", "In", on)])
    given = AllocationResult(devices=DeviceAllocationResult(results=results), node_selector=where)
    return replace(
        claim,
        metadata=replace(claim.metadata, resource_version=str(version)),
        status=ResourceClaimStatus(allocation=given, reserved_for=tuple(users)),
    )


def going(claim: ResourceClaim) -> ResourceClaim:
    meta: ObjectMeta = replace(claim.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return replace(claim, metadata=meta)


def cards(name: str, *devices: Device, **slots: str) -> list[ApiStruct]:
    """A node whose devices draw on one set of counters, ``card``."""
    return [
        node(name),
        slice_(name, *devices, of=2),
        slice_(name, name=f"counters-{name}", counters=[build.counter_set("card", **slots)], of=2),
    ]
