"""Claims that were removed, or lost their allocation, while pods run with their devices.

Finalizers normally prevent the removal, but a user who strips them or writes statuses can still cause it. The containers go on
using the devices, so no other pod may get them until the last such pod ends. The scheduler holds the devices in memory from the
moment the claim goes. Usually the pods have ended too, and only the news of their end arrives later. If they still run
``WARN_AFTER`` seconds later, the scheduler warns each pod in an event and makes a *stand-in*: another claim that has the same
devices, is reserved for those pods and belongs to one of them. Everything else (counters, other schedulers, the API server, this
scheduler after a restart) sees an ordinary claim in use, and the claim controller removes it when the pods end. If the stand-in
is removed too, the scheduler makes another.

A stand-in takes two writes, create and allocate, since no client can create a claim with a status. Each attempt looks at what
exists and does what is missing. So it does not matter which scheduler does which step, and a refused write (by a quota, or a
namespace that is being deleted) is simply tried again. The scheduler stops holding the devices in memory when it sees a claim
that has them.

The claim itself decides who counts as a user: a pod that the claim was last reserved for and that is bound or being bound. What a
pod says of itself does not count, or a tenant could keep any device from others by naming it. So the devices of a claim that went
while no scheduler ran cannot be known. Two sorts of claims are held in memory only: those with more users than a claim can be
reserved for, and v1alpha2 claims of whose instances other claims got a part. `allot doctor` and `allot explain` notice the pods
of all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from allotment.allocator.ledger import holding
from allotment.allocator.semantic_carrier import carried_holdings, is_carrier, waiting_for_users
from allotment.api.claim_marks import FINALIZER, STANDS_IN_FOR
from allotment.api.codec import to_builtins
from allotment.api.meta import ObjectMeta, OwnerReference
from allotment.api.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimSpec
from allotment.scheduler.devices.claims import MAX_CONSUMERS
from allotment.scheduler.instruction import CreateClaim, PatchClaim

if TYPE_CHECKING:
    from allotment.allocator.ledger import Holding
    from allotment.scheduler.binding.claim_writer import Draft
    from allotment.scheduler.clock import Clock
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo

WARN_AFTER = 2.0
"""Seconds by which the news of a pod's end may lag behind that of its claim."""
REPEAT_STAND_IN_AFTER = 10.0
"""Seconds until a stand-in that could not be written is tried again."""
REASON = "ClaimRemoved"
_LONGEST_STAND_IN_BASE = 46  # characters of the claim's name in that of its stand-in, which has 63 at most


@dataclass(slots=True)
class _Removed:
    claim: ResourceClaim  # its last state with its devices
    pods: set[str]  # keys of the pods that run with its devices
    uids: set[str]
    due: float | None  # when to look at it next; None: nothing more to do
    warned: bool = False
    held: frozenset[Holding] = frozenset()  # when last looked at

    @property
    def stand_in(self) -> str:
        """The name of the stand-in, the same in all schedulers."""
        meta = self.claim.metadata
        digits = hashlib.sha256(meta.uid.encode()).hexdigest()[:10]
        return f"{meta.name[:_LONGEST_STAND_IN_BASE].strip('-.')}-held-{digits}"

    @property
    def stand_in_key(self) -> str:
        return f"{self.claim.metadata.namespace}/{self.stand_in}"

    @property
    def spec(self) -> ResourceClaimSpec:
        """The spec of the stand-in, which has devices for these pods only."""
        return waiting_for_users(self.claim.spec) if is_carrier(self.claim) else self.claim.spec

    def made(self, there: ResourceClaim) -> bool:
        """Whether a claim with that name is the stand-in, and not an unrelated claim."""
        meta = there.metadata
        return (
            meta.annotations.get(STANDS_IN_FOR) == self.claim.metadata.name
            and any(owner.uid in self.uids for owner in meta.owner_references)
            and FINALIZER in meta.finalizers
            and meta.deletion_timestamp is None
            and there.spec == self.spec
        )


