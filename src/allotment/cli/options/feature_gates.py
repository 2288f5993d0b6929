"""``--feature-gates NAME=true|false,…``: parts that can be switched off, by the names from their proposals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

DEVICES = "devices"
"""Stands for the scheduler's part: without it, pods that use claims wait."""
GATES: dict[str, tuple[str, ...]] = {
    "DRAResourceAvailabilityVisibility": ("pools",),
    "DynamicResourceAllocation": ("claims", "device-taints", "pools", "parameters", DEVICES),
}
"""The parts that each gate switches; all gates are on by default. Kinds stay served, and running pods keep running."""
_WORDS = {"true": True, "false": False}


def _switched_off(ctx: click.Context, parameter: click.Parameter, value: str | None) -> frozenset[str]:
    gates = dict.fromkeys(GATES, True)
    for part in (value or "").split(",") if value is not None else ():
        name, _, word = (text.strip() for text in part.partition("="))
        if name not in GATES:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(GATES)}")
        if word.lower() not in _WORDS:
            raise click.BadParameter(f"write {name}=true or {name}=false")
        gates[name] = _WORDS[word.lower()]
    return frozenset(part for name, on in gates.items() if not on for part in GATES[name])


def feature_gates_option(function: F) -> F:
    """Passes ``switched_off: frozenset[str]``: the names of controllers that must not run, and DEVICES."""
    option = click.option(
        "--feature-gates",
        "switched_off",
        metavar="NAME=BOOL,…",
        callback=_switched_off,
        help=f"switch parts off or on: {', '.join(GATES)} (on)",
    )
    return option(function)
