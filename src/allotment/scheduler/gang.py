"""Gangs: pods that are placed together or not at all, by Kubernetes' PodGroup or by Volcano's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.api.batch import PodGroup, VolcanoPodGroup
from allotment.scheduler.pod import GROUP_ANNOTATION

if TYPE_CHECKING:
    from allotment.api.core import Pod

VOLCANO = "volcano:"
"""The prefix of keys of Volcano's groups, whose names are apart from those of Kubernetes' own."""
DEFAULT_QUEUE = "default"


@dataclass(frozen=True, slots=True)
class Gang:
    """What a group asks for, whoever's kind it is."""

    key: str  # as in Cluster.groups
    minimum: int
    priority: int | None  # None: the highest of its pods
    queue: str  # Volcano's; empty for Kubernetes' own
    topology: tuple[str, ...]  # node labels of which all members must see one value

    @property
    def name(self) -> str:
        return self.key.removeprefix(VOLCANO)


def group_key(pod: Pod) -> str:
    """The key of the group that a pod names; empty if it names none."""
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        return f"{pod.metadata.namespace}/{group.pod_group_name}"
    name = pod.metadata.annotations.get(GROUP_ANNOTATION)
    return f"{VOLCANO}{pod.metadata.namespace}/{name}" if name else ""


def gang_of(key: str, group: PodGroup | VolcanoPodGroup) -> Gang | None:
    """The gang that a group is; None for one whose pods go on their own."""
    if isinstance(group, VolcanoPodGroup):
        spec = group.spec
        return Gang(key, spec.min_member or 1, None, spec.queue or DEFAULT_QUEUE, ())
    policy = group.spec.scheduling_policy.gang
    if policy is None:
        return None
    constraints = group.spec.scheduling_constraints
    topology = tuple(each.key for each in constraints.topology) if constraints is not None else ()
    return Gang(key, policy.min_count, group.spec.priority, "", topology)
