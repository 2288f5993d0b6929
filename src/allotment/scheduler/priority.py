"""The priority that a pod gets on creation, from its class or the default class. The server resolves it at creation; templates
and manifests only name the class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from allotment.api.batch import PriorityClass
    from allotment.api.core import PodSpec

_EVERYWHERE = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Priority classes that every server has."""


def with_priority(spec: PodSpec, classes: Mapping[str, PriorityClass]) -> PodSpec:
    """The spec with its priority filled in; unchanged if it has one already or its class is unknown."""
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
    """The name of the class for pods that name none; empty if there is none. Among several, the one with the lowest value
    counts."""
    found = [(each.value, name) for name, each in classes.items() if each.global_default]
    return min(found)[1] if found else ""
