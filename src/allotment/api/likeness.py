"""Guesses which name somebody meant who wrote one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MOST_COMPARED = 1_000
"""The most names that are compared: each costs microseconds."""


def near(name: str, known: Iterable[str], *, least: float = 0.6) -> str:
    """``; did you mean …?`` if a known name is similar in at least the share ``least`` of its letters; else nothing."""
    by_lower = {each.lower(): each for each in sorted(set(known))[:_MOST_COMPARED]}
    close = get_close_matches(name.lower(), by_lower, n=2, cutoff=least)
    return f"; did you mean {' or '.join(by_lower[each] for each in close)}?" if close else ""
