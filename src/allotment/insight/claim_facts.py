"""A claim in detail, for ``allot describe claim``: what it requests, what it has, who uses it, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from allotment.allocator.semantic import SemanticBook
from allotment.allocator.semantic_carrier import carried
from allotment.api import semantic
from allotment.api.resource import ResourceClaim, ResourceSlice
from allotment.insight.absent import absent
from allotment.insight.errors import Failure, NoAnswer
from allotment.insight.findings import Finding, findings
from allotment.insight.manifest_cluster import name_of
from allotment.usage.allocation import held_by

if TYPE_CHECKING:
    from allotment.allocator.pool import PoolID
    from allotment.insight.snapshot import Snapshot
    from allotment.insight.usage_document import Document
    from allotment.usage.allocation import AllocationInfo, AnyClaim

PENDING, ALLOCATED, IN_USE, DELETING = "Pending", "Allocated", "InUse", "Deleting"
PARAMETERS = (semantic.ResourceClass, semantic.ResourceClassParameters, semantic.ResourceClaimParameters)
"""The kinds to which v1alpha2 claims refer."""


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """One device of the claim, or one share of a device."""

    pool: PoolID
    device: str
    info: AllocationInfo
    published: bool | None  # None: the caller may not see slices
    node: str  # the only node that reaches it, if there is only one


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """Everything that ``allot describe claim`` shows."""

    claim: AnyClaim
    devices: tuple[HeldDevice, ...]
    problems: tuple[Finding, ...]
    wishes: tuple[str, ...] = ()  # one line for each request

    @property
    def state(self) -> str:
        if self.claim.metadata.deletion_timestamp is not None:
            return DELETING
        if self.claim.status.allocation is None:
            return PENDING
        return IN_USE if self.claim.status.reserved_for else ALLOCATED


def named_claim(snapshot: Snapshot, name: str, namespaces: Sequence[str]) -> AnyClaim:
    """The only claim of that name in the namespaces, or in all that the caller sees. Raises Failure if there is none or more
    than one."""
    hidden = [
        each for each in namespaces if snapshot.namespaces is not None and each not in snapshot.namespaces
    ]
    found = [
        claim
        for claim in snapshot.claims
        if claim.metadata.name == name and (not namespaces or claim.metadata.namespace in namespaces)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        where = ", ".join(sorted(claim.metadata.namespace for claim in found))
        raise Failure(
            f"there are claims {name} in several namespaces: {where}", "choose one with -n NAMESPACE"
        )
    if hidden or (snapshot.namespaces is not None and not snapshot.namespaces):
        where = f" in namespace {hidden[0]}" if hidden else ""
        raise NoAnswer(
            f"you may not list resourceclaims{where}", "name a namespace where you may, with -n NAMESPACE"
        )
    asked = f"{namespaces[0]}/{name}" if namespaces else name
    known = {
        "/".join(name_of(claim.metadata)) if namespaces else claim.metadata.name for claim in snapshot.claims
    }
    raise absent("claim", asked, known, "kubectl get resourceclaims -A")


def facts_of(claim: AnyClaim, snapshot: Snapshot, now: datetime) -> ClaimFacts:
    """What there is to tell of a claim."""
    sees = snapshot.sees(ResourceSlice)
    homes = {(pool.id, device.name): device.node_name for pool in snapshot.pools() for device in pool.devices}
    devices = tuple(
        HeldDevice(id, name, info, (id, name) in homes if sees else None, homes.get((id, name), ""))
        for id, held in sorted(held_by(claim).items())
        for name, infos in sorted(held.items())
        for info in infos
    )
    me = (f"resourceclaim/{claim.metadata.name}", claim.metadata.namespace)
    problems = tuple(each for each in findings(snapshot, now) if (each.object, each.namespace) == me)
    return ClaimFacts(claim, devices, problems, tuple(wishes(claim, book_of(snapshot))))


def wishes(claim: AnyClaim, book: SemanticBook | None = None) -> list[str]:
    """What a claim requests, one line per request. ``book`` has the parameters of v1alpha2 claims, if the caller sees them."""
    of_alpha2 = carried(claim) if isinstance(claim, ResourceClaim) else claim
    if of_alpha2 is not None:
        return list(_instances_wished(of_alpha2, book))
    assert isinstance(claim, ResourceClaim)
    lines = []
    for request in claim.spec.devices.requests:
        asks = [request.exactly] if request.exactly is not None else request.first_available
        words = [
            f"{'all' if ask.allocation_mode == 'All' else ask.count or 1} of class {ask.device_class_name}"
            for ask in asks
        ]
        lines.append(f"{request.name}: {', else '.join(words)}")
    return lines


def _instances_wished(claim: semantic.ResourceClaim, book: SemanticBook | None) -> Iterator[str]:
    """The class and parameters of a v1alpha2 claim, then each instance that it requests, with the conditions that the class
    adds."""
    spec = claim.spec
    reference = spec.parameters_ref
    named = f", by {reference.kind} {reference.name}" if reference is not None else ""
    yield f"resources of class {spec.resource_class_name}{named}"
    demand = book.demand([claim]) if book is not None else None
    if demand is None:
        return
    if demand.fault is not None:
        yield f"the exact request is not known: {demand.fault}"
        return
    for request in demand.requests:
        (ask,) = request.asks
        of_driver, *filters, selector = [test.expression for test in ask.tests]
        wanted = "" if selector == "true" else f" where {selector}"
        also = "".join(f"; the class requires {each}" for each in filters)
        yield f"{request.name}: one instance with {of_driver}{wanted}{also}"


def book_of(snapshot: Snapshot) -> SemanticBook | None:
    """Classes and parameters of v1alpha2 that the caller sees; None if the caller cannot see them."""
    if not snapshot.sees(semantic.ResourceClass):
        return None
    return SemanticBook(
        snapshot.of(semantic.ResourceClass),
        snapshot.of(semantic.ResourceClassParameters),
        snapshot.some(semantic.ResourceClaimParameters),
    )


def claim_document(facts: ClaimFacts) -> Document:
    meta = facts.claim.metadata
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "created": meta.creation_timestamp,
        "state": facts.state,
        "requests": list(facts.wishes),
        "devices": [device_document(each) for each in facts.devices],
        "users": [
            {"resource": user.resource, "name": user.name, "uid": user.uid}
            for user in facts.claim.status.reserved_for
        ],
        "problems": [
            {"kind": each.kind, "message": each.message, "nextStep": each.step} for each in facts.problems
        ],
    }


def device_document(held: HeldDevice) -> Document:
    document: Document = {
        "request": held.info.request,
        "driver": held.pool.driver,
        "pool": held.pool.pool,
        "device": held.device,
        "node": held.node or None,
        "published": held.published,
    }
    if held.info.share_id is not None:
        amounts = {name: str(amount) for name, amount in sorted(held.info.capacity.items())}
        document |= {"shareID": held.info.share_id, "capacity": amounts}
    if held.info.admin_access:
        document["adminAccess"] = True
    return document
