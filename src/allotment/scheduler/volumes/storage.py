"""All volumes and claims, with the decisions about them that the server does not show yet.

A decision is an *assumption*: a volume goes to some claim, or a claim's volume will be provisioned for some node. It overlays the
server's state until the server shows the same, or the pod that made it gives it back. Pods that share a claim may hold one
assumption together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from allotment.api.core import Node, NodeSelector
from allotment.api.meta import key_of
from allotment.api.storage import (
    SELECTED_NODE,
    STORAGE,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    belongs_to,
    class_of,
)
from allotment.scheduler.selector import nodes_selected

if TYPE_CHECKING:
    from collections.abc import Callable


HOSTNAME = "kubernetes.io/hostname"
ZONE_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""The old names of zone and region labels, and today's."""


class KnownVolume:
    """A volume with its properties from the spec: its size, its class, and the nodes that reach it."""

    __slots__ = ("hosts", "name", "pv", "reach", "size", "storage_class")

    def __init__(self, pv: PersistentVolume) -> None:
        self.pv = pv
        self.name = pv.metadata.name
        self.size = nanos(pv.spec.capacity.get(STORAGE))
        self.storage_class = class_of(pv)
        affinity = pv.spec.node_affinity
        required = affinity.required if affinity is not None else None
        self.reach = _reach(required) if required is not None else None
        # the only values of the hostname label that can match; None: any
        self.hosts = _hosts(required) if required is not None else None

    @property
    def labels_read(self) -> set[str]:
        """The node labels that decide which nodes reach the volume."""
        affinity = self.pv.spec.node_affinity
        terms = affinity.required.node_selector_terms if affinity is not None and affinity.required else ()
        zones = {*ZONE_LABELS, *ZONE_LABELS.values()}
        own = {label for label in self.pv.metadata.labels if label in zones}
        return {test.key for term in terms for test in term.match_expressions} | (zones if own else set())

    def reached_from(self, node: Node) -> bool:
        return self.reach is None or self.reach(node)


@dataclass(slots=True)
class Assumed:
    """A decision, and the pods (by uid) that hold it. ``value`` is a claim (key, uid) or the name of a node."""

    value: tuple[str, str]
    pods: set[str] = field(default_factory=set)


