"""What somebody may have meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MOST = 1_000
"""Names that are compared at most: each costs microseconds."""


def near(name: str, known: Iterable[str], *, least: float = 0.6) -> str:
    """``; did you mean …?``, if anything that is known is like it, by ``least`` of its letters; else nothing."""
    by_lower = {each.lower(): each for each in sorted(set(known))[:_MOST]}
    close = get_close_matches(name.lower(), by_lower, n=2, cutoff=least)
    return f"; did you mean {' or '.join(by_lower[each] for each in close)}?" if close else ""
