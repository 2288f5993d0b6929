"""Machines that may be launched: NodeOverlay, and Karpenter's NodePool and NodeClaim; NodeGroup in allotment.dev.

They are native here. On a real cluster they are custom resources of the same names: Karpenter's own, or those that
``autoscaler/crds.yaml`` defines. Columns and short names are Karpenter's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from allotment.api import autoscaling
from allotment.api.autoscaling import NodeClaim, NodeGroup, NodeOverlay, NodePool
from allotment.api.fields import FieldError
from allotment.api.meta import ApiStruct
from allotment.api.validation import (
    validate_node_claim,
    validate_node_group,
    validate_node_overlay,
    validate_node_overlay_status,
    validate_node_pool,
)
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.columns import number, text
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.strategies import ALL_METADATA, StrategyRules, at
from allotment.apiserver.registry.view import content_errors, view
from allotment.apiserver.store.record import Obj

T = TypeVar("T", bound=ApiStruct)


def _rules(kind: type[T], validate: Callable[[T], list[FieldError]], **more: Any) -> StrategyRules:
    """A spec that counts generations, and a status of its own."""
    facts = {
        "check_status": lambda obj, old: content_errors(validate(view(kind, obj))),
        **more,
    }
    return StrategyRules(
        stated=("spec",),
        status={},
        status_metadata=ALL_METADATA,
        generation=True,
        check=lambda obj: content_errors(validate(view(kind, obj))),
        **facts,
    )


def _condition(type_: str, *, wide: bool = False, field: str = "status", name: str = "") -> PrinterColumn:
    def read(obj: Obj, now: str) -> str:
        found = [each for each in at(obj, "status", "conditions") or () if each.get("type") == type_]
        return str(found[0].get(field) or "") if found else "Unknown" if field == "status" else ""

    return PrinterColumn(
        name or type_, "string", read, f"The {field} of the condition {type_}.", priority=int(wide)
    )


def _label(name: str, key: str, *, wide: bool = False) -> PrinterColumn:
    return PrinterColumn(
        name,
        "string",
        lambda obj, now: (at(obj, "metadata", "labels") or {}).get(key) or "",
        f"The label {key}.",
        priority=int(wide),
    )


def _weight(meaning: str) -> PrinterColumn:
    return PrinterColumn(
        "Weight", "integer", lambda obj, now: at(obj, "spec", "weight") or 0, meaning, priority=1
    )


def _price(obj: Obj, now: str) -> str:
    spec = obj.get("spec") or {}
    return str(spec.get("price") or spec.get("priceAdjustment") or "")


def _drivers(obj: Obj, now: str) -> str:
    templates = at(obj, "spec", "dynamicResources", "resourceSliceTemplates") or ()
    trees = at(obj, "spec", "dynamicResources", "nodeResourceSliceTemplates") or ()
    drivers = {at(each, "spec", "driver") or "" for each in templates}
    return ",".join(sorted(drivers | {at(each, "spec", "driverName") or "" for each in trees}))


def _resource(struct: type[ApiStruct], api_version: str, plural: str, **more: Any) -> Resource:
    group, _, version = api_version.rpartition("/")
    return Resource(
        group=group,
        version=version,
        kind=struct.__name__,
        plural=plural,
        namespaced=False,
        status=True,
        doc=" ".join((struct.__doc__ or "").split()),
        **more,
    )


RESOURCES = (
    _resource(
        NodeOverlay,
        autoscaling.OVERLAY_VERSION,
        "nodeoverlays",
        short_names=("overlays",),
        categories=("karpenter",),
        strategy=_rules(
            NodeOverlay,
            validate_node_overlay,
            check_status=lambda obj, old: validate_node_overlay_status(view(NodeOverlay, obj).status),
        ),
        columns=(
            _condition(autoscaling.READY),
            AGE,
            _weight("The higher wins."),
            PrinterColumn("Price", "string", _price, "The price, or how it is changed.", priority=1),
            PrinterColumn("Drivers", "string", _drivers, "Whose devices are foretold.", priority=1),
            _condition(autoscaling.VALIDATION_SUCCEEDED, wide=True, field="reason", name="Reason"),
        ),
    ),
    _resource(
        NodePool,
        autoscaling.KARPENTER_VERSION,
        "nodepools",
        categories=("karpenter",),
        strategy=_rules(NodePool, validate_node_pool),
        columns=(
            text("NodeClass", "spec.template.spec.nodeClassRef.name", "The provider's settings."),
            number("Nodes", "status.nodes", "Nodes of the pool."),
            _condition(autoscaling.READY),
            AGE,
            _weight("The higher is first."),
            text("CPU", "status.resources.cpu", "Of all nodes together.", wide=True),
            text("Memory", "status.resources.memory", "Of all nodes together.", wide=True),
        ),
    ),
    _resource(
        NodeClaim,
        autoscaling.KARPENTER_VERSION,
        "nodeclaims",
        categories=("karpenter",),
        strategy=_rules(NodeClaim, validate_node_claim, immutable=("spec",)),
        columns=(
            _label("Type", autoscaling.INSTANCE_TYPE),
            _label("Capacity", autoscaling.CAPACITY_TYPE),
            _label("Zone", autoscaling.ZONE),
            text("Node", "status.nodeName", "The node, once it is there."),
            _condition(autoscaling.READY),
            AGE,
            text("ID", "status.providerID", "The provider's name of the machine.", wide=True),
            _label("NodePool", autoscaling.NODE_POOL, wide=True),
        ),
        fields={
            "status.nodeName": lambda obj: at(obj, "status", "nodeName") or "",
            "status.providerID": lambda obj: at(obj, "status", "providerID") or "",
        },
    ),
    _resource(
        NodeGroup,
        autoscaling.OWN_VERSION,
        "nodegroups",
        strategy=_rules(NodeGroup, validate_node_group),
        columns=(
            number("Min", "spec.min", "Never fewer nodes."),
            number("Max", "spec.max", "Never more nodes."),
            number("Size", "status.size", "Nodes that there are, or are on their way."),
            text("Price", "spec.price", "Of one node, per hour."),
            AGE,
        ),
    ),
)
