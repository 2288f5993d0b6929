"""Counts and names, as they are told to people."""

from __future__ import annotations

from collections.abc import Sequence


def count_of(number: int, word: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def few(names: Sequence[str], most: int = 5) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
