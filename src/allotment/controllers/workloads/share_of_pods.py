"""A number of pods, or a part of all of them in percent, as deployments and disruption budgets have them."""

from __future__ import annotations


def share(value: int | str | None, total: int, *, round_up: bool) -> int:
    """How many of ``total`` are meant. What is neither a number nor a percentage counts as none."""
    if isinstance(value, int):
        return value
    digits, percent, rest = (value or "").partition("%")
    if not percent or rest or not digits.isdecimal():
        return 0
    parts = int(digits) * total
    return -(-parts // 100) if round_up else parts // 100