class RemovedClaims:
    """Holds the devices of removed claims, and makes their stand-ins."""

    def __init__(self, clock: Clock, cluster: Cluster) -> None:
        self._clock = clock
        self._cluster = cluster
        self._found: dict[str, _Removed] = {}  # by the name under which the ledger holds the devices

    def changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Handles a changed claim. The cluster must have taken the change already."""
        shown = new if new is not None else old
        if shown is not None and self._found:
            self._look_again(shown.metadata.key, new)
        if old is None or old.status.allocation is None:
            return
        stays = new is not None and old.metadata.uid == new.metadata.uid
        if stays and new is not None and new.status.allocation is not None:
            return
        key = old.metadata.key
        running = [pod for pod in self._users(old) if _is_user(old, pod)]
        if stays:  # a scheduler undoes its writes for a pod that it could not bind
            running = [pod for pod in running if pod.pod.spec.node_name]
        if running:
            name = f"{key}, which was {self._fate(old)} ({old.metadata.uid}, {old.metadata.resource_version})"
            pods, uids = {pod.key for pod in running}, {pod.uid for pod in running}
            self._found[name] = _Removed(old, pods, uids, self._clock.now + WARN_AFTER)
            self._cluster.claims.keep(name, old)

    def _look_again(self, key: str, claim: ResourceClaim | None) -> None:
        """Looks again at removed claims: a stand-in's name may be free now, its claim may wait for devices, or devices may be
        released."""
        for name, each in self._found.items():
            waits = each.stand_in_key == key and (claim is None or claim.status.allocation is None)
            if each.warned and (waits or self._cluster.claims.kept(name) != each.held):
                each.due = self._clock.now

    def returns(self, claim: ResourceClaim) -> None:
        """Called before a claim is shown. If the claim was removed before, or is a stand-in, it holds its devices itself from now
        on."""
        if claim.status.allocation is None:
            return
        key, uid = claim.metadata.key, claim.metadata.uid
        for name, each in list(self._found.items()):
            stands_in = each.stand_in_key == key and self._cluster.claims.covers(claim, name)
            if stands_in or each.claim.metadata.uid == uid:
                self._drop(name)

    def ended(self) -> list[ResourceClaim]:
        """Releases the devices of claims whose last user went since the last call, and returns those claims."""
        gone = [name for name, each in self._found.items() if not any(True for _ in self._running(each))]
        return [self._drop(name) for name in gone]

    def unwarned(self) -> Iterator[tuple[PodInfo, str]]:
        """The pods to warn, each with the message."""
        for each in self._found.values():
            if each.due is not None and each.due <= self._clock.now and not each.warned:
                each.warned = True
                for pod in self._running(each):
                    yield (
                        pod,
                        (
                            f"resource claim {each.claim.metadata.key} was {self._fate(each.claim)} while this pod runs with its devices; "
                            "they stay held until the pod ends: delete it to give them back"
                        ),
                    )

    def writes(self) -> Iterator[Draft]:
        """The writes that stand-ins still lack."""
        now = self._clock.now
        for name, each in self._found.items():
            if each.due is None or each.due > now:
                continue
            draft = self._next_write(name, each)
            each.due = now + REPEAT_STAND_IN_AFTER if draft is not None else None
            if draft is not None:
                yield draft

    def next_time(self) -> float | None:
        return min((each.due for each in self._found.values() if each.due is not None), default=None)

    def __bool__(self) -> bool:
        return bool(self._found)

    def _next_write(self, name: str, removed: _Removed) -> Draft | None:
        """The next write of a stand-in; None if there is none."""
        pods, held = list(self._running(removed)), self._cluster.claims.kept(name)
        removed.held = held
        if not held or not pods or len(pods) > MAX_CONSUMERS:
            return None
        carried = carried_holdings(removed.claim)
        if carried is not None and held != set(carried):
            return None  # it is written in one piece
        there = self._cluster.claims.objects.get(removed.stand_in_key)
        if there is None:
            manifest = to_builtins(_stand_in(removed, pods[0]))
            return lambda id: CreateClaim(id, manifest)
        if not removed.made(there):
            return None
        meta = there.metadata
        status = {"status": _status(removed.claim, held, pods)}
        return lambda id: PatchClaim(
            id, meta.namespace, meta.name, meta.uid, meta.resource_version, status, status=True
        )

    def _fate(self, claim: ResourceClaim) -> str:
        there = self._cluster.claims.objects.get(claim.metadata.key)
        stays = there is not None and there.metadata.uid == claim.metadata.uid
        return "deallocated" if stays else "removed"

    def _drop(self, name: str) -> ResourceClaim:
        self._cluster.claims.give_back(name)
        return self._found.pop(name).claim

    def _users(self, claim: ResourceClaim) -> Iterator[PodInfo]:
        """The pods, bound or being bound, that name the claim or are named by it."""
        meta = claim.metadata
        keys = set(self._cluster.users.get(meta.key, ()))
        keys |= {
            f"{meta.namespace}/{user.name}" for user in claim.status.reserved_for if user.resource == "pods"
        }
        for key in sorted(keys):
            pod = self._cluster.pods.get(key)
            if pod is not None and pod.node:
                yield pod

    def _running(self, removed: _Removed) -> Iterator[PodInfo]:
        for key in sorted(removed.pods):
            pod = self._cluster.pods.get(key)
            if pod is not None and pod.uid in removed.uids and pod.node:
                yield pod


def _stand_in(removed: _Removed, pod: PodInfo) -> ResourceClaim:
    """The claim that keeps the devices until the pods end. This pod owns it, so it is deleted with the pod."""
    claim = removed.claim
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
    meta = ObjectMeta(
        name=removed.stand_in,
        namespace=claim.metadata.namespace,
        annotations={STANDS_IN_FOR: claim.metadata.name},
        owner_references=(owner,),
        finalizers=(FINALIZER,),
    )
    return ResourceClaim(metadata=meta, spec=removed.spec)


def _status(claim: ResourceClaim, held: frozenset[Holding], pods: list[PodInfo]) -> dict[str, Any]:
    """The status of a stand-in: the claim's devices that no other claim got, reserved for these pods."""
    allocation = claim.status.allocation
    assert allocation is not None  # only such claims hold devices
    if not is_carrier(claim):
        results = tuple([each for each in allocation.devices.results if holding(each) in held])
        allocation = replace(allocation, devices=replace(allocation.devices, results=results))
    users = [ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid) for pod in pods]
    return {"allocation": to_builtins(allocation), "reservedFor": [to_builtins(user) for user in users]}


def _is_user(claim: ResourceClaim, pod: PodInfo) -> bool:
    """Whether a claim was reserved for a pod, or for its group."""
    group = pod.pod.spec.scheduling_group
    return any(
        user.uid == pod.uid
        or (user.resource == "podgroups" and group is not None and user.name == group.pod_group_name)
        for user in claim.status.reserved_for
    )
