"""Records which claims hold which devices, so that each question about a device is one look-up.

``allocate`` never changes anything; ``commit`` and ``release`` do. A fork is a savepoint: unless it is kept, leaving it
undoes everything that happened in it, in reverse. So a simulation or an attempt to place a gang costs only as much as the
changes that it makes.

Invariants, re-derived from the claims by ``validate``:

* a device that one claim holds whole is in no other claim, neither whole nor in part;
* the consumption of a shared device is the sum over the claims that hold shares of it.

Admin access is recorded with the claim and takes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from allotment.allocator.errors import AllocationError
from allotment.allocator.pool import DeviceID

if TYPE_CHECKING:
    from allotment.api.resource import AllocationResult, DeviceRequestAllocationResult

__all__ = ["Ledger", "LedgerConflict"]

_NOTHING: Mapping[str, int] = {}


class LedgerConflict(AllocationError):
    """A commit would promise a device twice, or a claim is committed twice. Nothing was changed."""


class Holding(NamedTuple):
    """One device, or a share of one, in a claim."""

    device: DeviceID
    share: str | None  # None: the whole device
    consumed: tuple[tuple[str, int], ...]  # the amounts that the share takes, in billionths
    admin: bool


def holding(result: DeviceRequestAllocationResult) -> Holding:
    """The holding for one result of an allocation."""
    device, consumed = DeviceID(result.driver, result.pool, result.device), result.consumed_capacity
    amounts = tuple([(name, amount.nanos) for name, amount in consumed.items()]) if consumed else ()
    return Holding(device, result.share_id, amounts, bool(result.admin_access))


class Fork:
    """A savepoint; see :meth:`Ledger.fork`."""

    def __init__(self) -> None:
        self.kept = False

    def keep(self) -> None:
        """Lets the changes stand when the fork is left."""
        self.kept = True


class Ledger:
    """The holdings of all claims, by claim and by device. The caller chooses the names of claims, such as ``namespace/name``.

    ``watch``, if given, is called with every device whose use changed, including by an undo.
    """

    strict = True

    def __init__(self, watch: Callable[[DeviceID], None] | None = None) -> None:
        self._claims: dict[str, tuple[Holding, ...]] = {}
        self._whole: dict[DeviceID, str] = {}
        self._shares: dict[DeviceID, dict[str, int]] = {}  # device → claim → how many shares
        self._consumed: dict[DeviceID, dict[str, int]] = {}
        self._undo: list[Callable[[], object]] | None = None  # the undo log of the innermost fork
        self._watches = [watch] if watch is not None else []

    def also_tell(self, watch: Callable[[DeviceID], None]) -> None:
        """Adds another callback for every device whose use changed, called after the earlier ones."""
        self._watches.append(watch)

    # --- questions ---

    def exclusive(self, device: DeviceID) -> bool:
        return device in self._whole

    def shared(self, device: DeviceID) -> bool:
        return device in self._shares

    def consumed(self, device: DeviceID) -> Mapping[str, int]:
        return self._consumed.get(device, _NOTHING)

    def holders(self, device: DeviceID) -> Sequence[str]:
        whole = self._whole.get(device)
        return [whole] if whole is not None else sorted(self._shares.get(device, ()))

    def holdings(self, claim: str) -> tuple[Holding, ...]:
        """The holdings of a claim; empty if it has none."""
        return self._claims.get(claim, ())

    def claims(self) -> Sequence[str]:
        """The claims with holdings."""
        return list(self._claims)

    def __contains__(self, claim: str) -> bool:
        return claim in self._claims

    def __len__(self) -> int:
        return len(self._claims)

    # --- changes ---

    def commit(self, claim: str, allocation: AllocationResult) -> None:
        """Records an allocation. Raises LedgerConflict, and changes nothing, if it conflicts with others."""
        self.hold(claim, tuple([holding(result) for result in allocation.devices.results]))

    def hold(self, claim: str, holdings: tuple[Holding, ...]) -> None:
        """Like ``commit``, for given holdings."""
        if claim in self._claims:
            raise LedgerConflict(f"claim {claim} is already allocated")
        self._check(claim, holdings)
        self._add(claim, holdings)
        if self._undo is not None:
            self._undo.append(lambda: self._remove(claim))

    def release(self, claim: str) -> tuple[Holding, ...]:
        """Releases all that a claim holds, which may be nothing. Returns the holdings."""
        if claim not in self._claims:
            return ()
        holdings = self._remove(claim)
        if self._undo is not None:
            self._undo.append(lambda: self._add(claim, holdings))
        return holdings

    @contextmanager
    def fork(self) -> Iterator[Fork]:
        """``with ledger.fork() as fork: …`` undoes what happens inside unless ``fork.keep()`` is called. Forks nest;
        what an inner one keeps, an outer one can still undo."""
        outer, mine = self._undo, list[Callable[[], object]]()
        self._undo = mine
        fork = Fork()
        try:
            yield fork
        except BaseException:
            fork.kept = False
            raise
        finally:
            self._undo = outer
            if not fork.kept:
                for undo in reversed(mine):
                    undo()
            elif outer is not None:
                outer.extend(mine)

    def _check(self, claim: str, holdings: tuple[Holding, ...]) -> None:
        mine: dict[DeviceID, bool] = {}
        for device, share, _, admin in holdings:
            if admin:
                continue
            whole = share is None
            holder = self._whole.get(device)
            if holder is not None:
                raise LedgerConflict(f"claim {claim}: device {device} is already in use by claim {holder}")
            if whole and device in self._shares:
                raise LedgerConflict(
                    f"claim {claim}: device {device} is shared by {', '.join(self.holders(device))}"
                )
            if device in mine and (whole or mine[device]):
                raise LedgerConflict(f"claim {claim}: device {device} is in it twice")
            mine[device] = whole

    def _add(self, claim: str, holdings: tuple[Holding, ...]) -> None:
        self._claims[claim] = holdings
        for device, share, consumed, admin in holdings:
            if admin:
                continue
            if share is None:
                self._whole[device] = claim
            else:
                sharers = self._shares.setdefault(device, {})
                sharers[claim] = sharers.get(claim, 0) + 1
                amounts = self._consumed.setdefault(device, {})
                for name, amount in consumed:
                    amounts[name] = amounts.get(name, 0) + amount
            for watch in self._watches:
                watch(device)

    def _remove(self, claim: str) -> tuple[Holding, ...]:
        holdings = self._claims.pop(claim)
        for device, share, consumed, admin in holdings:
            if admin:
                continue
            if share is None:
                del self._whole[device]
            else:
                self._remove_share(claim, device, consumed)
            for watch in self._watches:
                watch(device)
        return holdings

    def _remove_share(self, claim: str, device: DeviceID, consumed: tuple[tuple[str, int], ...]) -> None:
        sharers, amounts = self._shares[device], self._consumed[device]
        sharers[claim] -= 1
        for name, amount in consumed:
            left = amounts.get(name, 0) - amount  # absent: the remaining shares take nothing of it
            if left:
                amounts[name] = left
            else:
                amounts.pop(name, None)
        if not sharers[claim]:
            del sharers[claim]
        if not sharers:
            del self._shares[device], self._consumed[device]

    def validate(self) -> None:
        """Re-derives everything from the claims. Raises AssertionError if it differs."""
        fresh = Ledger()
        for claim, holdings in self._claims.items():
            fresh.hold(claim, holdings)  # raises Conflict if a device is promised twice
        assert fresh._whole == self._whole, "devices held whole do not agree with the claims"
        assert fresh._shares == self._shares, "shares do not agree with the claims"
        assert {d: _nonzero(a) for d, a in fresh._consumed.items()} == {
            d: _nonzero(a) for d, a in self._consumed.items()
        }, "consumed capacity does not agree with the claims"


def _nonzero(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}
