"""How far a pod has come, according to its status."""

from __future__ import annotations

from datetime import datetime

from allotment.api.core import Pod
from allotment.controllers.clock import left

BY_NODE = "spec.nodeName"
"""Index of pods: the node to which they are bound."""


def node_of(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def finished(pod: Pod) -> bool:
    """Whether all containers have ended and none will start again."""
    return pod.status.phase in ("Succeeded", "Failed")


def ready_since(pod: Pod) -> str | None:
    """When the pod became ready; None if it is not ready. A ready pod without a time counts as ready since its creation."""
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "True":
            return condition.last_transition_time or pod.metadata.creation_timestamp or ""
    return None


def is_ready(pod: Pod) -> bool:
    return ready_since(pod) is not None


def seconds_to_available(pod: Pod, min_ready_seconds: int, now: datetime) -> float | None:
    """How long the pod must still stay ready to count as available: 0 or less if it already does, None if it is not ready."""
    since = ready_since(pod)
    if since is None:
        return None
    return left(since, min_ready_seconds, now) if min_ready_seconds else 0.0
