"""Releases what is no longer used: reservations, allocations, claims of finished pods, finalizers.

The state of a claim determines its next step (:func:`next_step`, pure). The shell takes the step and looks again:

1. A claim that is being deleted and has no users loses our *finalizers*. Its allocation and reservations vanish with it,
   which saves the write that would clear them, unless another finalizer holds the claim: then the allocation goes first.
2. A claim that was created *for a pod* is deleted when that pod has finished and nothing else uses it. Once the pod itself is
   gone, the garbage collector does it.
3. *Reservations* are removed if their pods have finished, are gone or were replaced, or if their pod groups are gone. With
   the last reservation goes the *allocation*, in the same write. That is also how a claim that was used differs from one that
   was allocated ahead of any use, without any record: only the writer who removes the last reservation deallocates, and a
   crash leaves either both or neither. Semantic claims with allocationMode Immediate keep their allocation. The server drops
   the drivers' reports about the devices together with the allocation.

**Old copies.** Every write names the uid and version of the claim on which it is based, so nothing is released that was
reserved meanwhile. A finished pod stays finished, so an old copy of it is sufficient. If a pod is *absent*, or another one
has its name, the copy may only be behind: the server is asked, unless the deletion was observed.

A group's reservation follows upstream's rule: it is kept while the group exists. In addition, the reservation lasts until the
group's pods have finished, because a group may be deleted while they run (where upstream's controller-manager does not
prevent it).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from allotment.api.batch import SCHEDULING
from allotment.api.claim_marks import FINALIZERS
from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim, ResourceClaimConsumerReference
from allotment.api.rights import READ
from allotment.api.status import NotFound
from allotment.client.client import Client, PatchType
from allotment.client.form import Obj
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.claims import claim_users as claims
from allotment.controllers.claims.claim_users import CONSUMER, MEMBERS
from allotment.controllers.controller import Again
from allotment.controllers.ownership import CONTROLLED, controller_of, controller_uid

Key = tuple[str, str]
"""Namespace and name of a claim."""

MAX_REMEMBERED_PODS = 20_000
"""How many uids of deleted pods and groups are kept; for others, the server is asked."""
_MOST_RELEASE_STEPS = 4
"""More steps than any claim needs, so that a server that accepts requests without effect is not asked for ever."""


# --- the next step, from the state of a claim ---


@dataclass(frozen=True, slots=True)
class ReleaseClaim:
    """Remove the reservations of these uids and, if ``deallocate`` is set, the allocation."""

    uids: tuple[str, ...]
    deallocate: bool


@dataclass(frozen=True, slots=True)
class DropClaim:
    """Delete the claim: the pod for which it was created has finished."""


@dataclass(frozen=True, slots=True)
class Unprotect:
    """Remove our finalizers from the claim, and leave those of others."""

    finalizers: tuple[str, ...]


Step = ReleaseClaim | DropClaim | Unprotect


def next_step(claim: ResourceClaim, gone: Collection[str], *, owner_done: bool) -> Step | None:
    """The next step for a claim when the users with these uids are gone; None: nothing."""
    reserved = [consumer.uid for consumer in claim.status.reserved_for]
    ended = tuple(uid for uid in reserved if uid in gone)
    used = len(ended) < len(reserved)
    others = tuple(name for name in claim.metadata.finalizers if name not in FINALIZERS)
    protected = len(others) < len(claim.metadata.finalizers)
    allocated = claim.status.allocation is not None
    deleted = claim.metadata.deletion_timestamp is not None
    if deleted and protected and not used and not (others and allocated):
        return Unprotect(others)
    if deleted and protected and not used:
        return ReleaseClaim(ended, deallocate=True)
    if owner_done and not used and not deleted:
        return DropClaim()
    if ended:
        return ReleaseClaim(ended, deallocate=protected and not used and not claims.stays_allocated(claim))
    return None


# --- the shell ---


class UserState(Enum):
    """What the copies show about a user of a claim."""

    HERE = "here"
    GONE = "gone"
    UNKNOWN = "unknown"  # ask the server


class ClaimRelease:
    """The reconciler; its keys are claims. ``groups`` says whether the server has pod groups."""

    name = "claim-release"
    rights = (
        f"{READ}: core: pods",
        f"{READ}: resource.k8s.io: resourceclaims",
        f"{READ}: scheduling.k8s.io: podgroups",
        "delete,patch: resource.k8s.io: resourceclaims",
        "patch: resource.k8s.io: resourceclaims/binding,resourceclaims/status",
    )

    def __init__(self, client: Client, informers: Informers, *, groups: bool = True) -> None:
        self.queue: WorkQueue[Key] = WorkQueue()
        self._claims = client.of(ResourceClaim)
        self._live_pods = client.plain("v1", "pods")
        self._live_groups = client.plain(SCHEDULING, "podgroups")
        self._gone: dict[str, None] = {}
        self._pods = informers.of(Pod)
        self._groups = informers.plain(SCHEDULING, "podgroups") if groups else None
        self._seen = informers.of(ResourceClaim)
        self._seen.add_index(CONTROLLED, controller_uid)
        self._seen.add_index(CONSUMER, claims.consumers)
        self._pods.add_index(MEMBERS, claims.membership)
        self._pods.on_change(self._pod_changed)
        self._seen.on_change(self._claim_changed)
        if self._groups is not None:
            self._groups.on_change(self._group_changed)

    # --- which claims are worth a look; called for every change of every pod ---

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and not claims.is_done(new):
            return
        pod = new or old
        assert pod is not None
        if new is None:
            self._remember(pod.metadata.uid)
        elif old is not None and old is not new and claims.is_done(old):
            return
        self._look_at_claims_of(pod.metadata.uid)
        if claims.group_of(pod):  # its claims may wait for the last pod of a deleted group
            self._look_at((pod.metadata.namespace, name) for name in claims.names_used(pod))

    def _group_changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is None and old is not None:
            uid = old["metadata"]["uid"]
            self._remember(uid)
            self._look_at_claims_of(uid)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is None:
            return
        if new.status.reserved_for:
            users = new.status.reserved_for
            worth = any(self._standing(user, new) is not UserState.HERE for user in users)
        else:
            worth = next_step(new, (), owner_done=self._owner_done(new)) is not None
        if worth:
            self.queue.add((new.metadata.namespace, new.metadata.name))

    def _look_at_claims_of(self, uid: str) -> None:
        found = (*self._seen.by(CONSUMER, uid), *self._seen.by(CONTROLLED, uid))
        self._look_at((claim.metadata.namespace, claim.metadata.name) for claim in found)

    def _look_at(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.queue.add(key)

    def _remember(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > MAX_REMEMBERED_PODS:
            del self._gone[next(iter(self._gone))]

    # --- one claim ---

    async def reconcile(self, key: Key) -> Again | None:
        await self._pods.synced()  # before its first list, a copy is empty
        namespace, name = key
        claim = self._seen.get(name, namespace)
        for _ in range(_MOST_RELEASE_STEPS):
            if claim is None:
                break
            step = next_step(claim, await self._ended(claim), owner_done=self._owner_done(claim))
            claim = None if step is None else await self._take(step, claim)
        return None

    async def _take(self, step: Step, claim: ResourceClaim) -> ResourceClaim | None:
        """The claim after the step; None if its next change will bring it back."""
        match step:
            case ReleaseClaim(uids, deallocate):
                status: Obj = {"reservedFor": [{"$patch": "delete", "uid": user} for user in uids]}
                if deallocate:
                    status["allocation"] = None
                return await self._claims.change(
                    claim, {"status": status}, type_=PatchType.STRATEGIC, subresource="status"
                )
            case DropClaim():
                await self._claims.remove(claim)
            case Unprotect(finalizers):
                await self._claims.change(claim, {"metadata": {"finalizers": list(finalizers) or None}})
        return None

    async def _ended(self, claim: ResourceClaim) -> set[str]:
        """The uids of users that no longer need the claim. This is where the server is asked."""
        ended = set()
        for consumer in claim.status.reserved_for:
            standing = self._standing(consumer, claim)
            if standing is UserState.UNKNOWN and not await self._is_there(consumer, claim.metadata.namespace):
                standing = UserState.GONE
            if standing is UserState.GONE and not self._used_by_members(consumer, claim):
                ended.add(consumer.uid)
        return ended

    def _standing(self, consumer: ResourceClaimConsumerReference, claim: ResourceClaim) -> UserState:
        namespace = claim.metadata.namespace
        if claims.for_pod(consumer):
            pod = self._pods.get(consumer.name, namespace)
            if pod is not None and pod.metadata.uid == consumer.uid:
                return UserState.GONE if claims.is_done(pod) else UserState.HERE
            return UserState.GONE if consumer.uid in self._gone else UserState.UNKNOWN
        if claims.for_group(consumer) and self._groups is not None:
            group = self._groups.get(consumer.name, namespace)
            if group is not None and group["metadata"]["uid"] == consumer.uid:
                return UserState.HERE
            return UserState.GONE if consumer.uid in self._gone else UserState.UNKNOWN
        return UserState.HERE  # of an unknown kind: never ours to remove

    async def _is_there(self, consumer: ResourceClaimConsumerReference, namespace: str) -> bool:
        live = self._live_pods if claims.for_pod(consumer) else self._live_groups
        try:
            found = await live.get(consumer.name, namespace)
        except NotFound:
            return False
        return bool(found["metadata"]["uid"] == consumer.uid)

    def _used_by_members(self, consumer: ResourceClaimConsumerReference, claim: ResourceClaim) -> bool:
        """Whether pods of a deleted group still use the group's claim."""
        if not claims.for_group(consumer):
            return False
        members = self._pods.by(MEMBERS, (claim.metadata.namespace, consumer.name))
        return any(
            not claims.is_done(pod) and claim.metadata.name in claims.names_used(pod) for pod in members
        )

    def _owner_done(self, claim: ResourceClaim) -> bool:
        """Whether the claim was created for a pod that has finished. If that pod is not in the copy, the garbage collector is
        responsible."""
        owner = controller_of(claim)
        if owner is None or not claims.is_pod(owner):
            return False
        pod = self._pods.get(owner.name, claim.metadata.namespace)
        return pod is not None and pod.metadata.uid == owner.uid and claims.is_done(pod)
