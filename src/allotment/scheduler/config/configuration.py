"""What a scheduler's configuration file defines: profiles with their plugins, weights and time limits. Also how files are read.

A value that is unknown, of the wrong type, out of range or given twice is an error that names the field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Annotated, Any, TypeVar

import msgspec
import msgspec.inspect

from allotment.scheduler.config.profile import Profile
from allotment.scheduler.framework import Plugin
from allotment.scheduler.plugins.balanced_allocation import BalancedAllocation
from allotment.scheduler.plugins.default_preemption import DefaultPreemption
from allotment.scheduler.plugins.devices_off import DevicesOff
from allotment.scheduler.plugins.dynamic_resources import BINDING_SECONDS, DynamicResources
from allotment.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from allotment.scheduler.plugins.least_allocated import CPU_AND_MEMORY, LeastAllocated
from allotment.scheduler.plugins.most_allocated import MostAllocated
from allotment.scheduler.plugins.node_affinity import NodeAffinity
from allotment.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from allotment.scheduler.plugins.node_name import NodeName
from allotment.scheduler.plugins.node_ports import NodePorts
from allotment.scheduler.plugins.node_resources_fit import NodeResourcesFit
from allotment.scheduler.plugins.node_unschedulable import NodeUnschedulable
from allotment.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from allotment.scheduler.plugins.nominated_nodes import NominatedNodes
from allotment.scheduler.plugins.pod_topology_spread import PodTopologySpread
from allotment.scheduler.plugins.scheduling_gates import SchedulingGates
from allotment.scheduler.plugins.taint_toleration import TaintToleration
from allotment.scheduler.plugins.volume_binding import VolumeBinding
from allotment.scheduler.plugins.volume_restrictions import VolumeRestrictions
from allotment.scheduler.plugins.volume_zone import VolumeZone
from allotment.scheduler.queue import QueueBackoff

DEFAULT_SCHEDULER = "default-scheduler"
MOST_PROFILES = 64
HEAVIEST = 100

SCORES: Mapping[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "LeastAllocated": 1,
    "MostAllocated": 0,
    "BalancedAllocation": 1,
}
"""Plugins that score, with their default weights, which are those of Kubernetes."""

MAKING_ROOM = frozenset(("preempt", "reclaim"))
"""The actions that make room for Volcano gangs."""
_ONLY_SCORE = ("LeastAllocated", "MostAllocated", "BalancedAllocation")


class ConfigurationError(ValueError):
    """A configuration that cannot be used; the message names the file and the field."""

    def __init__(self, source: str, path: str, problem: str) -> None:
        super().__init__(": ".join(part for part in (source, path, problem) if part))


@dataclass(frozen=True, slots=True)
class ProfileSpec:
    """What a file says about one profile."""

    name: str = DEFAULT_SCHEDULER
    disabled: frozenset[str] = frozenset()
    scores: Mapping[str, int] = field(default_factory=dict)  # differences from ``SCORES``
    resources: Mapping[str, int] = field(default_factory=lambda: CPU_AND_MEMORY)
    balanced: Mapping[str, int] | None = None  # for BalancedAllocation, if it reads other resources
    device_strategy: str = "keep-whole"
    volume_seconds: float | None = None  # for volumes that must be bound; None: as for devices


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a file says. ``ignored`` are valid fields without a meaning here, some followed by a colon and what happens instead.
    The author of the file should see them."""

    profiles: tuple[ProfileSpec, ...] = (ProfileSpec(),)
    backoff: QueueBackoff = field(default_factory=QueueBackoff)
    binding_seconds: float = BINDING_SECONDS
    gangs: bool = True
    making_room: frozenset[str] = MAKING_ROOM  # the actions for Volcano gangs that do not fit
    devices: bool = True  # false: the feature gate DynamicResourceAllocation is off
    ignored: tuple[str, ...] = ()

    def rosters(self) -> dict[str, Profile]:
        """Profiles ready for use, by scheduler name, each with its own plugins."""
        return {spec.name: self._roster(spec) for spec in self.profiles}

    def _roster(self, spec: ProfileSpec) -> Profile:
        weights = {**SCORES, **spec.scores}
        plugins = [
            make(spec, self)
            for name, make in PLUGINS.items()
            if name not in spec.disabled and (name not in _ONLY_SCORE or weights[name])
        ]
        return Profile(spec.name, plugins, weights)


