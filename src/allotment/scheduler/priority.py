"""The priority that a pod has once it is created: of its class, or of the class that is the default. The server resolves it at creation;
templates and manifests only name the class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from allotment.api.batch import PriorityClass
    from allotment.api.core import PodSpec

_EVERYWHERE = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Classes that every server has."""


def with_priority(spec: PodSpec, classes: Mapping[str, PriorityClass]) -> PodSpec:
    """The spec with its priority; as it is where it has one, or its class is not known."""
    if spec.priority is not None:
        return spec
    if spec.priority_class_name:
        known = classes.get(spec.priority_class_name)
        value = known.value if known is not None else _EVERYWHERE.get(spec.priority_class_name)
    else:
        default = classes.get(default_class(classes))
        value = default.value if default is not None else None
    return spec if value is None else replace(spec, priority=value)


def default_class(classes: Mapping[str, PriorityClass]) -> str:
    """The name of the class of pods that name none; empty if there is no such class. Of several it is the one of the lowest value."""
    found = [(each.value, name) for name, each in classes.items() if each.global_default]
    return min(found)[1] if found else ""
