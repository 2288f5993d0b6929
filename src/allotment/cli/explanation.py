"""Why a pod or a claim has no devices, or that nothing is wrong: what ``allot explain`` tells.

The scheduler is asked (``scheduler.inquiry``), on what the caller sees; so what is told of gates, cpu or affinity is what a pod's
condition would say. Where devices are what nodes lack, the allocator's reasons come with it, and single changes that would
help (``usage.remedies``), each confirmed by asking the scheduler once more. A claim by itself is explained as for a pod that wants
nothing else.

Whoever does not see all claims does not know all that is taken: that something does not fit is sure then, that it fits is not.
Names are only those of claims that the caller sees; devices which hidden ones are known to hold are held by nobody in particular.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from allotment.allocator.ledger import Holding
from allotment.allocator.outcome import Allocated
from allotment.allocator.pool import DeviceID, PoolID
from allotment.allocator.reasons import IN_USE
from allotment.allocator.strategy import FIRST_FIT
from allotment.api import alpha2
from allotment.api.batch import PodGroup, VolcanoPodGroup
from allotment.api.claim_marks import POD_CLAIM_NAME
from allotment.api.core import Namespace, Node, Pod, PodResourceClaim, PodSpec, Toleration
from allotment.api.meta import ObjectMeta
from allotment.api.quantity import Quantity
from allotment.api.resource import (
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from allotment.cli.absent import absent
from allotment.cli.claim_description import facts_of
from allotment.cli.cluster import name_of
from allotment.cli.failure import Failure, NoAnswer
from allotment.cli.placement import Rejection, rejection_of
from allotment.cli.seen import USE, made_up_nodes
from allotment.cli.usage_table import plural
from allotment.cli.workload import FINISHED, from_template
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.gang import group_key
from allotment.scheduler.inquiry import Finding, Inquiry, released
from allotment.scheduler.pod import claims_named
from allotment.scheduler.profile import DEFAULT
from allotment.usage.device import HIDDEN_CLAIMS
from allotment.usage.remedies import BUDGET, Remedies, Remedy, remedies
from allotment.usage.summary import DeviceState

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.cli.ailments import Ailment
    from allotment.cli.claim_description import HeldDevice
    from allotment.cli.seen import Seen
    from allotment.scheduler.roster import Profile
    from allotment.usage.allocation import AnyClaim

KINDS: tuple[type[ApiStruct], ...] = (
    *USE,
    Node,
    Namespace,
    DeviceClass,
    ResourceClaimTemplate,
    PodGroup,
    VolcanoPodGroup,
    alpha2.ResourceClass,
    alpha2.ResourceClassParameters,
    alpha2.ResourceClaimParameters,
    Pod,
)
"""What to look at, in the order in which a scheduler is told of it."""

HIDDEN_HOLDER = "claims you may not see"
LOOKS = 200
"""Nodes, or distinct states of them, whose devices are looked at one by one."""
_PLENTY = {"cpu": "1M", "memory": "1Ei", "ephemeral-storage": "1Ei", "pods": "1M"}
_RULED_OUT = "are ruled out by the pod's claims or node names"
_OF_NODES = "node.kubernetes.io/"  # the prefix of taints that say that a node is not well, or cordoned


class State(StrEnum):
    """How things stand."""

    PLACED = "Placed"  # it has all that it wants
    ENDED = "Ended"
    FITS = "Fits"  # nothing stands in the way
    MAY_FIT = "MayFit"  # as far as the caller sees
    WAITS = "Waits"  # for something else than a node
    NOWHERE = "FitsNowhere"


@dataclass(frozen=True, slots=True)
class Hidden:
    """So many of the devices that look free to the caller are held by claims that it may not see; None: nobody knows."""

    held: int | None
    free: int

    def __str__(self) -> str:
        these = f"the {plural(self.free, 'device')} that no claim you may see holds"
        if self.held is None:
            return f"how many of {these} are held by claims you may not see is unknown"
        return f"{self.held} of {these} {'is' if self.held == 1 else 'are'} held by {HIDDEN_HOLDER}"


@dataclass(slots=True)
class Explanation:
    """All that is told. ``reason`` is one sentence."""

    what: str  # ``pod`` or ``claim``
    namespace: str
    name: str
    state: State
    reason: str
    said: str = ""  # what the pod's own condition says
    node: str = ""  # where it is, or would go
    devices: Sequence[HeldDevice] = ()
    problems: Sequence[Ailment] = ()
    rejections: Sequence[Rejection] = ()
    remedies: Remedies = field(default_factory=Remedies)
    hidden: Hidden | None = None
    guessed: bool = False  # nodes could not be seen

    @property
    def certain(self) -> bool:
        """Whether it is true whatever the caller may not see. Claims that are hidden make no room."""
        return not self.guessed and (self.hidden is None or self.state is State.NOWHERE)

    @property
    def well(self) -> bool:
        """Whether there is nothing to wait for or to repair, as far as one can see."""
        fits = self.state in (State.PLACED, State.ENDED, State.FITS, State.MAY_FIT)
        return fits and not self.problems and not (self.state is State.MAY_FIT and self.said)


def named_pod(seen: Seen, name: str, namespaces: Sequence[str]) -> Pod:
    """The one pod of that name in the namespaces, or in all that are seen. Raises Failure if that is none or several."""
    pods = seen.some(Pod)
    if not pods and Pod in seen.denied and Pod not in seen.partly:
        where = f" in namespace {namespaces[0]}" if namespaces else ""
        raise NoAnswer(f"you may not list pods{where}", "name one where you may with -n NAMESPACE")
    found = [
        pod
        for pod in pods
        if pod.metadata.name == name and (not namespaces or pod.metadata.namespace in namespaces)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        where = ", ".join(sorted(pod.metadata.namespace for pod in found))
        raise Failure(f"there are pods {name} in several namespaces: {where}", "say which with -n NAMESPACE")
    asked = f"{namespaces[0]}/{name}" if namespaces else name
    known = {"/".join(name_of(pod.metadata)) if namespaces else pod.metadata.name for pod in pods}
    raise absent("pod", asked, known, "kubectl get pods -A")


# --- pods ---


def explain_pod(pod: Pod, seen: Seen, now: datetime, go_on: Callable[[], bool]) -> Explanation:
    """What there is to tell of a pod. ``go_on`` says whether there is time left to look for changes that would help."""
    if pod.status.phase in FINISHED:
        return _told("pod", pod.metadata, State.ENDED, f"has ended ({pod.status.phase}) and needs no devices")
    if pod.spec.node_name:
        return _placed(pod, seen, now)
    gone = pod.metadata.deletion_timestamp is not None
    if gone:
        return _told("pod", pod.metadata, State.ENDED, "is being deleted and will not be placed")
    scheduler = pod.spec.scheduler_name or ""
    if scheduler not in ("", "default-scheduler"):
        seen.notes.append(f"the pod is for scheduler {scheduler}: told is what Allotment's own would say")
    if not pod.metadata.uid:
        pod = replace(pod, metadata=replace(pod.metadata, uid=f"pod {'/'.join(name_of(pod.metadata))}"))
    if not seen.sees(Node):
        pod = _regardless_of_labels(pod, seen)
    made, missing = _from_templates(pod, seen)
    if missing:
        return _told("pod", pod.metadata, State.WAITS, missing, said=_said(pod))
    explanation = _Desk(seen, pod, made, _others(pod, seen), now, go_on).explain("pod", pod.metadata)
    explanation.said = _said(pod)
    return explanation


def _regardless_of_labels(pod: Pod, seen: Seen) -> Pod:
    """The pod without what cannot be judged where nodes are not seen."""
    spec = replace(pod.spec, node_selector={}, affinity=None, topology_spread_constraints=())
    if spec != pod.spec:
        seen.notes.append(
            "without nodes, the pod's node selector, affinity and spreading cannot be looked at, and are not"
        )
    return replace(pod, spec=spec)


def _told(what: str, meta: ObjectMeta, state: State, reason: str, **more: Any) -> Explanation:
    return Explanation(what, *name_of(meta), state, reason, **more)


def _said(pod: Pod) -> str:
    """Why the pod is not placed, in the words of whoever tried."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status != "True":
            return condition.message or condition.reason or ""
    return ""