PLUGINS: Mapping[str, Callable[[ProfileSpec, Configuration], Plugin]] = {
    "SchedulingGates": lambda spec, configuration: SchedulingGates(),
    "NodeName": lambda spec, configuration: NodeName(),
    "NodeUnschedulable": lambda spec, configuration: NodeUnschedulable(),
    "TaintToleration": lambda spec, configuration: TaintToleration(),
    "NodeAffinity": lambda spec, configuration: NodeAffinity(),
    "NodeDeclaredFeatures": lambda spec, configuration: NodeDeclaredFeatures(),
    "NodePorts": lambda spec, configuration: NodePorts(),
    "NodeResourcesFit": lambda spec, configuration: NodeResourcesFit(),
    "VolumeRestrictions": lambda spec, configuration: VolumeRestrictions(),
    "NodeVolumeLimits": lambda spec, configuration: NodeVolumeLimits(),
    "VolumeBinding": lambda spec, configuration: VolumeBinding(
        configuration.binding_seconds if spec.volume_seconds is None else spec.volume_seconds
    ),
    "VolumeZone": lambda spec, configuration: VolumeZone(),
    "NominatedNodes": lambda spec, configuration: NominatedNodes(),
    "PodTopologySpread": lambda spec, configuration: PodTopologySpread(),
    "InterPodAffinity": lambda spec, configuration: InterPodAffinity(),
    "DynamicResources": lambda spec, configuration: (
        DynamicResources(spec.device_strategy, configuration.binding_seconds)
        if configuration.devices
        else DevicesOff()
    ),
    "DefaultPreemption": lambda spec, configuration: DefaultPreemption(),
    "LeastAllocated": lambda spec, configuration: LeastAllocated(spec.resources),
    "MostAllocated": lambda spec, configuration: MostAllocated(spec.resources),
    "BalancedAllocation": lambda spec, configuration: BalancedAllocation(
        spec.resources if spec.balanced is None else spec.balanced
    ),
}
"""Every plugin, in the order in which they run: plugins that are cheap and reject most often come first."""

DEFAULT = Configuration()


# --- files ---

T = TypeVar("T")
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]


class FileStruct(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True, kw_only=True):
    """The parent class of all structs in configuration files."""


_PLACE = re.compile(r"(?P<problem>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_LONGEST_SHOWN_NAME = 100  # characters of an unknown field to report


def read(value: Any, type: type[T], source: str, under: str = "", also: Iterable[str] = ()) -> T:
    """Converts plain values to a struct, strictly. ``under`` is the field that contains them. ``also`` are fields of the
    outermost object that the caller took out before."""
    try:
        return msgspec.convert(value, type)
    except msgspec.ValidationError as exc:
        place = _PLACE.fullmatch(str(exc))
        assert place is not None
        within, problem = place["path"] or "", place["problem"]
        path = ".".join(part for part in (under, within) if part).replace(".[", "[")
        unknown = _UNKNOWN.fullmatch(problem)
        if unknown is not None:
            fields = [*_fields(type, within), *(() if within else also)]
            problem = (
                f"unknown field; {path or 'the file'} has {', '.join(_nearest(unknown['name'], fields))}"
            )
            path = ".".join(part for part in (path, unknown["name"][:_LONGEST_SHOWN_NAME]) if part)
        raise ConfigurationError(source, path, problem) from exc


def _fields(type: Any, path: str) -> list[str]:
    """The fields of the struct at a path, as files spell them."""
    info = _struct(msgspec.inspect.type_info(type))
    for name in re.findall(r"[^.\[\]]+", path):
        if not name.isdecimal():  # a list's entries all have the same fields
            info = _struct(next(field.type for field in info.fields if field.encode_name == name))
    return [field.encode_name for field in info.fields]


def _struct(info: Any) -> msgspec.inspect.StructType:
    """The struct type of a field: the field may hold it, optionally hold it, or hold several."""
    if isinstance(info, msgspec.inspect.UnionType):
        info = next(each for each in info.types if not isinstance(each, msgspec.inspect.NoneType))
    if isinstance(info, msgspec.inspect.VarTupleType):
        info = info.item_type
    assert isinstance(info, msgspec.inspect.StructType)
    return info


def _nearest(name: str, known: Iterable[str]) -> list[str]:
    """The names, with those most similar to ``name`` first."""
    name = name[:_LONGEST_SHOWN_NAME].lower()
    return sorted(known, key=lambda each: -SequenceMatcher(None, each.lower(), name).ratio())


def checked(specs: list[ProfileSpec], source: str) -> tuple[ProfileSpec, ...]:
    """The profiles of a file. It is an error if two have the same name, or if there are none or too many."""
    if not 1 <= len(specs) <= MOST_PROFILES:
        raise ConfigurationError(source, "profiles", f"has {len(specs)} entries, not 1 to {MOST_PROFILES}")
    names = [spec.name for spec in specs]
    for number, name in enumerate(names):
        if name in names[:number]:
            path = f"profiles[{number}].schedulerName"
            raise ConfigurationError(source, path, f"another profile is called {name}")
    return tuple(specs)


def backoff(initial: float, longest: float, source: str, path: str) -> QueueBackoff:
    """How long pods rest after failed attempts."""
    if longest < initial:
        raise ConfigurationError(source, path, f"{longest:g} is less than the initial {initial:g} seconds")
    return QueueBackoff(initial, min(max(initial, QueueBackoff().turned_away), longest), longest)


def one_of(name: str, known: Mapping[str, Any], source: str, path: str) -> None:
    if name not in known:
        raise ConfigurationError(source, path, f"{name!r} is not one of {', '.join(known)}")


def weights(given: Mapping[str, Any], source: str, path: str) -> dict[str, int]:
    """Whole numbers from 0 to ``HEAVIEST``."""
    for name, weight in given.items():
        if type(weight) is not int or not 0 <= weight <= HEAVIEST:
            problem = f"{weight!r} is not a whole number from 0 to {HEAVIEST}"
            raise ConfigurationError(source, f"{path}.{name}", problem)
    return dict(given)
