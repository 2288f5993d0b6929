"""ResourceClaim: a request for devices and, once allocated, the devices.

It has two forms, v1's and v1alpha2's (semantic parameters), and is stored as v1; an object that carries the other form is held to that
form's rules (see ``api.conversion.v1alpha2``). What needs other objects is in ``admissions``: ``allocations`` (no device is promised twice), ``claim_binding`` (who may
write which part of the status) and ``admin_access``.
"""

from __future__ import annotations

from typing import Any

from allotment.api import resource, semantic
from allotment.api.conversion import v1alpha2
from allotment.api.defaults import CLAIM, CLAIM_STATUS, fill_in
from allotment.api.fields import FieldError
from allotment.api.remembered import remembered
from allotment.api.validation import (
    validate_claim,
    validate_claim_status,
    validate_claim_update,
    validate_semantic_claim,
    validate_semantic_claim_status,
)
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.expressions import check_expression
from allotment.apiserver.registry.older_versions import V1ALPHA2, V1BETA1, V1BETA2
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.strategies import at, keep
from allotment.apiserver.registry.strategy import Strategy, Write
from allotment.apiserver.registry.view import content_errors, keep_all_but_status, view
from allotment.apiserver.store.record import Obj


class _ClaimStrategy(Strategy):
    """The spec never changes; the status is written through /status only and starts empty. No generation."""

    status_apart = True

    def default(self, obj: Obj, write: Write) -> None:
        fill_in(obj, CLAIM)
        v1alpha2.default_carried_spec(obj.get("spec"))

    def default_status(self, obj: Obj, write: Write) -> None:
        fill_in(obj, CLAIM_STATUS)

    def prepare_create(self, obj: Obj, write: Write) -> None:
        obj["status"] = {}

    def prepare_update(self, obj: Obj, old: Obj, write: Write) -> None:
        keep(obj, old, "status")

    def prepare_status(self, obj: Obj, old: Obj, write: Write) -> None:
        left_over = at(obj, "metadata", "annotations", v1alpha2.LEFT_OVER)
        keep_all_but_status(obj, old)
        _settle_annotation(obj, v1alpha2.LEFT_OVER, left_over)
        _drop_deallocated(obj, old)

    def validate(self, obj: Obj) -> list[FieldError]:
        carried = v1alpha2.as_carried(obj)
        if carried is not None:
            return content_errors(validate_semantic_claim(view(semantic.ResourceClaim, carried)))
        return list(_spec_errors(obj.get("spec") or {}))

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        if obj.get("spec") == old.get("spec"):
            return []
        new, before = view(resource.ResourceClaim, obj), view(resource.ResourceClaim, old)
        return content_errors(validate_claim_update(new, before))

    def validate_status(self, obj: Obj, old: Obj) -> list[FieldError]:
        carried = v1alpha2.as_carried(obj)
        if carried is not None and (before := v1alpha2.as_carried(old)) is not None:
            return content_errors(
                validate_semantic_claim_status(
                    view(semantic.ResourceClaim, carried), view(semantic.ResourceClaim, before)
                )
            )
        return content_errors(
            validate_claim_status(_looked_at(obj, "spec", "status"), _looked_at(old, "status"))
        )


def _looked_at(claim: Obj, *parts: str) -> resource.ResourceClaim:
    """What the rules of a status need of a claim: of its metadata, whether it is being deleted."""
    looked_at: Obj = {"apiVersion": claim.get("apiVersion")}
    if going := claim["metadata"].get("deletionTimestamp"):
        looked_at["metadata"] = {"deletionTimestamp": going}
    for part in parts:
        if part in claim:
            looked_at[part] = claim[part]
    return view(resource.ResourceClaim, looked_at)


@remembered
def _spec_errors(spec: Obj) -> tuple[FieldError, ...]:
    claim = view(resource.ResourceClaim, {"apiVersion": "resource.k8s.io/v1", "spec": spec})
    return tuple(content_errors(validate_claim(claim, check=check_expression)))


def _settle_annotation(obj: Obj, name: str, value: object) -> None:
    """Makes one annotation what a write to /status says, though it may not touch the others."""
    stored = obj["metadata"].get("annotations") or {}
    if stored.get(name) == value:
        return
    annotations = dict(stored)
    annotations.pop(name, None)
    if value is not None:
        annotations[name] = value
    if annotations:
        obj["metadata"]["annotations"] = annotations
    else:
        obj["metadata"].pop("annotations", None)


def _drop_deallocated(obj: Obj, old: Obj) -> None:
    """Takes out what drivers said about devices that this write gives back, so that schedulers need not know of it."""
    status = obj.get("status")
    devices = status.get("devices") if isinstance(status, dict) else None
    if not isinstance(status, dict) or not isinstance(devices, list):
        return
    gone = {_device(each) for each in _results(old)} - {_device(each) for each in _results(obj)}
    left = [device for device in devices if not isinstance(device, dict) or _device(device) not in gone]
    if left:
        status["devices"] = left
    else:
        del status["devices"]


def _results(claim: Obj) -> list[Obj]:
    results = at(claim, "status", "allocation", "devices", "results")
    return [each for each in results if isinstance(each, dict)] if isinstance(results, list) else []


def _device(entry: Obj) -> tuple[str, ...]:
    return tuple([str(entry.get(name)) for name in ("driver", "pool", "device", "shareID")])


def _state(claim: Obj, now: str) -> str:
    status: Any = claim.get("status") or {}
    deleted = bool(claim["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status.get("allocation") is not None:
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return ",".join(states)


RESOURCES = (
    Resource(
        group="resource.k8s.io",
        version="v1",
        kind="ResourceClaim",
        plural="resourceclaims",
        namespaced=True,
        strategy=_ClaimStrategy(),
        columns=(
            PrinterColumn(
                "State",
                "string",
                _state,
                "How far the claim has come: pending, allocated, reserved; deleted when it is going.",
            ),
            AGE,
        ),
        versions=(
            V1BETA2,
            V1BETA1,
            V1ALPHA2,
        ),
        status=True,
    ),
)
