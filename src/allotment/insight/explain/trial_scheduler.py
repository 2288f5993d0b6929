"""A scheduler that knows everything the caller sees, and answers questions about one pod (``scheduler.inquiry``).

Its answers about gates, cpu or affinity are those of a pod's condition. Where nodes lack devices, the allocator's reasons are
added, and single changes that would help (``usage.remedies``); the scheduler confirms each of these in another try. If a pod
of a gang fits alone, its whole group is tried in a dry run.

Only claims that the caller sees are named. Devices that hidden claims are known to hold appear without a holder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.allocator.fleet import named_shares
from allotment.allocator.ledger import Holding
from allotment.allocator.outcome import Allocated
from allotment.allocator.pool import DeviceID, PoolID
from allotment.allocator.reasons import IN_USE
from allotment.allocator.strategy import FIRST_FIT
from allotment.api import semantic
from allotment.api.batch import PodGroup, PriorityClass, Queue, VolcanoPodGroup
from allotment.api.claim_marks import POD_CLAIM_NAME
from allotment.api.codec import decode, to_builtins
from allotment.api.conversion.v1alpha2 import to_v1
from allotment.api.core import Namespace, Node, Pod, ResourceQuota
from allotment.api.meta import ObjectMeta
from allotment.api.quantity import Quantity
from allotment.api.resource import (
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from allotment.api.storage import KINDS as STORAGE
from allotment.controllers.claims.claim_users import claim_name
from allotment.insight.errors import NoAnswer
from allotment.insight.explain.explanation import HIDDEN_HOLDER, Explanation, HiddenDevices, Outlook, told_of
from allotment.insight.explain.name_hints import hints
from allotment.insight.explain.pod_changes import pod_remedies
from allotment.insight.explain.semantic_hints import semantic_hints
from allotment.insight.manifest_cluster import name_of
from allotment.insight.placement.rejections import Rejection, rejection_of
from allotment.insight.snapshot import USE, made_up_nodes
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.profile_file import DEFAULT
from allotment.scheduler.core import Scheduler
from allotment.scheduler.dry_run import DryRun
from allotment.scheduler.inquiry import Inquiry, InquiryAnswer, released
from allotment.scheduler.pod import VOLCANO, group_key
from allotment.scheduler.volumes.pod_volumes import volumes_of
from allotment.usage.changes import ChangeKind
from allotment.usage.device import HIDDEN_CLAIMS
from allotment.usage.remedies import STEPS_PER_QUESTION, Remedies, Remedy, remedies
from allotment.usage.semantic_remedies import BookSources, InstanceSearch, NodeState
from allotment.usage.summary import DeviceState

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.insight.snapshot import Snapshot
    from allotment.scheduler.config.profile import Profile
    from allotment.scheduler.dry_run import DryRunDecision
    from allotment.scheduler.framework import Status


KINDS: tuple[type[ApiStruct], ...] = (
    *USE,
    Node,
    Namespace,
    DeviceClass,
    ResourceClaimTemplate,
    PodGroup,
    VolcanoPodGroup,
    Queue,
    ResourceQuota,
    PriorityClass,
    semantic.ResourceClass,
    semantic.ResourceClassParameters,
    semantic.ResourceClaimParameters,
    *STORAGE,
    Pod,
)
"""The kinds to read, in the order in which the scheduler gets them."""

NODES_LOOKED_AT = 200
"""The number of nodes, or of distinct states of nodes, whose devices are examined one by one."""
_UNLIMITED_RESOURCES = {
    name: Quantity.parse(amount)
    for name, amount in {"cpu": "1M", "memory": "1Ei", "ephemeral-storage": "1Ei", "pods": "1M"}.items()
}
_RULED_OUT = "are ruled out by the pod's claims or node names"


class Examination:
    """A scheduler that knows everything the caller sees, and one pod to ask about."""

    def __init__(
        self,
        snapshot: Snapshot,
        pod: Pod,
        made: Sequence[ResourceClaim],
        pods: Sequence[Pod],
        now: datetime,
        go_on: Callable[[], bool],
    ) -> None:
        insist_on_devices(snapshot)
        self._seen = snapshot
        self._pod = pod
        self._key = "/".join(name_of(pod.metadata))
        self._now = now.timestamp()
        self._go_on = go_on
        self._objects: list[ApiStruct] = [*objects_of(snapshot), *pods, pod]
        self._gangs = sees_group(pod, snapshot)
        self._cluster = cluster = Cluster()
        for obj in self._objects:
            cluster.change(None, obj)
        hold_hidden(cluster, snapshot)
        self._inquiry = Inquiry(
            cluster, profile_of(pod), gangs=self._gangs, knows=snapshot.knows, claim_name=claim_name
        )
        if self._inquiry.obstacles.unmade(pod) is None:
            self._suppose(made)

    def _suppose(self, made: Sequence[ResourceClaim]) -> None:
        """Treats claims that are not created yet as if they existed."""
        self._objects += made
        templates = {each.name: each.resource_claim_template_name for each in self._pod.spec.resource_claims}
        for claim in made:
            self._cluster.change(None, claim)
            entry = claim.metadata.annotations[POD_CLAIM_NAME]
            note = f"claim {entry} does not exist yet: the answer assumes that it is created from template {templates[entry]}"
            self._seen.notes.append(note)

    def explain(self, what: str, meta: ObjectMeta) -> Explanation:
        told = self._explain(what, meta)
        told.guessed = not self._seen.sees(Node)
        if hides_volumes(self._pod, self._seen):
            denied = ", ".join(plural for kind, plural in self._seen.denied.items() if kind in STORAGE)
            note = f"you may not list {denied}: whether a node suits the pod's volumes is unknown"
            self._seen.notes += [] if note in self._seen.notes else [note]
        return told

    def _explain(self, what: str, meta: ObjectMeta) -> Explanation:
        finding = self._inquiry.about(self._key, self._now)
        hidden = self._hidden(finding.claims)
        if finding.refusal is None:
            return self._fits(what, meta, finding, hidden)
        state = Outlook.NOWHERE if finding.asked else Outlook.WAITS
        helping = self._remedies(finding)
        known = {each.kind for each in helping.found}
        slices = self._seen.of(ResourceSlice)
        return told_of(
            what,
            meta,
            state,
            finding.refusal.words,
            rejections=self._rejections(finding),
            short=bool(finding.asked or finding.scarce),
            remedies=helping,
            hints=[
                *hints(self._pod, self._claims(), self._cluster, slices, told=known),
                *dict.fromkeys(self._semantic_hints()),
            ],
            hidden=hidden,
        )

    def _fits(
        self, what: str, meta: ObjectMeta, finding: InquiryAnswer, hidden: HiddenDevices | None
    ) -> Explanation:
        node = finding.node
        if self._gangs:
            decision = self._with_group()
            if not decision.fits:
                why = f"it fits on node {node} by itself, but its group does not fit: {decision.why or 'no reason is known'}"
                return told_of(what, meta, Outlook.WAITS, why, hidden=hidden)
            node = decision.node
        reason = f"fits on node {node}"
        if hides_volumes(self._pod, self._seen):
            reason += f" according to what you may see, but its volumes are unknown{f', and {hidden}' if hidden else ''}"
            return told_of(what, meta, Outlook.MAY_FIT, reason, node=node, hidden=hidden)
        if hidden is None:
            reason += "; nothing stands in its way"
            return told_of(what, meta, Outlook.FITS, reason, node=node)
        reason += f" according to what you may see, but {hidden}"
        return told_of(what, meta, Outlook.MAY_FIT, reason, node=node, hidden=hidden)

    def _with_group(self) -> DryRunDecision:
        """The outcome for the pod and for the pods that are placed together with it, if they were scheduled now."""
        group = group_key(self._pod)
        core = Scheduler(Cluster(), profile_of(self._pod))
        hold_hidden(core.cluster, self._seen)
        decisions = DryRun(core, self._now).run(
            each
            for each in self._objects
            if not isinstance(each, Pod) or each.spec.node_name or group_key(each) == group
        )
        return next(each for each in decisions if f"{each.namespace}/{each.name}" == self._key)

    # --- what is hidden ---

    def _hidden(self, claims: Sequence[ResourceClaim]) -> HiddenDevices | None:
        """How much is hidden of the pools from which claims may get devices; None: nothing."""
        if self._seen.namespaces is None or not claims:
            return None
        held: int | None = 0
        free, wanted = 0, self._pools_for(claims)
        for pool in self._seen.pools():
            if pool.id in wanted and pool.hidden != 0 and pool.unseen:
                free += pool.unseen
                held = None if held is None or pool.hidden is None else held + pool.hidden
        return HiddenDevices(held, free) if free else None

    def _pools_for(self, claims: Sequence[ResourceClaim]) -> set[PoolID]:
        """The pools with a device that suits any request, in use or not."""
        fleet, found = self._cluster.fleet, set[PoolID]()
        view = fleet.view(claims, FIRST_FIT, STEPS_PER_QUESTION)
        for place in fleet.places.values():
            problem = view.problem(place)
            for suits in problem.suits if problem is not None else ():
                suits.judge_all()
                for position, device in enumerate(fleet.site(place).devices):
                    if suits.selectable >> position & 1 or position in suits.errors:
                        found.add(device.id.of_pool)
        return found

    # --- why not ---

    def _rejections(self, finding: InquiryAnswer) -> list[Rejection]:
        """What each node lacks. If there are many nodes, those that look alike are examined once."""
        fleet, short, found = self._cluster.fleet, set(finding.short), list[Rejection]()
        view, many = fleet.view(finding.claims, FIRST_FIT, STEPS_PER_QUESTION), len(short) > NODES_LOOKED_AT
        looks: dict[object, Rejection] = {}
        for name, status in finding.rejections.items():
            if name in finding.scarce and self._cluster.semantic.slices(name):
                found.append(self._of_instances(name, finding, status))
                continue
            place = fleet.places.get(name) if name in short else None
            if place is None:
                found.append(Rejection(name, status.words))
                continue
            look = view.appearance(place) if many else name
            if look not in looks and len(looks) < NODES_LOOKED_AT and self._go_on():
                outcome = view.ask(place, finding.claims, named_shares(finding.claims))
                refusal = status.words if isinstance(outcome, Allocated) else outcome
                looks[look] = rejection_of(place.node, refusal)
                if many:
                    looks[look] = _without_holders(looks[look])
            known = looks.get(look) or Rejection(name, status.words)
            found.append(Rejection(name, known.words, known.reason))
        if finding.rejections:
            rest = self._cluster.nodes.keys() - finding.rejections.keys()
            found += [Rejection(name, _RULED_OUT) for name in sorted(rest)]
        return found

    def _of_instances(self, name: str, finding: InquiryAnswer, status: Status) -> Rejection:
        """Why a node has no instances for v1alpha2 claims."""
        node = self._cluster.nodes[name].node
        if node is None or not self._go_on():
            return Rejection(name, status.words)
        outcome = self._cluster.semantic.examine(node, finding.carried)
        return rejection_of(node, status.words if isinstance(outcome, Allocated) else outcome)

    # --- what would help ---

    def _claims(self) -> list[ResourceClaim]:
        """The claims of the pod that exist."""
        claims, info = self._cluster.claims, self._cluster.pods[self._key]
        keys = dict.fromkeys((*info.claims, *claims.owned.get(info.uid, ())))
        return [claims.objects[key] for key in keys if key in claims.objects]

    def _semantic_hints(self) -> Iterator[str]:
        parameters = self._seen.some(semantic.ResourceClaimParameters)
        slices = self._seen.of(semantic.NodeResourceSlice)
        classes = {each.metadata.name for each in self._seen.some(semantic.ResourceClass)}
        return semantic_hints(self._claims(), parameters, slices, classes)

    def _remedies(self, finding: InquiryAnswer) -> Remedies:
        found, cut = list[Remedy](), False
        for each in pod_remedies(self._pod, self._cluster, self._placed_as) if finding.asked else ():
            found.append(each)
            if not self._go_on():
                cut = True
                break
        devices = self._device_remedies(finding)
        order = list(ChangeKind)
        both = sorted((*found, *devices.found), key=lambda each: order.index(each.kind))
        return Remedies(tuple(both), cut or devices.cut)

    def _placed_as(self, pod: Pod) -> str:
        """Where the pod would be placed after a change; empty: nowhere."""
        with self._inquiry.supposing(self._pod, pod):
            return self._inquiry.about(self._key, self._now).node

    def _device_remedies(self, finding: InquiryAnswer) -> Remedies:
        if finding.scarce:
            return self._instance_remedies(finding)
        if not finding.short:
            return Remedies()
        tried = remedies(
            self._cluster.fleet,
            finding.claims,
            nodes=finding.short,
            releasable=self._cluster.claims.objects,
            go_on=self._go_on,
        )
        return Remedies(tuple(filter(self._confirmed, tried.found)), tried.cut)

    def _instance_remedies(self, finding: InquiryAnswer) -> Remedies:
        semantic, nodes = self._cluster.semantic, self._cluster.nodes
        grounds = [
            NodeState(node, semantic.slices(name), semantic.held(name))
            for name in finding.scarce[:NODES_LOOKED_AT]
            if (node := nodes[name].node) is not None and semantic.slices(name)
        ]
        search = InstanceSearch(finding.carried, grounds, BookSources(*semantic.parameters()), self._go_on)
        ledger = self._cluster.fleet.ledger
        holders = {
            claim: held
            for claim in self._cluster.claims.objects
            if (held := [each.device for each in ledger.holdings(claim)])
        }
        tried = search.remedies(holders)
        found = []
        for remedy in tried.found:
            change = search.rewritten.get(remedy.words)
            if change is None:
                helps = self._confirmed(remedy)
            else:
                with self._inquiry.supposing(change.old, change.new):
                    helps = bool(self._inquiry.about(self._key, self._now).node)
            if helps:
                found.append(remedy)
        return Remedies(tuple(found), tried.cut)

    def _confirmed(self, remedy: Remedy) -> bool:
        """Whether the scheduler places the pod after the change."""
        old = self._cluster.claims.objects.get(remedy.claim)
        if old is None:
            return True  # a claim that the scheduler itself creates, for extended resources
        new = remedy.change.claim if remedy.change is not None else released(old)
        with self._inquiry.supposing(old, new):
            return bool(self._inquiry.about(self._key, self._now).node)


def insist_on_devices(snapshot: Snapshot) -> None:
    """Raises NoAnswer if the caller sees too little to say where anything fits."""
    if not snapshot.sees(ResourceSlice):
        raise NoAnswer(
            "you may not list resourceslices",
            "ask for that right: it shows devices, not who holds them",
        )
    if DeviceClass in snapshot.denied:
        raise NoAnswer("you may not list deviceclasses", "ask for that right: claims refer to them")


def hold_hidden(cluster: Cluster, snapshot: Snapshot) -> None:
    """Takes away the devices that hidden claims are known to hold, and returns those that an earlier call took away. A device
    that can be shared stays, because some of it may be left. Nothing is said about volumes unless the caller sees all of
    them."""
    cluster.storage.known = sees_volumes(snapshot)
    if snapshot.namespaces is None:
        return
    shareable = {
        DeviceID(each.spec.driver, each.spec.pool.name, device.name)
        for each in snapshot.of(ResourceSlice)
        for device in each.spec.devices
        if device.allow_multiple_allocations
    }
    certain = [
        DeviceID(*pool.id, device.name)
        for pool in snapshot.pools()
        for device in pool.devices
        if device.reason == HIDDEN_CLAIMS and device.state is DeviceState.ALLOCATED
    ]
    holdings = tuple(Holding(id, None, (), False) for id in certain if id not in shareable)
    cluster.fleet.ledger.release(HIDDEN_HOLDER)
    cluster.fleet.ledger.hold(HIDDEN_HOLDER, holdings)


def sees_volumes(snapshot: Snapshot) -> bool:
    """Whether the caller may list everything that determines where volumes allow pods."""
    return snapshot.denied.keys().isdisjoint(STORAGE)


def hides_volumes(pod: Pod, snapshot: Snapshot) -> bool:
    """Whether a pod has volumes, and the caller may not list everything that determines where they allow it."""
    return volumes_of(pod) is not None and not sees_volumes(snapshot)


def _without_holders(rejection: Rejection) -> Rejection:
    """Removes the holders of devices, which differ between nodes, so that the reason holds for all nodes that look alike."""
    reason = rejection.reason
    if reason is None:
        return rejection
    asks = [
        dataclasses.replace(
            ask,
            devices=[
                dataclasses.replace(each, detail="") if each.code == IN_USE else each for each in ask.devices
            ],
        )
        for ask in reason.asks
    ]
    reason = dataclasses.replace(reason, asks=asks)
    return Rejection(rejection.node, str(reason), reason)


def sees_group(pod: Pod, snapshot: Snapshot) -> bool:
    """Whether the caller can see the pod's group, if it has one."""
    group = group_key(pod)
    known = snapshot.knows(
        VolcanoPodGroup if group.startswith(VOLCANO) else PodGroup, name_of(pod.metadata)[0]
    )
    if group and not known:
        snapshot.notes.append("you may not see the pod's group: the answer is for the pod alone")
    return bool(group) and known


