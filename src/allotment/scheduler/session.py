"""The batch session: a gang is tried whole on the cluster as it is, inside a statement that is committed or discarded.

First the members are taken one after another, each to its best node; that nearly always answers. If fewer than the gang
needs find a place so, the order or the choice of devices may be to blame, and the search is joint: members that ask for the
same are one class, what fits together on a node is asked of the allocator for all their claims at once, and ``gang_search``
puts the nodes together. So whether a gang fits does not depend on the order of its pods.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from allotment.allocator.outcome import Allocated
from allotment.scheduler.diagnosis import Refusal
from allotment.scheduler.gang_search import Assignments, Bundle, GaveUp, frontier
from allotment.scheduler.placement import Attempt, Placement, Placer
from allotment.scheduler.statement import Statement

if TYPE_CHECKING:
    from allotment.api.resource import AllocationResult, ResourceClaim
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.gang import Gang
    from allotment.scheduler.pod import PodInfo

STEPS = 20_000
MOST_NODES = 256
MOST_TRIALS = 256
"""Assignments tried for real, where nodes depend on each other."""

Names = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Domain:
    """Nodes among which all members have to be; ``words`` says which."""

    names: Names
    words: str = ""


class Session:
    """Places gangs on a cluster."""

    def __init__(self, cluster: Cluster, placer: Placer) -> None:
        self._cluster = cluster
        self._placer = placer

    def place(self, gang: Gang, pods: Sequence[PodInfo], need: int, now: float) -> list[Placement] | Refusal:
        """Places at least ``need`` of the pods, and as many more as fit; or none, and says why."""
        best: Refusal | None = None
        for domain in self._domains(gang):
            statement = Statement(self._placer)
            trial = _Trial(self._cluster, self._placer, statement, domain.names, now)
            refusal = trial.one_by_one(pods)
            if len(statement.placements) >= max(need, 1):
                return statement.commit()
            fitted = len(statement.placements)
            statement.discard()
            if need > 0 and refusal is not None and trial.jointly(pods, need):
                return statement.commit()
            best = best or self._refusal(gang, need, fitted, refusal, domain, trial.gave_up)
        return best or Refusal(
            f"no node has the labels {', '.join(gang.topology)}", frozenset(("NodeAffinity",))
        )

    def _domains(self, gang: Gang) -> list[Domain]:
        if not gang.topology:
            return [Domain(None)]
        found: dict[tuple[str, ...], set[str]] = {}
        for name, node in self._cluster.nodes.items():
            values = tuple(node.labels.get(key, "") for key in gang.topology)
            if node.node is not None and all(values):
                found.setdefault(values, set()).add(name)
        return [Domain(frozenset(names), ", ".join(values)) for values, names in sorted(found.items())]

    def _refusal(
        self, gang: Gang, need: int, fitted: int, why: Refusal | None, domain: Domain, gave_up: bool
    ) -> Refusal:
        assert why is not None
        where = f" in {domain.words}" if domain.words else ""
        told = (
            "gave up the search"
            if gave_up
            else f"only {fitted} of {max(need, 1)} pods that it needs fit{where}"
        )
        words = f"gang {gang.name}: {told}; for the next one {why.words}"
        return Refusal(words, why.plugins, why.error, why.resolvable)


class _Trial:
    """One attempt to place a gang inside one domain."""

    def __init__(
        self, cluster: Cluster, placer: Placer, statement: Statement, names: Names, now: float
    ) -> None:
        self._cluster = cluster
        self._placer = placer
        self._statement = statement
        self._names = names
        self._now = now
        self._known: dict[tuple[str, Bundle], bool] = {}
        self.gave_up = False

    def begin(self, pod: PodInfo) -> Attempt | Refusal:
        attempt = self._placer.begin(pod, self._now)
        if isinstance(attempt, Attempt) and self._names is not None:
            attempt.cycle.restrict(self._names)
        return attempt

    # --- one after another ---

    def one_by_one(self, pods: Sequence[PodInfo]) -> Refusal | None:
        """Places every pod that fits where it fits best; returns why the first one did not."""
        first: Refusal | None = None
        refused: set[Hashable] = set()  # shapes that do not fit any more
        for pod in pods:
            attempt = self.begin(pod)
            if isinstance(attempt, Refusal):
                first = first or attempt
                continue
            if attempt.shape in refused:
                continue
            node = self._placer.choose(attempt)
            placed = node if isinstance(node, Refusal) else self._statement.place(attempt, node)
            if isinstance(placed, Refusal):
                first = first or placed
                refused.add(attempt.shape)
        return first

    # --- jointly ---

    def jointly(self, pods: Sequence[PodInfo], need: int) -> bool:
        """Searches for a way to place at least ``need`` of the pods; True if it is in the statement now."""
        classes = self._classes(pods)
        counts = tuple(len(members) for members in classes)
        nodes = self._candidates(classes)
        if sum(counts) < need or not nodes:
            return False
        try:
            frontiers = [frontier(counts, partial(self._fits, node, classes)) for node in nodes]
            for assignment in islice(Assignments(counts, frontiers, need, STEPS), MOST_TRIALS):
                if self._realise(nodes, classes, assignment) >= need:
                    return True
                self._statement.discard()
        except GaveUp:
            self.gave_up = True
        return False

    def _classes(self, pods: Sequence[PodInfo]) -> list[list[PodInfo]]:
        """The pods that have any chance, those that ask for the same together."""
        classes: dict[Hashable, list[PodInfo]] = {}
        for pod in pods:
            attempt = self.begin(pod)
            if isinstance(attempt, Attempt):
                labels = tuple(sorted(pod.pod.metadata.labels.items())) if attempt.filters else ()
                classes.setdefault((attempt.shape, labels), []).append(pod)
        return list(classes.values())

    def _candidates(self, classes: Sequence[Sequence[PodInfo]]) -> list[str]:
        """Nodes that fit at least one member, best first."""
        scores: dict[str, int] = {}
        for members in classes:
            attempt = self.begin(members[0])
            if isinstance(attempt, Attempt):
                for score, name in self._fitting(attempt):
                    scores[name] = max(scores.get(name, 0), score)
        names = sorted(scores, key=lambda name: (-scores[name], name))
        self.gave_up = len(names) > MOST_NODES
        return names[:MOST_NODES]

    def _fitting(self, attempt: Attempt) -> list[tuple[int, str]]:
        names = attempt.cycle.names
        return [(score, name) for score, name in attempt.index.fitting() if names is None or name in names]

    def _fits(self, node: str, classes: Sequence[Sequence[PodInfo]], bundle: Bundle) -> bool:
        """Whether a bundle fits on a node that has none of the gang yet."""
        known = self._known.get((node, bundle))
        if known is None:
            known = self._known[node, bundle] = self._place_bundle(node, _members(classes, bundle))
            self._statement.discard()
        return known

    def _realise(
        self, nodes: Sequence[str], classes: Sequence[Sequence[PodInfo]], assignment: Sequence[Bundle]
    ) -> int:
        """Places an assignment for real; returns how many got their place."""
        used = [0] * len(classes)
        for node, bundle in zip(nodes, assignment, strict=True):
            members = _members([c[u:] for c, u in zip(classes, used, strict=True)], bundle)
            used = [u + count for u, count in zip(used, bundle, strict=True)]
            self._place_bundle(node, members)
        return len(self._statement.placements)

    def _place_bundle(self, node: str, members: Sequence[PodInfo]) -> bool:
        """Places members on one node, together if not one after another. Leaves nothing of them behind if it fails."""
        before = len(self._statement.placements)
        if all(self._place_one(node, pod) for pod in members):
            return True
        self._statement.discard(before)
        if self._place_together(node, members):
            return True
        self._statement.discard(before)
        return False

    def _place_one(self, node: str, pod: PodInfo) -> bool:
        attempt = self.begin(pod)
        if isinstance(attempt, Refusal) or not self._allowed(attempt, node):
            return False
        if not isinstance(self._placer.verdict(attempt, self._cluster.nodes[node]), int):
            return False
        return isinstance(self._statement.place(attempt, node), Placement)

    def _allowed(self, attempt: Attempt, node: str) -> bool:
        return attempt.cycle.names is None or node in attempt.cycle.names

    def _place_together(self, node: str, members: Sequence[PodInfo]) -> bool:
        """As above, with the devices of all members chosen in one search."""
        wanted: dict[str, ResourceClaim] = {}
        for pod in members:
            attempt = self.begin(pod)
            if isinstance(attempt, Refusal) or attempt.profile.devices is None:
                return False
            wanted.update(attempt.profile.devices.pending(attempt.cycle, self._cluster.nodes[node]))
        if not wanted:
            return False
        outcome = self._cluster.fleet.allocate(node, list(wanted.values()))
        if not isinstance(outcome, Allocated):
            return False
        chosen = dict(zip(wanted, outcome.results, strict=True))
        return all(self._place_chosen(node, pod, chosen) for pod in members)

    def _place_chosen(self, node: str, pod: PodInfo, chosen: dict[str, AllocationResult]) -> bool:
        attempt = self.begin(pod)
        if isinstance(attempt, Refusal) or not self._allowed(attempt, node):
            return False
        devices = attempt.profile.devices
        assert devices is not None
        devices.prescribe(attempt.cycle, self._cluster.nodes[node], chosen)
        verdict = self._placer.verdict(attempt, self._cluster.nodes[node], without=devices.name)
        placed = isinstance(verdict, int) and isinstance(self._statement.place(attempt, node), Placement)
        devices.prescribe(attempt.cycle, self._cluster.nodes[node], None)
        return placed


def _members(classes: Sequence[Sequence[PodInfo]], bundle: Bundle) -> list[PodInfo]:
    return [pod for members, count in zip(classes, bundle, strict=True) for pod in members[:count]]
