"""Which nodes a shape of pod fits on, best first, kept up to date as nodes change.

A shape stands for all pods that ask for the same: equal spec, equal unallocated claims. The index asks local plugins
(``framework``) once per node, and again only when that node changed. So the cost of placing a pod depends on what changed since
the last pod of its shape, not on the number of nodes. Nodes that look alike to all plugins are judged once. If a pod can never
run on a node, whatever else runs there (``Status.lasting``), the index asks again only when the node itself or its devices
change. It keeps each verdict: a score where the pod fits, the rejecting status where it does not. It also counts the nodes of
each status, for the explanation.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING

from allotment.scheduler.framework import (
    Cycle,
    Filter,
    Plugin,
    PreFilter,
    Score,
    Sees,
    Shaping,
    Sight,
    Status,
    StatusCode,
)

if TYPE_CHECKING:
    from allotment.allocator.fleet import NodePlace
    from allotment.api.core import Node
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.config.profile import Profile
    from allotment.scheduler.node import NodeInfo

_ALIKE_KEPT = 10_000
UNKNOWN_NODE = Status(StatusCode.UNRESOLVABLE, "", "are not known")


class Index:
    """The verdicts of all nodes for one shape. ``cycle`` belongs to a representative pod: local plugins keep in it what follows
    from the shape."""

    def __init__(self, profile: Profile, cycle: Cycle) -> None:
        self.cycle = cycle
        self.epoch = cycle.cluster.epoch  # the cluster's epoch for which the index was made
        self._cluster: Cluster = cycle.cluster
        self.refusal: Status | None = None  # of a local PreFilter: the shape fits nowhere
        self._filters: list[Filter] = []
        self._scores: list[tuple[Score, int]] = []
        self._sights: dict[Sight, None] | None = {}  # None: every node counts as different
        self._alike: dict[tuple[Hashable, ...], int | Status] = {}
        for plugin in profile.local:
            self._enlist(plugin, profile.weight(plugin))
        self._verdicts: dict[str, int | Status] = {}
        self._lasting: dict[str, tuple[Node, NodePlace | None]] = {}  # nodes as rejected for good
        self._heap: list[tuple[int, str]] = []
        self.rejections: dict[Status, int] = {}
        self._read = self._fleet_read = -1
        self._pending: dict[str, None] = {}  # nodes that changed and have not been judged since

    def _enlist(self, plugin: Plugin, weight: int) -> None:
        own = isinstance(plugin, Shaping)  # its PreFilter runs for each pod
        if isinstance(plugin, PreFilter) and not own:
            status = plugin.pre_filter(self.cycle)
            if status.code is StatusCode.SKIP:
                return
            if not status.ok and self.refusal is None:
                self.refusal = status
        if isinstance(plugin, Filter):
            self._filters.append(plugin)
        if isinstance(plugin, Score) and weight:
            self._scores.append((plugin, weight))
        sight = plugin.sees(self.cycle) if isinstance(plugin, Sees) else None
        if sight is None:
            self._sights = None
        elif self._sights is not None:
            self._sights[sight] = None

    # --- questions ---

    def best(self) -> str | None:
        """The node with the highest score; among equals, the first by name."""
        self.catch_up()
        heap, verdicts = self._heap, self._verdicts
        while heap:
            score, name = heap[0]
            if verdicts.get(name) == -score:
                return name
            heappop(heap)
        return None

    @property
    def lasting(self) -> bool:
        """Whether, when last asked, all nodes rejected the shape for good."""
        return len(self._lasting) == len(self._verdicts) > 0

    def fitting(self) -> list[tuple[int, str]]:
        """All nodes that fit, with their scores, best first."""
        self.catch_up()
        fitting = [(-verdict, name) for name, verdict in self._verdicts.items() if isinstance(verdict, int)]
        fitting.sort()
        return [(-score, name) for score, name in fitting]

    def verdicts(self) -> dict[str, int | Status]:
        """The verdicts of all nodes. The caller must not change the mapping."""
        self.catch_up()
        return self._verdicts

    def judge(self, node: NodeInfo, *, without: str = "") -> int | Status:
        """The score of one node in its present state, or its rejection. The caller may leave out the filter of one plugin."""
        status = self.rejection(node, without=without)
        if status is not None:
            return status
        total = 0
        for scorer, weight in self._scores:
            total += weight * scorer.score(self.cycle, node)
        return total

    def rejection(self, node: NodeInfo, *, without: str = "") -> Status | None:
        """Why a node does not fit; None if it fits. Like ``judge``, without the cost of the score."""
        if node.node is None:
            return UNKNOWN_NODE
        self._cluster.fleet.effort.take()
        for judge in self._filters:
            status = judge.filter(self.cycle, node)
            if status.code is not StatusCode.SUCCESS and (not without or status.plugin != without):
                return status
        return None

    # --- keeping up ---

    def catch_up(self) -> None:
        """Judges the nodes that changed. Raises Paused when the steps of a turn are used up; finished verdicts are kept."""
        names, judged = self._stale(), 0
        if self._pending:
            names = {**self._pending, **dict.fromkeys(names)}
        try:
            for name in names:
                self._look_again(name)
                judged += 1
        finally:
            self._pending = dict.fromkeys(islice(names, judged, None)) if judged < len(names) else {}
        if len(self._heap) > 64 + 4 * len(self._verdicts):
            self._heap = [(-v, name) for name, v in self._verdicts.items() if isinstance(v, int)]
            heapify(self._heap)

    def _look_again(self, name: str) -> None:
        """Judges a node, unless it rejected the shape for good and has not changed since."""
        info, place, lasting = (
            self._cluster.nodes.get(name),
            self._cluster.fleet.places.get(name),
            self._lasting,
        )
        node = info.node if info is not None else None
        for_good = lasting.get(name)
        if for_good is not None and for_good[0] is node and for_good[1] is place:
            return
        verdict = None if info is None or node is None else self._judge_alike(info)
        self._set(name, verdict)
        if node is not None and isinstance(verdict, Status) and verdict.lasting:
            lasting[name] = node, self._cluster.fleet.places.get(name)
        elif for_good is not None:
            del lasting[name]

    def _judge_alike(self, node: NodeInfo) -> int | Status:
        """Like ``judge``, but judges nodes only once if they look alike to all plugins."""
        if self._sights is None:
            return self.judge(node)
        look = tuple([sight(node) for sight in self._sights])
        verdict = self._alike.get(look)
        if verdict is None:
            verdict = self.judge(node)
            if None not in look:
                if len(self._alike) >= _ALIKE_KEPT:
                    self._alike.clear()
                self._alike[look] = verdict
        return verdict

    def _stale(self) -> dict[str, object]:
        log, fleet = self._cluster.log, self._cluster.fleet
        changed = log.since(self._read) if self._read >= 0 else None
        behind = self._fleet_read < fleet.log_start
        devices = [] if behind else fleet.log[self._fleet_read - fleet.log_start :]
        self._read, self._fleet_read = log.end, fleet.log_start + len(fleet.log)
        if changed is None or behind:
            return {**self._verdicts, **self._cluster.nodes}
        names: dict[str | None, None] = dict.fromkeys([*changed, *devices])
        if None in names:  # a pool that several nodes reach changed
            del names[None]
            names.update((place.name, None) for place in fleet.places.values() if place.reaches)
        return names  # type: ignore[return-value]  # None is not among them any more

    def _set(self, name: str, verdict: int | Status | None) -> None:
        before = self._verdicts.get(name)
        if verdict == before:
            return
        if isinstance(before, Status):
            left = self.rejections[before] - 1
            if left:
                self.rejections[before] = left
            else:
                del self.rejections[before]
        if verdict is None:
            del self._verdicts[name]
            return
        self._verdicts[name] = verdict
        if isinstance(verdict, int):
            heappush(self._heap, (-verdict, name))
        else:
            self.rejections[verdict] = self.rejections.get(verdict, 0) + 1

    def validate(self) -> None:
        """Raises AssertionError where a remembered verdict differs from what the plugins say now."""
        self.catch_up()
        present = {name for name, node in self._cluster.nodes.items() if node.node is not None}
        assert present == set(self._verdicts), "verdicts of other nodes than there are"
        counts: dict[Status, int] = {}
        for name, verdict in self._verdicts.items():
            node = self._cluster.nodes[name]
            fresh = self.judge(node)
            if isinstance(fresh, Status) and name in self._lasting:
                # Another reason may come first by now.
                assert verdict in [each.filter(self.cycle, node) for each in self._filters], f"node {name}"
                fresh = verdict
            assert fresh == verdict, f"node {name}: {verdict} is remembered, {fresh} is so"
            if isinstance(verdict, Status):
                counts[verdict] = counts.get(verdict, 0) + 1
        assert counts == self.rejections, "rejections are counted wrong"
