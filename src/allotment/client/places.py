"""Kinds that not every server has, and the paths at which each may be served.

Kinds that Kubernetes does not have are native in ``resource.k8s.io`` on the embedded server, and custom resources of the
same version in ``allotment.dev`` on a real one. For kinds with several compatible versions, all of them are listed.
"""

from __future__ import annotations

from dataclasses import replace

from allotment.api import semantic
from allotment.api.batch import (
    POLICY,
    SCHEDULING,
    VOLCANO,
    PodDisruptionBudget,
    PodGroup,
    Queue,
    VolcanoPodGroup,
)
from allotment.api.meta import ApiStruct
from allotment.api.pools import ResourcePool
from allotment.api.resource import DeviceTaintRule
from allotment.api.storage import KINDS as STORAGE
from allotment.client.discovery import Discovery
from allotment.client.form import ResourcePath, resource_of

DEFINITIONS = ResourcePath("apiextensions.k8s.io/v1", "customresourcedefinitions", False)
"""Where definitions are served; watching them shows when a server begins to serve a kind."""


def _also(type_: type[ApiStruct], api_version: str) -> tuple[ResourcePath, ...]:
    native = resource_of(type_)
    return native, replace(native, api_version=api_version)


PLACES: dict[type[ApiStruct], tuple[ResourcePath, ...]] = {
    DeviceTaintRule: _also(DeviceTaintRule, "resource.k8s.io/v1beta2"),
    ResourcePool: _also(ResourcePool, "allotment.dev/v1beta2"),
    PodGroup: (ResourcePath(SCHEDULING, "podgroups", True),),
    PodDisruptionBudget: (ResourcePath(POLICY, "poddisruptionbudgets", True),),
    VolcanoPodGroup: (ResourcePath(VOLCANO, "podgroups", True),),
    Queue: (ResourcePath(VOLCANO, "queues", False),),
    **{type_: (resource_of(type_),) for type_ in STORAGE},
    **{
        type_: _also(type_, "allotment.dev/v1alpha2")
        for type_ in (
            semantic.NodeResourceSlice,
            semantic.ResourceClass,
            semantic.ResourceClassParameters,
            semantic.ResourceClaimParameters,
        )
    },
}
"""The kinds that schedulers follow, each with its possible paths, best first."""


def place_of(type_: type[ApiStruct], served: Discovery) -> ResourcePath | None:
    """The path at which a server has the kind, which need not be one of these; None if it has it nowhere."""
    places = PLACES.get(type_) or (resource_of(type_),)
    return next((each for each in places if served.has(each.api_version, each.plural)), None)
