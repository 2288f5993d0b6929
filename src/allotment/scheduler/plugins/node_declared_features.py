"""NodeDeclaredFeatures: a pod that uses a feature which not every kubelet has runs on nodes that declare it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from allotment.api.core import Node, PodSpec
from allotment.scheduler.framework import SKIP, SUCCESS, ObjectAction, Status, StatusCode, Wake

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.framework import Cycle
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo

NAME = "NodeDeclaredFeatures"
RESTART_ALL = "RestartAllContainersOnContainerExits"
HOST_NETWORK_USERS = "UserNamespacesHostNetworkSupport"
BIND_OPTIONS = "VolumeBindMountOptions"


class NodeDeclaredFeatures:
    """The filter that compares what a pod uses with what a node declares."""

    name = NAME
    local = True
    wakes: Sequence[Wake] = (Wake(Node, frozenset((ObjectAction.ADD, ObjectAction.UPDATE))),)

    def pre_filter(self, cycle: Cycle) -> Status:
        needed = frozenset(features_needed(cycle.pod.pod.spec))
        if not needed:
            return SKIP
        cycle.state[NAME] = needed
        return SUCCESS

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        declared = node.node.status.declared_features if node.node is not None else ()
        lacking = sorted(cycle.state[NAME].difference(declared))
        if not lacking:
            return SUCCESS
        words = f"do not declare the feature{'s' * (len(lacking) > 1)} {', '.join(lacking)}"
        return Status(StatusCode.UNRESOLVABLE, NAME, words)

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        return self.helps_anyone(old, new)

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        if isinstance(old, Node) and isinstance(new, Node):
            return old.status.declared_features != new.status.declared_features
        return True


def features_needed(spec: PodSpec) -> Iterator[str]:
    """The features that a pod uses, by the names under which nodes declare them."""
    containers = (*spec.containers, *spec.init_containers)
    if any(
        rule.action == "RestartAllContainers" for each in containers for rule in each.restart_policy_rules
    ):
        yield RESTART_ALL
    if spec.host_network and spec.host_users is False:
        yield HOST_NETWORK_USERS
    if any(mount.bind_mount_options for each in containers for mount in each.volume_mounts):
        yield BIND_OPTIONS