def _placed(pod: Pod, seen: Seen, now: datetime) -> Explanation:
    keys = set(claims_named(pod))
    facts = [facts_of(claim, seen, now) for claim in seen.claims if "/".join(name_of(claim.metadata)) in keys]
    devices = [device for each in facts for device in each.devices]
    problems = [problem for each in facts for problem in each.problems]
    node = pod.spec.node_name or ""
    reason = f"is on node {node}"
    if devices:
        reason += f" with {plural(len(devices), 'device')} of {plural(len(facts), 'claim')}"
    elif not keys and not pod.spec.resource_claims:
        reason += " and asks for no devices"
    unseen = len(keys) - len(facts)
    if unseen:
        reason += f"; {plural(unseen, 'claim')} that it names cannot be seen"
    reason += "; nothing is wrong" if not problems else f"; {plural(len(problems), 'thing')} is wrong"
    return _told("pod", pod.metadata, State.PLACED, reason, node=node, devices=devices, problems=problems)


def _from_templates(pod: Pod, seen: Seen) -> tuple[list[ResourceClaim], str]:
    """The claims that are still to be made for a pod, as they will be; or what keeps them from being made."""
    namespace, made = name_of(pod.metadata)[0], []
    templates = {name_of(each.metadata): each for each in seen.some(ResourceClaimTemplate)}
    for entry in pod.spec.resource_claims:
        wanted = entry.resource_claim_template_name
        if not wanted or _is_made(pod, entry, seen):
            continue
        template = templates.get((namespace, wanted))
        if (
            template is None
            and not seen.sees(ResourceClaimTemplate)
            and ResourceClaimTemplate not in seen.partly
        ):
            continue  # nobody knows; the scheduler says that the claim is not there
        if template is None:
            return [], (
                f"its claim {entry.name} cannot be made: there is no ResourceClaimTemplate {namespace}/{wanted}"
            )
        name = (namespace, f"{pod.metadata.name}-{entry.name}")
        claim = from_template(name, pod, template)
        assert isinstance(claim, ResourceClaim)
        noted = {**claim.metadata.annotations, POD_CLAIM_NAME: entry.name}
        made.append(replace(claim, metadata=replace(claim.metadata, annotations=noted)))
        seen.notes.append(f"claim {entry.name} is not made from template {wanted} yet: told is as if it were")
    return made, ""


