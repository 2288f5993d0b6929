"""The batch session: a gang is tried whole on the cluster as it is, inside a statement that is committed or discarded.

First the session places the members one after another, each on its best node. That nearly always settles the matter. If it places
fewer members than the gang needs, the order or the choice of devices may be to blame, and the search becomes joint. Members that
ask for the same form one class, the allocator says what fits together on a node for all their claims at once, and
``member_placement`` combines the nodes. So whether a gang fits does not depend on the order of its pods.

The joint search cannot see two things. Other devices for the members on one node might leave the right devices of a pool that
several nodes reach. And some members fit on a node only because of others elsewhere (affinity, spreading). In these cases the
session tries the best assignments for real. If none works, it answers that it gave up the search, not that the gang cannot fit.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.gangs.gang import GANG, task_of
from allotment.scheduler.gangs.member_placement import Assignments, Bundle, SearchCutOff, frontier
from allotment.scheduler.gangs.statement import Statement
from allotment.scheduler.placement import Attempt, Placement, Placer
from allotment.scheduler.plugins.node_affinity import NodeAffinity

if TYPE_CHECKING:
    from allotment.api.resource import AllocationResult, ResourceClaim
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.gangs.gang import Gang, GangNeed
    from allotment.scheduler.gangs.statement import Veto
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo

JOINT_STEPS = 100_000
MOST_JOINT_NODES = 256
MOST_ASSIGNMENTS = 64
"""How many assignments are tried for real if nodes depend on each other."""
MOST_PLACED = 20_000
"""How many members are placed on trial in all: about a second's work. A gang of many kinds of pods could otherwise take for
ever."""

Names = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Domain:
    """The nodes to which all members are confined; ``words`` describes them."""

    names: Names
    words: str = ""


class Session:
    """Places gangs on a cluster."""

    def __init__(self, cluster: Cluster, placer: Placer) -> None:
        self._cluster = cluster
        self._placer = placer

    def place(
        self,
        gang: Gang,
        pods: Sequence[PodInfo],
        need: GangNeed,
        now: float,
        *,
        jointly: bool = True,
        veto: Veto | None = None,
    ) -> list[Placement] | NoNode:
        """Places as many pods as needed and as many more as fit, or places none and says why. ``jointly`` allows the joint search
        if placing them one after another fails. ``veto`` may reject a placement."""
        if not need.met_by(pods):
            return NoNode(f"gang {gang.name}: {len(pods)} pods are not enough", frozenset((GANG,)))
        refusals: list[NoNode] = []
        budget, gave_up = MOST_PLACED, False
        for domain in self._domains(gang):
            statement = Statement(self._placer, veto)
            trial = _DomainTrial(self._cluster, self._placer, statement, domain.names, now, budget)
            with statement:
                refusal = trial.one_by_one(pods)
                if need.met_by(placed.cycle.pod for placed in statement.placements):
                    return statement.commit()
                fitted = len(statement.placements)
                statement.discard()
                if jointly and need and refusal is not None and trial.jointly(pods, need):
                    return statement.commit()
            assert refusal is not None, "every pod has its place, and that is not enough"
            told = self._refusal(gang, need, fitted, refusal, domain, gave_up=trial.gave_up)
            refusals.insert(0 if trial.gave_up and not gave_up else len(refusals), told)
            budget, gave_up = trial.budget, gave_up or trial.gave_up
        if not refusals:
            words = f"no node has the labels {', '.join(gang.topology)}"
            return NoNode(words, frozenset((NodeAffinity.name,)))  # what wakes it is a node with other labels
        return _together(refusals)

    def _domains(self, gang: Gang) -> list[Domain]:
        """The domains that may hold all members. Members that are placed already fix the domain."""
        if not gang.topology:
            return [Domain(None)]
        nodes = self._cluster.nodes
        placed = [pod.node for pod in self._cluster.members.get(gang.key, {}).values() if pod.node]
        taken = {_values(nodes[name], gang.topology) for name in placed}
        found: dict[tuple[str, ...], set[str]] = {}
        for name, node in nodes.items():
            values = _values(node, gang.topology)
            if node.node is not None and all(values) and taken <= {values}:
                found.setdefault(values, set()).add(name)
        return [Domain(frozenset(names), ", ".join(values)) for values, names in sorted(found.items())]

    def _refusal(
        self, gang: Gang, need: GangNeed, fitted: int, why: NoNode, domain: Domain, *, gave_up: bool
    ) -> NoNode:
        where = f" in {domain.words}" if domain.words else ""
        count = max(need.count, 1)
        told = f"{'only ' if fitted else ''}{fitted} of {count} pods that it needs fit{where}"
        if fitted >= count:
            told = f"too few pods of a task fit{where}"
        if gave_up:
            told = f"gave up the search; one after another {told}"
        words = f"gang {gang.name}: {told}; for the {'next' if fitted else 'first'} one {why.words}"
        return NoNode(words, why.plugins, why.error, why.resolvable)


def _together(refusals: Sequence[NoNode]) -> NoNode:
    """The first of several refusals, with the plugins of all of them."""
    return replace(
        refusals[0],
        plugins=frozenset().union(*(each.plugins for each in refusals)),
        error=all(each.error for each in refusals),
        resolvable=any(each.resolvable for each in refusals),
    )


def _values(node: NodeInfo, topology: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(node.labels.get(key, "") for key in topology)


class _DomainTrial:
    """One attempt to place a gang inside one domain."""

    def __init__(
        self,
        cluster: Cluster,
        placer: Placer,
        statement: Statement,
        names: Names,
        now: float,
        budget: int = MOST_PLACED,
    ) -> None:
        self._cluster = cluster
        self._placer = placer
        self._statement = statement
        self._names = names
        self._now = now
        self._known: dict[tuple[str, Bundle], bool] = {}
        self.budget = budget  # how many members may still be placed on trial
        self.gave_up = False  # True if the search was incomplete, so the gang might still fit

    def begin(self, pod: PodInfo) -> Attempt | NoNode:
        attempt = self._placer.begin(pod, self._now)
        if isinstance(attempt, Attempt) and self._names is not None:
            attempt.cycle.restrict(self._names)
        return attempt

    # --- one after another ---

    def one_by_one(self, pods: Sequence[PodInfo]) -> NoNode | None:
        """Places every pod that fits on its best node. Returns why the first other pod did not fit, and what could help any of
        them."""
        refusals: list[NoNode] = []
        refused: set[Hashable] = set()  # shapes that no longer fit
        for pod in pods:
            attempt = self.begin(pod)
            if isinstance(attempt, NoNode):
                refusals.append(attempt)
                continue
            if attempt.shape in refused:
                continue
            node = self._placer.choose(attempt)
            placed = node if isinstance(node, NoNode) else self._statement.place(attempt, node)
            if isinstance(placed, NoNode):
                refusals.append(placed)
                refused.add(attempt.shape)
        return _together(refusals) if refusals else None

    # --- jointly ---

    def jointly(self, pods: Sequence[PodInfo], need: GangNeed) -> bool:
        """Searches for a way to place as many pods as needed. Returns True if the statement now holds it."""
        classes = self._classes(pods)
        if not need.met_by(pod for members in classes for pod in members):
            return False
        nodes = self._candidates(classes)
        counts = tuple(len(members) for members in classes)
        try:
            frontiers = [frontier(counts, partial(self._fits, node, classes)) for node in nodes]
            return self._first_that_works(
                nodes, classes, Assignments(counts, frontiers, need.count, JOINT_STEPS), need
            )
        except SearchCutOff:
            self.gave_up = True
            self._statement.discard()
        return False

    def _first_that_works(
        self, nodes: list[str], classes: list[list[PodInfo]], ways: Assignments, need: GangNeed
    ) -> bool:
        enough = (way for way in ways if need.met_by(_chosen(classes, way)))
        for way in islice(enough, MOST_ASSIGNMENTS):
            for order in (list(zip(nodes, way, strict=True)), list(zip(nodes, way, strict=True))[::-1]):
                if self._realise(order, classes, need):
                    return True
                self._statement.discard()
                self.gave_up = True  # each node could take its bundle alone, but not together with the others
        return False

    def _classes(self, pods: Sequence[PodInfo]) -> list[list[PodInfo]]:
        """The pods that may fit at all, grouped by what they ask for."""
        classes: dict[Hashable, list[PodInfo]] = {}
        for pod in pods:
            attempt = self.begin(pod)
            if isinstance(attempt, Attempt):
                labels = tuple(sorted(pod.pod.metadata.labels.items())) if attempt.filters else ()
                classes.setdefault((attempt.shape, labels, task_of(pod)), []).append(pod)
                self.gave_up |= bool(attempt.filters)  # pods elsewhere may let a member fit here
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
        self.gave_up |= len(names) > MOST_JOINT_NODES
        return names[:MOST_JOINT_NODES]

    def _fitting(self, attempt: Attempt) -> list[tuple[int, str]]:
        names = attempt.cycle.names
        return [(score, name) for score, name in attempt.index.fitting() if names is None or name in names]

    def _fits(self, node: str, classes: Sequence[Sequence[PodInfo]], bundle: Bundle) -> bool:
        """Whether a bundle fits on a node that holds no members yet."""
        known = self._known.get((node, bundle))
        if known is None:
            known = self._known[node, bundle] = self._place_bundle(node, _members(classes, bundle))
            self._statement.discard()
        return known

    def _realise(
        self, way: Sequence[tuple[str, Bundle]], classes: list[list[PodInfo]], need: GangNeed
    ) -> bool:
        """Places an assignment for real. Returns whether enough members got a place."""
        used = [0] * len(classes)
        for node, bundle in way:
            members = _members([c[u:] for c, u in zip(classes, used, strict=True)], bundle)
            used = [u + count for u, count in zip(used, bundle, strict=True)]
            self._place_bundle(node, members)
        return need.met_by(placed.cycle.pod for placed in self._statement.placements)

    def _place_bundle(self, node: str, members: Sequence[PodInfo]) -> bool:
        """Places members on one node, one after another or, if that fails, together. Leaves nothing behind if it fails."""
        self.budget -= 1 + len(members)
        if self.budget < 0:
            raise SearchCutOff
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
        if isinstance(attempt, NoNode) or not self._allowed(attempt, node):
            return False
        if not isinstance(self._placer.verdict(attempt, self._cluster.nodes[node]), int):
            return False
        return isinstance(self._statement.place(attempt, node), Placement)

    def _allowed(self, attempt: Attempt, node: str) -> bool:
        return attempt.cycle.names is None or node in attempt.cycle.names

    def _place_together(self, node: str, members: Sequence[PodInfo]) -> bool:
        """Like ``_place_bundle``, but chooses the devices of all members in one search."""
        wanted: dict[str, ResourceClaim] = {}
        for pod in members:
            attempt = self.begin(pod)
            if isinstance(attempt, NoNode) or attempt.profile.devices is None:
                return False
            wanted.update(attempt.profile.devices.pending(attempt.cycle, self._cluster.nodes[node]))
        if not wanted:
            return False
        results = self._cluster.fleet.fit(node, list(wanted.values()))
        if results is None:
            return False
        chosen = dict(zip(wanted, results, strict=True))
        return all(self._place_chosen(node, pod, chosen) for pod in members)

    def _place_chosen(self, node: str, pod: PodInfo, chosen: dict[str, AllocationResult]) -> bool:
        attempt = self.begin(pod)
        if isinstance(attempt, NoNode) or not self._allowed(attempt, node):
            return False
        devices = attempt.profile.devices
        assert devices is not None
        devices.prescribe(attempt.cycle, self._cluster.nodes[node], chosen)
        verdict = self._placer.verdict(attempt, self._cluster.nodes[node], without=devices.name)
        placed = isinstance(verdict, int) and isinstance(self._statement.place(attempt, node), Placement)
        devices.prescribe(attempt.cycle, self._cluster.nodes[node], None)
        return placed


def _chosen(classes: Sequence[Sequence[PodInfo]], way: Sequence[Bundle]) -> list[PodInfo]:
    """The members that an assignment places."""
    return _members(classes, tuple(map(sum, zip(*way, strict=True)))) if way else []


def _members(classes: Sequence[Sequence[PodInfo]], bundle: Bundle) -> list[PodInfo]:
    return [pod for members, count in zip(classes, bundle, strict=True) for pod in members[:count]]
