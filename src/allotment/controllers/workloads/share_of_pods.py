"""A number of pods, or a percentage of all pods, as in deployments and disruption budgets."""

from __future__ import annotations


def share(value: int | str | None, total: int, *, round_up: bool) -> int:
    """How many of ``total`` are meant. A value that is neither a number nor a percentage counts as none."""
    if isinstance(value, int):
        return value
    digits, percent, rest = (value or "").partition("%")
    if not percent or rest or not digits.isdecimal():
        return 0
    parts = int(digits) * total
    return -(-parts // 100) if round_up else parts // 100
