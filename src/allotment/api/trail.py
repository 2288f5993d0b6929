"""The path to a value during a walk over an object: a chain that costs nothing to extend and becomes text only when there
is something to report. Joined strings would cost a copy of the whole path at every value, and keys may be megabytes long.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from allotment.api.text import shortened

Trail: TypeAlias = "tuple[Trail, str | int] | None"
"""The trail of the container, and the key or index in it; None is the whole object. A key in brackets is kept as it is."""

LONGEST_TRAIL: Final = 1000
"""The most characters of a path that messages show; of a longer one they show the two ends."""


def dotted(trail: Trail) -> str:
    """The path as ``spec.parts[0].name``, with long keys shortened."""
    steps: list[str] = []
    while trail is not None:
        trail, step = trail
        told = f"[{step}]" if isinstance(step, int) else shortened(step)
        steps.append(told if told[:1] == "[" else f".{told}")
    text = "".join(reversed(steps))
    if len(text) > LONGEST_TRAIL:
        text = f"{text[: LONGEST_TRAIL // 2]}...{text[-LONGEST_TRAIL // 2 :]}"
    return text[1:] if text[:1] == "." else text
