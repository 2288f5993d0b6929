"""What keeps a pod from being placed whatever nodes exist or will exist: its standing obstacle.

Obstacles are a gate, a scheduler that does not run, a missing claim, template, group, queue or priority class, a quota that
forbids the pod's claim, a gang with too few members, and a queue at its capability. Explanations, plans and simulations all ask
here before they look at nodes. So none of them calls a pod placeable, or adds machines for it, when no scheduler will try the
pod.

This module reports the first obstacle, in the scheduler's own words where it has any. It reads more than the scheduler does
(templates, quotas, priority classes), because another controller makes the claims and the server admits the pods.

Quotas are computed from the claims in the cluster, including those that a simulation made. So among pods that wait together, the
first ones get what a quota has left.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.api.batch import PodGroup, PriorityClass
from allotment.api.claim_marks import POD_CLAIM_NAME
from allotment.api.core import Pod
from allotment.api.likeness import near
from allotment.api.resource import ResourceClaim, ResourceClaimTemplate
from allotment.scheduler.config.configuration import DEFAULT_SCHEDULER
from allotment.scheduler.devices.claim_quotas import ClaimQuotas, claim_like, usage
from allotment.scheduler.devices.claim_quotas import add as add_usage
from allotment.scheduler.devices.extended_resources import existing, extended_claim, served
from allotment.scheduler.framework import Status, StatusCode
from allotment.scheduler.gangs.gang import gang_of, incomplete
from allotment.scheduler.gangs.tenant_queues import QUEUE, TenantQueues, add, demand_of, further_demand
from allotment.scheduler.gate import admission
from allotment.scheduler.pod import group_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allotment.api.core import PodResourceClaim
    from allotment.api.meta import ApiStruct
    from allotment.api.quota_usage import Usage
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.config.profile import Profile
    from allotment.scheduler.gangs.gang import Gang
    from allotment.scheduler.pod import PodInfo
    from allotment.scheduler.resource_requests import Amounts

Knows = Callable[["type[ApiStruct]", str], bool]
"""Whether the cluster holds all objects of a kind in a namespace. If not, no such object can be called missing."""
ClaimName = Callable[[str, str, str], str]
"""Returns the name of the claim made for an owner's entry, from the owner's name, the entry's name and the owner's uid."""

OWN_NAMES = frozenset(("", DEFAULT_SCHEDULER))
"""The schedulers of pods that name no other."""
ADMISSION, CLAIM_MAKING, SCHEDULER = "Admission", "ClaimMaking", "Scheduler"
"""Plugin names for obstacles that come from a component other than the scheduler."""
_GATED = "SchedulingGated"
"""The reason that the server itself gives for pods with gates, whichever scheduler they name."""
_SYSTEM = "system-"
"""The prefix of priority classes that every server has."""
_NAMED = 3


class Obstacles:
    """Finds the standing obstacles of pods. The caller owns the cluster and may change it between questions.

    ``schedulers`` are the names of schedulers that certainly run. Without ``gangs``, groups do not matter, because the caller
    does not see them. With ``growing``, nodes may be added: then amounts that are kept for other queues now are no standing
    obstacle, and only ``of_member`` checks them. With ``claim_name``, the class can tell whether another owner already has
    the name of a claim that must still be made. ``version`` must change whenever the cluster does. It lets the class compute
    what holds for a gang once for all members.
    """

    def __init__(
        self,
        cluster: Cluster,
        profiles: Mapping[str, Profile],
        *,
        schedulers: Container[str] = OWN_NAMES,
        gangs: bool = True,
        growing: bool = False,
        knows: Knows = lambda kind, namespace: True,
        claim_name: ClaimName | None = None,
        version: Callable[[], int] | None = None,
    ) -> None:
        self._cluster = cluster
        self._profiles = profiles
        self._schedulers = schedulers
        self._gangs = gangs
        self._growing = growing
        self._knows = knows
        self._claim_name = claim_name
        self.quotas = ClaimQuotas(cluster)
        self._queues = TenantQueues(cluster)
        self._regrouped = -1
        self._version = version
        self._gang_answers: dict[str, tuple[int, _GangAnswer]] = {}  # by group
        self._uncreated: Mapping[str, str] = {}

    def refuse(self, uncreated: Mapping[str, str]) -> None:
        """Makes these pods (``namespace/name``), and no others, count as not created from now on, each for its reason."""
        self._uncreated = uncreated
        self._gang_answers.clear()

    def uncreated(self, pod: Pod) -> bool:
        """Whether a pod counts as not created."""
        return bool(self._uncreated) and f"{pod.metadata.namespace}/{pod.metadata.name}" in self._uncreated

    def of(self, pod: PodInfo) -> Status | None:
        """What keeps a pod without a node from being placed; None if only nodes can."""
        return self.of_itself(pod) or (self._of_group(pod) if self._gangs and pod.group else None)

    def of_member(self, pod: PodInfo) -> Status | None:
        """Like ``of``, for a pod whose gang is being placed: the number of other members no longer matters."""
        status = self.of_itself(pod)
        gang = self._gang(pod) if status is None and self._gangs and pod.group else None
        words = self._of_queue(gang, (pod,), starts=False, growing=False) if gang is not None else ""
        return _of_its_queue(words) if words else status

    def unmade(self, pod: Pod) -> Status | None:
        """What prevents a claim that the pod asks for by template, if anything. The claims of the pod's earlier entries draw on a
        quota first."""
        namespace = pod.metadata.namespace
        used: Usage | None = None
        for entry in self._unmade_entries(pod):
            name = entry.resource_claim_template_name
            template = self._cluster.templates.get(f"{namespace}/{name}")
            why = ""
            if namespace in self._cluster.ending:
                why = f"the namespace {namespace} is being deleted"
            elif template is not None:
                claim = claim_like(template)
                used = self.quotas.used(namespace) if used is None else used
                why = self.quotas.refusal(namespace, claim, used)
                add_usage(used, usage(claim))
                why = self.name_taken(self._owner(pod, entry), entry.name) or why
            elif self._knows(ResourceClaimTemplate, namespace):
                why = f"there is no ResourceClaimTemplate {namespace}/{name}{self._others(name or '', namespace)}"
            if why:
                return _kept_by(CLAIM_MAKING, f"its claim {entry.name} cannot be made: {why}")
        return None

    # --- the pod by itself ---

    def of_itself(self, pod: PodInfo) -> Status | None:
        """Like ``of``, without the pod's group."""
        name = pod.pod.spec.scheduler_name or ""
        if pod.key in self._uncreated:
            return _kept_by(ADMISSION, self._uncreated[pod.key])
        if pod.leaving:
            return _kept_by(SCHEDULER, "is being deleted and will not be placed")
        if not self.runs(name):
            words = f"it is for scheduler {name}, and no pod shows that a scheduler of that name runs"
            return _kept_by(SCHEDULER, words + near(name, OWN_NAMES - {""}))
        profile = self._profiles.get(name) or next(iter(self._profiles.values()))
        status = admission(pod, self._cluster, profile, gangs=self._gangs)
        if not status.ok:
            return (self.unmade(pod.pod) if status.awaits is ResourceClaim else None) or status
        return self._of_priority(pod.pod) or self._of_extended(pod)

    def runs(self, scheduler: str) -> bool:
        """Whether the pods show that a scheduler of this name runs."""
        if scheduler in self._schedulers:
            return True
        return scheduler in schedulers_heard_of(each.pod for each in self._cluster.pods.values())

    def _of_priority(self, pod: Pod) -> Status | None:
        """A created pod has its priority. The server would refuse a planned pod whose priority class is missing."""
        name = pod.spec.priority_class_name or ""
        known = not name or pod.spec.priority is not None or name.startswith(_SYSTEM)
        if known or name in self._cluster.priority_classes or not self._knows(PriorityClass, ""):
            return None
        return _kept_by(ADMISSION, f"there is no PriorityClass {name}")

    def _of_extended(self, pod: PodInfo) -> Status | None:
        """The scheduler makes a claim for extended resources, which a quota may refuse like any other claim."""
        resources = served(pod, self._cluster.extended)
        if not resources or existing(pod, self._cluster.claims) is not None:
            return None
        claim = extended_claim(pod, resources, self._cluster.extended).claim
        why = self.quotas.refusal(pod.namespace, claim)
        on_node = any(info.offered.get(name) for info in self._cluster.nodes.values() for name in resources)
        if not why or on_node:  # a device plugin may serve it without a claim
            return None
        return _kept_by(CLAIM_MAKING, f"the claim for its {', '.join(resources)} cannot be made: {why}")

    # --- claims of templates ---

    def _unmade_entries(self, pod: Pod) -> Iterator[PodResourceClaim]:
        """The entries that name a template and have no claim yet, without those of its group."""
        claims = self._cluster.claims
        noted = {status.name for status in pod.status.resource_claim_statuses}
        noted |= {
            claims.objects[key].metadata.annotations.get(POD_CLAIM_NAME, "")
            for key in claims.owned.get(pod.metadata.uid, ())
        }
        for entry in pod.spec.resource_claims:
            if entry.resource_claim_template_name and entry.name not in noted:
                yield entry

    def name_taken(self, owner: Pod | PodGroup, entry: str) -> str:
        """Says that another owner has the name that the claim for an entry would get, and what to do about it. Empty if the name
        is free."""
        meta = owner.metadata
        name = self._claim_name(meta.name, entry, meta.uid) if self._claim_name is not None else ""
        found = self._cluster.claims.objects.get(f"{meta.namespace}/{name}")
        if found is None or any(
            each.controller and each.uid == meta.uid for each in found.metadata.owner_references
        ):
            return ""
        what = "pod" if isinstance(owner, Pod) else "pod group"
        return f"there is a ResourceClaim {meta.namespace}/{name} that was not made for this {what}; delete it, and one will be made"

    def _owner(self, pod: Pod, entry: PodResourceClaim) -> Pod | PodGroup:
        """The owner of the claim that is made for an entry."""
        group = self._cluster.groups.get(group_key(pod))
        return group if isinstance(group, PodGroup) and entry in group.spec.resource_claims else pod

    def _others(self, name: str, own: str) -> str:
        """Names the namespaces that have a template of this name or, if none has, similar names in the pod's own namespace."""
        keys = [key.split("/") for key in sorted(self._cluster.templates)]
        found = [namespace for namespace, other in keys if other == name]
        if not found:
            return near(name, (other for namespace, other in keys if namespace == own))
        more = f" and {len(found) - _NAMED} more namespaces" if len(found) > _NAMED else ""
        return f"; there is one in {', '.join(found[:_NAMED])}{more}, and a pod uses its own namespace's"

    # --- its group ---

    def _gang(self, pod: PodInfo) -> Gang | None:
        group = self._cluster.groups.get(pod.group)
        return gang_of(pod.group, group) if group is not None else None

    def _of_group(self, pod: PodInfo) -> Status | None:
        gang = self._gang(pod)
        if gang is None:
            return None
        members = self._cluster.members.get(pod.group, {})
        if self._version is None or pod.key not in members:
            return self._of_gang(gang, {**members, pod.key: pod}).of(pod)
        version, (known, answer) = self._version(), self._gang_answers.get(pod.group, (-1, _FREE))
        if known != version:
            answer = self._of_gang(gang, members)
            self._gang_answers[pod.group] = version, answer
        return answer.of(pod)

    def _of_gang(self, gang: Gang, members: Mapping[str, PodInfo]) -> _GangAnswer:
        """What keeps a gang from being placed, or only the members for which its queue has no room."""
        placed = [each for each in members.values() if each.node]
        ended = self._cluster.finished.get(gang.key, {})
        need = gang.need(placed, list(ended.values()).count("Succeeded"))
        waiting = sorted(
            (each for each in members.values() if not each.node and not each.leaving), key=_by_key
        )
        able = [each for each in waiting if self.of_itself(each) is None]
        if need and not need.met_by(able):
            return _GangAnswer(incomplete(gang, need.count - len(able)))
        if not gang.queue:
            return _FREE
        taken, beyond = self._within_queue(gang, able)
        enough = not need or need.met_by(taken)
        least = taken if enough else able[: need.count]
        starts = need.count >= gang.minimum
        if starts or not enough:
            words = self._of_queue(gang, least, starts=starts, growing=self._growing)
            if words or not enough:
                return _GangAnswer(_of_its_queue(words) if words else next(iter(beyond.values()), None))
        return _GangAnswer(None, beyond)

    def _within_queue(
        self, gang: Gang, pods: Sequence[PodInfo]
    ) -> tuple[Sequence[PodInfo], dict[str, Status]]:
        """The pods that the gang's queue takes, in the scheduler's order, and why it does not take the others."""
        if not self._of_queue(gang, pods, starts=False, growing=self._growing):
            return pods, {}
        total: Amounts = {}
        counted: set[str] = set()
        taken: list[PodInfo] = []
        found: dict[str, Status] = {}
        for pod in pods:
            more, claims = further_demand(pod, counted, self._cluster)
            together = dict(more)
            add(together, total)
            words = self._beyond(gang, together, growing=self._growing)
            if words:
                words = self._queues.above_limits(gang.queue, more, {gang.queue: total}) or words
                found[pod.key] = _of_its_queue(words)
                continue
            total = together
            counted |= claims
            taken.append(pod)
        return taken, found

    def _of_queue(self, gang: Gang, pods: Sequence[PodInfo], *, starts: bool, growing: bool) -> str:
        """Why the gang's queue cannot take these pods together. With ``starts``, the queue must also be able to give the
        resources that the gang states."""
        if not gang.queue:
            return ""
        least = demand_of(pods, self._cluster)
        for name, amount in gang.resources.items() if starts else ():
            least[name] = max(amount, least.get(name, 0))
        return self._beyond(gang, least, growing=growing)

    def _beyond(self, gang: Gang, amounts: Amounts, *, growing: bool) -> str:
        """Why the gang's queue cannot give that much."""
        if self._regrouped != self._cluster.regrouped:
            self._regrouped = self._cluster.regrouped
            self._queues.reset()
        beyond = self._queues.above_limits if growing else self._queues.beyond
        return self._queues.closed(gang.queue) or beyond(gang.queue, amounts)


@dataclass(frozen=True, slots=True)
class _GangAnswer:
    """What keeps ``all`` members of a gang from being placed, or only ``some``, by key."""

    all: Status | None = None
    some: Mapping[str, Status] = field(default_factory=dict)

    def of(self, pod: PodInfo) -> Status | None:
        return self.all or self.some.get(pod.key)


_FREE = _GangAnswer()


def schedulers_heard_of(pods: Iterable[Pod]) -> set[str]:
    """The schedulers that have certainly run: they have placed a pod or said why they could not."""
    return {
        pod.spec.scheduler_name or ""
        for pod in pods
        if pod.spec.node_name
        or any(
            each.type == "PodScheduled" and each.reason != _GATED and (each.reason or each.message)
            for each in pod.status.conditions
        )
    }


def _kept_by(who: str, words: str) -> Status:
    return Status(StatusCode.UNRESOLVABLE, who, words)


def _of_its_queue(words: str) -> Status:
    return Status(StatusCode.UNRESOLVABLE, QUEUE, words)


def _by_key(pod: PodInfo) -> str:
    return pod.key
