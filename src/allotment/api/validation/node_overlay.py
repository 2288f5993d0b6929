"""NodeOverlay: Karpenter's rules, and those of device templates."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from allotment.api.autoscaling import NodeOverlay, NodeOverlaySpec, NodeOverlayStatus
from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import label_key_problem
from allotment.api.quantity import Quantity
from allotment.api.validation.dynamic_resources import check_dynamic_resources
from allotment.api.validation.metadata import check_conditions, check_metadata
from allotment.api.validation.naming import formed
from allotment.api.validation.requirements import check_requirements

WEIGHTS: Final = (1, 10_000)
RESOURCES: Final = 100
STANDARD: Final = ("cpu", "memory", "ephemeral-storage", "pods")

_PRICE: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")
_ADJUSTMENT: Final = re.compile(
    r"[+-]([0-9]{1,12}(\.[0-9]{1,12})?|\.[0-9]{1,12})|\+([0-9]{1,6}(\.[0-9]{1,6})?)%|-(100|[0-9]{1,2}(\.[0-9]{1,6})?)%"
)
_SPEC: Final = FieldPath("spec")


def validate_node_overlay(overlay: NodeOverlay) -> list[FieldError]:
    """Everything that is wrong with an overlay by itself, except its status."""
    return [*check_metadata(overlay.metadata, namespaced=False), *_check_spec(overlay.spec)]


def validate_node_overlay_status(status: NodeOverlayStatus) -> list[FieldError]:
    return list(check_conditions(status.conditions, FieldPath("status", "conditions")))


def _check_spec(spec: NodeOverlaySpec) -> Iterator[FieldError]:
    yield from check_requirements(spec.requirements, _SPEC.child("requirements"))
    least, most = WEIGHTS
    if spec.weight is not None and not least <= spec.weight <= most:
        yield _SPEC.child("weight").invalid(f"must be {least} to {most}, or be left out for 0", spec.weight)
    if spec.price is not None and spec.price_adjustment is not None:
        yield _SPEC.invalid("must have one of price and priceAdjustment, not both")
    if spec.price is not None:
        yield from check_price(spec.price, _SPEC.child("price"))
    if spec.price_adjustment is not None and not _ADJUSTMENT.fullmatch(spec.price_adjustment):
        yield _SPEC.child("priceAdjustment").invalid(
            "must be a signed amount or percentage as in +0.5, -0.1, +10%, -15%; at most -100%",
            spec.price_adjustment,
        )
    yield from _check_capacity(spec.capacity, _SPEC.child("capacity"))
    if spec.dynamic_resources is not None:
        yield from check_dynamic_resources(spec.dynamic_resources, _SPEC.child("dynamicResources"))


def check_price(price: str, path: FieldPath) -> Iterator[FieldError]:
    """Requires an amount per hour. Machines and groups have a price too."""
    if not _PRICE.fullmatch(price):
        yield path.invalid("must be an amount per hour as in 0.5 or 12.25", price)


def _check_capacity(capacity: Mapping[str, Quantity], path: FieldPath) -> Iterator[FieldError]:
    if len(capacity) > RESOURCES:
        yield path.too_many(len(capacity), RESOURCES)
        return
    for name, amount in capacity.items():
        if name in STANDARD:
            yield path.key(name).forbidden(
                f"must not be set: {', '.join(STANDARD)} come from the instance type, an overlay adds extended resources"
            )
        yield from formed(name, path, label_key_problem)
        if amount.sign < 0 or amount.nanos % 10**9:
            yield path.key(name).invalid("must be a whole number, 0 or more", str(amount))
