"""The specs of ResourceClaim and ResourceClaimTemplate. ``claim_status`` checks the claim's status.

Fields that defaulting fills in may be absent here: a claim is as valid before defaulting as after it. The names
in capacity requests are not checked, as in Kubernetes: one that no device can have matches no device.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

from allotment.api.codec import to_builtins
from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import (
    dns_subdomain_problem,
)
from allotment.api.resource import (
    DeviceClaim,
    DeviceClaimConfiguration,
    DeviceConstraint,
    DeviceDerivedAttribute,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
)
from allotment.api.text import some_of
from allotment.api.validation.configuration import CONFIGURATIONS, check_opaque, check_selectors
from allotment.api.validation.expressions import (
    EXPRESSION_COST,
    CheckedExpression,
    ExpressionChecker,
    ExpressionUse,
    check_expression,
)
from allotment.api.validation.lists import each, each_once, named
from allotment.api.validation.metadata import check_labels, check_metadata
from allotment.api.validation.naming import check_fully_qualified_name, check_label
from allotment.api.validation.taint import check_tolerations

REQUESTS: Final = 32
SUBREQUESTS: Final = 8
CONSTRAINTS: Final = 32
DERIVED_ATTRIBUTES: Final = 32
MODES: Final = ("ExactCount", "All")

_SPEC: Final = FieldPath("spec")


def validate_claim(claim: ResourceClaim, *, check: ExpressionChecker) -> list[FieldError]:
    """Everything that is wrong with the metadata and spec of a new claim."""
    devices = _SPEC.child("devices")
    return [
        *check_metadata(claim.metadata, namespaced=True),
        *_check_devices(claim.spec.devices, devices, check),
    ]


def validate_claim_update(new: ResourceClaim, old: ResourceClaim) -> list[FieldError]:
    """Requires an unchanged spec. It was valid when it was stored, so nothing else needs a check."""
    errors = list(check_metadata(new.metadata, namespaced=True))
    if new.spec != old.spec:
        errors.append(_SPEC.invalid("field is immutable"))
    return errors


def validate_template(template: ResourceClaimTemplate, *, check: ExpressionChecker) -> list[FieldError]:
    """Everything that is wrong with a new template."""
    inner = template.spec
    return [
        *check_metadata(template.metadata, namespaced=True),
        *check_labels(inner.metadata, _SPEC.child("metadata")),
        *_check_devices(inner.spec.devices, _SPEC.child("spec", "devices"), check),
    ]


def validate_template_update(new: ResourceClaimTemplate, old: ResourceClaimTemplate) -> list[FieldError]:
    """Requires an unchanged spec, as for claims."""
    errors = list(check_metadata(new.metadata, namespaced=True))
    if new.spec != old.spec:
        errors.append(_SPEC.invalid("field is immutable", to_builtins(new.spec)))
    return errors


class RequestNames:
    """The names of a claim's requests and their alternatives, to resolve ``req`` and ``req/sub``."""

    def __init__(self, claim: DeviceClaim) -> None:
        self._known = {request.name for request in claim.requests}
        for request in claim.requests:
            if request.first_available:
                self._known |= {f"{request.name}/{sub.name}" for sub in request.first_available}

    @cached_property
    def _told(self) -> str:
        return some_of(self._known, 8) or "none"

    def check(self, reference: str, path: FieldPath) -> Iterable[FieldError]:
        if reference in self._known:
            return ()
        what = "the name of a request in the claim or the name of a request and a subrequest separated by '/'"
        return (path.invalid(f"must be {what}; there is {self._told}", reference),)

    def check_all(self, references: tuple[str, ...], path: FieldPath) -> Iterator[FieldError]:
        return each_once(references, path, REQUESTS, self.check, str)


def _check_devices(claim: DeviceClaim, path: FieldPath, check: ExpressionChecker) -> Iterator[FieldError]:
    names = RequestNames(claim)
    requests = _RequestCheck(claim, check)
    yield from each_once(
        claim.requests, path.child("requests"), REQUESTS, requests.check, lambda request: request.name
    )
    yield from each(
        claim.constraints,
        path.child("constraints"),
        CONSTRAINTS,
        lambda constraint, at: _check_constraint(constraint, at, names),
    )
    yield from each(
        claim.config,
        path.child("config"),
        CONFIGURATIONS,
        lambda config, at: _check_configuration(config, at, names),
    )
    if requests.derived_cost > EXPRESSION_COST:
        yield path.forbidden(
            f"the derived attributes are too complex together: their cost may reach {requests.derived_cost}, the limit is {EXPRESSION_COST}"
        )


