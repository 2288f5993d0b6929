"""The parts of core/v1 that scheduling reads: nodes, pods, namespaces, and the selectors on them.

These are views: a pod's probes or the content of its volumes do not matter here and stay in the stored JSON.
``NOT_READ`` lists such fields, so that a field that appears in neither place is truly unknown.
"""

from typing import ClassVar

import msgspec

from allotment.api.meta import ApiStruct, Int64, LabelSelector, ObjectMeta, stated
from allotment.api.quantity import Quantity
from allotment.api.volumes import Volume

# --- selectors and tolerations ---


class NodeSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """One test of a node label or field: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = stated("")
    operator: str = stated("")
    values: tuple[str, ...] = ()


class NodeSelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """All tests must hold. A term without any test matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()  # only metadata.name is supported


class NodeSelector(ApiStruct, frozen=True, kw_only=True):
    """A set of nodes: a node is in it if any term matches."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class Taint(ApiStruct, frozen=True, kw_only=True):
    """Keeps pods off a node unless they tolerate it."""

    key: str = stated("")
    value: str | None = None
    effect: str = stated("")  # NoSchedule, PreferNoSchedule or NoExecute
    time_added: str | None = None


class Toleration(ApiStruct, frozen=True, kw_only=True):
    """Which node taints a pod puts up with. No key and operator Exists tolerates everything."""

    key: str | None = None
    operator: str | None = None  # Exists, Equal (when absent), Lt or Gt
    value: str | None = None
    effect: str | None = None  # every effect when absent
    toleration_seconds: Int64 | None = None


class PreferredSchedulingTerm(ApiStruct, frozen=True, kw_only=True):
    """A preference for certain nodes, with a weight from 1 to 100."""

    weight: Int64 = stated(0)
    preference: NodeSelectorTerm = stated(NodeSelectorTerm())


class NodeAffinity(ApiStruct, frozen=True, kw_only=True):
    """Which nodes a pod must run on, and which it prefers."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(ApiStruct, frozen=True, kw_only=True):
    """Pods that a pod wants to be near to (or far from). Near means an equal value of the node label ``topology_key``."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = stated("")
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(ApiStruct, frozen=True, kw_only=True):
    """A preference to be near to (or far from) some pods, with a weight from 1 to 100."""

    weight: Int64 = stated(0)
    pod_affinity_term: PodAffinityTerm = stated(PodAffinityTerm())


class PodAffinity(ApiStruct, frozen=True, kw_only=True):
    """Rules for being near other pods. Anti-affinity has the same form and the opposite meaning."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(ApiStruct, frozen=True, kw_only=True):
    """Where a pod must or prefers to run, by node and by neighbouring pods."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(ApiStruct, frozen=True, kw_only=True):
    """How evenly pods of a kind spread over the values of a node label."""

    max_skew: Int64 = stated(0)
    topology_key: str = stated("")
    when_unsatisfiable: str = stated("")  # DoNotSchedule or ScheduleAnyway
    label_selector: LabelSelector | None = None
    min_domains: Int64 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class ObjectReference(ApiStruct, frozen=True, kw_only=True):
    """Points at any object, or at a part of one."""

    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    api_version: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


# --- nodes ---


class NodeSpec(ApiStruct, frozen=True, kw_only=True):
    """What the cluster's operator says about a node."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {"configSource", "externalID", "podCIDR", "podCIDRs", "podPreemptionPolicy"}
    )

    unschedulable: bool | None = None  # true: the node is cordoned and takes no new pods
    taints: tuple[Taint, ...] = ()
    provider_id: str | None = msgspec.field(default=None, name="providerID")


class NodeCondition(ApiStruct, frozen=True, kw_only=True):
    """One observed fact about a node, such as whether it is Ready."""

    type: str = stated("")
    status: str = stated("")
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None
    reason: str | None = None
    message: str | None = None


class NodeAddress(ApiStruct, frozen=True, kw_only=True):
    """A name or address under which the node is reached."""

    type: str = stated("")
    address: str = stated("")


