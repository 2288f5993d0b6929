"""Places one pod: chooses its node and devices, or says why no node fits. It decides and reserves in memory and writes
nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from allotment.allocator.effort import Paused
from allotment.scheduler.binding.step import in_order
from allotment.scheduler.diagnosis import NoNode, refused_by, refused_everywhere
from allotment.scheduler.framework import Cycle, Filter, Status, StatusCode
from allotment.scheduler.index import Index
from allotment.scheduler.node import NodeInfo
from allotment.scheduler.volumes.likeness import likeness

if TYPE_CHECKING:
    from allotment.scheduler.binding.step import Step
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.config.profile import GlobalPlugin, Profile
    from allotment.scheduler.pod import PodInfo

VERDICTS_KEPT = 2_000_000
FEWEST_SHAPES = 16
ENOUGH_NODES = 100
"""If scores depend on other nodes, the placer compares this many fitting nodes, those with the best local scores."""
EXTRA = "extra"
"""The key in a cycle's state for what the pod's devices cost of the node's own resources."""


@dataclass(slots=True)
class Placement:
    """A pod that has its node and devices in memory. ``steps`` are still to be written."""

    cycle: Cycle
    node: str
    steps: Sequence[Step]


@dataclass(slots=True)
class Attempt:
    """What is known about a pod before the placer chooses a node."""

    cycle: Cycle
    profile: Profile
    shape: Hashable
    index: Index
    filters: list[Filter]  # the filters that read other nodes
    scores: list[GlobalPlugin]


class Rejections(Mapping[str, Status]):
    """The rejection of each node, computed on first access because it is seldom needed."""

    def __init__(self, work_out: Callable[[], dict[str, Status]]) -> None:
        self._work_out = work_out

    @cached_property
    def _all(self) -> dict[str, Status]:
        return self._work_out()

    def __getitem__(self, name: str) -> Status:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


