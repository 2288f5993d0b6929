"""What a pod's claims need of a node: sorted once for a pod, then compared with nodes.

A bound claim needs a node that reaches its volume. A claim that waits for its first consumer gets the smallest volume that fits,
or one that its class's provisioner makes for the node. Any other unbound claim keeps the pod off all nodes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.api.meta import key_of
from allotment.api.storage import (
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    class_of,
    is_bound,
)
from allotment.scheduler.selector import pods_selected
from allotment.scheduler.volumes.matching import Candidates, FreeVolumes, size_asked
from allotment.scheduler.volumes.storage import KnownVolume, Storage, nanos

if TYPE_CHECKING:
    from allotment.api.core import Node, Pod
    from allotment.api.meta import ObjectMeta
    from allotment.scheduler.volumes.pod_volumes import NamedClaim

NODE_CONFLICT = "didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "did not have enough free storage"
VOLUME_GONE = "are unavailable due to one or more PVCs bound to non-existent PVs"


class UnusableVolume(Exception):
    """A claim of the pod cannot be used on any node. ``soon`` means that this will probably change shortly."""

    def __init__(self, words: str, *, soon: bool = False) -> None:
        super().__init__(words)
        self.soon = soon


@dataclass(frozen=True, slots=True)
class VolumeChoice:
    """What a pod's claims get on a node: existing volumes, by claim, and claims whose volume will be provisioned for the node."""

    given: tuple[tuple[PersistentVolumeClaim, str], ...] = ()
    made: tuple[PersistentVolumeClaim, ...] = ()


@dataclass(slots=True)
class Needs:
    """What the claims of one pod need of a node. :func:`needs_of` makes it."""

    storage: Storage
    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    waiting: list[PersistentVolumeClaim] = field(default_factory=list)  # the smallest first
    _candidates: dict[str, Candidates] = field(default_factory=dict)
    _free: dict[Hashable, FreeVolumes] = field(default_factory=dict)

    def on(self, node: Node) -> VolumeChoice | str:
        """What the claims get on a node, or the reason why they get nothing there."""
        return self._reach(node) or self._choice(node)

    def _reach(self, node: Node) -> str:
        for claim in self.bound:
            volume = self.storage.volumes.get(claim.spec.volume_name or "")
            if volume is None:
                return VOLUME_GONE
            if not volume.reached_from(node):
                return NODE_CONFLICT
        return ""

    def _choice(self, node: Node) -> VolumeChoice | str:
        given: list[tuple[PersistentVolumeClaim, str]] = []
        made: list[PersistentVolumeClaim] = []
        taken: set[str] = set()
        passed: dict[int, int] = {}
        for claim in self.waiting:
            selected = self.storage.selected_node(claim)
            if selected and selected != node.metadata.name:
                return BIND_CONFLICT
            volume = None if selected else self._match(claim, node, taken, passed)
            if volume is None:
                made.append(claim)
            else:
                taken.add(volume.name)
                given.append((claim, volume.name))
        for claim in made:
            problem = self._cannot_make(claim, node)
            if problem:
                return problem
        return VolumeChoice(tuple(given), tuple(made))

    def _match(
        self, claim: PersistentVolumeClaim, node: Node, taken: set[str], passed: dict[int, int]
    ) -> KnownVolume | None:
        key = key_of(claim)
        candidates = self._candidates.get(key)
        if candidates is None:
            candidates = self._candidates[key] = Candidates(claim, self.storage, self._free)
        return candidates.best(node, taken, passed)

    def _cannot_make(self, claim: PersistentVolumeClaim, node: Node) -> str:
        kind = self.storage.classes.get(class_of(claim))
        if kind is None or kind.provisioner in ("", NO_PROVISIONER) or not _allowed(kind, node):
            return BIND_CONFLICT
        return "" if self._has_room(claim, kind, node) else NOT_ENOUGH_SPACE

    def _has_room(self, claim: PersistentVolumeClaim, kind: StorageClass, node: Node) -> bool:
        """Whether a node can reach storage with room for the volume, according to the driver's published capacity."""
        driver = self.storage.drivers.get(kind.provisioner)
        asked = size_asked(claim)
        if not asked or driver is None or not driver.spec.storage_capacity:
            return True
        capacities = self.storage.capacities.get(kind.metadata.name, {})
        return any(room_for(each) >= asked and _sees(each, node) for each in capacities.values())


def room_for(capacity: CSIStorageCapacity) -> int:
    """The largest volume for which there is room; -1: none of any size."""
    largest = capacity.maximum_volume_size or capacity.capacity
    return -1 if largest is None else nanos(largest)


def _sees(capacity: CSIStorageCapacity, node: Node) -> bool:
    selector = pods_selected(capacity.node_topology)
    return selector is not None and selector.matches(node.metadata.labels)


def _allowed(kind: StorageClass, node: Node) -> bool:
    labels, terms = node.metadata.labels, kind.allowed_topologies
    return not terms or any(
        bool(term.match_label_expressions)
        and all(labels.get(test.key) in test.values for test in term.match_label_expressions)
        for term in terms
    )


def needs_of(pod: Pod, named: tuple[NamedClaim, ...], storage: Storage) -> Needs:
    """The needs of a pod's claims. Raises UnusableVolume."""
    needs, immediate = Needs(storage), False
    claims = [usable(pod, each, storage) for each in named]
    for claim in {key_of(claim): claim for claim in claims}.values():
        if is_bound(claim):
            needs.bound.append(claim)
        elif not claim.spec.volume_name and waits_for_consumer(claim, storage):
            needs.waiting.append(claim)
        else:
            immediate = True
    if immediate:
        raise UnusableVolume("pod has unbound immediate PersistentVolumeClaims")
    needs.waiting.sort(key=size_asked)
    return needs


def usable(pod: Pod, named: NamedClaim, storage: Storage) -> PersistentVolumeClaim:
    """The claim that a pod names. Raises UnusableVolume if the pod may not use it."""
    claim = storage.claims.get(named.key)
    if claim is None and named.ephemeral:
        words = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{named.name}"'
        raise UnusableVolume(words, soon=True)
    if claim is None:
        raise UnusableVolume(f'persistentvolumeclaim "{named.name}" not found')
    if claim.status.phase == "Lost":
        volume = claim.spec.volume_name or ""
        raise UnusableVolume(
            f'persistentvolumeclaim "{named.name}" bound to non-existent persistentvolume "{volume}"'
        )
    if claim.metadata.deletion_timestamp is not None:
        raise UnusableVolume(f'persistentvolumeclaim "{named.name}" is being deleted')
    if named.ephemeral and not controlled_by(claim.metadata, pod.metadata.uid):
        raise UnusableVolume(
            f"PVC {named.key} was not created for pod {pod.metadata.namespace}/{pod.metadata.name}"
        )
    return claim


def controlled_by(meta: ObjectMeta, uid: str) -> bool:
    return any(owner.controller and owner.uid == uid for owner in meta.owner_references)


def waits_for_consumer(claim: PersistentVolumeClaim, storage: Storage) -> bool:
    """Whether a claim's volume is chosen when a pod that uses it is placed."""
    kind = storage.classes.get(class_of(claim))
    return kind is not None and kind.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