class NodeStatus(ApiStruct, frozen=True, kw_only=True):
    """What the kubelet reports about a node."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {
            "config",
            "daemonEndpoints",
            "features",
            "images",
            "nodeInfo",
            "runtimeHandlers",
            "volumesAttached",
            "volumesInUse",
        }
    )

    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    allocatable: dict[str, Quantity] = msgspec.field(
        default_factory=dict
    )  # capacity minus what the node keeps for itself
    phase: str | None = None
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    declared_features: tuple[str, ...] = ()  # features that the kubelet supports and pods may need


class Node(ApiStruct, frozen=True, kw_only=True):
    """A machine that pods run on."""

    api_version: str = stated("v1")
    kind: str = stated("Node")
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# --- pods ---


class ContainerPort(ApiStruct, frozen=True, kw_only=True):
    """A port that a container listens on. Two pods with the same host port do not fit on one node."""

    name: str | None = None
    container_port: Int64 = stated(0)
    host_port: Int64 | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class ContainerClaim(ApiStruct, frozen=True, kw_only=True):
    """A container's use of one of its pod's resource claims (core/v1 calls it ResourceClaim too)."""

    name: str = stated("")  # the name of an entry in the pod's resourceClaims
    # the request whose devices the container gets; all devices of the claim when absent
    request: str | None = None


class ResourceRequirements(ApiStruct, frozen=True, kw_only=True):
    """The least that a container needs, the most that it may use, and the claims whose devices it gets."""

    limits: dict[str, Quantity] = msgspec.field(default_factory=dict)
    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)
    claims: tuple[ContainerClaim, ...] = ()


class ContainerRestartRule(ApiStruct, frozen=True, kw_only=True):
    """What to do when a container ends in a certain way."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"exitCodes"})

    action: str = stated("")  # Restart or RestartAllContainers


class VolumeMount(ApiStruct, frozen=True, kw_only=True):
    """Where a container sees a volume. Only the parts that not every node supports are read."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {
            "mountPath",
            "mountPropagation",
            "name",
            "readOnly",
            "recursiveReadOnly",
            "subPath",
            "subPathExpr",
        }
    )

    bind_mount_options: tuple[str, ...] = ()


class Container(ApiStruct, frozen=True, kw_only=True):
    """A program that runs in a pod."""  # the fields here are those that decide where the pod fits

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {
            "args",
            "command",
            "env",
            "envFrom",
            "imagePullPolicy",
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "resizePolicy",
            "securityContext",
            "startupProbe",
            "stdin",
            "stdinOnce",
            "terminationMessagePath",
            "terminationMessagePolicy",
            "tty",
            "volumeDevices",
            "workingDir",
        }
    )

    name: str = stated("")
    image: str | None = None
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None  # on an init container, Always makes it a sidecar
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()


class PodResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """A claim that the pod needs: an existing one, or one made from a template for this pod alone."""

    name: str = stated("")
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGate(ApiStruct, frozen=True, kw_only=True):
    """Holds the pod back from scheduling until somebody removes it."""

    name: str = stated("")


class PodSchedulingGroup(ApiStruct, frozen=True, kw_only=True):
    """The gang that the pod belongs to."""

    pod_group_name: str | None = None


class PodSpec(ApiStruct, frozen=True, kw_only=True):
    """What the pod's author asks for; ``node_name`` is written once, by the scheduler's binding."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {
            "activeDeadlineSeconds",
            "automountServiceAccountToken",
            "dnsConfig",
            "dnsPolicy",
            "enableServiceLinks",
            "ephemeralContainers",
            "evictionResponders",
            "hostAliases",
            "hostIPC",
            "hostPID",
            "hostname",
            "hostnameOverride",
            "imagePullSecrets",
            "os",
            "readinessGates",
            "securityContext",
            "serviceAccount",
            "serviceAccountName",
            "setHostnameAsFQDN",
            "shareProcessNamespace",
            "subdomain",
        }
    )

    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None  # requests and limits of the pod as a whole
    overhead: dict[str, Quantity] = msgspec.field(
        default_factory=dict
    )  # what the container runtime needs on top of the containers
    resource_claims: tuple[PodResourceClaim, ...] = ()
    node_name: str | None = None
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduler_name: str | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    priority: Int64 | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    runtime_class_name: str | None = None
    restart_policy: str | None = None
    host_network: bool | None = None
    host_users: bool | None = None  # false: the pod runs in its own user namespace
    volumes: tuple[Volume, ...] = ()
    termination_grace_period_seconds: Int64 | None = None


