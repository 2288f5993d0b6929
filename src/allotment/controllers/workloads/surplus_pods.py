"""Which pods are deleted first when there are too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from allotment.api.core import Pod
from allotment.api.timestamps import moment
from allotment.controllers.pod_state import finished, is_ready, ready_since

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def first_to_go(pods: Iterable[Pod], related: Iterable[Pod]) -> list[Pod]:
    """Upstream's preference: not bound, pending, not ready, cheap, doubled up on a node, ready for less long, newer."""
    crowd = Counter(pod.spec.node_name for pod in related if is_ready(pod) and not finished(pod))

    def rank(pod: Pod) -> tuple[bool, int, bool, int, int, float, float, str]:
        ready = moment(ready_since(pod))
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase or "", 0),
            is_ready(pod),
            _deletion_cost(pod),
            -crowd[pod.spec.node_name],
            -ready.timestamp() if ready is not None else 0.0,
            _newness(pod),
            pod.metadata.uid,
        )

    return sorted(pods, key=rank)


def _deletion_cost(pod: Pod) -> int:
    text = pod.metadata.annotations.get(_DELETION_COST, "0")
    return int(text) if len(text) < 12 and text.removeprefix("-").isdecimal() else 0


def _newness(pod: Pod) -> float:
    created = moment(pod.metadata.creation_timestamp)
    return float("-inf") if created is None else -created.timestamp()
