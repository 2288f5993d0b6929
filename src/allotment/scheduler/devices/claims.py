"""The claims as they will be: what the server has shown, overlaid with decisions whose writes have not been seen yet.

A decision is a *flight*. It starts when a pod reserves a claim, gets the version of its write when the server answers, and lands
when the informer shows that version or a later one. Until then the claim counts as allocated, whatever older state arrives. A
flight without an answer stays in the air, because the write may have taken effect.

The ledger follows: at any time it holds exactly what the claims hold, both as shown and as decided. If the server shows another
allocation than the one in flight, either another scheduler was faster or our write replaces it. Both count until that is known.

On a real cluster, two schedulers may have promised a device twice. The device then belongs to the claim that was first shown with
it, which is the same claim for all that watch from the beginning. Allocations that are only decided come last. The other claim
keeps what it can, and ``disputed`` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from allotment.allocator.ledger import Holding, Ledger, holding
from allotment.allocator.semantic_carrier import is_carrier
from allotment.scheduler.change_log import ChangeLog

if TYPE_CHECKING:
    from allotment.allocator.pool import DeviceID
    from allotment.api.resource import (
        AllocationResult,
        DeviceAllocationResult,
        ResourceClaim,
        ResourceClaimConsumerReference,
    )

MAX_CONSUMERS = 256


@dataclass(slots=True)
class Flight:
    """A decision about one claim on its way to the server."""

    allocation: AllocationResult | None  # None: the claim is allocated, and only reservations are new
    users: dict[str, ResourceClaimConsumerReference] = field(default_factory=dict)  # by the pod's uid
    author: str = ""  # uid of the pod that brings and writes the allocation
    version: int = 0  # of the last write that the server acknowledged


class Claims:
    """All claims by ``namespace/name``. ``holds`` says what an allocation holds if it is not a v1 allocation (semantic
    claims)."""

    def __init__(
        self, ledger: Ledger, holds: Callable[[ResourceClaim], tuple[Holding, ...] | None] | None = None
    ) -> None:
        self.ledger = ledger
        self.log = ChangeLog()  # claims that appeared, were deleted, or got other devices
        self.objects: dict[str, ResourceClaim] = {}
        self.flights: dict[str, Flight] = {}
        self.disputed: dict[str, tuple[Holding, ...]] = {}  # what each disputed claim should hold
        self.owned: dict[str, dict[str, None]] = {}  # uid of a pod or group → claims that were made for it
        self._removed: dict[str, tuple[Holding, ...]] = {}  # holdings kept for pods whose claims are gone
        self._holds = holds
        self._since: dict[str, int] = {}  # the version at which a claim was first shown with its allocation

    # --- what the server shows ---

    def change(self, old: ResourceClaim | None, new: ResourceClaim | None) -> str:
        """Takes a claim that appeared, changed or was deleted. Returns its key."""
        shown = new if new is not None else old
        assert shown is not None
        key = shown.metadata.key
        before, flight = self.objects.get(key), self.flights.get(key)
        self._file(key, before, new)
        had = before.status.allocation if before is not None else None
        has = new.status.allocation if new is not None else None
        if before is None or new is None or _devices(had) != _devices(has):
            self.log.note(key)
        if new is None:
            self.objects.pop(key, None)
            self.flights.pop(key, None)
        else:
            self.objects[key] = new
            if flight is not None:
                self._land(key)
        if flight is None and had is None and has is None:
            return key
        self._date(key, had, new)
        if flight is None or had is not None or new is None or not _confirms(flight, new):
            self._enter(key)
        return key

    def _date(self, key: str, had: AllocationResult | None, now: ResourceClaim | None) -> None:
        """Updates ``_since``."""
        has = now.status.allocation if now is not None else None
        if now is None or has is None:
            self._since.pop(key, None)
        elif had is None or had.devices != has.devices:
            self._since[key] = version_of(now)

    def _file(self, key: str, before: ResourceClaim | None, now: ResourceClaim | None) -> None:
        """Updates ``owned``."""
        old = before.metadata.owner_references if before is not None else ()
        new = now.metadata.owner_references if now is not None else ()
        if old == new:
            return
        for owner in old:
            mine = self.owned.get(owner.uid, {})  # a claim may name an owner twice
            mine.pop(key, None)
            if not mine:
                self.owned.pop(owner.uid, None)
        for owner in new:
            self.owned.setdefault(owner.uid, {})[key] = None

    def _land(self, key: str) -> bool:
        flight = self.flights.get(key)
        if flight is None or not flight.version or version_of(self.objects[key]) < flight.version:
            return False
        del self.flights[key]
        return True

    # --- decisions ---

    def depart(
        self,
        key: str,
        uid: str,
        consumer: ResourceClaimConsumerReference,
        allocation: AllocationResult | None,
    ) -> None:
        """Starts a flight: a pod reserves a claim, with a new allocation if it has none. Raises Conflict if a device is taken."""
        flight = self.flights.get(key)
        if flight is None:
            flight = Flight(allocation, author=uid)
            if allocation is not None:
                self.ledger.commit(key, allocation)
            self.flights[key] = flight
        flight.users[uid] = consumer
        flight.version = 0

    def acknowledged(self, key: str, version: int) -> None:
        """Notes the version of a write that the server accepted."""
        flight = self.flights.get(key)
        if flight is not None:
            flight.version = max(flight.version, version)
            if key in self.objects and self._land(key):
                self._enter(key)

    def cancel(self, key: str, uid: str) -> None:
        """Ends a pod's reservation of a claim. What the server has shown meanwhile counts again. Other pods that relied on an
        allocation which this pod had to write then have none."""
        flight = self.flights.get(key)
        if flight is None or flight.users.pop(uid, None) is None:
            return
        if not flight.users or uid == flight.author:
            del self.flights[key]
            self.log.note(key)
            self._enter(key)

    # --- questions ---

    def untouched(self, key: str) -> bool:
        """Whether an existing claim has no allocation and no users, neither now nor in flight."""
        status = self.objects[key].status
        return (
            status.allocation is None
            and not status.reserved_for
            and key not in self.flights
            and key not in self.disputed
        )

    def allocation(self, key: str) -> AllocationResult | None:
        """The allocation that the claim has or will have."""
        flight = self.flights.get(key)
        if flight is not None and flight.allocation is not None:
            return flight.allocation
        shown = self.objects.get(key)
        return shown.status.allocation if shown is not None else None

    def reserved(self, key: str) -> dict[str, ResourceClaimConsumerReference]:
        """The current and future users of the claim, by uid."""
        shown = self.objects.get(key)
        users = {user.uid: user for user in shown.status.reserved_for} if shown is not None else {}
        flight = self.flights.get(key)
        return users | flight.users if flight is not None else users

    # --- the ledger ---

    def restore(self, key: str) -> None:
        """Makes the ledger hold again what was released on trial."""
        self.disputed.pop(key, None)
        self._enter(key)

    def keep(self, name: str, claim: ResourceClaim) -> None:
        """Holds the devices of a deleted claim under another name whenever no claim has them."""
        self._removed[name] = self._held_by(claim)
        self._hold(name, self._removed[name])

    def kept(self, name: str) -> frozenset[Holding]:
        """What is held under that name now and is closed to other claims."""
        return frozenset([each for each in self.ledger.holdings(name) if not each.admin])

    def covers(self, claim: ResourceClaim, name: str) -> bool:
        """Whether a claim holds everything that is kept under a name."""
        return self.kept(name) <= set(self._held_by(claim))

    def give_back(self, name: str) -> None:
        """Ends ``keep``."""
        del self._removed[name]
        self.disputed.pop(name, None)
        self.ledger.release(name)
        self._settle()

    def _enter(self, key: str) -> None:
        """Makes the ledger match what the claim holds."""
        wanted = self._holdings(key)
        if self.disputed.get(key, self.ledger.holdings(key)) == wanted:
            return
        released = self.ledger.release(key)
        self.disputed.pop(key, None)
        self._hold(key, wanted)
        if released:
            self._settle()

    def _holdings(self, key: str) -> tuple[Holding, ...]:
        if key in self._removed:
            return self._removed[key]
        shown = self._shown(key)
        flight = self.flights.get(key)
        if flight is None or flight.allocation is None:
            return shown
        decided = tuple([holding(result) for result in flight.allocation.devices.results])
        if not shown:
            return decided
        known = {each.device for each in shown}
        return (*shown, *[each for each in decided if each.device not in known])

    def _shown(self, key: str) -> tuple[Holding, ...]:
        """What the claim holds on the server."""
        shown = self.objects.get(key)
        return self._held_by(shown) if shown is not None else ()

    def _held_by(self, claim: ResourceClaim) -> tuple[Holding, ...]:
        if claim.status.allocation is None:
            return ()
        config = claim.spec.devices.config  # without a config, it carries no semantic claim
        special = self._holds(claim) if config and self._holds is not None else None
        if special is not None:
            return special
        return tuple([holding(result) for result in claim.status.allocation.devices.results])

    def _hold(self, key: str, wanted: tuple[Holding, ...]) -> None:
        if not wanted:
            return
        free, taken = wanted, [each.device for each in wanted if not self._free(each)]
        if taken:
            self._oust(key, taken)
            free = tuple([each for each in wanted if self._free(each)])
        self.ledger.hold(key, free)
        if len(free) < len(wanted):
            self.disputed[key] = wanted

    def _oust(self, key: str, devices: Iterable[DeviceID]) -> None:
        """Takes devices from claims that got them later."""
        for device in devices:
            holders, mine = self.ledger.holders(device), self._rank(key, device)
            if all(mine < self._rank(holder, device) for holder in holders):
                for holder in holders:
                    held = self.ledger.release(holder)
                    rest = tuple([each for each in held if each.device != device])
                    self.ledger.hold(holder, rest)
                    self.disputed[holder] = self._holdings(holder)

    def _rank(self, key: str, device: DeviceID) -> float:
        """Among several claims on a device, the lowest rank gets it."""
        firm = any(each.device == device for each in self._shown(key))
        return self._since[key] if firm else inf

    def _free(self, held: Holding) -> bool:
        taken = self.ledger.exclusive(held.device)
        return held.admin or not (taken or (held.share is None and self.ledger.shared(held.device)))

    def _settle(self) -> None:
        """Gives released devices to other claims that were promised them too."""
        for key in sorted(self.disputed, key=lambda key: self._since.get(key, inf)):
            wanted = self.disputed.pop(key)
            self.ledger.release(key)
            self._hold(key, wanted)

    def validate(self) -> None:
        """Raises AssertionError where the ledger differs from what the claims hold."""
        keys: Iterable[str] = {*self.objects, *self.flights, *self.ledger.claims()}
        for key in keys:
            wanted = self._holdings(key)
            assert self.disputed.get(key, self.ledger.holdings(key)) == wanted, f"claim {key}: ledger differs"
        for key, wanted in self.disputed.items():
            held = self.ledger.holdings(key)
            assert not any(self._free(each) for each in wanted if each not in held), (
                f"claim {key}: no dispute"
            )
        for key, flight in self.flights.items():
            assert flight.users, f"claim {key}: a flight without users"
        owned: dict[str, set[str]] = {}
        for key, claim in self.objects.items():
            for owner in claim.metadata.owner_references:
                owned.setdefault(owner.uid, set()).add(key)
        assert owned == {uid: set(keys) for uid, keys in self.owned.items()}, "claims by owner"


def _devices(allocation: AllocationResult | None) -> DeviceAllocationResult | None:
    return allocation.devices if allocation is not None else None


def _confirms(flight: Flight, shown: ResourceClaim) -> bool:
    """Whether the server shows exactly what was decided: the same holdings, if it showed none before."""
    decided, has = flight.allocation, shown.status.allocation
    return (
        decided is not None
        and has is not None
        and decided.devices.results == has.devices.results
        and not is_carrier(shown)
    )


def version_of(claim: ResourceClaim) -> int:
    return int(claim.metadata.resource_version or 0)
