"""Groups of pods that are placed together: Kubernetes' PodGroup (scheduling.k8s.io/v1beta1), Volcano's PodGroup and Queue
(scheduling.volcano.sh/v1beta1), and PodDisruptionBudget (policy/v1). Only the fields that a scheduler reads are here.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from allotment.api.core import PodResourceClaim, PodResourceClaimStatus
from allotment.api.meta import ApiStruct, Condition, Int64, LabelSelector, ObjectMeta, stated
from allotment.api.quantity import Quantity

SCHEDULING = "scheduling.k8s.io/v1beta1"
VOLCANO = "scheduling.volcano.sh/v1beta1"
POLICY = "policy/v1"
PRIORITIES = "scheduling.k8s.io/v1"

# --- scheduling.k8s.io/v1beta1 ---


class GangSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    """All or nothing."""

    min_count: Int64 = stated(0)  # how many pods must be placed for any to be bound


class PodGroupSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    """Exactly one of basic (pods on their own) and gang (all or nothing)."""

    gang: GangSchedulingPolicy | None = None
    basic: Any = None


class TopologyConstraint(ApiStruct, frozen=True, kw_only=True):
    """Puts all pods of the group on nodes with the same value of a label."""

    key: str = stated("")


class PodGroupSchedulingConstraints(ApiStruct, frozen=True, kw_only=True):
    """Where the pods of a group must run relative to each other."""

    topology: tuple[TopologyConstraint, ...] = ()


class DisruptionMode(ApiStruct, frozen=True, kw_only=True):
    """Whether each pod can be disrupted on its own (single) or only all together. Only which field is set counts."""

    single: Any = None
    all: Any = None


class PodGroupSpec(ApiStruct, frozen=True, kw_only=True):
    """What the group's author asks for."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"parentCompositePodGroupName", "workloadRef"})

    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()  # shared by all pods of the group
    priority: Int64 | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    disruption_mode: DisruptionMode = DisruptionMode()


class PodGroupStatus(ApiStruct, frozen=True, kw_only=True):
    """What became of the group."""

    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class PodGroup(ApiStruct, frozen=True, kw_only=True):
    """A group of pods that are placed together. Pods name the group in ``spec.schedulingGroup``."""

    api_version: str = stated(SCHEDULING)
    kind: str = stated("PodGroup")
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


# --- scheduling.volcano.sh/v1beta1 ---


class VolcanoPodGroupSpec(ApiStruct, frozen=True, kw_only=True):
    """A gang of ``min_member`` pods that draws on a queue."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"networkTopology", "subGroupPolicy"})

    min_member: Int64 | None = None
    min_task_member: dict[str, Int64] = msgspec.field(default_factory=dict)  # the same for each task
    queue: str | None = None  # ``default`` when absent
    priority_class_name: str | None = None
    min_resources: dict[str, Quantity] = msgspec.field(default_factory=dict)


class VolcanoPodGroupStatus(ApiStruct, frozen=True, kw_only=True):
    """The group's phase: Pending, Inqueue, Running, Unknown or Completed."""

    phase: str | None = None
    conditions: tuple[Any, ...] = ()
    running: Int64 | None = None
    succeeded: Int64 | None = None
    failed: Int64 | None = None


class VolcanoPodGroup(ApiStruct, frozen=True, kw_only=True):
    """A Volcano gang. Pods name the group in the annotation ``scheduling.k8s.io/group-name``."""

    api_version: str = stated(VOLCANO)
    kind: str = stated("PodGroup")
    metadata: ObjectMeta = ObjectMeta()
    spec: VolcanoPodGroupSpec = VolcanoPodGroupSpec()
    status: VolcanoPodGroupStatus = VolcanoPodGroupStatus()


class DeviceQuota(ApiStruct, frozen=True, kw_only=True):
    """How many devices of a class a queue may use, and how much of their capacity."""

    count: Int64 | None = None  # any number when absent
    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)


class DeviceQuotas(ApiStruct, frozen=True, kw_only=True):
    """Device quotas by the name of the device class."""

    capability: dict[str, DeviceQuota] = msgspec.field(default_factory=dict)
    deserved: dict[str, DeviceQuota] = msgspec.field(default_factory=dict)
    guarantee: dict[str, DeviceQuota] = msgspec.field(default_factory=dict)


class QueueGuarantee(ApiStruct, frozen=True, kw_only=True):
    """Resources that stay reserved for a queue even while it does not use them."""

    resource: dict[str, Quantity] = msgspec.field(default_factory=dict)


class QueueSpec(ApiStruct, frozen=True, kw_only=True):
    """A tenant's share. Amounts may name a device class as ``deviceclass/<class>``, and a capacity of its devices as
    ``<capacity>.deviceclass/<class>``."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"affinity", "extendClusters", "type", "dequeueStrategy"})

    weight: Int64 | None = None  # the queue's share relative to other queues; 1 when absent
    capability: dict[str, Quantity] = msgspec.field(default_factory=dict)  # the most that the queue may use
    # the amount that other queues may not reclaim
    deserved: dict[str, Quantity] = msgspec.field(default_factory=dict)
    dra: DeviceQuotas | None = None  # the same limits for devices, in Volcano's own form
    guarantee: QueueGuarantee = QueueGuarantee()
    parent: str | None = None  # the queue that contains this one; ``root`` means the same as absent
    reclaimable: bool | None = None  # true when absent
    priority: Int64 | None = None


class QueueStatus(ApiStruct, frozen=True, kw_only=True):
    """Whether the queue is Open, Closing or Closed, how many groups are in each phase, and what their pods use.

    The scheduler writes it.
    """

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"reservation"})

    state: str | None = None
    pending: Int64 | None = None
    inqueue: Int64 | None = None
    running: Int64 | None = None
    unknown: Int64 | None = None
    completed: Int64 | None = None
    allocated: dict[str, Quantity] = msgspec.field(default_factory=dict)


class Queue(ApiStruct, frozen=True, kw_only=True):
    """The pod groups of one tenant, with a share of the cluster. Queues are cluster-scoped."""

    api_version: str = stated(VOLCANO)
    kind: str = stated("Queue")
    metadata: ObjectMeta = ObjectMeta()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


# --- policy/v1 ---


class PodDisruptionBudgetSpec(ApiStruct, frozen=True, kw_only=True):
    """Which pods the budget covers, and how many of them must stay."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {"minAvailable", "maxUnavailable", "unhealthyPodEvictionPolicy"}
    )

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(ApiStruct, frozen=True, kw_only=True):
    """How many of the pods may be disrupted now."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {"conditions", "currentHealthy", "desiredHealthy", "expectedPods", "observedGeneration"}
    )

    disruptions_allowed: Int64 = stated(0)
    # pods that are evicted but not gone yet
    disrupted_pods: dict[str, Any] = msgspec.field(default_factory=dict)


class PodDisruptionBudget(ApiStruct, frozen=True, kw_only=True):
    """Limits how many pods of an application may be away at a time."""

    api_version: str = stated(POLICY)
    kind: str = stated("PodDisruptionBudget")
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


# --- scheduling.k8s.io/v1 ---


class PriorityClass(ApiStruct, frozen=True, kw_only=True):
    """A name for a priority. The server refuses a pod that names a class that does not exist."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"description", "preemptionPolicy"})

    api_version: str = stated(PRIORITIES)
    kind: str = stated("PriorityClass")
    metadata: ObjectMeta = ObjectMeta()
    value: Int64 = stated(0)
    global_default: bool | None = None
    """True: pods that name no class get this one."""
