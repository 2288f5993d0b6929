"""Reads the parts of Volcano's own configuration, volcano-scheduler.conf, that have a meaning here.

These are the actions (whether gangs preempt and reclaim), and the plugins nodeorder and binpack with their arguments, which weigh
scores. Gangs, priorities, predicates and queues are always on. The file's other settings do not exist here;
``Configuration.ignored`` names each with what happens instead, for the author of the file. The file may also be given inside its
ConfigMap.

It applies to pods with ``schedulerName: volcano``; those of the default scheduler are placed as always.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from allotment.scheduler.config.configuration import (
    HEAVIEST,
    SCORES,
    Configuration,
    ConfigurationError,
    FileStruct,
    Name,
    ProfileSpec,
    read,
    weights,
)
from allotment.scheduler.devices.pod_wants import NAME as DEVICES
from allotment.scheduler.plugins.least_allocated import CPU_AND_MEMORY

SCHEDULER = "volcano"
IN_CONFIG_MAP = "volcano-scheduler.conf"
ROOM_ACTIONS = {
    "preempt": "preempt",
    "gangpreempt": "preempt",
    "reclaim": "reclaim",
    "gangreclaim": "reclaim",
}
"""Volcano's actions that evict pods, with our names for them."""
_ALWAYS_ON = {
    "enqueue": "groups are let into their queue all the same",
    "allocate": "gangs are placed all the same",
    "backfill": "pods that ask for nothing are placed all the same",
}
_NOT_HERE = {"shuffle": "running pods are never moved"}

_PRESENT = ("binpack", "capacity", "gang", "nodeorder", "pdb", "predicates", "priority", "proportion")
_ABSENT = {
    "cdp": "pods have no time of grace before they are preempted",
    "conformance": "pods of kube-system are protected by their priority alone",
    "deviceshare": "devices are those of DRA drivers and extended resources",
    "drf": "jobs of one queue are served by priority, then by age",
    "extender": "no other program is asked",
    "network-topology-aware": "of topology, only what groups and affinities say counts",
    "nodegroup": "which nodes a queue may use is not limited",
    "numaaware": "the kubelet's topology manager decides about NUMA nodes",
    "overcommit": "groups are let in by what their queue may use, and not by what the cluster has",
    "rescheduling": "running pods are never moved",
    "resource-strategy-fit": "binpack is the one strategy there is",
    "resourcequota": "the API server enforces quotas",
    "sla": "the age of a job does not raise its priority",
    "task-topology": "affinity between tasks is said by the pods",
    "tdm": "nodes have no times of day",
    "usage": "what nodes really use is not known",
}
"""Volcano's plugins that do not exist here, and what happens instead."""

_SCORE_OF = {
    "balancedresource.weight": "BalancedAllocation",
    "leastrequested.weight": "LeastAllocated",
    "mostrequested.weight": "MostAllocated",
    "nodeaffinity.weight": "NodeAffinity",
    "podaffinity.weight": "InterPodAffinity",
    "podtopologyspread.weight": "PodTopologySpread",
    "tainttoleration.weight": "TaintToleration",
}
"""The arguments of nodeorder, and the scores that they weigh."""
_BINPACK, _RESOURCES = "binpack.", "binpack.resources"


class _VolcanoPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin in the file. Other fields switch single functions of the plugin on and off (enablePreemptable, …)."""

    name: Name
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class _Tier(FileStruct, frozen=True, kw_only=True):
    plugins: tuple[dict[str, Any], ...] = ()


class _VolcanoFile(FileStruct, frozen=True, kw_only=True):
    actions: str = ""
    tiers: tuple[_Tier, ...] = ()
    configurations: tuple[Any, ...] = ()
    metrics: dict[str, Any] = msgspec.field(default_factory=dict)


def is_volcanos(value: Mapping[str, Any]) -> bool:
    """Whether a document is such a file: it has no kind, but actions or tiers."""
    return "kind" not in value and ("actions" in value or "tiers" in value)


def inner(value: Mapping[str, Any]) -> str | None:
    """The file's text, if a document is its ConfigMap."""
    data = value.get("data")
    found = data.get(IN_CONFIG_MAP) if value.get("kind") == "ConfigMap" and isinstance(data, dict) else None
    return found if isinstance(found, str) else None


def configuration(value: Mapping[str, Any], source: str) -> Configuration:
    """What the file means here. Raises :class:`ConfigurationError`."""
    return _VolcanoReading(read(value, _VolcanoFile, source), source).configuration()


