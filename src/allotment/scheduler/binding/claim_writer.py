"""Writes one claim for one pod, or undoes what it wrote. It is a small state machine: outcomes go in, the next write comes out.

Forward: it makes the claim (extended resources only), then adds the finalizer, then writes allocation and reservation in one
write. A write counts only once the informer has shown it, and only if no other claim had the device before (see
``Claims.disputed``). Backward: it removes the reservation. It removes the allocation too, if this pod brought it and no other pod
uses the claim by now.

If this writer finds a reservation for the pod that it did not write, another scheduler wrote it, perhaps one that was killed.
Before the pod is bound by such a reservation, the writer takes it over with a mark on the claim, because the other scheduler may
be about to remove it. One of the two writes is then based on an old version and fails. A writer that finds another's mark leaves
the claim alone.

Every write names the version that it is based on. A conflict means that the copy was old: the writer waits for a newer copy and
looks again. It may then find that its own write took effect and only the reply was lost.

    to do ──advance──► sent ──done──► seen? ──► finished
      ▲                 │
      └── newer copy ───┤ conflict
      └── after a rest ─┘ no answer                any other failure ──► error
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from allotment.api.codec import to_builtins
from allotment.api.resource import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from allotment.scheduler.binding.step import MakeClaim, WriteClaim
from allotment.scheduler.devices.claims import MAX_CONSUMERS, Claims, version_of
from allotment.scheduler.event import WriteFailure
from allotment.scheduler.instruction import CreateClaim, DeleteClaim, PatchClaim, Write

if TYPE_CHECKING:
    from allotment.api.core import NodeSelector
    from allotment.api.resource import ResourceClaim, ResourceClaimConsumerReference

MOST_CONFLICTS = 16
FIRST_REST, LONGEST_REST = 0.1, 5.0
UNSEEN_SECONDS = 30.0
"""Seconds after which a claim that was created but never seen counts as deleted."""

TAKEN_OVER = "allotment.dev/taken-over"
"""The annotation of a claim whose reservation was taken over. Its value is the version at that time, so that every takeover
differs."""

Draft = Callable[[int], Write]
"""A write that lacks only its id."""


class ClaimWriter:
    """The state machine of one claim's writes. After each call of ``done``, ``failed``, ``changed`` or ``undo``, ask ``advance``
    what to send."""

    rests_until = 0.0
    patience = 0.0  # when to stop waiting for a created claim
    finished = False
    error = ""
    _sent = ""  # the kind of write that is in flight
    _based = 0  # the version that it was based on
    _uid = ""  # of the claim, once it was created or seen
    _version = 0  # after our last write
    _finalized = _unseen = False
    _made = False  # the claim is ours, or may be: a creation had no answer
    _written = False  # the claim has our reservation
    _taken_over = False  # it had another's reservation, which is ours now
    _mark = ""  # the mark on the claim when we wrote; unchanged, no other scheduler took it over
    _unsure = 0  # a claim newer than this may have our reservation
    _conflicts = _silences = 0
    _stale = 0  # a copy as old as this is not worth looking at
    _undoing = False

    def __init__(self, step: WriteClaim | MakeClaim, claims: Claims) -> None:
        self._make = step if isinstance(step, MakeClaim) else None
        self._step = step.write if isinstance(step, MakeClaim) else step
        self._claims = claims
        self.claim = self.follows = self._step.claim
        self.subject = f"claim {self.claim}"
        self.for_group = self._step.consumer.resource != "pods"

    # --- what happened ---

    def done(self, version: int, uid: str) -> None:
        sent, self._sent = self._sent, ""
        self._version = max(self._version, version)
        self._silences = 0
        if sent == "make":
            self._uid, self._made = uid, True
        self._unseen = sent != "finalizer"  # after a finalizer, the next write need not wait for the informer
        if sent == "finalizer":
            self._finalized = True
        elif sent == "status":
            self._written, self._unsure = True, 0
            self._claims.acknowledged(self.claim, version)
        elif sent == "takeover":
            self._taken_over, self._mark = True, str(self._based)
        elif sent == "release":
            self._written, self._unsure = False, 0
        elif sent == "delete":
            self.finished = True

    def failed(self, why: WriteFailure, message: str, now: float) -> None:
        sent, self._sent = self._sent, ""
        if sent == "delete" and why is WriteFailure.CONFLICT:  # another claim has the name by now
            self.finished = True
        elif why is WriteFailure.CONFLICT:
            self._conflicts += 1
            self._stale = self._based
            if (
                sent == "make"
            ):  # an earlier attempt succeeded but its reply was lost; the informer will show the claim
                self.rests_until = now + FIRST_REST
            if self._conflicts > MOST_CONFLICTS and not self._undoing:
                self.error = f"could not be written after {self._conflicts} conflicts"
        elif why is WriteFailure.UNKNOWN:
            self._made = self._made or sent == "make"
            if sent == "status":
                self._unsure = self._based
            self.rests_until = now + min(FIRST_REST * 2 ** min(self._silences, 10), LONGEST_REST)
            self._silences += 1
        elif self._undoing:
            if why is WriteFailure.GONE:
                self.finished = True
            else:  # repeating it soon would not help
                self.rests_until = now + LONGEST_REST
        else:
            self.error = message or why.value

    def undo(self) -> None:
        """Turns around: from now on, ``advance`` undoes what was written."""
        self._undoing, self.finished, self.error, self._conflicts = True, False, "", 0

    def awaits_news(self) -> bool:
        """Whether the writer must wait until the informer shows the last write."""
        claim = self._claims.objects.get(self.claim)
        return claim is not None and claim.metadata.uid == self._uid and self._outdated(claim)

    def stands(self) -> bool:
        """Whether the claim still shows what was written."""
        claim = self._claims.objects.get(self.claim)
        return claim is not None and claim.status.allocation is not None and self._mine(claim)

    # --- what to do next ---

    def advance(self, now: float) -> Draft | None:
        """The next write to send; None if there is nothing to send now. Look at ``finished`` and ``error`` too."""
        if self._sent or self.finished or self.error or now < self.rests_until:
            return None
        claim = self._claims.objects.get(self.claim)
        if claim is not None:
            self._uid = self._uid or claim.metadata.uid
            if (
                claim.metadata.uid != self._uid
            ):  # another claim has the name of the one that was decided about
                claim = None
        if claim is not None and self._outdated(claim):
            return None
        return self._backward(claim) if self._undoing else self._forward(claim, now)

    def _outdated(self, claim: ResourceClaim) -> bool:
        """Whether a newer copy is due that must be looked at first."""
        known = version_of(claim)
        return known <= self._stale or (known < self._version and (self._unseen or self._undoing))

    def _forward(self, claim: ResourceClaim | None, now: float) -> Draft | None:
        if claim is None:
            return self._forward_unseen(now)
        if not self._brings and self._awaits_partner(claim):
            return None
        mine = self._mine(claim)
        self.error = self._obstacle(claim, mine)
        if self.error:
            return None
        if mine:
            if not (self._written or self._taken_over or self.for_group):
                return self._take_over(claim)
            self._claims.acknowledged(self.claim, version_of(claim))
            self.finished = True
            return None
        self._written = self._taken_over = False
        if self._step.finalizer not in claim.metadata.finalizers and not self._finalized:
            finalizers = [*claim.metadata.finalizers, self._step.finalizer]
            return self._patch("finalizer", claim, {"metadata": {"finalizers": finalizers}}, status=False)
        return self._status(claim)

    def _forward_unseen(self, now: float) -> Draft | None:
        if self._make is None:
            self.error = "is gone"
            return None
        if self._uid:  # created, but not shown by the informer yet
            self.patience = self.patience or now + UNSEEN_SECONDS
            if now >= self.patience:  # it was deleted before it could be seen
                self.error = "was made, and is gone"
            return None
        manifest = self._make.manifest
        self._sent = "make"
        return lambda id: CreateClaim(id, manifest)

    def _awaits_partner(self, claim: ResourceClaim) -> bool:
        """Whether another pod of the same gang is about to write the allocation."""
        return claim.status.allocation is None and self._claims.allocation(self.claim) is not None

    def _obstacle(self, claim: ResourceClaim, mine: bool) -> str:
        """Why the claim cannot be written as decided; empty if it can."""
        shown, wanted = claim.status.allocation, self._step.allocation
        if claim.metadata.deletion_timestamp is not None:
            return "is being deleted"
        if self.claim in self._claims.disputed:
            return "was promised a device that another claim had first"
        if mine:
            as_decided = shown is not None and self._as_decided(claim)
            return "" if as_decided else "was allocated differently meanwhile"
        if wanted is not None and shown is not None and shown.devices.results != wanted.devices.results:
            return "was allocated by somebody else meanwhile"
        if wanted is None and shown is None:
            return "was deallocated meanwhile"
        if len(claim.status.reserved_for) >= MAX_CONSUMERS:
            return f"is in use by {MAX_CONSUMERS} consumers, which is the limit"
        return ""

    @property
    def _brings(self) -> bool:
        """Whether this pod brings the allocation, rather than joining one that exists."""
        return self._step.allocation is not None or self._step.document is not None

    def _mine(self, claim: ResourceClaim) -> bool:
        users = claim.status.reserved_for
        return bool(users) and self._step.consumer.uid in [user.uid for user in users]

    def _as_decided(self, claim: ResourceClaim) -> bool:
        """Whether what a claim shows may be what this writer wrote."""
        shown, wanted = claim.status.allocation, self._step.allocation
        if shown is None or wanted is None or self._step.document is not None:
            return True
        return shown.devices.results == wanted.devices.results

    def _status(self, claim: ResourceClaim) -> Draft:
        step = self._step
        self._mark = _mark(claim)
        users = [*claim.status.reserved_for, step.consumer]
        status: dict[str, Any] = {"reservedFor": [_written(user) for user in users]}
        if claim.status.allocation is not None:
            pass  # an existing allocation cannot be changed
        elif step.document is not None:
            status |= step.document
        elif step.allocation is not None:
            status["allocation"] = _plain(step.allocation)
        return self._patch("status", claim, {"status": status}, status=True)

    def _take_over(self, claim: ResourceClaim) -> Draft:
        mark = {TAKEN_OVER: str(max(version_of(claim), self._version))}
        return self._patch("takeover", claim, {"metadata": {"annotations": mark}}, status=False)

    def _backward(self, claim: ResourceClaim | None) -> Draft | None:
        """Undoes what this writer wrote, and not what another scheduler wrote for the same pod. After a write without an answer,
        it releases at the version that the write was based on: a conflict means that the write took effect."""
        if claim is not None:
            if _mark(claim) != self._mark:  # another scheduler took it over and keeps it
                self.finished = True
                return None
            unsure = self._unsure and self._as_decided(claim)
            wrote = self._written or unsure or (self._taken_over and self._brings)
            if (self._mine(claim) and wrote) or self._unsure >= version_of(claim):
                return self._release(claim)
        uid = self._uid if claim is None else claim.metadata.uid
        if self._made and uid and (claim is None or claim.metadata.deletion_timestamp is None):
            self._sent = "delete"
            namespace, _, name = self.claim.partition("/")
            return lambda id: DeleteClaim(id, namespace, name, uid)
        self.finished = True
        return None

    def _release(self, claim: ResourceClaim) -> Draft:
        left = [user for user in claim.status.reserved_for if user.uid != self._step.consumer.uid]
        status: dict[str, Any] = {"reservedFor": [_written(user) for user in left]}
        if (self._brings or self._step.joins) and not left and not self._step.keep:
            status |= {"allocation": None, "devices": None}
        return self._patch("release", claim, {"status": status}, status=True)

    def _patch(self, kind: str, claim: ResourceClaim, patch: dict[str, Any], *, status: bool) -> Draft:
        based = max(version_of(claim), self._version)
        self._sent, self._based = kind, based
        meta = claim.metadata
        return lambda id: PatchClaim(
            id, meta.namespace, meta.name, meta.uid, str(based), patch, status=status
        )


def _plain(allocation: AllocationResult) -> dict[str, Any]:
    """Like ``to_builtins``, but fast for the usual values: every write contains them."""
    results, where = allocation.devices.results, allocation.node_selector
    if not results or allocation != _bare(results, where):
        return to_builtins(allocation)
    found: dict[str, Any] = {"devices": {"results": [_plain_result(each) for each in results]}}
    if where is not None:
        found["nodeSelector"] = _plain_selector(where)
    return found


def _bare(results: tuple[DeviceRequestAllocationResult, ...], where: NodeSelector | None) -> AllocationResult:
    return AllocationResult(devices=DeviceAllocationResult(results=results), node_selector=where)


def _plain_result(result: DeviceRequestAllocationResult) -> dict[str, Any]:
    request, driver, pool, device = result.request, result.driver, result.pool, result.device
    if result != DeviceRequestAllocationResult(request=request, driver=driver, pool=pool, device=device):
        return to_builtins(result)
    return {"request": request, "driver": driver, "pool": pool, "device": device}


@lru_cache(maxsize=1024)
def _plain_selector(selector: NodeSelector) -> dict[str, Any]:
    return to_builtins(selector)


def _mark(claim: ResourceClaim) -> str:
    return claim.metadata.annotations.get(TAKEN_OVER, "")


def _written(user: ResourceClaimConsumerReference) -> dict[str, str]:
    """Like ``to_builtins``, but fast: every write contains one."""
    plain = {"resource": user.resource, "name": user.name, "uid": user.uid}
    return plain if user.api_group is None else {"apiGroup": user.api_group, **plain}
