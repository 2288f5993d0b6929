"""A profile: the plugins that decide about pods of one schedulerName, sorted by where they take part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from allotment.scheduler.framework import (
    Filter,
    Plugin,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreFilter,
    Reserve,
    Score,
)

if TYPE_CHECKING:
    from allotment.scheduler.plugins.dynamic_resources import DynamicResources


class Profile:
    """See the module. ``weights`` scale scores by the name of their plugin; one that is missing counts once."""

    def __init__(
        self, name: str, plugins: Iterable[Plugin], weights: Mapping[str, int] | None = None
    ) -> None:
        self.name = name
        self.plugins = tuple(plugins)
        self.weights = dict(weights or {})
        self.pre_enqueue = [p for p in self.plugins if isinstance(p, PreEnqueue)]
        self.local = [p for p in self.plugins if _is_local(p)]
        self.everywhere = [p for p in self.plugins if _is_global(p)]
        self.post_filter = [p for p in self.plugins if isinstance(p, PostFilter)]
        self.reserve = [p for p in self.plugins if isinstance(p, Reserve)]
        self.pre_bind = [p for p in self.plugins if isinstance(p, PreBind)]
        devices = [p for p in self.plugins if p.name == "DynamicResources"]
        self.devices = cast("DynamicResources", devices[0]) if devices else None

    def weight(self, plugin: Plugin) -> int:
        return self.weights.get(plugin.name, 1)


def _is_local(plugin: Plugin) -> bool:
    return isinstance(plugin, (Filter, Score)) and plugin.local


def _is_global(plugin: Plugin) -> bool:
    return isinstance(plugin, (Filter, Score, PreFilter)) and not _is_local(plugin)