class _VolcanoReading:
    """Translates the file, step by step. ``ignored`` collects the settings without a meaning here."""

    def __init__(self, file: _VolcanoFile, source: str) -> None:
        self._file = file
        self._source = source
        self._ignored: list[str] = []
        self._scores: dict[str, int] = {}
        self._resources: Mapping[str, int] = CPU_AND_MEMORY

    def configuration(self) -> Configuration:
        making_room = self._actions()
        named = {}
        for number, tier in enumerate(self._file.tiers):
            for index, given in enumerate(tier.plugins):
                path = f"tiers[{number}].plugins[{index}]"
                plugin = read(
                    {key: given[key] for key in given if key in ("name", "arguments")},
                    _VolcanoPlugin,
                    self._source,
                    path,
                )
                named[plugin.name] = path
                self._plugin(plugin, given, path)
        self._missing(named)
        for field in ("configurations", "metrics"):
            if getattr(self._file, field):
                self._ignored.append(f"{field}: has no meaning here")
        profile = ProfileSpec(name=SCHEDULER, scores=self._scores, resources=self._resources)
        return Configuration(
            profiles=(ProfileSpec(), profile), making_room=making_room, ignored=tuple(self._ignored)
        )

    def _actions(self) -> frozenset[str]:
        actions = [each.strip() for each in self._file.actions.split(",") if each.strip()]
        for name in actions:
            if name in _NOT_HERE:
                self._ignored.append(f"actions: {name}: {_NOT_HERE[name]}")
            elif name not in ROOM_ACTIONS and name not in _ALWAYS_ON:
                known = ", ".join((*_ALWAYS_ON, *ROOM_ACTIONS, *_NOT_HERE))
                raise ConfigurationError(self._source, "actions", f"{name[:100]!r} is not one of {known}")
        for name, instead in _ALWAYS_ON.items():
            if name not in actions:
                self._ignored.append(f"actions: without {name}: {instead}")
        return frozenset(ROOM_ACTIONS[name] for name in actions if name in ROOM_ACTIONS)

    def _plugin(self, plugin: _VolcanoPlugin, given: Mapping[str, Any], path: str) -> None:
        name = plugin.name
        if name not in _PRESENT:
            instead = _ABSENT.get(name, "no such plugin is known")
            self._ignored.append(f"{path}: {name}: {instead}")
            return
        for key in given.keys() - {"name", "arguments"}:
            if given[key] is not True:
                self._ignored.append(f"{path}.{key}: {name} cannot be switched in part")
        arguments = plugin.arguments
        if name == "nodeorder":
            arguments = self._nodeorder(arguments, f"{path}.arguments")
        elif name == "binpack":
            arguments = self._binpack(arguments, f"{path}.arguments")
        self._ignored += [f"{path}.arguments.{key}: has no meaning here" for key in sorted(arguments)]

    def _nodeorder(self, given: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Reads the weights of scores. Returns the arguments without a meaning here."""
        for key, score in _SCORE_OF.items():
            if key in given:
                self._scores[score] = self._whole(given[key], f"{path}.{key}")
        return {key: value for key, value in given.items() if key not in _SCORE_OF}

    def _binpack(self, given: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Prefers the fullest nodes, by the resources that the arguments name, or by cpu and memory."""
        rest = dict(given)
        weight = self._whole(rest.pop("binpack.weight", 1), f"{path}.binpack.weight")
        self._scores |= {"MostAllocated": weight, "LeastAllocated": 0}
        found = {
            name: self._whole(rest.pop(_BINPACK + name, 1), f"{path}.{_BINPACK}{name}")
            for name in ("cpu", "memory")
        }
        for name in str(rest.pop(_RESOURCES, "")).split(","):
            if name.strip():
                key = f"{_RESOURCES}.{name.strip()}"
                found[name.strip()] = self._whole(rest.pop(key, 1), f"{path}.{key}")
        self._resources = weights(found, self._source, path)
        return rest

    def _whole(self, value: Any, path: str) -> int:
        """Reads a whole number. Volcano accepts numbers and strings of numbers."""
        try:
            number = int(value)
        except (TypeError, ValueError):
            number = -1
        if isinstance(value, bool) or not 0 <= number <= HEAVIEST:
            problem = f"{str(value)[:100]!r} is not a whole number from 0 to {HEAVIEST}"
            raise ConfigurationError(self._source, path, problem)
        return number

    def _missing(self, named: Mapping[str, str]) -> None:
        """Handles what a file leaves out: Volcano switches that off, but some of it is always on here."""
        if "nodeorder" not in named:
            self._scores = {
                **dict.fromkeys((each for each in SCORES if each != DEVICES), 0),
                **self._scores,
            }
        for name, what in (("gang", "gangs"), ("predicates", "the conditions on nodes")):
            if name not in named:
                self._ignored.append(f"tiers: without {name}: {what} still apply")
        if not {"capacity", "proportion"} & named.keys():
            self._ignored.append("tiers: without capacity and proportion: the limits of queues still apply")
