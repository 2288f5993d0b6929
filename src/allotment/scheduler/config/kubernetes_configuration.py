"""Reads the parts of Kubernetes' own KubeSchedulerConfiguration that have a meaning here.

These are profiles, backoff, the time limit for volumes, plugins that are switched off (``multiPoint``, or ``score`` for their
score alone), weights of scores, and the resources and the strategy (LeastAllocated, MostAllocated) of NodeResourcesFit and
NodeResourcesBalancedAllocation. Settings of the process (connections, leader election, parallelism) are ignored and reported as
such. Settings that would change decisions and do not exist here, such as extenders or plugins at single extension points, are
errors: a scheduler that silently decides otherwise than its file says is worse than none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from allotment.scheduler.config.configuration import (
    DEFAULT,
    DEFAULT_SCHEDULER,
    PLUGINS,
    SCORES,
    Configuration,
    ConfigurationError,
    FileStruct,
    Name,
    ProfileSpec,
    backoff,
    checked,
    read,
    weights,
)
from allotment.scheduler.plugins.least_allocated import CPU_AND_MEMORY

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"

IGNORED = (
    "clientConnection",
    "delayCacheUntilActive",
    "enableContentionProfiling",
    "enableProfiling",
    "leaderElection",
    "parallelism",
    "percentageOfNodesToScore",
)
ABSENT = frozenset(
    {
        "DefaultBinder",
        "GangScheduling",
        "ImageLocality",
        "PrioritySort",
    }
)
"""Kubernetes plugins without a counterpart here: either they cannot be switched, or this scheduler lacks the data that they score
by."""

EVERY = "*"
_BALANCED = "NodeResourcesBalancedAllocation"
_FIT = "NodeResourcesFit"
_PREEMPTION = "DefaultPreemption"
_VOLUMES = "VolumeBinding"

_ALWAYS: Mapping[str, Mapping[str, Any]] = {
    "InterPodAffinity": {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False},
    "PodTopologySpread": {"defaultingType": "List", "defaultConstraints": []},
}
"""Arguments that only state what this scheduler does anyway."""

Backoff = Annotated[int, msgspec.Meta(gt=0, le=86400)]
Weight = Annotated[int, msgspec.Meta(ge=0, le=100)]


class _KubernetesPlugin(FileStruct, frozen=True, kw_only=True):
    name: Name
    weight: Weight | None = None


class _Set(FileStruct, frozen=True, kw_only=True):
    enabled: tuple[_KubernetesPlugin, ...] = ()
    disabled: tuple[_KubernetesPlugin, ...] = ()


class _KubernetesPlugins(FileStruct, frozen=True, kw_only=True):
    multi_point: _Set = _Set()
    score: _Set = _Set()
    pre_enqueue: _Set = _Set()
    queue_sort: _Set = _Set()
    pre_filter: _Set = _Set()
    filter: _Set = _Set()
    post_filter: _Set = _Set()
    pre_score: _Set = _Set()
    reserve: _Set = _Set()
    permit: _Set = _Set()
    pre_bind: _Set = _Set()
    bind: _Set = _Set()
    post_bind: _Set = _Set()
    placement_generate: _Set = _Set()
    placement_score: _Set = _Set()
    pod_group_post_filter: _Set = _Set()


class _PluginConfig(FileStruct, frozen=True, kw_only=True):
    name: Name
    args: dict[str, Any] = msgspec.field(default_factory=dict)


class _KubernetesProfile(FileStruct, frozen=True, kw_only=True):
    scheduler_name: Name = DEFAULT_SCHEDULER
    percentage_of_nodes_to_score: int | None = None
    plugins: _KubernetesPlugins = _KubernetesPlugins()
    plugin_config: tuple[_PluginConfig, ...] = ()


class _KubernetesFile(FileStruct, frozen=True, kw_only=True):
    api_version: str
    kind: str
    profiles: tuple[_KubernetesProfile, ...] | None = None
    pod_initial_backoff_seconds: Backoff = 1
    pod_max_backoff_seconds: Backoff = 10
    extenders: tuple[Any, ...] = ()


class _Resource(FileStruct, frozen=True, kw_only=True):
    name: Name
    weight: Weight = 1


class _Strategy(FileStruct, frozen=True, kw_only=True):
    type: str = "LeastAllocated"
    resources: tuple[_Resource, ...] = ()


class _FitArgs(FileStruct, frozen=True, kw_only=True):
    api_version: str | None = None
    kind: str | None = None
    scoring_strategy: _Strategy = _Strategy()


class _BalancedArgs(FileStruct, frozen=True, kw_only=True):
    api_version: str | None = None
    kind: str | None = None
    resources: tuple[_Resource, ...] = ()


class _VolumeArgs(FileStruct, frozen=True, kw_only=True):
    """``shape`` is for a score by free storage, which does not exist here."""

    api_version: str | None = None
    kind: str | None = None
    bind_timeout_seconds: Annotated[int, msgspec.Meta(gt=0, le=86400)] | None = None
    shape: Any = None


_DEFAULT_SHAPE = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
"""The value that kube-scheduler writes out by default: a file that did not choose it must not be refused."""


class _PreemptionArgs(FileStruct, frozen=True, kw_only=True):
    """How many nodes preemption looks at. This only affects speed, and has no meaning here."""

    api_version: str | None = None
    kind: str | None = None
    min_candidate_nodes_percentage: int | None = None
    min_candidate_nodes_absolute: int | None = None


def configuration(value: Mapping[str, Any], source: str) -> Configuration:
    """What the file means here. Raises :class:`ConfigurationError`."""
    used = {key: each for key, each in value.items() if key not in IGNORED}
    file = read(used, _KubernetesFile, source, also=IGNORED)
    if file.extenders:
        raise ConfigurationError(source, "extenders", "there are none here; remove them")
    specs = [
        _KubernetesReading(source, f"profiles[{number}]", profile).spec()
        for number, profile in enumerate(file.profiles or ())
    ]
    return Configuration(
        profiles=checked(specs, source) if file.profiles else DEFAULT.profiles,
        backoff=backoff(
            file.pod_initial_backoff_seconds, file.pod_max_backoff_seconds, source, "podMaxBackoffSeconds"
        ),
        ignored=tuple(key for key in value if key in IGNORED),
    )


class _KubernetesReading:
    """Translates one profile of the file, step by step."""

    def __init__(self, source: str, path: str, profile: _KubernetesProfile) -> None:
        self._source = source
        self._path = path
        self._profile = profile
        self._disabled: set[str] = set()
        self._scores: dict[str, int] = {}
        self._strategy = _Strategy()
        self._balanced: Mapping[str, int] | None = None
        self._volume_seconds: int | None = None

    def spec(self) -> ProfileSpec:
        self._refuse_single_points()
        for number, entry in enumerate(self._profile.plugin_config):
            self._configure(entry, f"{self._path}.pluginConfig[{number}]")
        if self._strategy.type == "MostAllocated":
            self._scores.update(LeastAllocated=0, MostAllocated=1)
        elif self._strategy.type != "LeastAllocated":
            problem = f"{self._strategy.type!r} is not LeastAllocated or MostAllocated"
            raise ConfigurationError(self._source, f"{self._path}: scoringStrategy.type", problem)
        self._switch(self._profile.plugins.multi_point, f"{self._path}.plugins.multiPoint")
        self._weigh(self._profile.plugins.score, f"{self._path}.plugins.score")
        return ProfileSpec(
            name=self._profile.scheduler_name,
            disabled=frozenset(self._disabled),
            scores=self._scores,
            resources=self._resources(self._strategy.resources, f"{self._path}: scoringStrategy.resources"),
            balanced=self._balanced,
            volume_seconds=self._volume_seconds,
        )

    def _refuse_single_points(self) -> None:
        plugins = self._profile.plugins
        for field in msgspec.structs.fields(plugins):
            points: _Set = getattr(plugins, field.name)
            if field.name not in ("multi_point", "score") and (points.enabled or points.disabled):
                problem = "plugins cannot be switched at single points; use multiPoint, or score"
                raise ConfigurationError(self._source, f"{self._path}.plugins.{field.encode_name}", problem)

    # --- plugins ---

    def _switch(self, points: _Set, path: str) -> None:
        for number, plugin in enumerate(points.disabled):
            self._disabled.update(self._ours(plugin.name, f"{path}.disabled[{number}]"))
        for number, plugin in enumerate(points.enabled):
            here = f"{path}.enabled[{number}]"
            names = self._present(plugin.name, here)
            self._disabled.difference_update(names)
            self._give(names, plugin, here)

    def _weigh(self, points: _Set, path: str) -> None:
        for number, plugin in enumerate(points.disabled):
            names = self._ours(plugin.name, f"{path}.disabled[{number}]")
            self._scores.update(dict.fromkeys((name for name in names if name in SCORES), 0))
        for number, plugin in enumerate(points.enabled):
            here = f"{path}.enabled[{number}]"
            names = self._present(plugin.name, here)
            if not any(name in SCORES for name in names):
                raise ConfigurationError(self._source, here, f"{plugin.name} does not score")
            weight = 1 if plugin.weight is None else plugin.weight
            self._give(names, _KubernetesPlugin(name=plugin.name, weight=weight), here)

    def _give(self, names: Iterable[str], plugin: _KubernetesPlugin, path: str) -> None:
        scoring = [name for name in names if name in SCORES]
        if plugin.weight and not scoring:
            raise ConfigurationError(self._source, f"{path}.weight", f"{plugin.name} does not score")
        if plugin.weight is not None:
            self._scores.update(dict.fromkeys(scoring, plugin.weight))

    def _present(self, name: str, path: str) -> list[str]:
        names = [] if name == EVERY else self._ours(name, path)
        if not names:
            raise ConfigurationError(self._source, path, f"{name} does not exist here")
        return names

    def _ours(self, name: str, path: str) -> list[str]:
        """Our names for a Kubernetes plugin. NodeResourcesFit also scores, and that score is a plugin of its own here."""
        if name == EVERY:
            return list(PLUGINS)
        if name == _FIT:
            return [_FIT, self._strategy.type]
        if name == _BALANCED:
            return ["BalancedAllocation"]
        if name == _PREEMPTION:  # here this also keeps the room for the pod it was made for
            return [_PREEMPTION, "NominatedNodes"]
        if name in ABSENT:
            return []
        if name not in PLUGINS:
            raise ConfigurationError(self._source, path, f"{name!r} is not a plugin that is known")
        return [name]

    # --- their configuration ---

    def _configure(self, entry: _PluginConfig, path: str) -> None:
        here = f"{path}.args"
        if entry.name == _FIT:
            self._strategy = read(entry.args, _FitArgs, self._source, here).scoring_strategy
        elif entry.name == _BALANCED:
            given = read(entry.args, _BalancedArgs, self._source, here).resources
            self._balanced = self._resources(given, f"{here}.resources")
        elif entry.name == _VOLUMES:
            args = read(entry.args, _VolumeArgs, self._source, here)
            if args.shape not in (None, [], _DEFAULT_SHAPE):
                raise ConfigurationError(
                    self._source, f"{here}.shape", "volumes have no score here; remove it"
                )
            self._volume_seconds = args.bind_timeout_seconds
        elif entry.name == _PREEMPTION:
            read(entry.args, _PreemptionArgs, self._source, here)
        elif entry.name not in ABSENT and not self._says_what_is(entry):
            raise ConfigurationError(
                self._source, here, f"{entry.name} can be configured only as it is by default"
            )

    def _says_what_is(self, entry: _PluginConfig) -> bool:
        """Whether arguments only state what this scheduler does anyway."""
        given = {key: value for key, value in entry.args.items() if key not in ("apiVersion", "kind")}
        always = _ALWAYS.get(entry.name, {})
        return all(key in always and always[key] == value for key, value in given.items())

    def _resources(self, given: Sequence[_Resource], path: str) -> Mapping[str, int]:
        if not given:
            return CPU_AND_MEMORY
        names = [each.name for each in given]
        if len(set(names)) < len(names):
            raise ConfigurationError(self._source, path, "a resource stands twice")
        return weights({each.name: each.weight or 1 for each in given}, self._source, path)
