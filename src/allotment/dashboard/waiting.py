"""Pods without a node, with the scheduler's own words for the reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from allotment.api.core import Pod

ROWS_LISTED = 200
"""How many pods are listed, the longest waiting first; of more, only the number is given."""
_MESSAGE_LENGTH = 2000


def waiting(pods: Iterable[Pod]) -> dict[str, Any]:
    """How many pods wait, and those that have waited longest."""
    mine = [pod for pod in pods if pod.status.phase in (None, "Pending")]
    mine.sort(
        key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.namespace, pod.metadata.name)
    )
    return {"count": len(mine), "pods": [_row(pod) for pod in mine[:ROWS_LISTED]]}


def _row(pod: Pod) -> dict[str, Any]:
    told = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    return {
        "namespace": pod.metadata.namespace,
        "name": pod.metadata.name,
        "since": pod.metadata.creation_timestamp,
        "reason": (told.reason if told is not None else None) or "",
        "message": ((told.message if told is not None else None) or "")[:_MESSAGE_LENGTH],
    }
