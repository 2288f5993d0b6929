"""The labels and annotations that say what is played, and how long things take. What does not read as a number is not there."""

from __future__ import annotations

import math

from allotment.api.core import Node, Pod
from allotment.api.resource import ResourceSlice

SIMULATED = "allotment.dev/simulated"
RUN_SECONDS = "allotment.dev/run-seconds"
EXIT_CODE = "allotment.dev/exit-code"
BINDING_SECONDS_MARK = "allotment.dev/binding-seconds"

LONGEST_SECONDS = 10 * 365 * 86_400.0
"""Seconds; more would be beyond what dates can be counted with."""


def is_simulated(node: Node | None) -> bool:
    return node is not None and node.metadata.labels.get(SIMULATED) == "true"


def run_seconds(pod: Pod) -> float | None:
    """How long the pod's containers run; None: until they are stopped."""
    return seconds(pod.metadata.annotations.get(RUN_SECONDS))


def exit_code(pod: Pod) -> int:
    """With what the pod's containers end, 0 to 255."""
    text = pod.metadata.annotations.get(EXIT_CODE, "0")
    return min(int(text), 255) if text.isascii() and text.isdecimal() and len(text) <= 3 else 0


def binding_seconds(slice: ResourceSlice) -> float | None:
    """How long the slice's driver takes to make its devices ready; None: no driver is played."""
    return seconds(slice.metadata.annotations.get(BINDING_SECONDS_MARK))


def seconds(text: str | None) -> float | None:
    """A number of them, not too many; None if it does not read as one."""
    try:
        found = float(text) if text else math.nan
    except ValueError:
        return None
    return min(found, LONGEST_SECONDS) if found >= 0 else None
