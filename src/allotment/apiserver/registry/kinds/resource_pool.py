"""ResourcePool: how many devices a pool has and how many are left. Served in v1beta2 only.

A pool is created with its counts in one write; ``admissions.pool_counts`` lets only the controller create one.
"""

from __future__ import annotations

from typing import Any

from allotment.api.fields import FieldError
from allotment.api.pools import COMPLETE, VALID, ResourcePool
from allotment.api.validation import (
    validate_resource_pool,
    validate_resource_pool_status,
)
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.columns import text
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.strategies import ALL_METADATA, StrategyRules, at
from allotment.apiserver.registry.view import content_errors, view
from allotment.apiserver.store.record import Obj


def _check(obj: Obj) -> list[FieldError]:
    pool = view(ResourcePool, obj)
    return content_errors(validate_resource_pool(pool)) + validate_resource_pool_status(pool.status)


def _count(name: str, field: str, description: str, *, wide: bool = False) -> PrinterColumn:
    """A count of the summary; nothing until it is known."""

    def read(obj: Obj, now: str) -> Any:
        return at(obj, "status", "summary", field)

    return PrinterColumn(name, "integer", read, description, priority=1 if wide else 0)


def _condition(type_: str, description: str) -> PrinterColumn:
    """Whether a condition holds, with its reason where it does not."""

    def read(obj: Obj, now: str) -> str:
        for each in at(obj, "status", "conditions") or ():
            if each.get("type") == type_:
                holds, reason = each.get("status") or "Unknown", each.get("reason")
                return holds if holds == "True" or not reason else f"{holds} ({reason})"
        return "Unknown"

    return PrinterColumn(type_, "string", read, description, priority=1)


RESOURCES = (
    Resource(
        group="resource.k8s.io",
        version="v1beta2",
        kind="ResourcePool",
        plural="resourcepools",
        namespaced=False,
        strategy=StrategyRules(
            status={},
            status_kept_on_create=True,
            status_metadata=ALL_METADATA,
            check=_check,
            immutable=("spec",),
            check_status=lambda obj, old: validate_resource_pool_status(view(ResourcePool, obj).status),
        ),
        columns=(
            text("Driver", "spec.driver", "The driver whose slices make up the pool."),
            _count("Total", "totalDevices", "All devices of the pool."),
            _count("Allocated", "allocatedDevices", "Devices that claims hold."),
            _count("Available", "availableDevices", "Devices that can be allocated."),
            text("Pool", "spec.poolName", "The pool's name in the driver's slices.", wide=True),
            text("Node", "spec.nodeName", "The one node that reaches the devices.", wide=True),
            _count("Unavailable", "unavailableDevices", "Devices that no claim holds or gets.", wide=True),
            _count(
                "Partial", "partiallyAllocatedDevices", "Allocated devices with something left.", wide=True
            ),
            _condition(COMPLETE, "Whether all slices of the pool are there."),
            _condition(VALID, "Whether the slices agree with each other."),
            PrinterColumn("Age", "string", AGE.read, AGE.description, priority=1),
        ),
        fields={
            "spec.driver": lambda obj: at(obj, "spec", "driver") or "",
            "spec.poolName": lambda obj: at(obj, "spec", "poolName") or "",
            "spec.nodeName": lambda obj: at(obj, "spec", "nodeName") or "",
        },
        status=True,
        doc=" ".join((ResourcePool.__doc__ or "").split()),
    ),
)
