"""The five simulation calls of KEP-4381 on one forkable cluster: start a simulation, add and remove nodes, bind and evict
pods.

The state is a :class:`ForkableCluster`, and the scheduler's own plugins decide what fits: PreFilter, Filter and Score as in
every cycle, with verdicts remembered per shape of pod; Reserve and PreBind determine what a binding writes. So the simulation
accepts exactly what the scheduler will accept.

"Does not fit" is a value (``NoNode``); an invalid call raises a ``SimulationError``. Either way nothing is changed.

These are left out: preemption, the release of claims that were allocated ahead of use (PostFilter), waiting for binding
conditions, and other waiting pods: only bound pods count.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from allotment.allocator.features import ALL, Features
from allotment.allocator.phrases import of_one
from allotment.api.batch import PodGroup
from allotment.api.claim_marks import EXTENDED
from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct, OwnerReference, key_of
from allotment.api.resource import ResourceClaim
from allotment.api.storage import PersistentVolume, PersistentVolumeClaim
from allotment.autoscaler.errors import (
    NodeExists,
    NodeInUse,
    NoSuchPod,
    PodBound,
    SimulationError,
)
from allotment.autoscaler.simulate.bound_objects import (
    bound,
    evicted,
    given,
    left,
    made,
    placed_volume,
    written,
)
from allotment.autoscaler.simulate.forkable_cluster import ForkableCluster, Slice, publisher
from allotment.scheduler.binding.step import BindVolume, MakeClaim, SelectNode, WriteClaim
from allotment.scheduler.config.configuration import DEFAULT, DEFAULT_SCHEDULER, Configuration
from allotment.scheduler.devices.semantic_claim import IMMEDIATE, carried
from allotment.scheduler.diagnosis import NoNode, refused_by
from allotment.scheduler.framework import Status
from allotment.scheduler.gangs.gang import gang_of
from allotment.scheduler.gangs.session import Session
from allotment.scheduler.gangs.session_actions import SessionActions
from allotment.scheduler.obstacles import ClaimName, Obstacles
from allotment.scheduler.placement import Attempt, Placement, Placer
from allotment.scheduler.plugins.nominated_nodes import NAME as NOMINATED
from allotment.scheduler.pod import PodInfo

__all__ = ["BoundPod", "EvictedPod", "Removed", "Simulation", "start_simulation"]

_NAMED = 3
"""How many pods a message names."""


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod that got its node; ``claims`` are those that were written for it."""

    pod: Pod
    node: str
    claims: tuple[ResourceClaim, ...]


@dataclass(frozen=True, slots=True)
class EvictedPod:
    """A pod that waits again: ``pod`` can be bound elsewhere. Keys of claims are ``namespace/name``."""

    pod: Pod
    released: tuple[str, ...]  # claims without other users: they have no devices any more
    shared: tuple[str, ...]  # claims with other users: the pod can only run where those do
    tied: tuple[
        str, ...
    ]  # Immediate claims, which stay allocated: the pod can only run where their devices are


@dataclass(frozen=True, slots=True)
class Removed:
    """A node that was removed, together with ``slices`` and the ``pods`` on it, none of which used devices."""

    node: Node
    slices: tuple[Slice, ...]
    pods: tuple[Pod, ...]
    released: tuple[str, ...]  # claims that had devices of it and that no bound pod used
    stranded: tuple[str, ...]  # Immediate claims that keep devices which no longer exist


def start_simulation(
    objects: Iterable[ApiStruct],
    *,
    configuration: Configuration = DEFAULT,
    features: Features = ALL,
    now: float = 0.0,
    claim_name: ClaimName | None = None,
) -> Simulation:
    """A simulation of a cluster with these objects, in any order: nodes, pods, slices, claims, classes, and whatever else the
    scheduler reads. They are shared, not copied. ``now`` is for claims whose devices had to be ready by some time,
    ``claim_name`` for names that are taken (``obstacles``)."""
    simulation = Simulation(configuration, features, now, claim_name)
    simulation.load(objects)
    return simulation


