"""What the scheduler says about one pod, node by node, on the cluster as it stands. It decides nothing.

An inquiry uses the same obstacles (``obstacles``), plugins and diagnosis as every turn, and stops before Reserve. So its words
are those that the pod's condition would have. It does not decide about other waiting pods first: it reports what stands in the
way of this pod alone. Nor does it try preemption.
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
    asked: bool = False  # the refusal comes from nodes; else the pod was rejected before any node was asked
    rejections: Mapping[str, Status] = field(default_factory=dict)  # of the nodes that were asked, by name
    claims: Sequence[ResourceClaim] = ()  # of v1, that would have to be allocated together
    short: tuple[str, ...] = ()  # nodes that lack nothing but devices for these claims
    carried: Sequence[semantic.ResourceClaim] = ()  # the same of v1alpha2
    scarce: tuple[str, ...] = ()  # nodes that lack nothing but instances for those


class Inquiry:
    """Answers questions about single pods. The caller owns the cluster and may change it between questions."""

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
        """The answer for a pod ``namespace/name``. It must have no node and name one of the profiles."""
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
        """Whether a node lacks only devices. Local plugins ran before the devices were checked, so only the plugins that look at
        other nodes remain to be asked."""
        if status.plugin != DEVICES:
            return False
        node, wants = self.cluster.nodes[name], attempt.cycle.state[DEVICES]
        assert isinstance(wants, Wants)
        if wants.carried or wants.stale or (wants.given and not reaches(wants, node).ok):
            return False
        return all(plugin.filter(attempt.cycle, node).ok for plugin in attempt.filters)

    def _lacks_instances(self, attempt: Attempt, name: str, status: Status) -> bool:
        """The same for claims of v1alpha2, if the pod wants no other devices."""
        if status.plugin != DEVICES:
            return False
        node, wants = self.cluster.nodes[name], attempt.cycle.state[DEVICES]
        assert isinstance(wants, Wants)
        if not wants.carried or wants.pending or (wants.given and not reaches(wants, node).ok):
            return False
        return all(plugin.filter(attempt.cycle, node).ok for plugin in attempt.filters)

    def _pending(self, attempt: Attempt, nodes: Sequence[str]) -> Sequence[ResourceClaim]:
        """The claims that must be allocated on such nodes."""
        if not nodes or attempt.profile.devices is None:
            return ()
        return list(attempt.profile.devices.pending(attempt.cycle, self.cluster.nodes[nodes[0]]).values())

    @contextmanager
    def supposing(self, old: ApiStruct, new: ApiStruct) -> Iterator[None]:
        """Replaces a claim, parameters or a pod for as long as the context lasts."""
        self.cluster.change(old, new)
        try:
            yield
        finally:
            self.cluster.change(new, old)


def _carried(attempt: Attempt) -> Sequence[semantic.ResourceClaim]:
    wants = attempt.cycle.state.get(DEVICES)
    return [each.claim for each in wants.carried] if isinstance(wants, Wants) else []


def released(claim: ResourceClaim) -> ResourceClaim:
    """The claim as it would be once no pod uses it and its devices are released."""
    return replace(claim, status=replace(claim.status, allocation=None, reserved_for=()))
