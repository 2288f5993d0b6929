"""Which volumes a pod's claims get on a node, as slowly and plainly as it can be said: for each claim, the smallest of its size first,
look at every volume in turn. Written apart from the matching that it is held against, from what Kubernetes' documentation says.
"""

from __future__ import annotations

from collections.abc import Sequence

from allotment.api.core import Node, NodeSelectorTerm
from allotment.api.storage import PersistentVolume, PersistentVolumeClaim


def choices(
    claims: Sequence[PersistentVolumeClaim], volumes: Sequence[PersistentVolume], node: Node
) -> dict[str, str | None]:
    """For each claim by name its volume on the node; None: there is none for it."""
    found: dict[str, str | None] = {}
    for claim in sorted(claims, key=lambda each: each.spec.resources.requests["storage"].nanos):
        found[claim.metadata.name] = one(claim, volumes, node, list(found.values()))
    return found


def one(
    claim: PersistentVolumeClaim,
    volumes: Sequence[PersistentVolume],
    node: Node,
    taken: Sequence[str | None],
) -> str | None:
    best: PersistentVolume | None = None
    for volume in sorted(volumes, key=lambda each: each.metadata.name):
        if volume.metadata.name in taken or not could_be(claim, volume):
            continue
        ref = volume.spec.claim_ref
        if ref is not None:
            return volume.metadata.name if reached(volume, node) else None
        smaller = best is None or size(volume) < size(best)
        if smaller and free(claim, volume) and reached(volume, node):
            best = volume
    return best.metadata.name if best is not None else None


def could_be(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    ref, asked, spec = volume.spec.claim_ref, claim.spec, volume.spec
    if asked.storage_class_name != spec.storage_class_name:
        return False
    if ref is not None and (ref.name != claim.metadata.name or ref.uid not in (None, claim.metadata.uid)):
        return False
    if size(volume) < asked.resources.requests["storage"].nanos:
        return False
    modes_equal = (asked.volume_mode or "Filesystem") == (spec.volume_mode or "Filesystem")
    return modes_equal and volume.metadata.deletion_timestamp is None


def free(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    if volume.status.phase != "Available":
        return False
    if any(mode not in volume.spec.access_modes for mode in claim.spec.access_modes):
        return False
    wanted = claim.spec.selector.match_labels if claim.spec.selector is not None else {}
    return all(volume.metadata.labels.get(key) == value for key, value in wanted.items())


def reached(volume: PersistentVolume, node: Node) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return any(holds(term, node) for term in affinity.required.node_selector_terms)


def holds(term: NodeSelectorTerm, node: Node) -> bool:
    """Of tests with In and Exists only."""
    for test in term.match_expressions:
        value = node.metadata.labels.get(test.key)
        if value is None or (test.operator == "In" and value not in test.values):
            return False
    return bool(term.match_expressions)


def size(volume: PersistentVolume) -> int:
    return volume.spec.capacity["storage"].nanos
