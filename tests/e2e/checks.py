"""What phases, nodes and names of devices do not tell: who shares with whom, amounts, and what was written along.

A check reads the outcomes of a test's pods, and the claims that hold something, which are all of that test. It may be asked again
and again: of pods and claims, one may be seen before the other.
"""

from __future__ import annotations

from collections.abc import Callable

from allotment.api.quantity import Quantity
from allotment.api.resource import AllocationResult, DeviceRequestAllocationResult, ResourceClaim
from tests.e2e.outcome import Outcome, Outcomes
from tests.e2e.plane import Plane

Check = Callable[[Plane, Outcomes], bool]


def nothing_more(plane: Plane, found: Outcomes) -> bool:
    return True


def of(found: Outcomes, name: str) -> Outcome:
    (only,) = found[name]
    return only


def allocated(plane: Plane) -> list[tuple[ResourceClaim, AllocationResult]]:
    every = [(claim, claim.status.allocation) for claim in plane.claims.all()]
    return [(claim, allocation) for claim, allocation in every if allocation is not None]


def results(plane: Plane) -> list[DeviceRequestAllocationResult]:
    return [result for _, each in allocated(plane) for result in each.devices.results]


# --- who has what ---


def distinct(plane: Plane, found: Outcomes) -> bool:
    """No device was given twice."""
    given = [
        device
        for each in found.values()
        for one in each
        for devices in one.devices.values()
        for device in devices
    ]
    return len(given) == len(set(given))


def same(first: str, second: str) -> Check:
    """Two pods have the same devices, on the same node."""
    return lambda plane, found: (
        of(found, first).devices == of(found, second).devices
        and of(found, first).node == of(found, second).node
    )


def one_each(plane: Plane, found: Outcomes) -> bool:
    """Pods of a group share a device and a node; the groups do not."""
    groups = [{(one.node, *one.devices.values()) for one in each} for each in found.values()]
    return all(len(group) == 1 for group in groups) and len(set.union(*groups)) == len(groups)


def reserved_for(kind: str, users: int) -> Check:
    """The one claim there is has so many users of a kind."""

    def check(plane: Plane, found: Outcomes) -> bool:
        reserved = [[each.resource for each in claim.status.reserved_for] for claim, _ in allocated(plane)]
        return reserved == [[kind] * users]

    return check


def given_back(plane: Plane, found: Outcomes) -> bool:
    """Nothing is allocated; that a claim is deleted too is as good."""
    return not any(claim.status.allocation or claim.status.reserved_for for claim in plane.claims.all())


# --- what was written along ---


def consumed(name: str, *amounts: str) -> Check:
    """So much of a capacity went to the claims, in any order."""

    def check(plane: Plane, found: Outcomes) -> bool:
        given = sorted(result.consumed_capacity[name] for result in results(plane))
        return given == sorted(map(Quantity.parse, amounts))

    return check


def shares(plane: Plane, found: Outcomes) -> bool:
    """Each share of a device has an id of its own."""
    ids = [result.share_id for result in results(plane)]
    return None not in ids and len(ids) == len(set(ids))


def with_admin_access(plane: Plane, found: Outcomes) -> bool:
    return all(result.admin_access for result in results(plane))


def configured(*requests: str) -> Check:
    """The allocation has the claim's configuration for each of these requests."""

    def check(plane: Plane, found: Outcomes) -> bool:
        told = [
            (each.source, each.requests) for _, given in allocated(plane) for each in given.devices.config
        ]
        return told == [("FromClaim", (request,)) for request in requests]

    return check


def ready(plane: Plane, found: Outcomes) -> bool:
    """The driver said of each device that it is ready for the pod, which was waited for."""

    wanted = [type_ for result in results(plane) for type_ in result.binding_conditions]
    told = [
        condition.type
        for claim, _ in allocated(plane)
        for device in claim.status.devices
        for condition in device.conditions
        if condition.status == "True"
    ]
    return bool(wanted) and told == wanted


def taken_from_nodes(resource: str, amount: str) -> Check:
    """The pods' statuses say how much of the nodes' own resources their devices stand for."""

    def check(plane: Plane, found: Outcomes) -> bool:
        told = [
            (each.name, each.quantity)
            for pod in plane.pods.all()
            for status in pod.status.node_allocatable_resource_claim_statuses
            for each in status.mapping
        ]
        return told == [(resource, Quantity.parse(amount))]

    return check


def both(*checks: Check) -> Check:
    return lambda plane, found: all(check(plane, found) for check in checks)
