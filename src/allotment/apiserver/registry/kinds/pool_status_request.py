"""ResourcePoolStatusRequest: asks once how many devices of a driver are left. Kubernetes' kind, served in v1alpha3 only.

A new question has no status at all; once it has one, that never changes. Columns are upstream's.
"""

from __future__ import annotations

from typing import Any

from allotment.api.fields import FieldError
from allotment.api.pools import COMPLETE, FAILED, ResourcePoolStatusRequest
from allotment.api.validation import (
    validate_pool_status_answer,
    validate_pool_status_request,
)
from allotment.apiserver.registry.age import since
from allotment.apiserver.registry.columns import number, text
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.strategies import at, keep, unchanged
from allotment.apiserver.registry.strategy import Strategy, Write
from allotment.apiserver.registry.view import content_errors, keep_all_but_status, view
from allotment.apiserver.store.record import Obj

POOLS_UNLESS_LIMITED = 100
"""Pools in an answer, unless the question says otherwise."""


class _RequestStrategy(Strategy):
    def default(self, obj: Obj, write: Write) -> None:
        spec = obj.get("spec")
        if isinstance(spec, dict) and spec.get("limit") is None:
            spec["limit"] = POOLS_UNLESS_LIMITED

    def prepare_create(self, obj: Obj, write: Write) -> None:
        obj.pop("status", None)

    def prepare_update(self, obj: Obj, old: Obj, write: Write) -> None:
        keep(obj, old, "status")

    def prepare_status(self, obj: Obj, old: Obj, write: Write) -> None:
        keep_all_but_status(obj, old)

    def validate(self, obj: Obj) -> list[FieldError]:
        return content_errors(validate_pool_status_request(view(ResourcePoolStatusRequest, obj)))

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        return [*self.validate(obj), *unchanged(obj, old, "spec")]

    def validate_status(self, obj: Obj, old: Obj) -> list[FieldError]:
        new, before = (view(ResourcePoolStatusRequest, each) for each in (obj, old))
        return validate_pool_status_answer(new.status, before.status)


def _outcome(obj: Obj) -> Obj:
    """The condition that says how the request ended; empty until it has."""
    for each in at(obj, "status", "conditions") or ():
        if each.get("type") in (COMPLETE, FAILED) and each.get("status") == "True":
            return dict(each)
    return {}


def _pools(obj: Obj) -> list[Obj]:
    return at(obj, "status", "pools") or []


def _told(name: str, description: str, count: Any) -> PrinterColumn:
    """The total of a number over all reported pools, or a dash if there are none."""

    def read(obj: Obj, now: str) -> str:
        told = obj.get("status") is not None and _outcome(obj).get("type") != FAILED
        return str(count(_pools(obj))) if told else "-"

    return PrinterColumn(name, "string", read, description)


def _devices(name: str, field: str, description: str) -> PrinterColumn:
    return _told(name, description, lambda pools: sum(each.get(field) or 0 for each in pools))


def _state(obj: Obj, now: str) -> str:
    outcome = _outcome(obj).get("type") or "Pending"
    told, count = len(_pools(obj)), at(obj, "status", "poolCount") or 0
    return f"{outcome} ({told}/{count} pools)" if outcome == COMPLETE and count > told else str(outcome)


def _completed(obj: Obj, now: str) -> str:
    outcome = _outcome(obj)
    return since(outcome.get("lastTransitionTime"), now) if outcome.get("type") == COMPLETE else "<none>"


RESOURCES = (
    Resource(
        group="resource.k8s.io",
        version="v1alpha3",
        kind="ResourcePoolStatusRequest",
        plural="resourcepoolstatusrequests",
        namespaced=False,
        strategy=_RequestStrategy(),
        columns=(
            text("Driver", "spec.driver", "The driver that is asked about."),
            _devices("Total", "totalDevices", "Devices of all pools told of."),
            _devices("Available", "availableDevices", "Those that can be allocated."),
            _devices("Allocated", "allocatedDevices", "Those that claims hold."),
            _devices("Unavailable", "unavailableDevices", "Those that no claim holds or gets."),
            _told(
                "Errors",
                "Pools with something wrong.",
                lambda pools: sum(each.get("validationError") is not None for each in pools),
            ),
            number("Pools", "status.poolCount", "Pools that match."),
            PrinterColumn("Status", "string", _state, "How far it has come."),
            PrinterColumn("Completed", "string", _completed, "How long ago it was answered."),
        ),
        status=True,
        unconditional_update=False,
        doc=" ".join((ResourcePoolStatusRequest.__doc__ or "").split()),
    ),
)