def _is_made(pod: Pod, entry: PodResourceClaim, seen: Seen) -> bool:
    if any(status.name == entry.name for status in pod.status.resource_claim_statuses):
        return True
    return any(
        claim.metadata.annotations.get(POD_CLAIM_NAME) == entry.name
        and any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references)
        for claim in seen.of(ResourceClaim)
    )


# --- claims ---


def explain_claim(claim: AnyClaim, seen: Seen, now: datetime, go_on: Callable[[], bool]) -> Explanation:
    """What there is to tell of a claim. Raises NoAnswer for one of a form that only describe knows."""
    meta = claim.metadata
    facts = facts_of(claim, seen, now)
    if claim.status.allocation is not None:
        nodes = sorted({device.node for device in facts.devices if device.node})
        where = f" on node {nodes[0]}" if len(nodes) == 1 else ""
        users = plural(len(claim.status.reserved_for), "consumer")
        reason = f"has {plural(len(facts.devices), 'device')}{where} and {users}"
        wrong = f"{plural(len(facts.problems), 'thing')} is wrong" if facts.problems else "nothing is wrong"
        return _told(
            "claim",
            meta,
            State.PLACED,
            f"{reason}; {wrong}",
            node=nodes[0] if len(nodes) == 1 else "",
            devices=facts.devices,
            problems=facts.problems,
        )
    if not isinstance(claim, ResourceClaim):
        raise NoAnswer(
            f"claim {'/'.join(name_of(meta))} is of v1alpha2, which is explained with its pod only",
            "allot explain pod NAME, or for manifests allot allocate --explain",
        )
    key = "/".join(name_of(meta))
    waiting = sorted(
        "/".join(name_of(pod.metadata))
        for pod in seen.some(Pod)
        if key in claims_named(pod) and not pod.spec.node_name and pod.status.phase not in FINISHED
    )
    if waiting:
        seen.notes.append(
            f"{plural(len(waiting), 'pod')} with this claim wait{'s' * (len(waiting) == 1)} for a node: "
            f"allot explain pod {waiting[0]} tells what else is needed"
        )
    return _Desk(seen, _bare_pod(claim, seen), [], [], now, go_on).explain("claim", meta)


