"""NodeVolumeLimits: a node takes no more volumes of a CSI driver than its CSINode allows. A pod also stays off nodes that lack a
driver which requires that.

The plugin identifies a volume by driver and handle, so a volume that several pods of a node share counts once. A volume that does
not exist yet counts by its claim. Volumes attached to the node count too, no matter which pod uses them. Inline volumes of a
driver do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from allotment.api.core import Node, Pod
from allotment.api.meta import key_of
from allotment.api.storage import (
    CSIDriver,
    CSINode,
    PersistentVolumeClaim,
    VolumeAttachment,
    class_of,
)
from allotment.scheduler.framework import SKIP, SUCCESS, ObjectAction, Status, StatusCode, Wake
from allotment.scheduler.volumes.in_tree import DRIVERS, driver_on, migrated_disk
from allotment.scheduler.volumes.pod_volumes import PodVolumes, volumes_of
from allotment.scheduler.volumes.storage import Storage

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.framework import Cycle
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo

NAME = "NodeVolumeLimits"
_TOO_MANY = Status(StatusCode.UNSCHEDULABLE, NAME, "exceed max volume count")

Handle = tuple[str, str]
"""Driver, and the volume's name there."""


class NodeVolumeLimits:
    """The filter that counts the CSI volumes of a node against its limits."""

    name = NAME
    local = False
    wakes: Sequence[Wake] = (
        Wake(CSINode, frozenset((ObjectAction.ADD, ObjectAction.UPDATE))),
        Wake(CSIDriver, frozenset((ObjectAction.UPDATE, ObjectAction.DELETE))),
        Wake(Node, frozenset((ObjectAction.ADD,))),
        Wake(Pod, frozenset((ObjectAction.DELETE,))),
        Wake(PersistentVolumeClaim, frozenset((ObjectAction.ADD, ObjectAction.UPDATE))),
        Wake(VolumeAttachment, frozenset((ObjectAction.DELETE,))),
    )

    def indifferent(self, pod: PodInfo, cluster: Cluster) -> bool:
        named = pod.volumes is not None and (pod.volumes.claims or pod.volumes.migrated)
        return not (named and cluster.storage.known)

    def pre_filter(self, cycle: Cycle) -> Status:
        return SKIP if self.indifferent(cycle.pod, cycle.cluster) else SUCCESS

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        storage, volumes = cycle.cluster.storage, cycle.pod.volumes
        csi_node = storage.nodes.get(node.name)
        wanted = set(handles(volumes, csi_node, storage)) if volumes is not None else set()
        missing = next((driver for driver, _ in sorted(wanted) if _lacks(driver, csi_node, storage)), "")
        if missing:
            return Status(StatusCode.UNSCHEDULABLE, NAME, f"do not have the {missing} CSI driver installed")
        limits = limits_of(csi_node)
        if not limits or not any(driver in limits for driver, _ in wanted):
            return SUCCESS
        there = set(_attached(node, storage))
        for other in node.pods.values():
            if other.volumes is not None:
                there.update(handles(other.volumes, csi_node, storage))
        more = Counter(driver for driver, _ in wanted - there)
        have = Counter(driver for driver, _ in there)
        full = any(
            have[driver] + count > limits[driver] for driver, count in more.items() if driver in limits
        )
        return _TOO_MANY if full else SUCCESS

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        if isinstance(new, PersistentVolumeClaim):
            return pod.volumes is not None and key_of(new) in pod.volumes.named
        return True

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        if isinstance(old, Pod):
            theirs = volumes_of(old) if old.spec.volumes else None
            return theirs is not None and bool(theirs.claims or theirs.migrated)
        if isinstance(new, CSINode) and isinstance(old, CSINode):
            before, now = limits_of(old), limits_of(new)
            names = {each.name for each in new.spec.drivers} - {each.name for each in old.spec.drivers}
            raised = any(now.get(driver, count + 1) > count for driver, count in before.items())
            return bool(names) or raised
        return True


def limits_of(csi_node: CSINode | None) -> dict[str, int]:
    """How many volumes of each driver a node may have. A driver that is missing has no limit."""
    drivers = csi_node.spec.drivers if csi_node is not None else ()
    return {
        each.name: each.allocatable.count
        for each in drivers
        if each.allocatable is not None and each.allocatable.count is not None
    }


def handles(volumes: PodVolumes, csi_node: CSINode | None, storage: Storage) -> Iterator[Handle]:
    """The volumes of CSI drivers that a pod has on a node."""
    for disk in volumes.migrated:
        if driver := driver_on(csi_node, disk.plugin):
            yield driver, disk.name
    for named in volumes.claims:
        claim = storage.claims.get(named.key)
        found = _handle(claim, csi_node, storage) if claim is not None else None
        if found is not None:
            yield found


def _handle(claim: PersistentVolumeClaim, csi_node: CSINode | None, storage: Storage) -> Handle | None:
    volume = storage.volumes.get(claim.spec.volume_name or "")
    if volume is None:
        kind = storage.classes.get(class_of(claim))
        driver = kind.provisioner if kind is not None else ""
        if driver in DRIVERS:
            driver = driver_on(csi_node, driver)
        return (driver, f"claim {key_of(claim)}") if driver else None
    csi, disk = volume.pv.spec.csi, migrated_disk(volume.pv.spec)
    if csi is not None:
        return (csi.driver, csi.volume_handle) if csi.driver and csi.volume_handle else None
    driver = driver_on(csi_node, disk.plugin) if disk is not None else ""
    return (driver, disk.name) if disk is not None and driver else None


def _attached(node: NodeInfo, storage: Storage) -> Iterator[Handle]:
    for attachment in storage.attachments.get(node.name, {}).values():
        spec = attachment.spec
        volume = storage.volumes.get(spec.source.persistent_volume_name or "")
        csi = volume.pv.spec.csi if volume is not None else None
        if spec.attacher and csi is not None:
            yield spec.attacher, csi.volume_handle


def _lacks(driver: str, csi_node: CSINode | None, storage: Storage) -> bool:
    """Whether a node lacks a driver that requires its pods to run where it is installed."""
    known = storage.drivers.get(driver)
    if known is None or not known.spec.prevent_pod_scheduling_if_missing:
        return False
    return csi_node is None or all(each.name != driver for each in csi_node.spec.drivers)
