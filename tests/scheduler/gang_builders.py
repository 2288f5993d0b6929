"""Builders of groups and queues, and of worlds in which they are scheduled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from allotment.api.batch import (
    DeviceQuota,
    DeviceQuotas,
    DisruptionMode,
    GangSchedulingPolicy,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodGroup,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    Queue,
    QueueGuarantee,
    QueueSpec,
    QueueStatus,
    TopologyConstraint,
    VolcanoPodGroup,
    VolcanoPodGroupSpec,
    VolcanoPodGroupStatus,
)
from allotment.api.core import NodeSelector, Pod
from allotment.api.meta import ApiStruct, LabelSelector, ObjectMeta
from allotment.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from allotment.scheduler.config.configuration import Configuration, ProfileSpec
from allotment.scheduler.gangs.gang import TASK
from allotment.scheduler.pod import GROUP_ANNOTATIONS
from tests.allocator import build
from tests.builders.typed import Amount, amounts, claim, node, pod, slice_, term
from tests.scheduler.world import Seat, World

GPU = build.class_("gpu")
VOLCANO_TOO = Configuration(profiles=(ProfileSpec(), ProfileSpec(name="volcano")))
"""Pods that name Volcano's scheduler are taken too."""


def group(
    name: str = "gang",
    minimum: int | None = 2,
    *,
    priority: int | None = None,
    topology: Sequence[str] = (),
    claims: Iterable[Any] = (),
    policy: str | None = None,
    mode: str = "",
) -> PodGroup:
    """A gang of Kubernetes; without a minimum its pods go on their own. ``mode`` is its disruptionMode."""
    gang = GangSchedulingPolicy(min_count=minimum) if minimum is not None else None
    constraints = PodGroupSchedulingConstraints(
        topology=tuple(TopologyConstraint(key=key) for key in topology)
    )
    return PodGroup(
        metadata=_meta(name, "default"),
        spec=PodGroupSpec(
            scheduling_policy=PodGroupSchedulingPolicy(gang=gang, basic=None if gang else {}),
            scheduling_constraints=constraints if topology else None,
            resource_claims=tuple(claims),
            priority=priority,
            preemption_policy=policy,
            disruption_mode=DisruptionMode(**{mode: {}} if mode else {}),
        ),
    )


def volcano_group(
    name: str = "gang",
    minimum: int | None = 2,
    queue: str | None = None,
    *,
    least: Mapping[str, Amount] | None = None,
    tasks: Mapping[str, int] | None = None,
    phase: str | None = None,
) -> VolcanoPodGroup:
    return VolcanoPodGroup(
        metadata=_meta(name, "default"),
        spec=VolcanoPodGroupSpec(
            min_member=minimum,
            queue=queue,
            min_resources=amounts(least or {}),
            min_task_member=dict(tasks or {}),
        ),
        status=VolcanoPodGroupStatus(phase=phase),
    )


def queue(
    name: str,
    *,
    weight: int | None = None,
    most: Mapping[str, Amount] | None = None,
    deserved: Mapping[str, Amount] | None = None,
    reclaimable: bool | None = None,
    priority: int | None = None,
    state: str | None = None,
    devices: Mapping[str, int] | None = None,
    kept: Mapping[str, Amount] | None = None,
    parent: str | None = None,
) -> Queue:
    """``most`` is its capability; ``devices`` the same for classes, in Volcano's own words; ``kept`` its guarantee."""
    quotas = {name: DeviceQuota(count=count) for name, count in (devices or {}).items()}
    return Queue(
        metadata=_meta(name),
        spec=QueueSpec(
            weight=weight,
            capability=amounts(most or {}),
            deserved=amounts(deserved or {}),
            reclaimable=reclaimable,
            priority=priority,
            dra=DeviceQuotas(capability=quotas) if quotas else None,
            guarantee=QueueGuarantee(resource=amounts(kept or {})),
            parent=parent,
        ),
        status=QueueStatus(state=state),
    )


def budget(labels: Mapping[str, str], allowed: int) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=_meta("budget", "default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=dict(labels))),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def _meta(name: str, namespace: str = "") -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, uid=f"uid-{name}", resource_version="1")


def member(
    name: str, gang: str = "gang", *, devices: int = 1, volcano: bool = False, task: str = "", **more: Any
) -> list[ApiStruct]:
    """A pod of a group with a claim of its own for so many devices, and the claim; 0: no claim."""
    notes = {**more.pop("annotations", {}), **({TASK: task} if task else {})}
    if volcano:
        notes[GROUP_ANNOTATIONS[0]] = gang
    claims = {"d": f"{name}-d"} if devices else {}
    made = pod(name, claims=claims, group=None if volcano else gang or None, annotations=notes, **more)
    wish = claim(f"{name}-d", build.request(class_name="gpu", count=devices or 1))
    return [wish, made] if devices else [made]


def members(count: int, gang: str = "gang", prefix: str = "", **more: Any) -> list[ApiStruct]:
    return [obj for n in range(count) for obj in member(f"{prefix or gang}-{n}", gang, **more)]


def placed(objects: Iterable[ApiStruct], on: str, first: int = 0) -> list[ApiStruct]:
    """The same pods on a node, their claims holding its devices ``d<first>``, ``d<first+1>``, …"""
    found: list[ApiStruct] = []
    for each in objects:
        if isinstance(each, ResourceClaim):
            wish = each.spec.devices.requests[0].exactly
            assert wish is not None
            names = [f"d{first + n}" for n in range(wish.count or 1)]
            first += len(names)
            found.append(holding(each, on, names, each.metadata.name.removesuffix("-d")))
        elif isinstance(each, Pod):
            found.append(replace(each, spec=replace(each.spec, node_name=on)))
    return found


def holding(of: ResourceClaim, on: str, devices: Iterable[str], *users: str) -> ResourceClaim:
    """A claim that has devices of a node, for these pods."""
    results = tuple(
        DeviceRequestAllocationResult(
            request=of.spec.devices.requests[0].name, driver=build.DRIVER, pool=on, device=name
        )
        for name in devices
    )
    where = NodeSelector(node_selector_terms=(term(names=[on]),))
    allocation = AllocationResult(devices=DeviceAllocationResult(results=results), node_selector=where)
    reserved = tuple(
        ResourceClaimConsumerReference(resource="pods", name=name, uid=f"uid-default-{name}")
        for name in users
    )
    return replace(of, status=ResourceClaimStatus(allocation=allocation, reserved_for=reserved))


def gpu_node(name: str, devices: int = 4, **more: Any) -> list[ApiStruct]:
    return [node(name, **{"cpu": 64, **more}), slice_(name, *(f"d{n}" for n in range(devices)))]


def world(*objects: ApiStruct | Sequence[ApiStruct]) -> World:
    """A world with a device class and these objects, in which one scheduler sits."""
    made = World(GPU)
    for each in objects:
        made.put(*(each if isinstance(each, (list, tuple)) else [each]))
    Seat(made, VOLCANO_TOO)
    return made


def nodes_of(made: World) -> dict[str, str]:
    """Where each pod is bound."""
    return {each.metadata.name: each.spec.node_name for each in made.pods.values() if each.spec.node_name}


def reason_of(made: World, name: str) -> str:
    """What the pod's condition says."""
    for condition in made.pod(name).status.conditions:
        if condition.type == "PodScheduled":
            return condition.message or ""
    return ""
