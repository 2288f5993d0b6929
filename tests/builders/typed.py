"""Typed views of what clients write, from terse words: a test says what matters to it and nothing else.

Plain values stand for typed ones: ``pod("a", cpu=2, labels={"app": "web"}, claims={"gpu": "my-claim"})``,
``node("n", cpu=8, zone="east", taints=[taint("spot")])``. Amounts are whole numbers or text. What belongs to devices alone
comes from the allocator's builders; ``claim`` and ``slice_`` are shown here again with the scheduler's defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from allotment.api.core import (
    Affinity,
    Container,
    ContainerClaim,
    ContainerPort,
    Namespace,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodResourceClaim,
    PodSchedulingGate,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from allotment.api.meta import ApiStruct, LabelSelector, LabelSelectorRequirement, ObjectMeta
from allotment.api.quantity import Quantity
from allotment.api.resource import Device, DeviceRequest, ResourceClaim, ResourceSlice
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.framework import Cycle
from allotment.scheduler.node import NodeInfo
from allotment.scheduler.pod import PodInfo
from tests.allocator import build

Amount = str | int
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def amounts(given: Mapping[str, Amount]) -> dict[str, Quantity]:
    return {name: Quantity.parse(amount) for name, amount in given.items()}


def _labels(selector: Mapping[str, str] | LabelSelector | None) -> LabelSelector | None:
    if selector is None or isinstance(selector, LabelSelector):
        return selector
    return LabelSelector(match_labels=dict(selector))


# --- pods ---


def pod(
    name: str = "p",
    *,
    namespace: str = "default",
    uid: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    cpu: Amount | None = None,
    memory: Amount | None = None,
    more: Mapping[str, Amount] | None = None,
    claims: Mapping[str, str] | Sequence[str] = (),
    templates: Mapping[str, str] | None = None,
    ports: Sequence[int | ContainerPort] = (),
    node: str | None = None,
    selector: Mapping[str, str] | None = None,
    affinity: Affinity | None = None,
    tolerations: Iterable[Toleration] = (),
    spread: Iterable[TopologySpreadConstraint] = (),
    gates: Iterable[str] = (),
    priority: int | None = None,
    group: str | None = None,
    scheduler: str = "default-scheduler",
    phase: str | None = None,
    leaving: bool = False,
    init: Iterable[Container] = (),
    containers: Iterable[Container] = (),
    version: int | None = None,
    **spec: Any,
) -> Pod:
    """A pod of one container, unless ``containers`` are given.

    ``claims`` maps the pod's names for its claims to the claims' (a sequence: both are the same), ``templates`` to the
    templates they are made from; the container uses all of them. ``more`` are requests of other resources. Anything else
    is a field of the spec.
    """
    existing = dict(claims) if isinstance(claims, Mapping) else {each: each for each in claims}
    made = dict(templates or {})
    only = container(cpu=cpu, memory=memory, more=more, claims=[*existing, *made], ports=ports)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid if uid is not None else f"uid-{namespace}-{name}",
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
            deletion_timestamp="2026-01-01T00:00:00Z" if leaving else None,
            resource_version=str(version) if version is not None else "",
        ),
        spec=PodSpec(
            init_containers=tuple(init),
            containers=tuple(containers) or (only,),
            resource_claims=(
                *(PodResourceClaim(name=key, resource_claim_name=value) for key, value in existing.items()),
                *(
                    PodResourceClaim(name=key, resource_claim_template_name=value)
                    for key, value in made.items()
                ),
            ),
            node_name=node,
            node_selector=dict(selector or {}),
            affinity=affinity,
            tolerations=tuple(tolerations),
            topology_spread_constraints=tuple(spread),
            scheduler_name=scheduler,
            scheduling_gates=tuple(PodSchedulingGate(name=gate) for gate in gates),
            scheduling_group=PodSchedulingGroup(pod_group_name=group) if group else None,
            priority=priority,
            **spec,
        ),
        status=PodStatus(phase=phase),
    )


def container(
    name: str = "main",
    *,
    cpu: Amount | None = None,
    memory: Amount | None = None,
    more: Mapping[str, Amount] | None = None,
    limits: Mapping[str, Amount] | None = None,
    claims: Iterable[str] = (),
    ports: Sequence[int | ContainerPort] = (),
    sidecar: bool = False,
) -> Container:
    """What it requests; a bare port is one of the host's."""
    requests = {"cpu": cpu, "memory": memory, **(more or {})}
    return Container(
        name=name,
        ports=tuple(port if isinstance(port, ContainerPort) else host_port(port) for port in ports),
        resources=ResourceRequirements(
            requests=amounts({key: amount for key, amount in requests.items() if amount is not None}),
            limits=amounts(limits or {}),
            claims=tuple(ContainerClaim(name=claim) for claim in claims),
        ),
        restart_policy="Always" if sidecar else None,
    )


def host_port(port: int, ip: str | None = None, protocol: str | None = None) -> ContainerPort:
    return ContainerPort(container_port=port, host_port=port, host_ip=ip, protocol=protocol)


def toleration(
    key: str | None = None,
    value: str | None = None,
    *,
    operator: str | None = None,
    effect: str | None = None,
) -> Toleration:
    """Without a value: Exists, unless an operator says otherwise."""
    chosen = operator if operator is not None else ("Exists" if value is None else "Equal")
    return Toleration(key=key, operator=chosen, value=value, effect=effect)


def spread(
    key: str = ZONE,
    selector: Mapping[str, str] | LabelSelector | None = None,
    *,
    skew: int = 1,
    soft: bool = False,
    **more: Any,
) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=skew,
        topology_key=key,
        when_unsatisfiable="ScheduleAnyway" if soft else "DoNotSchedule",
        label_selector=_labels(selector),
        **more,
    )


