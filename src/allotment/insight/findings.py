"""What is wrong with devices in a cluster: leaks, lost devices, pools from which nothing can be allocated. Each finding has a
next step.

Only what the caller sees is judged; without nodes or pods, there are no findings about those. Recent changes are left alone,
because they may be in progress: a scheduler first allocates and then reserves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from shlex import quote
from typing import TYPE_CHECKING

from allotment.api.claim_marks import STANDS_IN_FOR
from allotment.api.core import Node, Pod
from allotment.api.resource import ResourceClaim, ResourceSlice
from allotment.api.text import few
from allotment.api.timestamps import moment
from allotment.scheduler.pod import claims_named
from allotment.usage.inventory import DUPLICATE_DEVICES

if TYPE_CHECKING:
    from allotment.allocator.pool import PoolID
    from allotment.api.resource import ResourceClaimConsumerReference
    from allotment.insight.snapshot import Snapshot
    from allotment.usage.allocation import AnyClaim
    from allotment.usage.pool import PoolUsage, VanishedDevice

UNRESERVED = "Unreserved"
USERS_GONE = "UsersGone"
CLAIM_GONE = "ClaimGone"
STUCK = "DeletionStuck"
DRIVER_GONE = "DriverGone"
VANISHED = "DeviceVanished"
PROMISED_TWICE = "PromisedTwice"
DUPLICATES = "DuplicateDevices"
INVALID = "PoolInvalid"
INCOMPLETE = "PoolIncomplete"
STALE = "StaleGeneration"
NODE_GONE = "NodeGone"
NODE_NOT_READY = "NodeNotReady"

KINDS = {
    UNRESERVED: "claims that hold devices nobody uses",
    USERS_GONE: "claims whose users are gone or have ended",
    CLAIM_GONE: "pods that run with devices of claims that were removed or deallocated",
    STUCK: "claims that are being deleted and still hold their devices",
    DRIVER_GONE: "claims on devices of drivers that no longer publish anything",
    VANISHED: "claims on devices that are no longer published",
    PROMISED_TWICE: "devices that several claims hold, although only one may",
    DUPLICATES: "pools with several devices of one name: nothing can be allocated from them",
    INVALID: "pools that are not valid: nothing can be allocated from them",
    INCOMPLETE: "pools with missing slices: nothing can be allocated from them",
    STALE: "slices of generations that newer ones replaced",
    NODE_GONE: "slices of nodes that are gone",
    NODE_NOT_READY: "slices of nodes that are not ready",
}
"""The order of the findings."""

_YOUNG = timedelta(minutes=1)
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem."""

    kind: str  # one of KINDS
    object: str  # in kubectl's form: ``resourceclaim/x``
    namespace: str  # empty for objects without a namespace
    message: str
    step: str  # the next step

    @property
    def subject(self) -> str:
        kind, _, name = self.object.partition("/")
        return f"{kind} {self.namespace}/{name}" if self.namespace else f"{kind} {name}"


def findings(snapshot: Snapshot, now: datetime) -> list[Finding]:
    """All findings, by kind and name."""
    running = _running(snapshot.of(Pod)) if snapshot.sees(Pod) else None
    found = [each for claim in snapshot.claims for each in _of_claim(claim, running, now)]
    found += claims_gone(snapshot.some(Pod), snapshot)
    if snapshot.sees(ResourceSlice):
        usage = snapshot.usage
        pools = usage.pools()
        lost = [(pool.id, pool.vanished) for pool in pools if pool.vanished] + [*usage.gone().items()]
        found += _vanished(lost, {pool.driver for pool in pools})
        found += [each for pool in pools for each in _of_pool(pool)]
        found += _stale(snapshot.of(ResourceSlice))
    if snapshot.sees(Node):
        found += _of_nodes(snapshot.of(ResourceSlice), snapshot.of(Node))
    order = list(KINDS)
    return sorted(found, key=lambda each: (order.index(each.kind), each.namespace, each.object))


# --- pods ---


