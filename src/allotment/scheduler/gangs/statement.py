"""Placements on trial: all are kept, or all are taken back in reverse order.

A ``Placement`` is what Volcano's batch scheduler calls a BindContext: the task, its node, and the steps to do, as data, each of
which knows how to be undone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from allotment.scheduler.placement import Attempt, Placement, Placer

if TYPE_CHECKING:
    from allotment.scheduler.diagnosis import NoNode

Veto = Callable[[Placement], "NoNode | None"]
"""What is said against a placement once it is known what the pod got."""


class Statement:
    """See the module. What is placed counts for everything that is asked afterwards."""

    def __init__(self, placer: Placer, veto: Veto | None = None) -> None:
        self._placer = placer
        self._veto = veto
        self.placements: list[Placement] = []

    def __enter__(self) -> Statement:
        return self

    def __exit__(self, *_: object) -> None:
        """Takes back what was not committed, also when a trial is interrupted."""
        self.discard()

    def place(self, attempt: Attempt, node: str) -> Placement | NoNode:
        """Reserves what a pod needs on a node, unless something is said against what it got."""
        placed = self._placer.reserve(attempt, node)
        if isinstance(placed, Placement):
            self.placements.append(placed)
            refusal = self._veto(placed) if self._veto is not None else None
            if refusal is not None:
                self.discard(len(self.placements) - 1)
                return refusal
        return placed

    def discard(self, keep: int = 0) -> None:
        """Takes back all but the first ``keep`` placements."""
        while len(self.placements) > keep:
            placed = self.placements.pop()
            self._placer.unreserve(placed.cycle, placed.node)

    def commit(self) -> list[Placement]:
        """Lets the placements stand."""
        placements, self.placements = self.placements, []
        return placements
