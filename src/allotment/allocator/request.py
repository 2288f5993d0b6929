"""Reads claims as a demand: the alternatives of each request, and the tests and needs of each alternative.

Nothing here depends on a node. A fault that makes a claim unanswerable on every node (a missing class, a disabled feature)
is kept as ``fault`` and raised when the claim is allocated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.allocator.errors import ClaimError
from allotment.allocator.selector import Criterion, SelectorTest

if TYPE_CHECKING:
    from allotment.allocator.features import Features
    from allotment.api.quantity import Quantity
    from allotment.api.resource import (
        DeviceClass,
        DeviceRequest,
        DeviceSelector,
        DeviceSubRequest,
        DeviceToleration,
        ExactDeviceRequest,
        ResourceClaim,
    )

RESULTS_MAX = 32
"""The most devices that one claim can hold."""

_TESTS_KEPT = 10_000


@dataclass(slots=True, eq=False)
class Ask:
    """What one request, or one alternative of it, needs. Asks of equal ``shape`` have the same suitable devices."""

    name: str  # its name in the result: ``req`` or ``req/sub``
    names: frozenset[str]  # its names in constraints: ``req`` and ``req/sub``
    class_name: str
    tests: tuple[Criterion, ...] = ()
    places: tuple[str, ...] = ()  # for each test, where it is written
    all: bool = False
    count: int = 1
    admin: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)
    shape: int = 0  # index of the distinct (tests, tolerations, capacity) within the demand
    constraints: tuple[int, ...] = ()  # constraints of the claim that bind this ask


@dataclass(slots=True, eq=False)
class RequestDemand:
    """A request: one ask, or alternatives in the order of preference."""

    name: str
    claim: int
    asks: tuple[Ask, ...]
    alternatives: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A constraint between the devices of a claim."""

    attribute: str
    distinct: bool
    requests: frozenset[str]  # empty: all

    def binds(self, ask: Ask) -> bool:
        return not self.requests or not self.requests.isdisjoint(ask.names)


@dataclass(slots=True, eq=False)
class Demand:
    """Everything that is requested together, all or nothing."""

    claims: tuple[ResourceClaim, ...]
    requests: tuple[RequestDemand, ...]  # of all claims, in order
    relations: tuple[tuple[Relation, ...], ...]  # per claim
    shapes: tuple[Ask, ...]  # one ask of each shape
    fault: ClaimError | None = None


class Book:
    """Classes, and the tests compiled from the expressions of classes and claims.

    A test caches its answers, so it pays to keep one Book for many claims: equal expressions share one test.
    """

    def __init__(self, classes: Mapping[str, DeviceClass], features: Features) -> None:
        self.classes = classes
        self.features = features
        self._tests: dict[str, Criterion] = {}

    def tests(self, selectors: Sequence[DeviceSelector], owner: str) -> tuple[Criterion, ...]:
        """The tests for selectors. Raises ClaimError for an unknown kind of selector."""
        return tuple(self._test(selector, owner, index) for index, selector in enumerate(selectors))

    def _test(self, selector: DeviceSelector, owner: str, index: int) -> Criterion:
        if selector.cel is None:
            raise ClaimError(f"{owner}, selector #{index}: CEL expression empty (unsupported selector type?)")
        expression = selector.cel.expression
        test = self._tests.get(expression)
        if test is None:
            if len(self._tests) >= _TESTS_KEPT:
                self._tests.clear()
            test = self._tests[expression] = SelectorTest(expression, self.features)
        return test

    def demand(self, claims: Sequence[ResourceClaim]) -> Demand:
        """The demand of the claims. Never raises: an invalid claim yields a demand with a fault."""
        reader = _RequestReader(self)
        relations: list[tuple[Relation, ...]] = []
        fault = None
        try:
            for index, claim in enumerate(claims):
                reader.read(index, claim)
                relations.append(_relations(claim))
        except ClaimError as exc:
            fault = exc
        if fault is None:
            for request in reader.requests:
                for ask in request.asks:
                    bound = relations[request.claim]
                    ask.constraints = tuple(i for i, relation in enumerate(bound) if relation.binds(ask))
        return Demand(tuple(claims), tuple(reader.requests), tuple(relations), tuple(reader.shapes), fault)


