"""Whether the volumes of a pod are bound by now: the progress of the volume controller and provisioners after our writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.api.storage import SELECTED_NODE, belongs_to, is_bound
from allotment.scheduler.volumes.storage import Storage

if TYPE_CHECKING:
    from allotment.api.core import Node
    from allotment.scheduler.binding.step import AwaitVolumes, BindVolume, SelectNode


class BindingLost(Exception):
    """The volumes can no longer be bound as decided; the message says why."""


def are_bound(step: AwaitVolumes, node: Node | None, storage: Storage) -> bool:
    """Whether all volumes are bound. Raises BindingLost."""
    if node is None:
        raise BindingLost(f"node {step.node} is gone")
    given = [_given(each, node, storage) for each in step.given]
    made = [_made(each, node, storage) for each in step.made]
    return all(given) and all(made)


def _given(step: BindVolume, node: Node, storage: Storage) -> bool:
    volume, claim = storage.volumes.get(step.volume), storage.claims.get(step.claim)
    if volume is None:
        raise BindingLost(f"persistentvolume {step.volume} is gone")
    if claim is None or claim.metadata.uid != step.uid:
        raise BindingLost(f"persistentvolumeclaim {step.claim} is gone")
    if claim.spec.volume_name not in (None, "", step.volume):
        raise BindingLost(
            f"persistentvolumeclaim {step.claim} was bound to {claim.spec.volume_name} meanwhile"
        )
    if not volume.reached_from(node):
        raise BindingLost(
            f"persistentvolume {step.volume} is not reached from node {node.metadata.name} any more"
        )
    ref = volume.pv.spec.claim_ref
    if ref is None or not ref.uid or not belongs_to(volume.pv, claim):
        raise BindingLost(f"persistentvolume {step.volume} was taken from persistentvolumeclaim {step.claim}")
    return is_bound(claim)


def _made(step: SelectNode, node: Node, storage: Storage) -> bool:
    claim = storage.claims.get(step.claim)
    if claim is None or claim.metadata.uid != step.uid:
        raise BindingLost(f"persistentvolumeclaim {step.claim} is gone")
    if claim.metadata.annotations.get(SELECTED_NODE) != step.node:
        raise BindingLost(
            f"no volume could be made for persistentvolumeclaim {step.claim} on node {step.node}"
        )
    volume = storage.volumes.get(claim.spec.volume_name or "")
    if volume is not None and not volume.reached_from(node):
        raise BindingLost(f"persistentvolume {volume.name} is not reached from node {node.metadata.name}")
    return is_bound(claim) and volume is not None
