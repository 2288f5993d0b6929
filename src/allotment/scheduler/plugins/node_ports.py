"""NodePorts: no two pods on one node listen on the same port of the host.

Two ports clash if their protocols and numbers are equal, and their addresses are equal or one of them is the wildcard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from allotment.api.core import Node, Pod
from allotment.scheduler.framework import SKIP, SUCCESS, Cycle, ObjectAction, Status, StatusCode, Wake

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import HostPort, PodInfo

_EVERY_ADDRESS = "0.0.0.0"
_TAKEN = Status(StatusCode.UNSCHEDULABLE, "NodePorts", "have a host port in use that the pod needs")


class NodePorts:
    """The filter that rejects nodes on which a wanted host port is taken."""

    name = "NodePorts"
    local = True
    wakes: Sequence[Wake] = (
        Wake(Pod, frozenset({ObjectAction.DELETE})),
        Wake(Node, frozenset({ObjectAction.ADD})),
    )

    def pre_filter(self, cycle: Cycle) -> Status:
        return SUCCESS if cycle.pod.ports else SKIP

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        return _TAKEN if node.ports and _clash(cycle.pod.ports, node.ports) else SUCCESS

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """A new node can help, and so can a pod that leaves a node and had a port with a number that this pod needs."""
        if isinstance(old, Pod):
            return new is None and not _port_numbers(old).isdisjoint(port.port for port in pod.ports)
        return isinstance(new, Node)

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        return not isinstance(old, Pod) or (bool(old.spec.node_name) and bool(_port_numbers(old)))


def _port_numbers(pod: Pod) -> set[int]:
    return {
        port.host_port
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for port in container.ports
        if port.host_port
    }


def _clash(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    return any(
        one.port == other.port
        and one.protocol == other.protocol
        and (one.ip == other.ip or _EVERY_ADDRESS in (one.ip, other.ip))
        for one in wanted
        for other in taken
    )