class Storage:
    """The volumes and claims of the cluster, with the assumptions over them. Keys of claims are ``namespace/name``."""

    def __init__(self) -> None:
        self.known = True  # False: the caller may not see all objects, so nothing can be said about volumes
        self.volumes: dict[str, KnownVolume] = {}
        self.of_class: dict[str, dict[str, KnownVolume]] = {}  # class → its volumes
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.classes: dict[str, StorageClass] = {}
        self.nodes: dict[str, CSINode] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.capacities: dict[str, dict[str, CSIStorageCapacity]] = {}  # class → those about it
        self.attachments: dict[str, dict[str, VolumeAttachment]] = {}  # node → those to it
        self.users: dict[str, set[str]] = {}  # claim → pods that name it and are not finished
        self._given: dict[str, Assumed] = {}  # volume → the claim that will get it
        self._placed: dict[str, Assumed] = {}  # claim → the node to provision its volume for

    # --- what the server shows ---

    def change(self, old: Any, new: Any) -> None:
        """Takes an object of one of ``api.storage.KINDS``."""
        shown = new if new is not None else old
        match shown:
            case PersistentVolume():
                self._volume(old, new)
            case PersistentVolumeClaim():
                self._claim(old, new)
            case StorageClass():
                _keep(self.classes, old, new)
            case CSINode():
                _keep(self.nodes, old, new)
            case CSIDriver():
                _keep(self.drivers, old, new)
            case CSIStorageCapacity():
                _group(self.capacities, old, new, lambda each: each.storage_class_name)
            case VolumeAttachment():
                _group(self.attachments, old, new, lambda each: each.spec.node_name)

    def _volume(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        name = (new or old).metadata.name  # type: ignore[union-attr]  # one of the two is there
        before = self.volumes.pop(name, None)
        if before is not None:
            mine = self.of_class[before.storage_class]
            del mine[name]
            if not mine:
                del self.of_class[before.storage_class]
        if new is None:
            return
        volume = self.volumes[name] = KnownVolume(new)
        self.of_class.setdefault(volume.storage_class, {})[name] = volume
        assumed = self._given.get(name)
        if assumed is not None and _whose(new) == assumed.value:
            del self._given[name]

    def _claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        key = key_of(new if new is not None else old)
        if new is None:
            self.claims.pop(key, None)
            return
        self.claims[key] = new
        assumed = self._placed.get(key)
        if assumed is not None and new.metadata.annotations.get(SELECTED_NODE) == assumed.value[0]:
            del self._placed[key]

    def note_users(self, pod: str, before: Iterable[str], after: Iterable[str]) -> None:
        """Records the claims that a pod names."""
        for claim in before:
            users = self.users.get(claim, set())
            users.discard(pod)
            if not users:
                self.users.pop(claim, None)
        for claim in after:
            self.users.setdefault(claim, set()).add(pod)

    # --- with what was decided ---

    def selected_node(self, claim: PersistentVolumeClaim) -> str:
        """The node for which a claim's volume will be provisioned; empty if none is chosen yet."""
        assumed = self._placed.get(key_of(claim))
        return assumed.value[0] if assumed is not None else claim.metadata.annotations.get(SELECTED_NODE, "")

    def meant_for(self, volume: KnownVolume, claim: PersistentVolumeClaim) -> bool | None:
        """Whether a volume belongs, or will belong, to this claim; None if it belongs to no claim."""
        assumed = self._given.get(volume.name)
        if assumed is not None:
            return assumed.value == (key_of(claim), claim.metadata.uid)
        if volume.pv.spec.claim_ref is None:
            return None
        return belongs_to(volume.pv, claim)

    # --- deciding ---

    def give(self, volume: str, claim: PersistentVolumeClaim, pod: str) -> None:
        """Assumes that a claim gets a volume, on behalf of a pod (its uid). What the server already shows need not be assumed."""
        value = (key_of(claim), claim.metadata.uid)
        if _whose(self.volumes[volume].pv) == value:
            return
        assumed = self._given.setdefault(volume, Assumed(value))
        assert assumed.value == value, f"volume {volume} is promised to {assumed.value[0]}"
        assumed.pods.add(pod)

    def place(self, claim: str, node: str, pod: str) -> None:
        """Assumes that a claim's volume will be provisioned for a node; see ``give``."""
        if self.claims[claim].metadata.annotations.get(SELECTED_NODE) == node:
            return
        assumed = self._placed.setdefault(claim, Assumed((node, "")))
        assert assumed.value[0] == node, f"the volume of {claim} is to be made for {assumed.value[0]}"
        assumed.pods.add(pod)

    def take_back(self, pod: str) -> None:
        """Gives back all assumptions of a pod."""
        for decisions in (self._given, self._placed):
            for key, assumed in list(decisions.items()):
                assumed.pods.discard(pod)
                if not assumed.pods:
                    del decisions[key]

    @property
    def assumptions(self) -> int:
        return len(self._given) + len(self._placed)

    def validate(self) -> None:
        """Raises AssertionError where an index differs from the objects, or no pod holds an assumption."""
        classes: dict[str, dict[str, KnownVolume]] = {}
        for name, volume in self.volumes.items():
            classes.setdefault(volume.storage_class, {})[name] = volume
        assert classes == self.of_class, "volumes of classes"
        for key, assumed in (*self._given.items(), *self._placed.items()):
            assert assumed.pods, f"nobody stands behind what was decided about {key}"


def _whose(pv: PersistentVolume) -> tuple[str, str] | None:
    """The key and uid of the claim that a volume names."""
    ref = pv.spec.claim_ref
    return (f"{ref.namespace}/{ref.name}", ref.uid or "") if ref is not None else None


def nanos(quantity: Any) -> int:
    return 0 if quantity is None else int(quantity.nanos)


def _reach(required: NodeSelector) -> Callable[[Node], bool] | None:
    """The test of which nodes reach the volume, by labels alone: like kube-scheduler, it ignores what terms say of a node's
    fields. None means any node."""
    terms = required.node_selector_terms
    if any(term.match_fields and not term.match_expressions for term in terms):
        return None
    return nodes_selected(
        NodeSelector(node_selector_terms=tuple([replace(term, match_fields=()) for term in terms]))
    )


def _hosts(required: NodeSelector) -> frozenset[str] | None:
    found: set[str] = set()
    for term in required.node_selector_terms:
        values = next(
            (
                test.values
                for test in term.match_expressions
                if test.key == HOSTNAME and test.operator == "In"
            ),
            None,
        )
        if values is None:
            return None
        found.update(values)
    return frozenset(found)


def _keep(objects: dict[str, Any], old: Any, new: Any) -> None:
    key = key_of(new if new is not None else old)
    if new is None:
        objects.pop(key, None)
    else:
        objects[key] = new


def _group(groups: dict[str, dict[str, Any]], old: Any, new: Any, by: Callable[[Any], str]) -> None:
    for each in filter(None, (old,)):
        mine = groups.get(by(each), {})
        mine.pop(key_of(each), None)
        if not mine:
            groups.pop(by(each), None)
    if new is not None:
        groups.setdefault(by(new), {})[key_of(new)] = new
