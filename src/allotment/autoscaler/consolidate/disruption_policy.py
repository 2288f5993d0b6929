"""When nodes of a NodePool may be removed according to its ``spec.disruption``, with Karpenter's terms and defaults.

``consolidateAfter`` is how long a node is left alone after a pod came or left; 0 by default. A budget limits how many nodes
of the pool may be removed at a time: a number, or a percentage of the pool's nodes, rounded up. It applies always, or for
some time after each time of a cron schedule (UTC), and to all reasons or some. Among active budgets, the strictest counts. A
pool without budgets has one of 10 %; a pool whose budgets are all inactive has no limit.

A policy that cannot be read keeps all nodes: validation refuses it, but a cluster may contain it all the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from allotment.api.autoscaling import Disruption, DisruptionBudget
from allotment.api.cron import CronError, Schedule, seconds

if TYPE_CHECKING:
    from allotment.api.autoscaling import NodePool

EMPTY, UNDERUTILIZED = "Empty", "Underutilized"
"""Why a node is removed."""
WHEN_EMPTY = "WhenEmpty"
NEVER = "Never"
BUDGETS_UNLESS_GIVEN = (DisruptionBudget(nodes="10%"),)
UNLIMITED = 2**31
_NODES = re.compile(r"(100|[0-9]{1,2})%|([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class DisruptionPolicy:
    """A pool's policy for its nodes."""

    pool: str
    disruption: Disruption

    @classmethod
    def of(cls, pool: NodePool) -> DisruptionPolicy:
        return cls(pool.metadata.name, pool.spec.disruption or Disruption())

    def keeps(self, *, empty: bool, quiet: float) -> str:
        """Why a node stays that no pod came to or left for ``quiet`` seconds; empty if the policy allows its removal."""
        policy, after = self.disruption.consolidation_policy, self.disruption.consolidate_after or "0s"
        if after == NEVER:
            return f"pool {self.pool} keeps its nodes: consolidateAfter is {NEVER}"
        if policy == WHEN_EMPTY and not empty:
            return (
                f"pool {self.pool} allows only empty nodes to be removed: consolidationPolicy is {WHEN_EMPTY}"
            )
        wait = seconds(after)
        if wait is None:
            return f"pool {self.pool} has a consolidateAfter that cannot be read"
        if quiet < wait:
            return f"a pod came or went {max(0, int(quiet))} s ago, and pool {self.pool} waits for {after}"
        return ""

    def allowed(self, reason: str, nodes: int, now: float) -> int:
        """How many of the pool's nodes may be in removal at a time for a reason."""
        budgets = self.disruption.budgets or BUDGETS_UNLESS_GIVEN
        limits = [_limit(each, nodes, now) for each in budgets if not each.reasons or reason in each.reasons]
        return min(limits, default=UNLIMITED)


def _limit(budget: DisruptionBudget, nodes: int, now: float) -> int:
    match = _NODES.fullmatch(budget.nodes)
    try:
        active = _active(budget, now)
    except CronError:
        return 0
    if match is None:
        return 0
    if not active:
        return UNLIMITED
    return -(-nodes * int(match[1]) // 100) if match[1] is not None else int(match[2])


def _active(budget: DisruptionBudget, now: float) -> bool:
    """Raises CronError."""
    if budget.schedule is None and budget.duration is None:
        return True
    length = seconds(budget.duration or "")
    if length is None:
        raise CronError("a schedule needs a duration")
    schedule = Schedule.parse(budget.schedule or "")
    return schedule.last(datetime.fromtimestamp(now, UTC), timedelta(seconds=length)) is not None