def profile_of(pod: Pod) -> dict[str, Profile]:
    """The default profile, under the scheduler name that the pod has."""
    name = pod.spec.scheduler_name or ""
    return dataclasses.replace(
        DEFAULT, profiles=(dataclasses.replace(DEFAULT.profiles[0], name=name),)
    ).rosters()


def note_guesses(snapshot: Snapshot) -> None:
    """Notes what is unknown about the room on nodes."""
    if Pod in snapshot.denied:
        snapshot.notes.append(
            "you may not see pods of other namespaces: what they use on nodes is not counted"
        )
    vague = sum(not node.status.allocatable for node in snapshot.of(Node))
    if vague:
        snapshot.notes.append(
            f"these nodes do not report cpu and memory, so both are assumed to be plentiful: {vague}"
        )


def objects_of(snapshot: Snapshot) -> Iterator[ApiStruct]:
    """What the scheduler gets, except for the pods."""
    for kind in KINDS:
        if kind is Node:
            yield from _nodes(snapshot)
        elif kind is not Pod:
            yield from snapshot.some(kind)
    for claim in snapshot.some(semantic.ResourceClaim):
        yield as_v1(claim)


def as_v1(claim: semantic.ResourceClaim) -> ResourceClaim:
    """A v1alpha2 claim in the form that a scheduler sees: carried by a v1 claim."""
    return decode(ResourceClaim, to_v1(to_builtins(claim)))


def _nodes(snapshot: Snapshot) -> list[Node]:
    """The nodes that the caller sees or, if the caller may see none, those that slices name."""
    nodes = snapshot.of(Node)
    if not snapshot.sees(Node):
        nodes = made_up_nodes(snapshot.of(ResourceSlice))
        snapshot.notes.append(
            f"you may see no nodes: {len(nodes)} are made up from the slices, without labels"
        )
    return [plenty(node) for node in nodes]


def plenty(node: Node) -> Node:
    """Gives a node that does not report its resources more than any pod could need."""
    if node.status.allocatable:
        return node
    return replace(node, status=replace(node.status, allocatable=_UNLIMITED_RESOURCES))
