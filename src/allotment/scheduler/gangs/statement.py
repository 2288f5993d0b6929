"""Placements on trial: the statement keeps all of them, or takes all back in reverse order.

A ``Placement`` is what Volcano's batch scheduler calls a BindContext: the task, its node, and the steps as data, each of which
can be undone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from allotment.scheduler.placement import Attempt, Placement, Placer

if TYPE_CHECKING:
    from allotment.scheduler.diagnosis import NoNode

Veto = Callable[[Placement], "NoNode | None"]
"""Returns an objection to a placement, once the pod's devices are known."""


class Statement:
    """A list of placements on trial. Each placement counts in every later question to the cluster."""

    def __init__(self, placer: Placer, veto: Veto | None = None) -> None:
        self._placer = placer
        self._veto = veto
        self.placements: list[Placement] = []

    def __enter__(self) -> Statement:
        return self

    def __exit__(self, *_: object) -> None:
        """Takes back what was not committed, even if the trial is interrupted."""
        self.discard()

    def place(self, attempt: Attempt, node: str) -> Placement | NoNode:
        """Reserves what a pod needs on a node, unless the veto objects to what it got."""
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
