"""The scheduler's configuration: which plugins decide about the pods of which ``schedulerName``, and how patient it is.

    apiVersion: allotment.dev/v1
    kind: SchedulerConfiguration
    profiles:                       # one at least, if given; the default is default-scheduler with everything
    - schedulerName: default-scheduler
      plugins:
        disabled: [InterPodAffinity]
      scores:                       # weight of each score, 0 to 100; what is not named keeps its default
        MostAllocated: 1
        LeastAllocated: 0
      resources: {cpu: 1, memory: 1}  # what LeastAllocated, MostAllocated and BalancedAllocation look at, with weights
      deviceStrategy: keep-whole    # keep scarce and large devices whole; or first-fit, as Kubernetes does
    backoff: {initialSeconds: 0.1, maxSeconds: 10}
    bindingTimeoutSeconds: 600      # for devices and volumes that must be made ready before a pod is bound
    gangs: true                     # place pods of a group together

Whatever is unknown, of the wrong type, out of range or given twice is an error that names the field. Kubernetes' own
KubeSchedulerConfiguration is understood as far as it means something here (``kubernetes_configuration``), and so is Volcano's
volcano-scheduler.conf (``volcano_configuration``).
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from allotment.api.manifests.document import read_documents
from allotment.api.manifests.yaml_values import TextError
from allotment.scheduler.config import kubernetes_configuration, volcano_configuration
from allotment.scheduler.config.configuration import (
    DEFAULT,
    PLUGINS,
    SCORES,
    Configuration,
    ConfigurationError,
    FileStruct,
    Name,
    ProfileSpec,
    backoff,
    checked,
    one_of,
    read,
    weights,
)
from allotment.scheduler.plugins.dynamic_resources import BINDING_SECONDS, STRATEGIES
from allotment.scheduler.plugins.least_allocated import CPU_AND_MEMORY
from allotment.scheduler.queue import QueueBackoff

__all__ = ["DEFAULT", "Configuration", "ConfigurationError", "load"]

API_VERSION = "allotment.dev/v1"
KIND = "SchedulerConfiguration"


def load(text: str, source: str = "") -> Configuration:
    """Reads a configuration; ``source`` is the file's name, for messages. Raises :class:`ConfigurationError`."""
    try:
        documents = read_documents(text)
    except TextError as exc:
        raise ConfigurationError(source, f"line {exc.line}", exc.message) from exc
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise ConfigurationError(source, "", f"one document is expected, with kind: {KIND}")
    value = documents[0].value
    if volcano_configuration.is_volcanos(value):
        return volcano_configuration.configuration(value, source)
    within = volcano_configuration.inner(value)
    if within is not None:
        return load(within, f"{source}: data.{volcano_configuration.IN_CONFIG_MAP}")
    version, kind = value.get("apiVersion"), value.get("kind")
    if (version, kind) == (API_VERSION, KIND):
        return _configuration(value, source)
    if (version, kind) == (kubernetes_configuration.API_VERSION, kubernetes_configuration.KIND):
        return kubernetes_configuration.configuration(value, source)
    raise ConfigurationError(
        source, "apiVersion, kind", f"{version} {kind} is not known; {API_VERSION} {KIND} is expected"
    )


# --- the file ---

Seconds = Annotated[float, msgspec.Meta(gt=0, le=86400)]


class _Plugins(FileStruct, frozen=True, kw_only=True):
    disabled: tuple[str, ...] = ()


class _Profile(FileStruct, frozen=True, kw_only=True):
    scheduler_name: Name
    plugins: _Plugins = _Plugins()
    scores: dict[str, Any] = msgspec.field(default_factory=dict)
    resources: dict[str, Any] | None = None
    device_strategy: str = "keep-whole"


class _Backoff(FileStruct, frozen=True, kw_only=True):
    initial_seconds: Seconds = QueueBackoff().initial
    max_seconds: Seconds = QueueBackoff().failed


class _ProfileFile(FileStruct, frozen=True, kw_only=True):
    api_version: str
    kind: str
    profiles: tuple[_Profile, ...] | None = None
    backoff: _Backoff = _Backoff()
    binding_timeout_seconds: Seconds = BINDING_SECONDS
    gangs: bool = True


def _configuration(value: dict[str, Any], source: str) -> Configuration:
    file = read(value, _ProfileFile, source)
    specs = [
        _spec(profile, f"profiles[{number}]", source) for number, profile in enumerate(file.profiles or ())
    ]
    return Configuration(
        profiles=checked(specs, source) if file.profiles is not None else DEFAULT.profiles,
        backoff=backoff(file.backoff.initial_seconds, file.backoff.max_seconds, source, "backoff.maxSeconds"),
        binding_seconds=file.binding_timeout_seconds,
        gangs=file.gangs,
    )


def _spec(profile: _Profile, path: str, source: str) -> ProfileSpec:
    for number, name in enumerate(disabled := profile.plugins.disabled):
        one_of(name, PLUGINS, source, f"{path}.plugins.disabled[{number}]")
        if name in disabled[:number]:
            raise ConfigurationError(source, f"{path}.plugins.disabled[{number}]", f"{name} stands twice")
    for name in profile.scores:
        one_of(name, SCORES, source, f"{path}.scores")
    one_of(profile.device_strategy, STRATEGIES, source, f"{path}.deviceStrategy")
    resources = CPU_AND_MEMORY
    if profile.resources is not None:
        resources = weights(profile.resources, source, f"{path}.resources")
    return ProfileSpec(
        name=profile.scheduler_name,
        disabled=frozenset(disabled),
        scores=weights(profile.scores, source, f"{path}.scores"),
        resources=resources,
        device_strategy=profile.device_strategy,
    )
