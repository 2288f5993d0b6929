"""Single changes to the demands of claims: one of them left out, reduced, or one taint tolerated.

Nothing here knows whether a change helps; ``remedies`` finds out. A demand that can be reduced (a count, an amount of
capacity) is a ``ReducibleDemand``: less is never harder to get, so halving finds the most that fits. The exception is a request
for all devices, where less capacity may be harder: it admits more devices, which the claim must take too. A change
found there does help, but the search may miss one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from allotment.allocator.phrases import cut, on_one_line
from allotment.allocator.request import RESULTS_MAX
from allotment.allocator.taint import BLOCKING, tolerates
from allotment.api.quantity import Format, Quantity
from allotment.api.resource import (
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)

_LEAST_UNITS = 64
"""An offered amount is a multiple of the largest unit of which it has at least so many, but never of a smaller unit than the
amount asked for was written in needs."""
_DECIMAL = [10**power for power in range(0, 28, 3)]
_BINARY = [10**9 << shift for shift in range(0, 61, 10)]


class ChangeKind(StrEnum):
    """What a change affects, in the order of the offers: changes that give up least come first."""

    TOLERATION = "toleration"
    RESOURCES = "resources"  # the pod's cpu and memory
    NODE = "node"  # the pod's constraints on nodes
    COUNT = "count"
    CAPACITY = "capacity"
    CONSTRAINT = "constraint"
    SELECTOR = "selector"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class ClaimChange:
    """A change that replaces claim ``number`` of the question by ``claim``. ``words`` complete "fits …"."""

    kind: ChangeKind
    number: int
    claim: ResourceClaim
    request: str  # ``req`` or ``req/sub``; empty where the change is the whole claim's
    value: str  # what is added, or left out
    words: str
    given_up: float  # how much the change gives up, from 0 to 1, to compare changes of one kind


@dataclass(frozen=True, slots=True)
class ReducibleDemand:
    """A demand that can be reduced to any number from 1 to ``most``."""

    most: int
    at: Callable[[int], ClaimChange]


@dataclass(frozen=True, slots=True)
class _Ask:
    """One request of a claim, or one alternative of it, which can be rewritten."""

    claims: Sequence[ResourceClaim]
    number: int
    request: int
    alternative: int | None

    @property
    def wish(self) -> ExactDeviceRequest | DeviceSubRequest:
        request = self.claims[self.number].spec.devices.requests[self.request]
        if self.alternative is not None:
            return request.first_available[self.alternative]
        assert request.exactly is not None
        return request.exactly

    @property
    def name(self) -> str:
        request = self.claims[self.number].spec.devices.requests[self.request]
        return (
            request.name
            if self.alternative is None
            else f"{request.name}/{request.first_available[self.alternative].name}"
        )

    def changed(
        self, kind: ChangeKind, value: str, words: str, given_up: float, **fields: Any
    ) -> ClaimChange:
        claim = self.claims[self.number]
        requests = list(claim.spec.devices.requests)
        request, wish = requests[self.request], replace(self.wish, **fields)
        if isinstance(wish, ExactDeviceRequest):
            requests[self.request] = replace(request, exactly=wish)
        else:
            asks = [wish if n == self.alternative else each for n, each in enumerate(request.first_available)]
            requests[self.request] = replace(request, first_available=tuple(asks))
        return ClaimChange(
            kind, self.number, _with(claim, requests=tuple(requests)), self.name, value, words, given_up
        )

    def where(self, more: str = "") -> str:
        """In which request, and of which claim if there are several, in brackets."""
        claim = f"claim {self.claims[self.number].metadata.key}, " if len(self.claims) > 1 else ""
        return f"({claim}request {self.name}{more})"


def _with(claim: ResourceClaim, **fields: Any) -> ResourceClaim:
    return replace(claim, spec=replace(claim.spec, devices=replace(claim.spec.devices, **fields)))


def _asks(claims: Sequence[ResourceClaim]) -> Iterator[_Ask]:
    for number, claim in enumerate(claims):
        for index, request in enumerate(claim.spec.devices.requests):
            if request.exactly is not None and not request.first_available:
                yield _Ask(claims, number, index, None)
            for alternative in range(len(request.first_available)):
                yield _Ask(claims, number, index, alternative)


# --- left out ---


def constraints_left_out(claims: Sequence[ResourceClaim]) -> Iterator[ClaimChange]:
    """One change for each constraint."""
    for number, claim in enumerate(claims):
        constraints = claim.spec.devices.constraints
        for index, constraint in enumerate(constraints):
            kind = "matchAttribute" if constraint.match_attribute is not None else "distinctAttribute"
            attribute = constraint.match_attribute or constraint.distinct_attribute or ""
            of = f" (claim {claim.metadata.key})" if len(claims) > 1 else ""
            rest = constraints[:index] + constraints[index + 1 :]
            yield ClaimChange(
                ChangeKind.CONSTRAINT,
                number,
                _with(claim, constraints=rest),
                "",
                attribute,
                f"without {kind} {attribute}{of}",
                1 / len(constraints),
            )


def selectors_left_out(claims: Sequence[ResourceClaim]) -> Iterator[ClaimChange]:
    """One change for each selector of a request. A claim cannot change the selectors of classes."""
    for ask in _asks(claims):
        selectors = ask.wish.selectors
        for index, selector in enumerate(selectors):
            expression = on_one_line(selector.cel.expression) if selector.cel is not None else ""
            yield ask.changed(
                ChangeKind.SELECTOR,
                expression,
                f"without selector `{cut(expression)}` {ask.where()}",
                1 / len(selectors),
                selectors=selectors[:index] + selectors[index + 1 :],
            )


# --- tolerated ---


def tolerations(claims: Sequence[ResourceClaim], taints: Iterable[DeviceTaint]) -> Iterator[ClaimChange]:
    """One change for each key of a blocking taint and each request that does not tolerate it yet."""
    blocking = [taint for taint in taints if taint.effect in BLOCKING]
    for ask in _asks(claims):
        have = ask.wish.tolerations
        untold = {taint.key for taint in blocking if not any(tolerates(each, taint) for each in have)}
        for key in sorted(untold):
            more = DeviceToleration(key=key, operator="Exists")
            words = f"with a toleration of device taint {key} {ask.where()}"
            yield ask.changed(ChangeKind.TOLERATION, key, words, 0.0, tolerations=(*have, more))


# --- reduced ---


def counts(claims: Sequence[ResourceClaim]) -> Iterator[ReducibleDemand]:
    """Dials for every count above one, and for every request for all devices."""
    for ask in _asks(claims):
        dial = _count(ask)
        if dial is not None:
            yield dial


def capacities(claims: Sequence[ResourceClaim]) -> Iterator[ReducibleDemand]:
    """Dials for every amount of capacity."""
    for ask in _asks(claims):
        if ask.wish.capacity is not None:
            for name, wanted in ask.wish.capacity.requests.items():
                if wanted.nanos > 1:
                    yield _amount(ask, name, wanted)


def _count(ask: _Ask) -> ReducibleDemand | None:
    wish = ask.wish
    if wish.allocation_mode == "All":
        return ReducibleDemand(
            RESULTS_MAX,
            lambda count: ask.changed(
                ChangeKind.COUNT,
                str(count),
                f"with count ≤ {count} {ask.where(' asks for all')}",
                1 / (1 + count),
                allocation_mode="ExactCount",
                count=count,
            ),
        )
    asked = wish.count or 1
    if asked < 2:
        return None
    return ReducibleDemand(
        min(asked - 1, RESULTS_MAX),
        lambda count: ask.changed(
            ChangeKind.COUNT,
            str(count),
            f"with count ≤ {count} {ask.where(f' asks for {asked}')}",
            1 - count / asked,
            count=count,
        ),
    )


def _amount(ask: _Ask, name: str, wanted: Quantity) -> ReducibleDemand:
    capacity = ask.wish.capacity
    assert capacity is not None
    ranges = _smaller(wanted)

    def at(number: int) -> ClaimChange:
        amount = Quantity(_item(ranges, number - 1), wanted.format)
        return ask.changed(
            ChangeKind.CAPACITY,
            str(amount),
            f"with {name} ≤ {amount} {ask.where(f' asks for {wanted}')}",
            1 - amount.nanos / wanted.nanos,
            capacity=replace(capacity, requests={**capacity.requests, name: amount}),
        )

    return ReducibleDemand(sum(map(_length, ranges)), at)


def _smaller(wanted: Quantity) -> list[range]:
    """The amounts to offer instead, in billionths, the smallest first: one range for each unit.

    They begin far below the largest unit of ``wanted``: who asks for 9E may have to be content with 10Gi.
    """
    units = _BINARY if wanted.format is Format.BINARY_SI else _DECIMAL
    least = next(each for each in (10**9, 10**6, 1) if wanted.nanos % each == 0)
    larger = [each for each in units if each > least and wanted.nanos > _LEAST_UNITS * each]
    bounds = [least, *(_LEAST_UNITS * each for each in larger), wanted.nanos]
    return [range(*ends, unit) for ends, unit in zip(pairwise(bounds), [least, *larger], strict=True)]


def _length(amounts: range) -> int:
    """Like ``len``, which fails beyond 64 bits. A quantity may have thousands of digits."""
    return -((amounts.start - amounts.stop) // amounts.step)


def _item(ranges: Iterable[range], index: int) -> int:
    """What the ranges, one after another, have at the index."""
    for amounts in ranges:
        if index < _length(amounts):
            return amounts[index]
        index -= _length(amounts)
    raise IndexError(index)