def _bare_pod(claim: ResourceClaim, seen: Seen) -> Pod:
    """A pod that wants a claim and nothing else, and puts up with what operators say about nodes."""
    keys = {taint.key for node in seen.of(Node) for taint in node.spec.taints}
    namespace, name = name_of(claim.metadata)
    return Pod(
        metadata=ObjectMeta(name=f"(user of {name})", namespace=namespace, uid=f"user of {namespace}/{name}"),
        spec=PodSpec(
            resource_claims=(PodResourceClaim(name="claim", resource_claim_name=name),),
            tolerations=tuple(
                Toleration(key=key, operator="Exists")
                for key in sorted(keys)
                if not key.startswith(_OF_NODES)
            ),
        ),
    )


# --- asking the scheduler ---


class _Desk:
    """A scheduler that has been told all that the caller sees, and one pod to ask about."""

    def __init__(
        self,
        seen: Seen,
        pod: Pod,
        made: Sequence[ResourceClaim],
        pods: Sequence[Pod],
        now: datetime,
        go_on: Callable[[], bool],
    ) -> None:
        if not seen.sees(ResourceSlice):
            raise NoAnswer(
                "you may not list resourceslices",
                "ask for that right: it tells of devices, not of who has them",
            )
        if DeviceClass in seen.denied:
            raise NoAnswer("you may not list deviceclasses", "ask for that right: claims name them")
        self._seen = seen
        self._pod = pod
        self._key = "/".join(name_of(pod.metadata))
        self._now = now.timestamp()
        self._go_on = go_on
        cluster = Cluster()
        for obj in [*_objects(seen), *made, *pods, pod]:
            cluster.change(None, obj)
        self._cluster = cluster
        self._hold_hidden()
        profile = _profile(pod.spec.scheduler_name or "")
        self._inquiry = Inquiry(cluster, profile, gangs=seen.sees(PodGroup))

    def explain(self, what: str, meta: ObjectMeta) -> Explanation:
        told = self._explain(what, meta)
        told.guessed = not self._seen.sees(Node)
        return told

    def _explain(self, what: str, meta: ObjectMeta) -> Explanation:
        finding = self._inquiry.about(self._key, self._now)
        hidden = self._hidden(finding.claims)
        if finding.refusal is None:
            return self._fits(what, meta, finding, hidden)
        state = State.NOWHERE if finding.asked else State.WAITS
        return _told(
            what,
            meta,
            state,
            finding.refusal.words,
            rejections=self._rejections(finding),
            remedies=self._remedies(finding),
            hidden=hidden,
        )

    def _fits(self, what: str, meta: ObjectMeta, finding: Finding, hidden: Hidden | None) -> Explanation:
        reason = f"fits on node {finding.node}"
        if what == "pod" and group_key(self._pod):
            reason += " by itself, but is placed together with its group"
        if hidden is None:
            reason += "; nothing stands in its way"
            return _told(what, meta, State.FITS, reason, node=finding.node)
        reason += f" as far as you can see, but {hidden}"
        return _told(what, meta, State.MAY_FIT, reason, node=finding.node, hidden=hidden)

    # --- what is hidden ---

    def _hold_hidden(self) -> None:
        """Takes devices away of which it is known that claims hold them which the caller may not see."""
        certain = [
            Holding(DeviceID(*pool.id, device.name), None, (), False)
            for pool in (self._seen.pools() if self._seen.namespaces is not None else ())
            for device in pool.devices
            if device.reason == HIDDEN_CLAIMS and device.state is DeviceState.ALLOCATED
        ]
        if certain:
            self._cluster.fleet.ledger.hold(HIDDEN_HOLDER, tuple(certain))

    def _hidden(self, claims: Sequence[ResourceClaim]) -> Hidden | None:
        """How much is hidden of the pools that claims may get devices of; None: nothing is."""
        if self._seen.namespaces is None or not claims:
            return None
        held: int | None = 0
        free, wanted = 0, self._pools_for(claims)
        for pool in self._seen.pools():
            if pool.id in wanted and pool.hidden != 0 and pool.unseen:
                free += pool.unseen
                held = None if held is None or pool.hidden is None else held + pool.hidden
        return Hidden(held, free) if free else None

    def _pools_for(self, claims: Sequence[ResourceClaim]) -> set[PoolID]:
        """Those that have any device that suits any request, in use or not."""
        fleet, found = self._cluster.fleet, set[PoolID]()
        view = fleet.view(claims, FIRST_FIT, BUDGET)
        for place in fleet.places.values():
            problem = view.problem(place)
            for suits in problem.suits if problem is not None else ():
                suits.judge_all()
                for position, device in enumerate(fleet.site(place).devices):
                    if suits.selectable >> position & 1 or position in suits.errors:
                        found.add(device.id.of_pool)
        return found

    # --- why not ---

    def _rejections(self, finding: Finding) -> list[Rejection]:
        """What each node lacks. Where there are many, those that look alike are looked at once."""
        fleet, short, found = self._cluster.fleet, set(finding.short), list[Rejection]()
        view = fleet.view(finding.claims, FIRST_FIT, BUDGET) if len(short) > LOOKS else None
        looks: dict[object, Rejection] = {}
        for name, status in finding.rejections.items():
            place = fleet.places.get(name) if name in short else None
            if place is None:
                found.append(Rejection(name, status.words))
                continue
            look = view.appearance(place) if view is not None else name
            if look not in looks and len(looks) < LOOKS:
                outcome = fleet.allocate(name, finding.claims)
                refusal = status.words if isinstance(outcome, Allocated) else outcome
                looks[look] = rejection_of(place.node, refusal)
                if view is not None:
                    looks[look] = _without_holders(looks[look])
            known = looks.get(look) or Rejection(name, status.words)
            found.append(Rejection(name, known.words, known.reason))
        if finding.rejections:
            rest = self._cluster.nodes.keys() - finding.rejections.keys()
            found += [Rejection(name, _RULED_OUT) for name in sorted(rest)]
        return found

    # --- what would help ---

    def _remedies(self, finding: Finding) -> Remedies:
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

    def _confirmed(self, remedy: Remedy) -> bool:
        """Whether the scheduler places the pod after the change."""
        old = self._cluster.claims.objects.get(remedy.claim)
        if old is None:
            return True  # a claim that the scheduler makes itself, for extended resources
        new = remedy.change.claim if remedy.change is not None else released(old)
        with self._inquiry.supposing(old, new):
            return bool(self._inquiry.about(self._key, self._now).node)


