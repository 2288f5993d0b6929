"""Which taints of nodes a pod tolerates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from allotment.api.core import Taint
from allotment.api.toleration import tolerates

if TYPE_CHECKING:
    from allotment.api.core import Toleration

BLOCKING = frozenset({"NoSchedule", "NoExecute"})
"""Effects that keep a pod off a node; PreferNoSchedule only lowers the node's score."""


CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""The taint that a pod must tolerate to run on a cordoned node."""


def tolerated(tolerations: Sequence[Toleration]) -> Callable[[Taint], bool]:
    """Whether any of these tolerations matches a taint."""
    if any(not (each.key or each.effect) and each.operator == "Exists" for each in tolerations):
        return lambda taint: True
    return lambda taint: any(tolerates(each, taint) for each in tolerations)


def keeps_off(taints: Sequence[Taint], accepts: Callable[[Taint], bool]) -> Taint | None:
    """The first taint that keeps a pod with these tolerations off a node, if any."""
    for taint in taints:
        if taint.effect in BLOCKING and not accepts(taint):
            return taint
    return None
