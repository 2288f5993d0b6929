"""Kinds that not every server has, and where each may be.

What Kubernetes does not have is native in ``resource.k8s.io`` on the embedded server, and a custom resource of the same
version in ``allotment.dev`` on a real one. What it has in several versions is looked for in each that reads alike.
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
"""Those tell when a kind comes to be served."""


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
"""What schedulers follow. The best place first."""


def place_of(type_: type[ApiStruct], served: Discovery) -> ResourcePath | None:
    """Where a server has one of these kinds, or another in the one place where it may be; None: nowhere."""
    places = PLACES.get(type_) or (resource_of(type_),)
    return next((each for each in places if served.has(each.api_version, each.plural)), None)