class PodCondition(ApiStruct, frozen=True, kw_only=True):
    """One observed fact about a pod, such as whether it is scheduled."""

    type: str = stated("")
    status: str = stated("")
    observed_generation: Int64 | None = None
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    reason: str | None = None
    message: str | None = None


class PodResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """Which claim was made for an entry of the pod's resourceClaims. Without a claim name, none was needed."""

    name: str = stated("")
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(ApiStruct, frozen=True, kw_only=True):
    """Which request of the scheduler's claim serves a container's extended resource."""

    container_name: str = stated("")
    resource_name: str = stated("")
    request_name: str = stated("")


class PodExtendedResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """The claim that the scheduler made for the pod's extended resources."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = stated("")


class NodeAllocatableMappedResources(ApiStruct, frozen=True, kw_only=True):
    """How much of a node resource (cpu, memory, …) the claim's devices represent."""

    name: str = stated("")
    quantity: Quantity | None = None


class NodeAllocatableOverheadResources(ApiStruct, frozen=True, kw_only=True):
    """How much of a node resource using the claim's devices costs in addition."""

    name: str = stated("")
    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """What one claim of the pod takes from the node's allocatable resources. The scheduler writes it."""

    resource_claim_name: str = stated("")
    containers: tuple[str, ...] = ()
    mapping: tuple[NodeAllocatableMappedResources, ...] = ()
    overhead: tuple[NodeAllocatableOverheadResources, ...] = ()


class PodIP(ApiStruct, frozen=True, kw_only=True):
    """One of the pod's addresses."""

    ip: str = stated("")


class PodStatus(ApiStruct, frozen=True, kw_only=True):
    """What the scheduler, the controllers and the kubelet say about a pod."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {
            "containerStatuses",
            "ephemeralContainerStatuses",
            "hostIPs",
            "initContainerStatuses",
            "resize",
            "volumeHealth",
        }
    )

    phase: str | None = None
    conditions: tuple[PodCondition, ...] = ()
    observed_generation: Int64 | None = None
    reason: str | None = None
    message: str | None = None
    nominated_node_name: str | None = None  # the node that the scheduler intends for the pod once it has room
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    pod_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="podIPs")
    start_time: str | None = None
    qos_class: str | None = None
    allocated_resources: dict[str, Quantity] = msgspec.field(default_factory=dict)
    resources: ResourceRequirements | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class Pod(ApiStruct, frozen=True, kw_only=True):
    """A unit of work that runs on one node."""

    api_version: str = stated("v1")
    kind: str = stated("Pod")
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# --- namespaces ---


class NamespaceSpec(ApiStruct, frozen=True, kw_only=True):
    """What must happen before the namespace may vanish."""

    finalizers: tuple[str, ...] = ()


class NamespaceCondition(ApiStruct, frozen=True, kw_only=True):
    """One observed fact about a namespace's deletion."""

    type: str = stated("")
    status: str = stated("")
    last_transition_time: str | None = None
    reason: str | None = None
    message: str | None = None


class NamespaceStatus(ApiStruct, frozen=True, kw_only=True):
    """Whether the namespace is Active or Terminating."""

    phase: str | None = None
    conditions: tuple[NamespaceCondition, ...] = ()


class Namespace(ApiStruct, frozen=True, kw_only=True):
    """A scope for names. Its labels decide, among other things, whether claims in it may use admin access."""

    api_version: str = stated("v1")
    kind: str = stated("Namespace")
    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


# --- quotas ---


class ScopedResourceSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """Pods of one scope, such as those of some priority classes."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(ApiStruct, frozen=True, kw_only=True):
    """Pods that are in every one of these scopes."""

    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(ApiStruct, frozen=True, kw_only=True):
    """The most that a namespace may use. A quota with scopes counts only pods."""

    hard: dict[str, Quantity] = msgspec.field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuota(ApiStruct, frozen=True, kw_only=True):
    """Limits what a namespace may use, by names such as ``gpu.deviceclass.resource.k8s.io/devices``."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"status"})  # we count what is used ourselves

    api_version: str = stated("v1")
    kind: str = stated("ResourceQuota")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