def _check_constraint(
    constraint: DeviceConstraint, path: FieldPath, names: RequestNames
) -> Iterator[FieldError]:
    yield from names.check_all(constraint.requests, path.child("requests"))
    given = {
        "matchAttribute": constraint.match_attribute,
        "distinctAttribute": constraint.distinct_attribute,
    }
    attributes = {field: name for field, name in given.items() if name is not None}
    if len(attributes) != 1:
        yield path.required("must set exactly one of matchAttribute and distinctAttribute")
    for field, name in attributes.items():
        yield from check_fully_qualified_name(name, path.child(field))


def _check_configuration(
    config: DeviceClaimConfiguration, path: FieldPath, names: RequestNames
) -> Iterator[FieldError]:
    yield from names.check_all(config.requests, path.child("requests"))
    yield from check_opaque(config.opaque, path)


class _RequestCheck:
    """Checks the requests of one claim and sums up the cost of their derived attributes."""

    def __init__(self, claim: DeviceClaim, check: ExpressionChecker) -> None:
        self._check = check
        self.derived_cost = 0
        self._constrained = {
            (reference, attribute)
            for constraint in claim.constraints
            for attribute in (constraint.match_attribute, constraint.distinct_attribute)
            if attribute is not None
            for reference in constraint.requests or ("",)
        }

    def check(self, request: DeviceRequest, path: FieldPath) -> Iterator[FieldError]:
        yield from check_label(request.name, path.child("name"))
        if (request.exactly is None) == (not request.first_available):
            yield path.required("exactly one of `exactly` or `firstAvailable` is required")
        elif request.exactly is not None:
            yield from self._check_wish(request.exactly, path.child("exactly"), ("", request.name))
        else:
            yield from each_once(
                request.first_available,
                path.child("firstAvailable"),
                SUBREQUESTS,
                lambda sub, at: self._check_alternative(sub, at, request.name),
                lambda sub: sub.name,
            )

    def _check_alternative(self, sub: DeviceSubRequest, path: FieldPath, parent: str) -> Iterator[FieldError]:
        yield from check_label(sub.name, path.child("name"))
        yield from self._check_wish(sub, path, ("", parent, f"{parent}/{sub.name}"))

    def _check_wish(
        self, wish: ExactDeviceRequest | DeviceSubRequest, path: FieldPath, references: tuple[str, ...]
    ) -> Iterator[FieldError]:
        """Checks the fields that a request and an alternative share; ``references`` are the names that constraints use."""
        yield from named(wish.device_class_name, path.child("deviceClassName"), dns_subdomain_problem)
        yield from check_selectors(wish.selectors, path.child("selectors"), self._check)
        yield from _check_count(wish, path)
        yield from check_tolerations(wish.tolerations, path.child("tolerations"))
        if len(wish.derived_attributes) > DERIVED_ATTRIBUTES:
            yield path.child("derivedAttributes").too_many(len(wish.derived_attributes), DERIVED_ATTRIBUTES)
        yield from each_once(
            wish.derived_attributes[: DERIVED_ATTRIBUTES + 1],
            path.child("derivedAttributes"),
            None,
            lambda derived, at: self._check_derived(derived, at, references),
            lambda derived: derived.name,
        )

    def _check_derived(
        self, derived: DeviceDerivedAttribute, path: FieldPath, references: tuple[str, ...]
    ) -> Iterator[FieldError]:
        name, at = path.child("name"), path.child("expression")
        if not derived.name:
            yield name.required()
        else:
            yield from check_fully_qualified_name(derived.name, name)
            if not any((reference, derived.name) in self._constrained for reference in references):
                yield name.invalid(
                    "must be used by a matchAttribute or distinctAttribute constraint on this request",
                    derived.name,
                )
        if not derived.expression:
            yield at.required("is required: write a CEL expression")
        else:
            yield from check_expression(derived.expression, ExpressionUse.DERIVED_ATTRIBUTE, at, self._judge)

    def _judge(self, expression: str, use: ExpressionUse) -> CheckedExpression:
        verdict = self._check(expression, use)
        self.derived_cost += verdict.cost
        return verdict


def _check_count(wish: ExactDeviceRequest | DeviceSubRequest, path: FieldPath) -> Iterator[FieldError]:
    mode, count = wish.allocation_mode or "ExactCount", wish.count
    if mode not in MODES:
        yield path.child("allocationMode").not_supported(mode, MODES)
    elif mode == "All":
        if count:
            yield path.child("count").invalid("must not be set for allocationMode All", count)
    elif count is not None and count <= 0:
        yield path.child("count").invalid("must be greater than zero", count)
