"""Metrics of claims, with upstream's names where upstream has them; the other names begin with ``allotment_``.

What the informers' copies contain is counted when Prometheus asks. ``is_served`` says whether the server has a kind, given by
API group and name; if the parameter kinds of a driver are missing, the driver is not completely installed.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from allotment.api.claim_marks import EXTENDED, POD_CLAIM_NAME
from allotment.api.conversion.v1alpha2 import CARRIER
from allotment.api.resource import ResourceClaim
from allotment.api.semantic import ResourceClass
from allotment.client.form import ResourcePath, resource_of
from allotment.client.shared_informers import Informers

_UPSTREAM = "dynamic_resource_allocation"
_CLASSES = resource_of(ResourceClass)
Kind = tuple[str, str]
"""API group and kind."""


class ClaimCreations:
    """Attempts to create claims."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._creates = Counter(
            f"{_UPSTREAM}_resourceclaim_creates_total",
            "Attempts to create ResourceClaims, by outcome, admin access, and the API group and kind of the owner.",
            ("status", "admin_access", "owner_api_group", "owner_api_kind"),
            registry=registry,
        )

    def count(self, succeeded: bool, claim: dict[str, Any]) -> None:
        owner = claim["metadata"]["ownerReferences"][0]
        group, slash, _ = owner["apiVersion"].partition("/")
        requests = (claim["spec"].get("devices") or {}).get("requests") or ()
        admin = any((request.get("exactly") or {}).get("adminAccess") for request in requests)
        outcome = "success" if succeeded else "failure"
        self._creates.labels(outcome, _text(admin), group if slash else "", owner["kind"]).inc()


class ClaimNumbers(Collector):
    """How many claims there are, by kind of claim and by progress."""

    def __init__(self, informers: Informers, registry: CollectorRegistry) -> None:
        self._claims = informers.of(ResourceClaim)
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        claims = self._claims.all()
        yield _gauge(
            f"{_UPSTREAM}_resource_claims",
            "ResourceClaims by allocation status, admin access and source: resource_claim_template, "
            "extended_resource, or empty for those that somebody made.",
            ("allocated", "admin_access", "source"),
            Tally(
                (_text(claim.status.allocation is not None), _text(_admin(claim)), _source(claim))
                for claim in claims
            ),
        )
        states = Tally({(state,): 0 for state in ("pending", "allocated", "reserved")})
        states.update((_state(claim),) for claim in claims)
        yield _gauge(
            "allotment_resource_claims", "ResourceClaims by how far they have come.", ("state",), states
        )

    def describe(self) -> Iterable[Metric]:
        """Returns nothing: the families are known without counting, and registering must not wait for a first list."""
        return ()


class SemanticNumbers(Collector):
    """The metrics that KEP-4381 requires for classes, parameters and claims with semantic parameters."""

    def __init__(
        self,
        informers: Informers,
        registry: CollectorRegistry,
        is_served: Callable[[str, str], bool],
        *,
        classes: ResourcePath = _CLASSES,
    ) -> None:
        self._classes = informers.at(classes, ResourceClass)
        self._claims = informers.of(ResourceClaim)
        self._is_served = is_served
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        classes, claims = self._classes.all(), self._claims.all()
        kinds = set(_class_kinds(classes)) | {kind for claim in claims if (kind := _claim_kind(claim))}
        resolved = sum(self._is_served(*kind) for kind in kinds)
        yield _gauge(
            "allotment_semantic_resource_classes",
            "ResourceClasses whose claims the scheduler allocates from semantic parameters.",
            (),
            {(): sum(bool(each.semantic_parameters) for each in classes)},
        )
        yield _gauge(
            "allotment_semantic_parameter_kinds",
            "Kinds of parameters that classes and claims refer to, and those of them that the server has.",
            ("which",),
            {("total",): len(kinds), ("resolved",): resolved},
        )
        yield _gauge(
            "allotment_semantic_claims_allocated",
            "ResourceClaims that are allocated with semantic parameters.",
            (),
            {(): sum(claim.status.allocation is not None and _is_carried(claim) for claim in claims)},
        )

    def describe(self) -> Iterable[Metric]:
        """Returns nothing, as above."""
        return ()


def _gauge(name: str, help: str, labels: tuple[str, ...], values: Mapping[Any, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help, labels=labels)
    for label, value in sorted(values.items()):
        family.add_metric(label, value)
    return family


def _state(claim: ResourceClaim) -> str:
    if claim.status.reserved_for:
        return "reserved"
    return "pending" if claim.status.allocation is None else "allocated"


def _source(claim: ResourceClaim) -> str:
    annotations = claim.metadata.annotations
    if annotations.get(EXTENDED) == "true":
        return "extended_resource"
    return "resource_claim_template" if annotations.get(POD_CLAIM_NAME) else ""


def _admin(claim: ResourceClaim) -> bool:
    return any(
        request.exactly is not None and request.exactly.admin_access
        for request in claim.spec.devices.requests
    )


def _carried(claim: ResourceClaim) -> Iterator[dict[str, Any]]:
    for config in claim.spec.devices.config:
        opaque = config.opaque
        if opaque is not None and opaque.driver == CARRIER and isinstance(opaque.parameters, dict):
            yield opaque.parameters


def _is_carried(claim: ResourceClaim) -> bool:
    return next(_carried(claim), None) is not None


def _claim_kind(claim: ResourceClaim) -> Kind | None:
    for parameters in _carried(claim):
        if isinstance(reference := parameters.get("parametersRef"), dict):
            return str(reference.get("apiGroup") or ""), str(reference.get("kind") or "")
    return None


def _class_kinds(classes: Iterable[ResourceClass]) -> Iterator[Kind]:
    for each in classes:
        if each.parameters_ref is not None:
            yield each.parameters_ref.api_group or "", each.parameters_ref.kind


def _text(value: bool) -> str:
    return "true" if value else "false"
