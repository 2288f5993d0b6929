"""A profile: the plugins that decide about pods of one schedulerName, sorted by where they take part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from allotment.scheduler.framework import (
    Filter,
    Indifferent,
    KeepsRoom,
    Normalize,
    Plugin,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreScore,
    Reserve,
    Score,
    Shaping,
    StandsForUnasked,
    StatusCode,
)

if TYPE_CHECKING:
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.framework import Cycle
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.plugins.dynamic_resources import DynamicResources
    from allotment.scheduler.pod import PodInfo


class GlobalPlugin:
    """A plugin that also reads other nodes, and the extension points at which it takes part."""

    def __init__(self, plugin: Plugin, weight: int) -> None:
        self.pre_filter = plugin if isinstance(plugin, PreFilter) else None
        self.filter = plugin if isinstance(plugin, Filter) else None
        self._score = plugin if isinstance(plugin, Score) and weight else None
        self._pre_score = plugin if isinstance(plugin, PreScore) else None
        self._normalize = plugin if isinstance(plugin, Normalize) else None
        # whether it has no say about a pod on any node
        self.indifferent = plugin.indifferent if isinstance(plugin, Indifferent) else _never
        self._weight = weight

    def scores(self, cycle: Cycle, nodes: Sequence[NodeInfo]) -> bool:
        """Whether it has anything to score for the pod on these nodes; without nodes, on any node."""
        if self._score is None:
            return False
        return self._pre_score is None or self._pre_score.pre_score(cycle, nodes).code is not StatusCode.SKIP

    def scored(self, cycle: Cycle, nodes: Sequence[NodeInfo]) -> dict[str, int]:
        """The weighted scores of nodes for which ``scores`` said yes."""
        assert self._score is not None
        scores = {node.name: self._score.score(cycle, node) for node in nodes}
        if self._normalize is not None:
            self._normalize.normalize(cycle, scores)
        return {name: self._weight * score for name, score in scores.items()}


class Profile:
    """The plugins of one schedulerName, by extension point. ``weights`` scale scores by plugin name; a missing weight counts as
    1."""

    def __init__(
        self, name: str, plugins: Iterable[Plugin], weights: Mapping[str, int] | None = None
    ) -> None:
        self.name = name
        self.plugins = tuple(plugins)
        self.weights = dict(weights or {})
        self.pre_enqueue = [p for p in self.plugins if isinstance(p, PreEnqueue)]
        self.local = [p for p in self.plugins if _is_local(p)]
        self.everywhere = [GlobalPlugin(p, self.weight(p)) for p in self.plugins if _is_global(p)]
        self.post_filter = [p for p in self.plugins if isinstance(p, PostFilter)]
        self.reserve = [p for p in self.plugins if isinstance(p, Reserve)]
        self.pre_bind = [p for p in self.plugins if isinstance(p, PreBind)]
        self.room_keeper = next((p.name for p in self.plugins if isinstance(p, KeepsRoom)), "")
        self.unasked = frozenset(p.name for p in self.plugins if isinstance(p, StandsForUnasked))
        devices = [p for p in self.plugins if isinstance(p, Shaping)]  # there is one such plugin
        self.devices = cast("DynamicResources", devices[0]) if devices else None

    def weight(self, plugin: Plugin) -> int:
        return self.weights.get(plugin.name, 1)


def _never(pod: PodInfo, cluster: Cluster) -> bool:
    return False


def _is_local(plugin: Plugin) -> bool:
    return isinstance(plugin, (Filter, Score)) and plugin.local


def _is_global(plugin: Plugin) -> bool:
    return isinstance(plugin, (Filter, Score, PreFilter)) and not _is_local(plugin)