class Placer:
    """Places pods on a cluster, each by the profile that it names."""

    def __init__(self, cluster: Cluster, profiles: Mapping[str, Profile]) -> None:
        self._cluster = cluster
        self._profiles = profiles
        self._unasked = frozenset[str]().union(*(each.unasked for each in profiles.values()))
        self._indexes: OrderedDict[Hashable, Index] = OrderedDict()

    def place(self, pod: PodInfo, now: float) -> Placement | NoNode:
        """Chooses the best node and reserves what the pod needs there."""
        attempt = self.begin(pod, now)
        return attempt if isinstance(attempt, NoNode) else self.finish(attempt)

    def finish(self, attempt: Attempt) -> Placement | NoNode:
        """Chooses the best node for a pod after ``begin``, and reserves what it needs there."""
        node = self.choose(attempt)
        return node if isinstance(node, NoNode) else self.reserve(attempt, node)

    def begin(self, pod: PodInfo, now: float) -> Attempt | NoNode:
        """Runs PreFilter: prepares an attempt, or returns why no node can fit."""
        profile = self._profiles[pod.pod.spec.scheduler_name or ""]
        cycle = Cycle(pod, self._cluster, now)
        seen: Hashable = None
        if profile.devices is not None:
            status = profile.devices.pre_filter(cycle)
            if not status.ok and status.code is not StatusCode.SKIP:
                return refused_by(status)
            seen = profile.devices.shape(cycle)
        group = pod.group if self._cluster.nominated else ""  # its members share kept room
        shape: tuple[Hashable, ...] = (profile.name, pod.asks, seen, group)
        index = self._index(shape, profile, cycle)
        if pod.volumes is not None:  # a local verdict does not cover volumes
            shape = (*shape, likeness(pod.volumes, self._cluster.storage))
        if index.refusal is not None:
            return refused_by(index.refusal)
        if index.cycle.names is not None:
            cycle.restrict(index.cycle.names)
        attempt = Attempt(cycle, profile, shape, index, [], [])
        return self._begin_everywhere(attempt) or attempt

    def _begin_everywhere(self, attempt: Attempt) -> NoNode | None:
        pod = attempt.cycle.pod
        for plugin in attempt.profile.everywhere:
            if plugin.indifferent(pod, self._cluster):
                continue
            skipped = False
            if plugin.pre_filter is not None:
                status = plugin.pre_filter.pre_filter(attempt.cycle)
                skipped = status.code is StatusCode.SKIP
                if not status.ok and not skipped:
                    return refused_by(status)
            if plugin.filter is not None and not skipped:
                attempt.filters.append(plugin.filter)
            if plugin.scores(attempt.cycle, ()):
                attempt.scores.append(plugin)
        return None

    def _index(self, shape: Hashable, profile: Profile, cycle: Cycle) -> Index:
        index = self._indexes.get(shape)
        if index is None or index.epoch != self._cluster.epoch:
            most = max(FEWEST_SHAPES, VERDICTS_KEPT // (1 + len(self._cluster.nodes)))
            while len(self._indexes) >= most:
                self._indexes.popitem(last=False)
            own = Cycle(
                cycle.pod, cycle.cluster, cycle.now, dict(cycle.state)
            )  # the restriction of one pod must not reach the others of its shape
            index = self._indexes[shape] = Index(profile, own)
        else:
            self._indexes.move_to_end(shape)
        return index

    # --- Filter and Score ---

    def choose(self, attempt: Attempt) -> str | NoNode:
        """The best node that fits."""
        cleared = self._cleared(attempt)
        if isinstance(cleared, str):
            return cleared
        found = self._choose(attempt)
        if cleared is not None and isinstance(found, NoNode):  # add what the kept room still lacks
            return replace(found, plugins=found.plugins | {cleared.plugin})
        return found

    def _choose(self, attempt: Attempt) -> str | NoNode:
        cycle, index = attempt.cycle, attempt.index
        if cycle.names is None and not attempt.filters and not attempt.scores:
            best = index.best()
            if best is not None:
                return best
            return replace(self._refusal(attempt, index.rejections), lasting=index.lasting)
        fitting, rejections = self._fitting(attempt)
        if not fitting:
            return self._refusal(attempt, rejections)
        return self._best(attempt, fitting)

    def _cleared(self, attempt: Attempt) -> str | Status | None:
        """The node that was cleared for this pod if the pod fits there now, else the reason. None if no node was cleared for
        it."""
        cycle = attempt.cycle
        node = self._cluster.nodes.get(self._cluster.nominated.get(cycle.pod.key, ""))
        if node is None or (cycle.names is not None and node.name not in cycle.names):
            return None
        verdict = self.verdict(attempt, node, without=attempt.profile.room_keeper)
        return node.name if isinstance(verdict, int) else verdict

    def judge(self, attempt: Attempt, node: NodeInfo) -> int | Status:
        """Like ``verdict``, but also correct if pods were removed on trial since the attempt began."""
        if attempt.filters:
            again = self.begin(attempt.cycle.pod, attempt.cycle.now)
            if isinstance(again, NoNode):
                return Status(StatusCode.UNRESOLVABLE, "", again.words)
            attempt = again
        return self.verdict(attempt, node)

    def verdict(self, attempt: Attempt, node: NodeInfo, *, without: str = "") -> int | Status:
        """The local score of one node or its rejection, with the filters for spreading and neighbours. The caller may leave out
        one plugin."""
        verdict = attempt.index.judge(node, without=without)
        rejected = self._passes(attempt, node) if isinstance(verdict, int) else None
        return verdict if rejected is None else rejected

    def rejection(self, attempt: Attempt, node: NodeInfo, *, without: str = "") -> Status | None:
        """Like ``verdict`` without the score; None means that the pod fits."""
        return attempt.index.rejection(node, without=without) or self._passes(attempt, node)

    def rejections(self, attempt: Attempt) -> Mapping[str, Status]:
        """The rejection of each node that does not fit, computed on first access."""
        return Rejections(lambda: self._rejections(attempt))

    def _rejections(self, attempt: Attempt) -> dict[str, Status]:
        nodes, names = self._cluster.nodes, attempt.cycle.names
        known = attempt.index.verdicts() if names is None else {}
        found: dict[str, Status] = {}
        for name in sorted(nodes if names is None else names & nodes.keys()):
            verdict = known.get(name)
            if not isinstance(verdict, Status):
                verdict = self.verdict(attempt, nodes[name])
            if isinstance(verdict, Status):
                found[name] = verdict
        return found

    def _fitting(self, attempt: Attempt) -> tuple[list[tuple[int, str]], dict[Status, int]]:
        cycle, index, nodes = attempt.cycle, attempt.index, self._cluster.nodes
        rejections: dict[Status, int] = {}
        if cycle.names is None:
            candidates = index.fitting()
            rejections.update(index.rejections)
        else:
            candidates = []
            for name in sorted(cycle.names & nodes.keys()):
                if nodes[name].node is None:  # the node is not among those that count
                    continue
                verdict = index.judge(nodes[name])
                if isinstance(verdict, int):
                    candidates.append((verdict, name))
                else:
                    rejections[verdict] = rejections.get(verdict, 0) + 1
            candidates.sort(key=lambda item: (-item[0], item[1]))
        found: list[tuple[int, str]] = []
        for score, name in candidates:
            status = self._passes(attempt, nodes[name])
            if status is None:
                found.append((score, name))
                if len(found) >= ENOUGH_NODES:
                    break
            else:
                rejections[status] = rejections.get(status, 0) + 1
        return found, rejections

    def _passes(self, attempt: Attempt, node: NodeInfo) -> Status | None:
        for plugin in attempt.filters:
            status = plugin.filter(attempt.cycle, node)
            if not status.ok:
                return status
        return None

    def _best(self, attempt: Attempt, fitting: Sequence[tuple[int, str]]) -> str:
        totals = {name: score for score, name in fitting}
        nodes = [self._cluster.nodes[name] for name in totals]
        for plugin in attempt.scores:
            if plugin.scores(attempt.cycle, nodes):
                for name, score in plugin.scored(attempt.cycle, nodes).items():
                    totals[name] += score
        return min(totals, key=lambda name: (-totals[name], name))

    def _refusal(self, attempt: Attempt, rejections: Mapping[Status, int]) -> NoNode:
        refusal = refused_everywhere(rejections, self._cluster.known, self._unasked)
        devices = attempt.profile.devices
        return (
            refusal if devices is None else replace(refusal, words=devices.told(attempt.cycle, refusal.words))
        )

    # --- Reserve ---

    def reserve(self, attempt: Attempt, name: str) -> Placement | NoNode:
        """Takes what the pod needs on the node and assumes the pod there. If that fails, it leaves nothing behind."""
        placed = self.take(attempt, name)
        if isinstance(placed, Placement):
            self._cluster.assume(placed.cycle.pod, name, placed.cycle.state.get(EXTRA))
        return placed

    def take(self, attempt: Attempt, name: str) -> Placement | NoNode:
        """Like ``reserve``, for a pod whose binding the caller shows at once. The cluster counts its other resources then."""
        cycle, node = attempt.cycle, self._cluster.nodes[name]
        self._cluster.fleet.effort.take()
        for number, plugin in enumerate(attempt.profile.reserve):
            try:
                status = plugin.reserve(cycle, node)
            except Paused:
                for undone in reversed(attempt.profile.reserve[: number + 1]):
                    undone.unreserve(cycle, node)
                raise
            if not status.ok:
                for undone in reversed(attempt.profile.reserve[: number + 1]):
                    undone.unreserve(cycle, node)
                return refused_by(status)
        steps = [step for plugin in attempt.profile.pre_bind for step in plugin.pre_bind(cycle, node)]
        return Placement(cycle, name, in_order(steps))

    def unreserve(self, cycle: Cycle, name: str) -> None:
        """Gives back what ``reserve`` took, in reverse order."""
        profile = self._profiles[cycle.pod.pod.spec.scheduler_name or ""]
        self._cluster.forget(cycle.pod)
        node = self._cluster.nodes.get(name) or NodeInfo(
            name
        )  # the node may be gone, and this must not bring it back
        for plugin in reversed(profile.reserve):
            plugin.unreserve(cycle, node)

    def validate(self) -> None:
        """Raises AssertionError where a remembered verdict differs from what the plugins say now."""
        for index in self._indexes.values():
            index.validate()
