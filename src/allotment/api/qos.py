"""The quality-of-service class of a pod: how its requests and limits for cpu and memory relate.

Guaranteed when both are set and equal everywhere, BestEffort when nothing is asked for at all, Burstable otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allotment.api.quantity import Quantity

_COUNTED = ("cpu", "memory")
_NOTHING = Quantity.of(0)


def qos_class(spec: Mapping[str, Any]) -> str:
    """The class of a pod with this spec, whose quantities are valid. Requests of the pod as a whole take precedence."""
    whole = spec.get("resources") or {}
    if any((whole.get(part) or {}).get(name) for part in ("requests", "limits") for name in _COUNTED):
        return _class_of(whole)
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    classes = {_class_of(container.get("resources") or {}) for container in containers}
    return classes.pop() if len(classes) == 1 else "Burstable" if classes else "BestEffort"


def _class_of(resources: Mapping[str, Any]) -> str:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    shapes = set()
    for name in _COUNTED:
        request, limit = _amount(requests, name), _amount(limits, name)
        if request != limit:
            return "Burstable"
        shapes.add("BestEffort" if request.is_zero else "Guaranteed")
    return shapes.pop() if len(shapes) == 1 else "Burstable"


def _amount(amounts: Mapping[str, Any], name: str) -> Quantity:
    return Quantity.from_json(amounts[name]) if name in amounts else _NOTHING
