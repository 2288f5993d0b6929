"""The labels and annotations that control the simulation, with durations. A value that is not a number counts as absent."""

from __future__ import annotations

import math

from allotment.api.core import Node, Pod
from allotment.api.resource import ResourceSlice

SIMULATED = "allotment.dev/simulated"
RUN_SECONDS = "allotment.dev/run-seconds"
EXIT_CODE = "allotment.dev/exit-code"
BINDING_SECONDS_MARK = "allotment.dev/binding-seconds"

LONGEST_SECONDS = 10 * 365 * 86_400.0
"""Seconds; larger numbers would exceed the range of dates."""


def is_simulated(node: Node | None) -> bool:
    return node is not None and node.metadata.labels.get(SIMULATED) == "true"


def run_seconds(pod: Pod) -> float | None:
    """How long the pod's containers run; None: until they are stopped."""
    return seconds(pod.metadata.annotations.get(RUN_SECONDS))


def exit_code(pod: Pod) -> int:
    """The exit code of the pod's containers, 0 to 255."""
    text = pod.metadata.annotations.get(EXIT_CODE, "0")
    return min(int(text), 255) if text.isascii() and text.isdecimal() and len(text) <= 3 else 0


def binding_seconds(slice: ResourceSlice) -> float | None:
    """How long the slice's driver takes to prepare its devices; None: no driver is simulated."""
    return seconds(slice.metadata.annotations.get(BINDING_SECONDS_MARK))


def seconds(text: str | None) -> float | None:
    """A bounded number of seconds; None if the value is not a number."""
    try:
        found = float(text) if text else math.nan
    except ValueError:
        return None
    return min(found, LONGEST_SECONDS) if found >= 0 else None
