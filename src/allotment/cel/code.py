"""The compiler's output: closures over a frame, each with its fixed cost.

A frame is a list: the cost so far, the limit, whether an error was absorbed, how many list elements were copied,
then one slot a variable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from allotment.cel.errors import CelCostExceeded
from allotment.cel.values import Value

Frame: TypeAlias = list[Any]
Closure: TypeAlias = Callable[[Frame], Value]

COST_INDEX: Final = 0
LIMIT_INDEX: Final = 1
ABSORBED_INDEX: Final = 2
COPIED_INDEX: Final = 3

UNSET: Final = object()
"""What a slot of ``cel.bind`` holds until its value is asked for."""


@dataclass(frozen=True, slots=True)
class Code:
    """A closure, and the fixed cost of running it, besides the costs that it adds to the frame itself."""

    run: Closure
    cost: int
    constant: bool = False
    value: Value = None


def constant(value: Value, cost: int = 0) -> Code:
    return Code(lambda frame: value, cost, constant=True, value=value)


def charge(frame: Frame, cost: int) -> None:
    """Adds a cost that depends on values. Raises beyond the limit."""
    frame[COST_INDEX] += cost
    if frame[COST_INDEX] > frame[LIMIT_INDEX]:
        raise CelCostExceeded(frame[LIMIT_INDEX])
