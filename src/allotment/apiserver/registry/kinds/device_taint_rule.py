"""DeviceTaintRule: taints devices independently of their driver. Served in v1 and v1beta2, never in v1beta1."""

from __future__ import annotations

from typing import Any

from allotment.api import resource
from allotment.api.defaults import TAINT_RULE, fill_in
from allotment.api.fields import FieldError
from allotment.api.validation import validate_taint_rule
from allotment.apiserver.registry.age import AGE, since
from allotment.apiserver.registry.resource import PrinterColumn, Resource, ServedVersion
from allotment.apiserver.registry.strategies import at, keep
from allotment.apiserver.registry.strategy import Strategy, Write
from allotment.apiserver.registry.view import (
    content_errors,
    first_generation,
    keep_all_but_status,
    next_generation,
    view,
)
from allotment.apiserver.store.record import Obj


class _DeviceTaintRuleStrategy(Strategy):
    """The spec may change; the controller that evicts writes the status."""

    def default(self, obj: Obj, write: Write) -> None:
        fill_in(obj, TAINT_RULE, write.now)

    def prepare_create(self, obj: Obj, write: Write) -> None:
        obj["status"] = {}
        first_generation(obj)

    def prepare_update(self, obj: Obj, old: Obj, write: Write) -> None:
        """``timeAdded`` says since when the *effect* is there, as tolerations count from it: a new effect with the
        old time gets the time of the change."""
        keep(obj, old, "status")
        before, after = _taint(old), _taint(obj)
        if before.get("effect") != after.get("effect") and before.get("timeAdded") == after.get("timeAdded"):
            after["timeAdded"] = write.now
        next_generation(resource.DeviceTaintRule, obj, old)

    def prepare_status(self, obj: Obj, old: Obj, write: Write) -> None:
        keep_all_but_status(obj, old)

    def validate(self, obj: Obj) -> list[FieldError]:
        return content_errors(validate_taint_rule(view(resource.DeviceTaintRule, obj)))

    def validate_status(self, obj: Obj, old: Obj) -> list[FieldError]:
        return self.validate(obj)


def _taint(rule: Obj) -> dict[str, Any]:
    """The rule's taint; not part of the rule where it has none, which validation reports."""
    taint = at(rule, "spec", "taint")
    return taint if isinstance(taint, dict) else {}


def _added(rule: Obj, now: str) -> str:
    time = _taint(rule).get("timeAdded")
    return since(time, now) if time else ""


RESOURCES = (
    Resource(
        group="resource.k8s.io",
        version="v1",
        kind="DeviceTaintRule",
        plural="devicetaintrules",
        namespaced=False,
        strategy=_DeviceTaintRuleStrategy(),
        columns=(
            PrinterColumn("Key", "string", lambda obj, now: _taint(obj).get("key", "")),
            PrinterColumn("Value", "string", lambda obj, now: _taint(obj).get("value", "")),
            PrinterColumn("Effect", "string", lambda obj, now: _taint(obj).get("effect", "")),
            PrinterColumn("TimeAdded", "string", lambda obj, now: _added(obj, now)),
            AGE,
        ),
        versions=(ServedVersion("v1beta2"),),
        status=True,
        unconditional_update=False,
    ),
)