class Simulation(ForkableCluster):
    """A simulated cluster with the scheduler's decisions; :func:`start_simulation` creates it."""

    def __init__(
        self,
        configuration: Configuration,
        features: Features,
        now: float,
        claim_name: ClaimName | None = None,
    ) -> None:
        super().__init__(features)
        self.now = now
        self._profiles = configuration.rosters()
        if DEFAULT_SCHEDULER in self._profiles:  # the default class of the server, for pods that name none
            self._profiles[""] = self._profiles[DEFAULT_SCHEDULER]
        self._placer = Placer(self.cluster, self._profiles)
        self.obstacles = Obstacles(
            self.cluster,
            self._profiles,
            schedulers=self._profiles.keys(),
            growing=True,
            knows=lambda kind, namespace: bool(self.objects(kind)),
            claim_name=claim_name,
            version=lambda: self.shown,
        )

    @property
    def schedulers(self) -> Collection[str | None]:
        """The names with which pods select a simulated scheduler."""
        return self._profiles.keys()

    # --- nodes ---

    def simulate_add_node(self, node: Node, slices: Iterable[Slice] = ()) -> None:
        """Adds a real or fictional node with the slices it would publish. Raises NodeExists."""
        name = node.metadata.name
        if name in self.objects(Node):
            raise NodeExists(f"node {name} already exists")
        published = [_published(each, node) for each in slices]
        with self.trial() as trial:
            for each in published:
                if key_of(each) in self.objects(type(each)):
                    raise NodeExists(f"slice {key_of(each)} of node {name} already exists")
                if publisher(each) != name:
                    raise SimulationError(
                        f"slice {key_of(each)} belongs to node {publisher(each)}, not {name}"
                    )
                self.put(each)
            self.put(node)
            trial.keep()

    def simulate_remove_node(self, node: str) -> Removed:
        """Removes a node, its slices, and the pods on it that use no devices. Raises NoSuchNode; and NodeInUse while bound
        pods anywhere use its devices, or pods on it use any devices."""
        found, slices, pods = self.node(node), self.slices(node), self.pods(node)
        claims = self.claims_on(slices)
        users = {key for claim in claims for key in self.bound_users(claim)}
        users.update(key_of(pod) for pod in pods if self.claims_of(self.cluster.pods[key_of(pod)]))
        if users:
            raise _in_use(node, sorted(users))
        released: list[str] = []
        stranded: list[str] = []
        with self.trial() as trial:
            for claim in claims:  # no bound pod uses them, although waiting pods may have them reserved
                keep = _stays(claim)
                self.put(left(claim, [user.uid for user in claim.status.reserved_for], keep=keep))
                (stranded if keep else released).append(key_of(claim))
            for each in (*pods, *slices, found):
                self.drop(each)
            trial.keep()
        return Removed(found, slices, pods, tuple(released), tuple(stranded))

    def bound_users(self, claim: ResourceClaim) -> Iterator[str]:
        """The keys of the pods with a node for which a claim is reserved, directly or through their group."""
        namespace = claim.metadata.namespace
        for user in claim.status.reserved_for:
            if user.resource == "podgroups":
                members = self.cluster.members.get(f"{namespace}/{user.name}", {})
                yield from (key for key, pod in members.items() if pod.node)
            else:
                pod = self.cluster.pods.get(f"{namespace}/{user.name}")
                if pod is not None and pod.node and pod.uid == user.uid:
                    yield pod.key

    # --- pods ---

    def fits(self, pod: Pod) -> str | NoNode:
        """The node that the scheduler would choose, or why there is none. Raises PodBound."""
        attempt = self._begin(self._seen(pod))
        return attempt if isinstance(attempt, NoNode) else self._placer.choose(attempt)

    def shape(self, pod: Pod) -> Hashable | NoNode:
        """Equal for pods that the scheduler cannot distinguish; or why it does not consider the pod. Raises PodBound."""
        attempt = self._begin(self._seen(pod))
        return attempt if isinstance(attempt, NoNode) else attempt.shape

    def fits_on(self, pod: Pod, node: str) -> str | NoNode:
        """As ``fits``, for one node. Raises NoSuchNode."""
        self.node(node)
        attempt = self._begin(self._seen(pod))
        if isinstance(attempt, NoNode):
            return attempt
        return self._judge(attempt, node) or node

    def simulate_bind_pod(self, pod: Pod, node: str) -> BoundPod | NoNode:
        """Binds a pod to a node as the scheduler would: claims are allocated on first use and reserved for the pod. A pod
        that does not exist yet is added. A binding that Filter would refuse is refused. Raises NoSuchNode, PodBound."""
        self.node(node)
        return self._bind(pod, node)

    def schedule(self, pod: Pod) -> BoundPod | NoNode:
        """Binds a pod to the node that the scheduler would choose."""
        return self._bind(pod, "")

    def schedule_gang(self, group: str) -> tuple[BoundPod, ...] | NoNode:
        """Binds the waiting members of a gang (a key of ``cluster.groups``): as many as it needs and as many more as fit, or
        none."""
        gang = gang_of(group, self.cluster.groups[group])
        assert gang is not None, f"the pods of group {group} go on their own"
        members = sorted(self.cluster.members.get(group, {}).values(), key=lambda pod: pod.key)
        kept_out = {pod.key: self._kept_out(pod) for pod in members if not pod.node}
        waiting = [pod for pod in members if kept_out.get(pod.key, pod) is None and not pod.leaving]
        ended = list(self.cluster.finished.get(group, {}).values())
        need = gang.need([pod for pod in members if pod.node], ended.count("Succeeded"))
        actions = SessionActions(self.cluster, self._placer, Session(self.cluster, self._placer))
        placed = actions.allocate(gang, waiting, need, self.now)
        if isinstance(placed, NoNode):
            return next(filter(None, kept_out.values()), placed) if not waiting else placed
        try:
            with self.trial() as trial:
                found = tuple([self._write(each) for each in placed])
                trial.keep()
            return found
        finally:
            for each in reversed(placed):
                self._placer.unreserve(each.cycle, each.node)

    def _bind(self, pod: Pod, node: str) -> BoundPod | NoNode:
        attempt = self._begin(self._seen(pod), placing=True)
        if isinstance(attempt, NoNode):
            return attempt
        chosen = self._judge(attempt, node) if node else self._placer.choose(attempt)
        if isinstance(chosen, NoNode):
            return chosen
        placed = self._placer.take(attempt, chosen or node)
        if isinstance(placed, NoNode):
            return placed
        try:
            return self._write(placed)
        finally:  # the cluster shows all decisions by now: nothing is in flight any more
            self._placer.unreserve(placed.cycle, placed.node)

    def _seen(self, pod: Pod) -> PodInfo:
        """A pod without a node in the scheduler's form; it need not be in the cluster."""
        key = key_of(pod)
        known = self.cluster.pods.get(key)
        if known is not None and known.node:
            raise PodBound(f"pod {key} is already on node {known.node}")
        if known is not None and known.pod is pod:
            return known
        if pod.spec.node_name:
            raise PodBound(f"pod {key} already has node {pod.spec.node_name} in its spec")
        if not pod.metadata.uid:  # which distinguishes the users of a claim
            pod = replace(pod, metadata=replace(pod.metadata, uid=f"simulated {key}"))
        return PodInfo(pod, known)

    def _begin(self, pod: PodInfo, *, placing: bool = False) -> Attempt | NoNode:
        return self._kept_out(pod, placing=placing) or self._placer.begin(pod, self.now)

    def _kept_out(self, pod: PodInfo, *, placing: bool = False) -> NoNode | None:
        """Why a pod is not placed on any node, if so. ``placing``: the rest of its gang is placed separately."""
        status = self.obstacles.of_member(pod) if placing else self.obstacles.of(pod)
        return refused_by(status) if status is not None else None

    def _judge(self, attempt: Attempt, node: str) -> NoNode | None:
        names, info = attempt.cycle.names, self.cluster.nodes[node]
        if names is not None and node not in names:
            words = f"node {node} is ruled out by the pod's claims or node names"
            return NoNode(words, frozenset(), resolvable=False)
        its_own = self.cluster.nominated.get(attempt.cycle.pod.key) == node  # which is kept from all others
        status = self._placer.rejection(attempt, info, without=NOMINATED if its_own else "")
        if status is None:
            return None
        words = f"node {node} {of_one(status.words)}"
        if attempt.profile.devices is not None:
            words = attempt.profile.devices.told(attempt.cycle, words)
        return refused_by(Status(status.code, status.plugin, words))

    def _write(self, placed: Placement) -> BoundPod:
        """Applies what the placement's steps write, and puts the pod on its node."""
        claims: list[ResourceClaim] = []
        volumes: list[ApiStruct] = []
        for step in placed.steps:
            if isinstance(step, BindVolume):
                volume = self.objects(PersistentVolume)[step.volume]
                volumes += given(volume, self.objects(PersistentVolumeClaim)[step.claim])
            elif isinstance(step, SelectNode):
                volumes.append(placed_volume(self.objects(PersistentVolumeClaim)[step.claim], step.node))
            elif isinstance(step, MakeClaim):
                claims.append(made(step))
            elif isinstance(step, WriteClaim):
                claims.append(written(self.objects(ResourceClaim)[step.claim], step))
        pod = bound(placed.cycle.pod.pod, placed.node, placed.steps)
        self.put_all((*claims, *volumes, pod))
        return BoundPod(pod, placed.node, tuple(claims))

    def simulate_evict_pod(self, pod: Pod, node: str) -> EvictedPod:
        """Takes a pod off its node, so that it waits again. Claims without other users are deallocated. Raises NoSuchPod."""
        info = self.cluster.pods.get(key_of(pod))
        if info is None or info.node != node or pod.metadata.uid not in ("", info.uid):
            where = f"it is on node {info.node}" if info is not None and info.node else "it is on none"
            raise NoSuchPod(f"pod {key_of(pod)} is not on node {node}: {where}")
        waiting = evicted(info.pod)
        released: list[str] = []
        shared: list[str] = []
        tied: list[str] = []
        with self.trial() as trial:
            for claim in self.claims_of(info):
                after = self._without(info, claim)
                if after is None:
                    self.drop(claim)
                else:
                    self.put(after)
                if after is not None and after.status.reserved_for:
                    shared.append(key_of(claim))
                else:
                    (tied if _stays(claim) else released).append(key_of(claim))
            self.put(waiting)
            trial.keep()
        return EvictedPod(waiting, tuple(released), tuple(shared), tuple(tied))

    def claims_of(self, pod: PodInfo) -> list[ResourceClaim]:
        """The claims that are reserved for a pod, or for its group."""
        claims, uids = self.cluster.claims, {pod.uid}
        keys = dict.fromkeys(self.cluster.used_by(pod))
        group = self._group(pod)
        if group is not None:
            uids.add(group.metadata.uid)
            keys.update(claims.owned.get(group.metadata.uid, {}))
        found = [claims.objects[key] for key in keys if key in claims.objects]
        return [claim for claim in found if any(user.uid in uids for user in claim.status.reserved_for)]

    def _without(self, pod: PodInfo, claim: ResourceClaim) -> ResourceClaim | None:
        """A claim without a pod as user; None: it was created for that use only. A group's reservation ends with the last
        member that is on a node."""
        gone, group = {pod.uid}, self._group(pod)
        if claim.metadata.annotations.get(EXTENDED) == "true":
            return None
        if group is not None:
            members = self.cluster.members[key_of(group)].values()
            if not any(member.node for member in members if member is not pod):
                gone.add(group.metadata.uid)
        return left(claim, gone, keep=_stays(claim))

    def _group(self, pod: PodInfo) -> PodGroup | None:
        """The group with which a pod may share claims."""
        named = pod.pod.spec.scheduling_group
        found = (
            self.cluster.groups.get(f"{pod.namespace}/{named.pod_group_name}") if named is not None else None
        )
        return found if isinstance(found, PodGroup) else None

    def validate(self) -> None:
        super().validate()
        self._placer.validate()


def _in_use(node: str, pods: list[str]) -> NodeInUse:
    named = ", ".join(pods[:_NAMED])
    more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
    words = f"node {node} cannot be removed while devices are in use there, by pod {named}{more}: evict first"
    return NodeInUse(words, tuple(pods))


def _published(slice: Slice, node: Node) -> Slice:
    """A slice as the node's driver would publish it: unless only this node reaches it, with the node as its owner."""
    if publisher(slice):
        return slice
    owner = OwnerReference(api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid)
    owners = (*slice.metadata.owner_references, owner)
    return replace(slice, metadata=replace(slice.metadata, owner_references=owners))


def _stays(claim: ResourceClaim) -> bool:
    """Whether a claim keeps its devices without users."""
    found = carried(claim)
    return found is not None and found.spec.allocation_mode == IMMEDIATE
