"""What the scheduler has to say about one pod, node by node, on a cluster as it stands. Nothing is decided.

What stands in a pod's way whatever nodes there are (``obstacles``), the plugins and the diagnosis are those of every turn; only the last steps, Reserve and what follows, are not taken. So
the words are those that the pod's condition would have. Other pods that wait are not decided about first: what is told is
what stands in the way of this one. Making room by preemption is not tried either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.scheduler.devices.pod_wants import NAME as DEVICES
from allotment.scheduler.devices.pod_wants import Wants, reaches
from allotment.scheduler.diagnosis import NoNode, refused_by
from allotment.scheduler.framework import Status
from allotment.scheduler.obstacles import ClaimName, Knows, Obstacles
from allotment.scheduler.placement import Attempt, Placer

if TYPE_CHECKING:
    from allotment.api import semantic
    from allotment.api.meta import ApiStruct
    from allotment.api.resource import ResourceClaim
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.config.profile import Profile


@dataclass(frozen=True, slots=True)
class InquiryAnswer:
    """``node`` is where the pod would go; without one, ``refusal`` says why nowhere."""

    node: str = ""
    refusal: NoNode | None = None
    asked: bool = False  # the refusal is that of nodes; else the pod was turned away before any was asked
    rejections: Mapping[str, Status] = field(default_factory=dict)  # of the nodes that were asked, by name
    claims: Sequence[ResourceClaim] = ()  # of v1, that would have to be allocated together
    short: tuple[str, ...] = ()  # nodes that lack nothing but devices for these claims
    carried: Sequence[semantic.ResourceClaim] = ()  # of v1alpha2, likewise
    scarce: tuple[str, ...] = ()  # nodes that lack nothing but instances for those


class Inquiry:
    """See the module. The cluster is the caller's, and may change between questions."""

    def __init__(
        self,
        cluster: Cluster,
        profiles: Mapping[str, Profile],
        *,
        gangs: bool = True,
        knows: Knows = lambda kind, namespace: True,
        claim_name: ClaimName | None = None,
    ) -> None:
        self.cluster = cluster
        self.obstacles = Obstacles(cluster, profiles, gangs=gangs, knows=knows, claim_name=claim_name)
        self._placer = Placer(cluster, profiles)

    def about(self, key: str, now: float) -> InquiryAnswer:
        """The answer for a pod ``namespace/name`` that one of the profiles is for and that has no node."""
        pod = self.cluster.pods[key]
        status = self.obstacles.of(pod)
        if status is not None:
            return InquiryAnswer(refusal=refused_by(status))
        attempt = self._placer.begin(pod, now)
        if isinstance(attempt, NoNode):
            return InquiryAnswer(refusal=attempt)
        found = self._placer.choose(attempt)
        if not isinstance(found, NoNode):
            return InquiryAnswer(node=found, claims=self._pending(attempt, (found,)))
        rejections = dict(self._placer.rejections(attempt))
        short = tuple(
            name for name, status in rejections.items() if self._lacks_devices(attempt, name, status)
        )
        scarce = tuple(
            name for name, status in rejections.items() if self._lacks_instances(attempt, name, status)
        )
        return InquiryAnswer(
            "", found, True, rejections, self._pending(attempt, short), short, _carried(attempt), scarce
        )

    def _lacks_devices(self, attempt: Attempt, name: str, status: Status) -> bool:
        """Whether nothing else is wrong with a node: plugins that know of one node only were asked before devices were, so those
        that look at others are left."""
        if status.plugin != DEVICES:
            return False
        node, wants = self.cluster.nodes[name], attempt.cycle.state[DEVICES]
        assert isinstance(wants, Wants)
        if wants.carried or wants.stale or (wants.given and not reaches(wants, node).ok):
            return False
        return all(plugin.filter(attempt.cycle, node).ok for plugin in attempt.filters)

    def _lacks_instances(self, attempt: Attempt, name: str, status: Status) -> bool:
        """The same for claims of v1alpha2, where these are all that a pod wants of devices."""
        if status.plugin != DEVICES:
            return False
        node, wants = self.cluster.nodes[name], attempt.cycle.state[DEVICES]
        assert isinstance(wants, Wants)
        if not wants.carried or wants.pending or (wants.given and not reaches(wants, node).ok):
            return False
        return all(plugin.filter(attempt.cycle, node).ok for plugin in attempt.filters)

    def _pending(self, attempt: Attempt, nodes: Sequence[str]) -> Sequence[ResourceClaim]:
        """What is to be allocated on such nodes."""
        if not nodes or attempt.profile.devices is None:
            return ()
        return list(attempt.profile.devices.pending(attempt.cycle, self.cluster.nodes[nodes[0]]).values())

    @contextmanager
    def supposing(self, old: ApiStruct, new: ApiStruct) -> Iterator[None]:
        """As if a claim, parameters or a pod were different, as long as the context lasts."""
        self.cluster.change(old, new)
        try:
            yield
        finally:
            self.cluster.change(new, old)


def _carried(attempt: Attempt) -> Sequence[semantic.ResourceClaim]:
    wants = attempt.cycle.state.get(DEVICES)
    return [each.claim for each in wants.carried] if isinstance(wants, Wants) else []


def released(claim: ResourceClaim) -> ResourceClaim:
    """A claim as it is once nobody uses it and its devices are given back."""
    return replace(claim, status=replace(claim.status, allocation=None, reserved_for=()))
