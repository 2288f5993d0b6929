"""VolumeBinding: a pod runs where its volumes can be reached, and claims that waited for the pod get their volumes.

In a cycle, PreFilter sorts the claims (``volumes.needs``) and Filter asks whether a node suits them. Reserve chooses a volume for
each claim, or decides to have one provisioned for the node, and assumes that decision (``volumes.storage``). PreBind lists the
writes: which claim gets which volume, and for which node to provision one. The last step waits until the volume controller has
bound all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.api.core import Node
from allotment.api.meta import key_of
from allotment.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from allotment.scheduler.binding.step import AwaitVolumes, BindVolume, SelectNode
from allotment.scheduler.framework import SKIP, SUCCESS, ObjectAction, Status, StatusCode, Wake
from allotment.scheduler.volumes.needs import Needs, UnusableVolume, VolumeChoice, needs_of, room_for

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.binding.step import Step
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.framework import Cycle
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo

NAME = "VolumeBinding"
VOLUME_BINDING_SECONDS = 600.0
_COME = frozenset((ObjectAction.ADD, ObjectAction.UPDATE))
_CLAIMS_A_STEP = 16
"""How many claims without a volume the plugin can check on one node in about the time of one step of other work."""


@dataclass(slots=True)
class _VolumeState:
    needs: Needs
    choice: VolumeChoice = field(default_factory=VolumeChoice)


class VolumeBinding:
    """The plugin that finds, assumes and binds the persistent volumes of a pod's claims."""

    name = NAME
    local = False
    wakes: Sequence[Wake] = tuple(
        Wake(kind, _COME)
        for kind in (
            Node,
            StorageClass,
            PersistentVolumeClaim,
            PersistentVolume,
            CSINode,
            CSIDriver,
            CSIStorageCapacity,
        )
    )

    def __init__(self, binding_seconds: float = VOLUME_BINDING_SECONDS) -> None:
        self._binding_seconds = binding_seconds

    def indifferent(self, pod: PodInfo, cluster: Cluster) -> bool:
        return pod.volumes is None or not (pod.volumes.claims and cluster.storage.known)

    def pre_filter(self, cycle: Cycle) -> Status:
        pod = cycle.pod
        if pod.volumes is None or not pod.volumes.claims:
            return SKIP
        try:
            needs = needs_of(pod.pod, pod.volumes.claims, cycle.cluster.storage)
        except UnusableVolume as exc:
            return Status(StatusCode.WAIT if exc.soon else StatusCode.UNRESOLVABLE, NAME, str(exc))
        cycle.state[NAME] = _VolumeState(needs)
        return SUCCESS

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        state: _VolumeState | None = cycle.state.get(NAME)
        if state is None or node.node is None:
            return SUCCESS
        cycle.cluster.fleet.effort.charge(1 + len(state.needs.waiting) // _CLAIMS_A_STEP)
        found = state.needs.on(node.node)
        return Status(StatusCode.UNRESOLVABLE, NAME, found) if isinstance(found, str) else SUCCESS

    def reserve(self, cycle: Cycle, node: NodeInfo) -> Status:
        state: _VolumeState | None = cycle.state.get(NAME)
        if state is None or node.node is None:
            return SUCCESS
        storage, uid = cycle.cluster.storage, cycle.pod.uid
        found = state.needs.on(node.node)
        if isinstance(found, str):
            return Status(
                StatusCode.UNSCHEDULABLE, NAME, f"the volumes do not suit node {node.name} any more"
            )
        state.choice = found
        for claim, volume in found.given:
            storage.give(volume, claim, uid)
        for claim in found.made:
            storage.place(key_of(claim), node.name, uid)
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: NodeInfo) -> None:
        if NAME in cycle.state:
            cycle.cluster.storage.take_back(cycle.pod.uid)

    def pre_bind(self, cycle: Cycle, node: NodeInfo) -> Sequence[Step]:
        state: _VolumeState | None = cycle.state.get(NAME)
        if state is None or not (state.choice.given or state.choice.made):
            return []
        given = [
            BindVolume(volume, key_of(claim), claim.metadata.uid) for claim, volume in state.choice.given
        ]
        made = [SelectNode(key_of(claim), claim.metadata.uid, node.name) for claim in state.choice.made]
        return [*given, *made, AwaitVolumes(node.name, tuple(given), tuple(made), self._binding_seconds)]

    # --- what may help ---

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        if isinstance(new, PersistentVolumeClaim):
            return pod.volumes is not None and key_of(new) in pod.volumes.named
        return self.helps_anyone(old, new)

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        if isinstance(new, CSIStorageCapacity) and isinstance(old, CSIStorageCapacity):
            return room_for(new) > room_for(old) or new.node_topology != old.node_topology
        if isinstance(new, Node) and isinstance(old, Node):
            return new.metadata.labels != old.metadata.labels
        if isinstance(new, StorageClass) and isinstance(old, StorageClass):
            return new.allowed_topologies != old.allowed_topologies
        if isinstance(new, CSIDriver) and isinstance(old, CSIDriver):
            return new.spec.storage_capacity != old.spec.storage_capacity
        if isinstance(new, CSINode):
            return old is None
        return True
