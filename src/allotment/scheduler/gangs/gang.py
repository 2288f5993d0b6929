"""Gangs: pods that are placed together or not at all, by Kubernetes' PodGroup or by Volcano's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.api.batch import PodGroup, VolcanoPodGroup
from allotment.api.text import plural
from allotment.scheduler.framework import Status, StatusCode
from allotment.scheduler.pod import VOLCANO
from allotment.scheduler.resource_requests import Amounts, amounts

if TYPE_CHECKING:
    from allotment.scheduler.pod import PodInfo

GANG = "Gang"
"""The plugin name for pods that wait for other members of their gang."""
DEFAULT_QUEUE = "default"
TASK = "volcano.sh/task-spec"
"""The annotation by which Volcano's job controller names the task that a pod belongs to."""


@dataclass(frozen=True, slots=True)
class Gang:
    """What a group asks for, whether it is a Kubernetes or a Volcano group."""

    key: str  # as in Cluster.groups
    minimum: int
    priority: int | None  # None: the highest of its pods
    queue: str  # Volcano's; empty for Kubernetes' own
    topology: tuple[str, ...] = ()  # node labels that must have one value for all members
    tasks: Mapping[str, int] = field(default_factory=dict)  # the minimum of each task (Volcano)
    resources: Amounts = field(default_factory=dict)  # what its queue must be able to give first
    preempts: bool = True

    @property
    def name(self) -> str:
        return self.key.removeprefix(VOLCANO)

    def need(self, there: Iterable[PodInfo], done: int = 0) -> GangNeed:
        """What the gang still needs if these members are placed and so many have succeeded."""
        left = dict(self.tasks)
        count = done
        for pod in there:
            count += 1
            task = task_of(pod)
            if task in left:
                left[task] -= 1
        return GangNeed(max(0, self.minimum - count), {task: more for task, more in left.items() if more > 0})


@dataclass(frozen=True, slots=True)
class GangNeed:
    """How many more members a gang needs at least, in all and per task."""

    count: int
    tasks: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.count > 0 or bool(self.tasks)

    def met_by(self, pods: Iterable[PodInfo]) -> bool:
        """Whether these members are enough. No members are never enough."""
        found = list(pods)
        tasks = [task_of(pod) for pod in found] if self.tasks else []
        return len(found) >= max(self.count, 1) and all(
            tasks.count(task) >= least for task, least in self.tasks.items()
        )


def task_of(pod: PodInfo) -> str:
    return pod.pod.metadata.annotations.get(TASK, "")


def key_of(group: PodGroup | VolcanoPodGroup) -> str:
    """The key of a group."""
    prefix = VOLCANO if isinstance(group, VolcanoPodGroup) else ""
    return f"{prefix}{group.metadata.namespace}/{group.metadata.name}"


def gang_of(key: str, group: PodGroup | VolcanoPodGroup) -> Gang | None:
    """The gang of a group; None if its pods are placed one by one."""
    if isinstance(group, VolcanoPodGroup):
        spec = group.spec
        minimum = spec.min_member or 1
        tasks = {task: least for task, least in spec.min_task_member.items() if least > 0}
        if sum(tasks.values()) > minimum:  # Volcano's rule: such task minimums do not count
            tasks = {}
        return Gang(
            key,
            minimum,
            None,
            spec.queue or DEFAULT_QUEUE,
            tasks=tasks,
            resources=amounts(spec.min_resources),
        )
    policy = group.spec.scheduling_policy.gang
    if policy is None:
        return None
    constraints = group.spec.scheduling_constraints
    topology = tuple(each.key for each in constraints.topology) if constraints is not None else ()
    preempts = group.spec.preemption_policy != "Never"
    return Gang(key, policy.min_count, group.spec.priority, "", topology, preempts=preempts)


def incomplete(gang: Gang, missing: int) -> Status:
    """The status of a gang that lacks so many members."""
    if missing <= 0:
        return Status(StatusCode.UNRESOLVABLE, GANG, "waits for more pods of a task of its gang")
    more = plural(missing, "more pod")
    return Status(StatusCode.UNRESOLVABLE, GANG, f"waits for {more} of its gang, which needs {gang.minimum}")