def claims_gone(pods: Iterable[Pod], snapshot: Snapshot) -> list[Finding]:
    """Pods on a node that name claims which no longer exist or no longer belong to them: somebody removed the claims,
    including their finalizers, or cleared their status."""
    there = {(claim.metadata.namespace, claim.metadata.name): claim for claim in snapshot.claims}
    stand_ins: dict[str, list[str]] = defaultdict(list)  # by the uid of the pod
    for claim in snapshot.claims:
        if STANDS_IN_FOR in claim.metadata.annotations and claim.status.allocation is not None:
            for user in claim.status.reserved_for:
                stand_ins[user.uid].append(claim.metadata.name)
    found = []
    for pod in pods:
        meta = pod.metadata
        if (
            not pod.spec.node_name
            or pod.status.phase != "Running"
            or not snapshot.knows(ResourceClaim, meta.namespace)
        ):
            continue
        keys = [(meta.namespace, name) for name in claim_names(pod)]
        gone = [name for namespace, name in keys if (namespace, name) not in there]
        others = [name for key in keys for name in [key[1]] if key in there and not _is_for(there[key], pod)]
        told = [f"claim {few(gone, _NAMED)}, which is gone"] if gone else []
        told += (
            [
                f"claim {few(others, _NAMED)}, which is not reserved for it: it was deallocated, or removed and created again"
            ]
            if others
            else []
        )
        if told:
            keeps = stand_ins[meta.uid]
            held = (
                f"claim {few(keeps, _NAMED)} keeps its devices until it ends"
                if keeps
                else "its devices may be given to others"
            )
            step = f"{held}: kubectl delete pod -n {quote(meta.namespace)} {quote(meta.name)}"
            message = f"runs with {'; and with '.join(told)}"
            found.append(Finding(CLAIM_GONE, f"pod/{meta.name}", meta.namespace, message, step))
    return found


def claim_names(pod: Pod) -> list[str]:
    """The distinct claims that a pod names in its spec or status."""
    namespace = f"{pod.metadata.namespace}/"
    return list(dict.fromkeys(key.removeprefix(namespace) for key in claims_named(pod)))


def _is_for(claim: AnyClaim, pod: Pod) -> bool:
    """Whether a claim is reserved for a pod, or for something that is not a pod."""
    users = claim.status.reserved_for
    return any(user.uid == pod.metadata.uid or user.resource != "pods" for user in users)


# --- claims ---


def _running(pods: Iterable[Pod]) -> frozenset[str]:
    return frozenset([pod.metadata.uid for pod in pods if pod.status.phase not in ("Succeeded", "Failed")])


def _of_claim(claim: AnyClaim, running: frozenset[str] | None, now: datetime) -> Iterator[Finding]:
    meta, status = claim.metadata, claim.status
    if status.allocation is None:
        return
    since = _since(claim)
    if since is not None and now - since < _YOUNG:
        return

    def finding(kind: str, message: str, step: str) -> Finding:
        return Finding(kind, f"resourceclaim/{meta.name}", meta.namespace, message, step)

    remove = f"kubectl delete resourceclaim -n {quote(meta.namespace)} {quote(meta.name)}"
    deleted = moment(meta.deletion_timestamp)
    if deleted is not None:
        if now - deleted >= _YOUNG and not status.reserved_for:
            waits = ", ".join(meta.finalizers) or "no finalizer"
            message = f"is being deleted since {meta.deletion_timestamp} and waits for {waits}"
            yield finding(
                STUCK, message, "check that the controllers that remove these finalizers are running"
            )
        return
    if not status.reserved_for:
        yield finding(
            UNRESERVED, "is allocated, but nothing uses it", f"if no pod is about to use it: {remove}"
        )
    elif running is not None and not any(_may_run(user, running) for user in status.reserved_for):
        names = few([user.name for user in status.reserved_for], _NAMED)
        message = f"is reserved for {names}, none of which still runs"
        yield finding(
            USERS_GONE,
            message,
            f"check that a controller for claims is running; if the claim is not needed: {remove}",
        )


def _may_run(user: ResourceClaimConsumerReference, running: frozenset[str]) -> bool:
    """Users that are not pods are unknown, so they may be running."""
    return bool(user.api_group) or user.resource != "pods" or user.uid in running


def _since(claim: AnyClaim) -> datetime | None:
    """When it was allocated or, if that was not recorded, created."""
    allocation = claim.status.allocation if isinstance(claim, ResourceClaim) else None
    when = allocation.allocation_timestamp if allocation is not None else None
    return moment(when or claim.metadata.creation_timestamp)


