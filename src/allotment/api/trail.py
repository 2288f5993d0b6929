"""The way to a value while an object is walked over: a chain that costs nothing to lengthen, and is put into words when
there is something to tell. Joined texts would cost a copy of the whole way at every value, and keys may be megabytes long.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from allotment.api.text import shortened

Trail: TypeAlias = "tuple[Trail, str | int] | None"
"""The way to what holds the value, and the key or index in it; None is the whole object. A key in brackets is told as it is."""

LONGEST_TRAIL: Final = 1000
"""Characters of a way that are told: its two ends."""


def dotted(trail: Trail) -> str:
    """The way as ``spec.parts[0].name``, long keys shortened."""
    steps: list[str] = []
    while trail is not None:
        trail, step = trail
        told = f"[{step}]" if isinstance(step, int) else shortened(step)
        steps.append(told if told[:1] == "[" else f".{told}")
    text = "".join(reversed(steps))
    if len(text) > LONGEST_TRAIL:
        text = f"{text[: LONGEST_TRAIL // 2]}...{text[-LONGEST_TRAIL // 2 :]}"
    return text[1:] if text[:1] == "." else text