def _without_holders(rejection: Rejection) -> Rejection:
    """As it can be said of all nodes that look alike: who holds their devices is different on each."""
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


def _profile(name: str) -> dict[str, Profile]:
    """The default one, for pods of this schedulerName."""
    return dataclasses.replace(
        DEFAULT, profiles=(dataclasses.replace(DEFAULT.profiles[0], name=name),)
    ).rosters()


def _others(asked: Pod, seen: Seen) -> list[Pod]:
    """The pods beside the one that is asked about."""
    if Pod in seen.denied:
        seen.notes.append("pods of other namespaces are not seen: what they take of nodes is not counted")
    vague = sum(not node.status.allocatable for node in seen.of(Node))
    if vague:
        seen.notes.append(f"cpu and memory are taken to be in plenty on nodes that do not tell: {vague}")
    return [pod for pod in seen.some(Pod) if name_of(pod.metadata) != name_of(asked.metadata)]


def _objects(seen: Seen) -> Iterator[ApiStruct]:
    """What a scheduler is told, pods aside."""
    for kind in KINDS:
        if kind is Node:
            yield from _nodes(seen)
        elif kind is not Pod:
            yield from seen.some(kind)


def _nodes(seen: Seen) -> list[Node]:
    """Those that are seen or, if none may be, those that slices name. One that does not say how much it has has plenty."""
    nodes = seen.of(Node)
    if not seen.sees(Node):
        nodes = made_up_nodes(seen.of(ResourceSlice))
        seen.notes.append(f"no nodes are seen: {len(nodes)} are taken from the slices, without labels")
    plenty = {name: Quantity.parse(amount) for name, amount in _PLENTY.items()}
    return [
        node if node.status.allocatable else replace(node, status=replace(node.status, allocatable=plenty))
        for node in nodes
    ]