def _vanished(
    lost: Iterable[tuple[PoolID, Sequence[VanishedDevice]]], drivers: set[str]
) -> Iterator[Finding]:
    """One finding for each claim and driver."""
    devices: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for pool, gone in lost:
        for device in gone:
            for namespace, name in {(each.claim_namespace, each.claim_name) for each in device.allocations}:
                devices[namespace, name, pool.driver].append(f"{pool.pool}/{device.name}")
    for (namespace, name, driver), held in devices.items():
        if driver in drivers:
            kind, message = VANISHED, f"holds {few(held, _NAMED)}, which {driver} no longer publishes"
        else:
            kind, message = (
                DRIVER_GONE,
                f"holds {few(held, _NAMED)} of {driver}, which no longer publishes anything",
            )
        step = f"check that {driver} is running there; if the devices do not come back, delete the claim's pods, then the claim"
        yield Finding(kind, f"resourceclaim/{name}", namespace, message, step)


# --- pools and slices ---


def _of_pool(pool: PoolUsage) -> Iterator[Finding]:
    subject = f"pool/{pool.driver}/{pool.pool_name}"
    for device in pool.devices:
        holders = [each for each in device.allocations if not each.admin_access]
        if len(holders) > 1 and any(each.share_id is None for each in holders):
            claims = few(sorted({each.claim for each in holders}), _NAMED)
            message = f"has device {device.name} in {len(holders)} allocations: {claims}"
            yield Finding(
                PROMISED_TWICE, subject, "", message, "delete the pods of all but one of these claims"
            )
    if not pool.valid.holds:
        kind = DUPLICATES if pool.valid.reason == DUPLICATE_DEVICES else INVALID
        message = f"is not valid: {'; '.join(pool.validation_errors[:_NAMED]) or pool.valid.message}"
        yield Finding(
            kind,
            subject,
            "",
            message,
            f"correct the configuration of driver {pool.driver}, which writes the slices",
        )
    if not pool.complete.holds:
        where = f" on node {pool.node_name}" if pool.node_name else ""
        step = f"check that driver {pool.driver} is running{where} and may write resourceslices"
        yield Finding(INCOMPLETE, subject, "", f"is incomplete: {pool.complete.message}", step)


def _stale(slices: Iterable[ResourceSlice]) -> Iterator[Finding]:
    pools: dict[tuple[str, str], list[ResourceSlice]] = defaultdict(list)
    for slice in slices:
        pools[slice.spec.driver, slice.spec.pool.name].append(slice)
    for mine in pools.values():
        newest = max(slice.spec.pool.generation for slice in mine)
        for slice in mine:
            if slice.spec.pool.generation < newest:
                yield _of_slice(
                    STALE,
                    slice,
                    f"is of generation {slice.spec.pool.generation} of pool {slice.spec.pool.name}, the newest is {newest}",
                    f"driver {slice.spec.driver} should have deleted it; if it stays:",
                )


def _of_nodes(slices: Iterable[ResourceSlice], nodes: Iterable[Node]) -> Iterator[Finding]:
    known = {node.metadata.name: node for node in nodes}
    for slice in slices:
        name = slice.spec.node_name
        if not name:
            continue
        node = known.get(name)
        owners = [each.uid for each in slice.metadata.owner_references if each.kind == "Node"]
        if node is None:
            yield _of_slice(
                NODE_GONE, slice, f"is of node {name}, which does not exist", "if the node is gone for good:"
            )
        elif owners and node.metadata.uid and node.metadata.uid not in owners:
            yield _of_slice(
                NODE_GONE, slice, f"is of an earlier node {name}", "it will no longer be updated:"
            )
        elif any(each.type == "Ready" and each.status != "True" for each in node.status.conditions):
            step = f"find out why with: kubectl describe node {quote(name)}"
            yield Finding(
                NODE_NOT_READY,
                f"resourceslice/{slice.metadata.name}",
                "",
                f"is of node {name}, which is not ready",
                step,
            )


def _of_slice(kind: str, slice: ResourceSlice, message: str, before: str) -> Finding:
    name = slice.metadata.name
    return Finding(
        kind, f"resourceslice/{name}", "", message, f"{before} kubectl delete resourceslice {quote(name)}"
    )
