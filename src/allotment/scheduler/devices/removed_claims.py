"""Claims that were removed, or whose allocation was, while pods run with their devices.

Finalizers keep the former from happening, and whoever strips them or writes statuses can do it all the same. The containers go on using the devices, so nobody else may
get them until the last such pod ends. The scheduler holds them in memory from the moment that the claim goes. If the pods still run
``WARN_AFTER`` seconds later (mostly they do not, as the news of a pod's end may come after that of its claim), it warns each in an event and makes a
*stand-in*: another claim that has the same devices, is reserved for those pods and belongs to one of them. All others, counters, other
schedulers, the API server and this scheduler after a restart, see an ordinary claim in use, and the claim controller removes it when the pods
end. Who removes a stand-in too gets another one.

A stand-in takes two writes, since nobody can create a claim with a status: create, then allocate. Each attempt looks at what is there and does what
is missing, so it does not matter which scheduler does which, and a refusal (a quota, a namespace that is being deleted) is only tried again. The
memory lets go when it sees a claim that has the devices.

What counts as a user is what the claim itself had last: a pod that it was reserved for and that is bound, or just being bound. What a pod says of itself is not asked, or a
tenant could keep any device from others by naming it. So nobody can know the devices of a claim that went while no scheduler ran. Claims that
more pods use than a claim can be reserved for, and those of v1alpha2 whose instances others have got in part, are held in memory only.
`allot doctor` and `allot explain` notice the pods of all of them.
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
"""Seconds that news of a pod's end may be behind those of its claim."""
REPEAT_STAND_IN_AFTER = 10.0
"""Seconds until a stand-in that could not be written is tried again."""
REASON = "ClaimRemoved"
_LONGEST_BASE = 46  # characters of the claim's name in that of its stand-in, which has 63 at most


@dataclass(slots=True)
class _Removed:
    claim: ResourceClaim  # as it was last with its devices
    pods: set[str]  # keys of those that run with its devices
    uids: set[str]
    due: float | None  # when to look at it next; None: there is nothing more to do
    warned: bool = False
    held: frozenset[Holding] = frozenset()  # when it was looked at last

    @property
    def stand_in(self) -> str:
        """The name of its stand-in: the same for all schedulers."""
        meta = self.claim.metadata
        digits = hashlib.sha256(meta.uid.encode()).hexdigest()[:10]
        return f"{meta.name[:_LONGEST_BASE].strip('-.')}-held-{digits}"

    @property
    def stand_in_key(self) -> str:
        return f"{self.claim.metadata.namespace}/{self.stand_in}"

    @property
    def spec(self) -> ResourceClaimSpec:
        """Of its stand-in, which has devices for its pods and for nobody else."""
        return waiting_for_users(self.claim.spec) if is_carrier(self.claim) else self.claim.spec

    def made(self, there: ResourceClaim) -> bool:
        """Whether a claim with that name was made for it, and not by a stranger for something else."""
        meta = there.metadata
        return (
            meta.annotations.get(STANDS_IN_FOR) == self.claim.metadata.name
            and any(owner.uid in self.uids for owner in meta.owner_references)
            and FINALIZER in meta.finalizers
            and meta.deletion_timestamp is None
            and there.spec == self.spec
        )


class RemovedClaims:
    """See the module."""

    def __init__(self, clock: Clock, cluster: Cluster) -> None:
        self._clock = clock
        self._cluster = cluster
        self._found: dict[str, _Removed] = {}  # by the name under which the ledger holds the devices

    def changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """A claim changed, as the cluster knows already."""
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
        if stays:  # a scheduler takes back what it wrote for a pod that it could not bind
            running = [pod for pod in running if pod.pod.spec.node_name]
        if running:
            name = f"{key}, which was {self._fate(old)} ({old.metadata.uid}, {old.metadata.resource_version})"
            pods, uids = {pod.key for pod in running}, {pod.uid for pod in running}
            self._found[name] = _Removed(old, pods, uids, self._clock.now + WARN_AFTER)
            self._cluster.claims.keep(name, old)

    def _look_again(self, key: str, claim: ResourceClaim | None) -> None:
        """The name of a stand-in may be free now, or its claim wait for devices; or somebody who had the devices gave them back."""
        for name, each in self._found.items():
            waits = each.stand_in_key == key and (claim is None or claim.status.allocation is None)
            if each.warned and (waits or self._cluster.claims.kept(name) != each.held):
                each.due = self._clock.now

    def returns(self, claim: ResourceClaim) -> None:
        """A claim is about to be shown; if it is one that was removed, or stands in for it, it holds its devices itself."""
        if claim.status.allocation is None:
            return
        key, uid = claim.metadata.key, claim.metadata.uid
        for name, each in list(self._found.items()):
            stands_in = each.stand_in_key == key and self._cluster.claims.covers(claim, name)
            if stands_in or each.claim.metadata.uid == uid:
                self._drop(name)

    def ended(self) -> list[ResourceClaim]:
        """Claims whose last user is gone since this was asked last; their devices are given back now."""
        gone = [name for name, each in self._found.items() if not any(True for _ in self._running(each))]
        return [self._drop(name) for name in gone]

    def unwarned(self) -> Iterator[tuple[PodInfo, str]]:
        """The pods to warn, and in which words."""
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
        """What is missing of stand-ins."""
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
        """The next write of a stand-in; None if there is to be none."""
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
        """The pods on a node, or on their way to one, that name a claim, or that it names."""
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
    """The claim that keeps the devices until its pods end; it goes with this one."""
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
    """The status of a stand-in: those of the claim's devices that nobody else got, for these pods."""
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
