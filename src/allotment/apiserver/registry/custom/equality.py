"""Equality of JSON values, and how much work a comparison is."""

from __future__ import annotations

from typing import Any, Final

import msgspec

_BYTES_A_STEP: Final = 50


def same(one: Any, other: Any) -> bool:
    """Equality as JSON has it, where ``true`` is not 1 and 1 is not 1.0."""
    if one.__class__ is not other.__class__:
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            name in other and same(value, other[name]) for name, value in one.items()
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def chosen(value: Any, choice: Any) -> bool:
    """Whether a value is a choice; numbers are compared as the choice's type has them."""
    if isinstance(value, float) and type(choice) is int:
        return int(value) == choice
    if type(value) is int and isinstance(choice, float):
        return float(value) == choice
    return same(value, choice)


def steps(value: Any) -> int:
    """How many checks of a small value take as long as comparing or showing this one."""
    if isinstance(value, dict | list):
        return 1 + len(msgspec.json.encode(value)) // _BYTES_A_STEP
    return 1