def _relations(claim: ResourceClaim) -> tuple[Relation, ...]:
    relations = []
    for index, constraint in enumerate(claim.spec.devices.constraints):
        names = frozenset(constraint.requests)
        if constraint.match_attribute is not None:
            relations.append(Relation(constraint.match_attribute, False, names))
        elif constraint.distinct_attribute is not None:
            relations.append(Relation(constraint.distinct_attribute, True, names))
        else:
            raise ClaimError(
                f"claim {claim.metadata.key}, constraint #{index}: empty constraint (unsupported constraint type?)"
            )
    return tuple(relations)


class _RequestReader:
    """Reads the requests of several claims in order; stops at the first fault."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._features = book.features
        self._shape_of: dict[object, int] = {}
        self.requests: list[RequestDemand] = []
        self.shapes: list[Ask] = []

    def read(self, index: int, claim: ResourceClaim) -> None:
        owner = claim.metadata.key
        for request in claim.spec.devices.requests:
            self._check_features(owner, request)
            if request.first_available:
                asks = tuple(
                    self._ask(owner, sub, f"{request.name}/{sub.name}", sub.name, request.name)
                    for sub in request.first_available
                )
                self.requests.append(RequestDemand(request.name, index, asks, True))
            elif request.exactly is not None:
                ask = self._ask(owner, request.exactly, request.name, request.name, request.name)
                self.requests.append(RequestDemand(request.name, index, (ask,), False))
            else:
                raise ClaimError(
                    f"claim {owner}, request {request.name}: neither exactly nor firstAvailable is set"
                )

    def _check_features(self, owner: str, request: DeviceRequest) -> None:
        if request.first_available and not self._features.PrioritizedList:
            raise ClaimError(
                f"claim {owner}, request {request.name}: has subrequests, but the DRAPrioritizedList feature is disabled"
            )
        if not self._features.ConsumableCapacity:
            off = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
            if request.exactly is not None and request.exactly.capacity is not None:
                raise ClaimError(f"claim {owner}, request {request.name}: {off}")
            for sub in request.first_available:
                if sub.capacity is not None:
                    raise ClaimError(f"claim {owner}, subrequest {sub.name}: {off}")

    def _ask(
        self,
        owner: str,
        wish: ExactDeviceRequest | DeviceSubRequest,
        result_name: str,
        own_name: str,
        parent: str,
    ) -> Ask:
        where = f"claim {owner}, request {own_name}"
        if wish.derived_attributes and not self._features.DerivedAttributes:
            raise ClaimError(
                f"{where}: cannot handle request with derived attributes, the feature is disabled"
            )
        tests = self._book.tests(wish.selectors, where)
        admin = getattr(wish, "admin_access", None)
        if admin is not None and not self._features.AdminAccess:
            raise ClaimError(f"{where}: admin access is requested, but the feature is disabled")
        class_tests = self._class_tests(where, wish.device_class_name)
        if wish.allocation_mode not in ("ExactCount", "All"):
            raise ClaimError(f"{where}: unsupported count mode {wish.allocation_mode or '(none)'}")
        ask = Ask(
            name=result_name,
            names=frozenset({result_name, parent}),
            class_name=wish.device_class_name,
            tests=class_tests + tests,
            places=(
                *(f"class {wish.device_class_name}: selector #{i}" for i in range(len(class_tests))),
                *(f"claim {owner}: selector #{i}" for i in range(len(tests))),
            ),
            all=wish.allocation_mode == "All",
            count=wish.count or 0,
            admin=bool(admin),
            tolerations=wish.tolerations,
            capacity=wish.capacity.requests if wish.capacity is not None else {},
            derived={attribute.name: attribute.expression for attribute in wish.derived_attributes},
        )
        ask.shape = self._shape(ask)
        return ask

    def _class_tests(self, where: str, name: str) -> tuple[Criterion, ...]:
        if not name:
            raise ClaimError(f"{where}: missing device class name (unsupported request type?)")
        found = self._book.classes.get(name)
        if found is None:
            raise ClaimError(f"{where}: could not retrieve device class {name}: there is none of that name")
        return self._book.tests(found.spec.selectors, f"class {name}")

    def _shape(self, ask: Ask) -> int:
        key = (ask.tests, ask.tolerations, tuple(sorted(ask.capacity.items())))
        shape = self._shape_of.setdefault(key, len(self.shapes))
        if shape == len(self.shapes):
            self.shapes.append(ask)
        return shape