# --- affinity ---


def where(key: str, operator: str = "Exists", *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def term(*tests: NodeSelectorRequirement, names: Sequence[str] | None = None) -> NodeSelectorTerm:
    """Tests of labels; ``names``: and one of these nodes."""
    fields = (where("metadata.name", "In", *names),) if names is not None else ()
    return NodeSelectorTerm(match_expressions=tests, match_fields=fields)


def node_affinity(
    *required: NodeSelectorTerm, preferred: Mapping[NodeSelectorTerm, int] | Sequence[tuple[int, Any]] = ()
) -> Affinity:
    """``preferred`` are pairs of a weight and a term. No required term: none is required."""
    wishes = (
        [(weight, each) for each, weight in preferred.items()]
        if isinstance(preferred, Mapping)
        else preferred
    )
    return Affinity(
        node_affinity=NodeAffinity(
            required=NodeSelector(node_selector_terms=required) if required else None,
            preferred=tuple(
                PreferredSchedulingTerm(weight=weight, preference=each) for weight, each in wishes
            ),
        )
    )


def near(
    selector: Mapping[str, str] | LabelSelector | None = None,
    key: str = ZONE,
    *,
    namespaces: Sequence[str] = (),
    namespace_selector: Mapping[str, str] | LabelSelector | None = None,
    **more: Any,
) -> PodAffinityTerm:
    """A term of affinity, or of anti-affinity: pods with these labels in the same domain of ``key``."""
    return PodAffinityTerm(
        label_selector=_labels(selector),
        topology_key=key,
        namespaces=tuple(namespaces),
        namespace_selector=_labels(namespace_selector),
        **more,
    )


def pod_affinity(
    *,
    near: Sequence[PodAffinityTerm] = (),
    apart: Sequence[PodAffinityTerm] = (),
    rather_near: Sequence[tuple[int, PodAffinityTerm]] = (),
    rather_apart: Sequence[tuple[int, PodAffinityTerm]] = (),
) -> Affinity:
    def side(
        required: Sequence[PodAffinityTerm], preferred: Sequence[tuple[int, PodAffinityTerm]]
    ) -> PodAffinity | None:
        wishes = tuple(
            WeightedPodAffinityTerm(weight=weight, pod_affinity_term=each) for weight, each in preferred
        )
        return PodAffinity(required=tuple(required), preferred=wishes) if required or wishes else None

    return Affinity(pod_affinity=side(near, rather_near), pod_anti_affinity=side(apart, rather_apart))


def labelled(key: str, operator: str = "Exists", *values: str) -> LabelSelector:
    """A label selector of one expression."""
    return LabelSelector(
        match_expressions=(LabelSelectorRequirement(key=key, operator=operator, values=values),)
    )


# --- nodes and the rest ---


def node(
    name: str = "n",
    *,
    cpu: Amount | None = 8,
    memory: Amount | None = "32Gi",
    pods: Amount | None = 110,
    more: Mapping[str, Amount] | None = None,
    labels: Mapping[str, str] | None = None,
    zone: str | None = None,
    taints: Iterable[Taint] = (),
    cordoned: bool = False,
    features: Sequence[str] = (),
    version: int | None = None,
) -> Node:
    """A node of 8 cpus with its host name as a label. ``None`` leaves a resource out."""
    offered = {"cpu": cpu, "memory": memory, "pods": pods, **(more or {})}
    chosen = amounts({key: amount for key, amount in offered.items() if amount is not None})
    return Node(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-{name}",
            labels={HOSTNAME: name, **({ZONE: zone} if zone else {}), **(labels or {})},
            resource_version=str(version) if version is not None else "",
        ),
        spec=NodeSpec(unschedulable=cordoned or None, taints=tuple(taints)),
        status=NodeStatus(capacity=chosen, allocatable=chosen, declared_features=tuple(features)),
    )


def taint(key: str, value: str | None = None, effect: str = "NoSchedule") -> Taint:
    return Taint(key=key, value=value, effect=effect)


def namespace(name: str, **labels: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


def claim(
    name: str = "claim", *requests: DeviceRequest, namespace: str = "default", **more: Any
) -> ResourceClaim:
    """A claim of one device of the allocator's class ``any``, or of what the requests say."""
    chosen = requests or (build.request(),)
    return build.claim(*chosen, name=name, namespace=namespace, uid=f"uid-{namespace}-{name}", **more)


def slice_(node: str, *devices: Device | str, **more: Any) -> ResourceSlice:
    """All the devices of a node, in a pool of its name."""
    made = [each if isinstance(each, Device) else build.device(each) for each in devices]
    return build.slice_(*made, **{"name": f"slice-{node}", "pool": node, "on": node, **more})


# --- a cluster of them ---


def cluster(*objects: ApiStruct) -> Cluster:
    """A cluster that was shown these objects, in this order."""
    made = Cluster()
    for each in objects:
        made.change(None, each)
    return made


def cycle(of: Pod, *objects: ApiStruct, within: Cluster | None = None, now: float = 0.0) -> Cycle:
    """An attempt to place a pod, in a cluster of these objects or the given one."""
    return Cycle(PodInfo(of), within if within is not None else cluster(*objects), now)


def node_info(of: Node, *pods: Pod) -> NodeInfo:
    """A node with these pods on it, wherever they say they are."""
    info = NodeInfo(of.metadata.name)
    info.describe(of)
    for each in pods:
        info.add(PodInfo(each))
    return info
