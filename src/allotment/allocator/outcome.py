"""What an attempt to allocate comes to. All four are values; nothing is a silent time-out.

Outcome
├── Allocated       every claim has its devices
├── Unsatisfiable   they do not fit, with a proof and, on request, reasons down to each device
├── Invalid         the question makes no sense, and which object is at fault
└── GaveUp          the budget of steps ran out before either was known
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from allotment.allocator.demand_view import Group
    from allotment.allocator.errors import AllocationError
    from allotment.allocator.matching import Shortage
    from allotment.allocator.problem import Problem
    from allotment.allocator.reasons import NodeReason
    from allotment.allocator.search import DeviceChoice
    from allotment.api.resource import AllocationResult

__all__ = ["Allocated", "GaveUp", "InvalidInput", "Nowhere", "Unsatisfiable"]


@dataclass(slots=True)
class Allocated:
    """One result per claim, in the order of the claims. Nothing is committed yet."""

    node: str
    results: list[AllocationResult]
    choices: list[DeviceChoice]
    steps: int


@dataclass(slots=True)
class Unsatisfiable:
    """No choice of devices works on this node.

    ``shortage`` is a certificate that counting confirms; without one, the search tried everything there is.
    """

    node: str
    problem: Problem
    steps: int
    shortage: Shortage | None

    def reasons(self) -> NodeReason:
        """Why, down to each device. Worked out when asked for: the search itself does not need it."""
        from allotment.allocator.reasons import explain

        return explain(self.problem, self.shortage)


@dataclass(slots=True)
class InvalidInput:
    """An error instead of an answer. A NodeError is this node's alone; other nodes may fit."""

    node: str
    error: AllocationError
    steps: int = 0


@dataclass(slots=True)
class GaveUp:
    """The search was cut off after so many steps."""

    node: str
    steps: int


Outcome = Allocated | Unsatisfiable | InvalidInput | GaveUp


@dataclass(slots=True)
class Nowhere:
    """No node of a fleet can take the claims. ``groups`` sorts the nodes by what they have in common."""

    groups: Callable[[], list[Group]]
