"""Which changes can help pods that could not get their devices.

Released devices may help any pod that waits for some, and so may new slices, classes, nodes and taint rules. Any other change of
a claim helps only the pods that use it: the claim was made, was allocated, or can take a further user. A pod that leaves helps by
freeing its node's own resources, if devices ever needed some (``node_allocatable``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from allotment.allocator.pool import DeviceID
from allotment.api.batch import PodGroup
from allotment.api.core import Node, Pod
from allotment.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.api.semantic import NodeResourceSlice

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.api.resource import DeviceRequestAllocationResult
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo


def helps_anyone(old: ApiStruct | None, new: ApiStruct | None) -> bool:
    """Most changes are claims on their way to allocation: they help only pods that wait for that claim. A finalizer helps no pod,
    and neither does a change of a slice, class or rule outside its spec."""
    if isinstance(old, ResourceClaim) and isinstance(new, ResourceClaim):
        return old.status != new.status or _standing(old) != _standing(new)
    if old is None or new is None:
        return not isinstance(old, Pod)
    if isinstance(old, Pod) and isinstance(new, Pod):
        # A status helps no pod: two schedulers that write different ones would wake each other for ever.
        return _noted(old) != _noted(new)
    if isinstance(old, Node) and isinstance(new, Node):
        return _other_node(old, new)
    for kind in (ResourceSlice, DeviceClass, DeviceTaintRule, NodeResourceSlice):
        if isinstance(old, kind) and isinstance(new, kind):
            return bool(old.spec != new.spec)
    return True


def concerns(old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> Iterable[str] | None:
    """The pods whose gate a change may open: those that use the claim, or the pod itself."""
    changed = new if new is not None else old
    if isinstance(changed, Pod):
        return (f"{changed.metadata.namespace}/{changed.metadata.name}",)
    if not isinstance(changed, ResourceClaim):
        return None if isinstance(changed, PodGroup) else ()
    meta = changed.metadata
    found = set(cluster.users.get(f"{meta.namespace}/{meta.name}", ()))
    for owner in meta.owner_references:
        if owner.kind == "PodGroup":
            return None
        if owner.kind == "Pod":
            found.add(f"{meta.namespace}/{owner.name}")
    return found


def helps_others(old: ApiStruct | None, new: ApiStruct | None) -> bool:
    """Whether a change may help pods that it does not concern: it released devices or added some."""
    if isinstance(old, ResourceClaim):
        return released(old, new if isinstance(new, ResourceClaim) else None)
    return left_node(old, new) or not isinstance(new, (ResourceClaim, Pod))


def helps(pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
    changed = new if new is not None else old
    if isinstance(changed, ResourceClaim):
        before = old if isinstance(old, ResourceClaim) else None
        after = new if isinstance(new, ResourceClaim) else None
        if before is not None and released(before, after):
            return True
        return _uses(pod, changed, cluster)
    if isinstance(changed, Pod):
        return changed.metadata.uid == pod.uid or left_node(old, new)
    if isinstance(changed, PodGroup):
        group = pod.pod.spec.scheduling_group
        return group is not None and group.pod_group_name == changed.metadata.name
    if isinstance(changed, (DeviceClass, ResourceSlice, Node)):
        return new is not None
    return True


def left_node(old: ApiStruct | None, new: ApiStruct | None) -> bool:
    """Whether a pod left that took something of a node's own resources."""
    return new is None and isinstance(old, Pod) and bool(old.spec.node_name)


def released(old: ResourceClaim, new: ResourceClaim | None) -> bool:
    """Whether a claim released some or all of its devices."""
    before = old.status.allocation
    if before is None:
        return False
    after = new.status.allocation if new is not None else None
    if after is None:
        return True
    left = {_id(result) for result in after.devices.results}
    return any(_id(result) not in left for result in before.devices.results)


def _id(result: DeviceRequestAllocationResult) -> tuple[DeviceID, str | None]:
    return DeviceID(result.driver, result.pool, result.device), result.share_id


def _noted(pod: Pod) -> object:
    """The claims that were made for a pod, according to its status."""
    return pod.status.resource_claim_statuses, pod.status.extended_resource_claim_status


def _standing(claim: ResourceClaim) -> object:
    """The part of a claim's metadata that decides which pods may use it."""
    meta = claim.metadata
    return meta.owner_references, meta.annotations, meta.deletion_timestamp


def _uses(pod: PodInfo, claim: ResourceClaim, cluster: Cluster) -> bool:
    """Whether a claim is one of the pod's, or may be."""
    meta = claim.metadata
    if meta.namespace != pod.namespace:
        return False
    if pod.key in cluster.users.get(f"{meta.namespace}/{meta.name}", ()):
        return True
    return any(owner.uid == pod.uid or owner.kind == "PodGroup" for owner in meta.owner_references)


def _other_node(old: Node, new: Node) -> bool:
    """Whether a node changed in what affects devices, or in how much it offers."""
    return (
        old.metadata.labels != new.metadata.labels
        or old.status.declared_features != new.status.declared_features
        or old.status.allocatable != new.status.allocatable
    )
