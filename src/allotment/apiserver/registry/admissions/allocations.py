"""No device is promised twice: the allocations of all claims, and a 409 for a status write that would break the books.

The books follow the head of the store, so they include writes on their way, and what was checked is still true when the
write takes its revision. Two schedulers are safe beside each other: the second one gets the conflict.

A write is checked by trying it: the claim's new holdings are entered in the ledger, the counters follow, and all of it
is undone, whatever came out. The store tells the books again if the write goes through. What is asked:

* *devices*: the ledger's rule. Nobody else has the device whole; nobody takes it whole while shares of it are held. Where
  the device is published and may not be shared, nobody has a share of it.
* *capacity*: the shares of a published device stay within what it has.
* *counters*: what a published device draws is there. A pool that is overdrawn, because its driver shrank it, gives out
  nothing that consumes counters until enough is given back.
* *partitions*: semantic instances lock the other ways to split what they are part of.

Only new promises are asked about. Writing a status again that promises nothing new is always possible, also from a pool
that is overdrawn by now. adminAccess takes nothing. A device that nobody publishes has no capacity or counters to
look at, but is still promised only once.

Cost: in proportion to the devices of the claim. Slices are read again when one of their pool changes; a pool whose devices
have compatibility groups is counted anew after something was given back, because what groups have in common cannot be undone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.allocator.counters import Counters, CounterTable
from allotment.allocator.ledger import Holding, Ledger, LedgerConflict, holding
from allotment.allocator.pool import DeviceID, Pool, PooledDevice, PoolID
from allotment.allocator.semantic_holdings import held_ids
from allotment.api import resource, semantic
from allotment.api.codec import ApiError, decode
from allotment.api.conversion import v1alpha2
from allotment.api.quantity import Quantity
from allotment.api.resource import CounterSet, ResourceSlice
from allotment.api.status import Conflict as Refused
from allotment.api.status import StatusError, conflict
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Obj, Record
from allotment.apiserver.store.store import Store

CLAIMS = "resourceclaims.resource.k8s.io"
SLICES = "resourceslices.resource.k8s.io"


class AllocationConflict(Exception):
    """Why an allocation cannot stand. Names no claim of a namespace other than that of the claim in question."""


class Promise(NamedTuple):
    """What the status of a claim holds: devices, and places in trees of partitions that it locks."""

    holdings: tuple[Holding, ...] = ()
    locks: tuple[tuple[DeviceID, str], ...] = ()  # (the instance that is split, the group in use)


NOTHING = Promise()


class Allocations:
    """The admission check, and the index it needs."""

    judged = frozenset({CLAIMS})

    def __init__(self, store: Store) -> None:
        self.books = Books()
        self._store = store
        self._checked: tuple[Obj | None, Promise] = None, NOTHING  # the claim that was admitted last
        store.follow(SLICES, self._follow_slice)
        store.follow(CLAIMS, self._follow_claim)

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        if write.operation is Operation.DELETE:
            return
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        promise = promise_of(obj)
        self._checked = obj, promise
        try:
            self.books.check(f"{namespace}/{name}", promise)
        except AllocationConflict as exc:
            raise _refused(name, exc) from exc

    def validate(self) -> None:
        """Re-derives the books from the store. Raises AssertionError where they do not agree."""
        fresh = Books()
        for record in self._store.heads(SLICES):
            fresh.publish(record.key.name, _slice(record))
        for record in self._store.heads(CLAIMS):
            fresh.settle(_claim(record), promise_of_record(record))
        self.books.validate(fresh)

    def _follow_slice(self, previous: Record | None, current: Record | None) -> None:
        record = current or previous
        if record is not None:
            self.books.publish(record.key.name, _slice(current) if current is not None else None)

    def _follow_claim(self, previous: Record | None, current: Record | None) -> None:
        record = current or previous
        if record is not None:
            promise = self._promise_of(current) if current is not None else NOTHING
            self.books.settle(_claim(record), promise)

    def _promise_of(self, record: Record) -> Promise:
        """That of a write which has just been admitted is known already."""
        (claim, promise), stored = self._checked, record.at_hand
        self._checked = None, NOTHING
        if claim is None or stored is None:
            return promise_of_record(record)
        if stored["metadata"] is not claim["metadata"] or stored.get("status") is not claim.get("status"):
            return promise_of_record(record)
        return promise


class Books:
    """Who holds what, what is published, and what is left of the counters. Knows no store.

    Invariant: the ledger holds the promises of all claims, except those in ``_disputed``, which contradict others. None do
    as long as every promise passed ``check`` before it was settled; a store filled in another way must not crash a follower.
    """

    def __init__(self) -> None:
        self._ledger = Ledger(watch=self._use_changed)
        self._locks: dict[DeviceID, dict[str, dict[str, int]]] = {}  # instance → group → claim → how often
        self._locked: dict[str, tuple[tuple[DeviceID, str], ...]] = {}  # by claim
        self._disputed: dict[str, tuple[Holding, ...]] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._of_pool: dict[PoolID, dict[str, ResourceSlice]] = {}
        self._pools: dict[PoolID, _PoolBooks] = {}  # counted so far
        self._refused: dict[DeviceID, str] | None = None  # by counters, while a promise is tried

    # --- changes, as they were stored ---

    def publish(self, name: str, slice: ResourceSlice | None) -> None:
        """A slice as it is now; None if it is gone or nobody can read it."""
        before = self._slices.pop(name, None)
        if before is not None:
            pool = _pool_id(before)
            del self._of_pool[pool][name]
            if not self._of_pool[pool]:
                del self._of_pool[pool]
            self._pools.pop(pool, None)
        if slice is not None:
            self._slices[name] = slice
            self._of_pool.setdefault(_pool_id(slice), {})[name] = slice
            self._pools.pop(_pool_id(slice), None)

    def settle(self, claim: str, promise: Promise) -> None:
        """What a claim holds from now on."""
        if promise.holdings == self._ledger.holdings(claim) and promise.locks == self._locked.get(claim, ()):
            return
        self._release(claim)
        self._lock(claim, promise.locks)
        if promise.holdings:
            self._disputed[claim] = promise.holdings
        for waiting, holdings in list(self._disputed.items()):
            try:
                self._ledger.hold(waiting, holdings)
            except LedgerConflict:
                continue
            del self._disputed[waiting]

    # --- the question ---

    def check(self, claim: str, promise: Promise) -> None:
        """Raises Refusal if the promise cannot stand beside the others. Changes nothing."""
        held = self._ledger.holdings(claim)
        if promise.holdings == held and not promise.locks:
            return
        new = (Counter(promise.holdings) - Counter(held)).elements() if held else promise.holdings
        fresh = [each for each in new if not each.admin]
        if not fresh and set(promise.locks) <= set(self._locked.get(claim, ())):
            return
        self._check_locks(claim, promise.locks)
        if not held and self._are_simple(promise.holdings):
            for each in fresh:
                self._check_device(claim, each)
            return
        refused: dict[DeviceID, str] = {}
        self._refused = refused
        try:
            with self._ledger.fork():
                self._ledger.release(claim)
                for each in fresh:
                    self._check_device(claim, each)
                self._try(claim, promise.holdings, fresh, refused)
        finally:
            self._refused = None

    def _are_simple(self, holdings: tuple[Holding, ...]) -> bool:
        """Whether these are whole devices, each once, that draw on no counters: trying them would show nothing more."""
        return len({each.device for each in holdings}) == len(holdings) and all(
            each.share is None
            and not each.consumed
            and not self._counted(each.device.of_pool).counts(each.device)
            for each in holdings
        )

    def _try(
        self,
        claim: str,
        holdings: tuple[Holding, ...],
        fresh: Iterable[Holding],
        refused: dict[DeviceID, str],
    ) -> None:
        """Enters the holdings in the ledger, which tells the counters, and looks at what became of it.

        New ones come last, so that what does not go with what the claim has already is noticed at them.
        """
        new = Counter(fresh)
        kept = (Counter(holdings) - new).elements()
        try:
            self._ledger.hold(claim, (*kept, *new.elements()))
        except LedgerConflict as exc:
            raise AllocationConflict(f"a device is in the claim twice: {_told(fresh)}") from exc
        times = Counter(each.device for each in holdings if not each.admin)
        for device in dict.fromkeys(each.device for each in fresh):
            problem = refused.get(device) or self._counted(device.of_pool).problem(device)
            if problem is not None:
                raise AllocationConflict(problem)
            published = self._published(device)
            if published is not None:
                self._check_capacity(published)
                if times[device] > 1 and not published.spec.allow_multiple_allocations:
                    raise AllocationConflict(
                        f"device {_named(device)} cannot be shared and is in the claim twice"
                    )

    def _check_device(self, claim: str, wanted: Holding) -> None:
        device, whole = wanted.device, wanted.share is None
        published = self._published(device)
        exclusive = published is not None and not published.spec.allow_multiple_allocations
        if self._ledger.exclusive(device) or (self._ledger.shared(device) and (whole or exclusive)):
            raise AllocationConflict(
                f"device {_named(device)} is already allocated to {self._others(claim, self._ledger.holders(device))}"
            )

    def _check_capacity(self, device: PooledDevice) -> None:
        for name, consumed in self._ledger.consumed(device.id).items():
            capacity = device.spec.capacity.get(name)
            total = capacity.value if capacity is not None else Quantity.of(0)
            if consumed > total.nanos:
                short = Quantity(consumed - total.nanos, total.format)
                raise AllocationConflict(
                    f"device {_named(device.id)} has too little of capacity {name} left: {short} short"
                )

    def _check_locks(self, claim: str, locks: Iterable[tuple[DeviceID, str]]) -> None:
        mine: dict[DeviceID, str] = {}
        for instance, group in locks:
            if mine.setdefault(instance, group) != group:
                raise AllocationConflict(
                    f"device {_named(instance)} is in the claim in two ways that exclude each other"
                )
            for other, users in self._locks.get(instance, {}).items():
                holders = [user for user in users if user != claim]
                if other != group and holders:
                    how = f"by way of '{other}'" if other else "as a whole"
                    raise AllocationConflict(
                        f"device {_named(instance)} is already in use {how} by {self._others(claim, holders)}"
                    )

    def _others(self, claim: str, holders: Iterable[str]) -> str:
        """Other claims, by name where the asking one's namespace has them: nobody learns of names elsewhere."""
        namespace = claim.partition("/")[0]
        near = sorted(
            name for place, _, name in (each.partition("/") for each in holders) if place == namespace
        )
        return f"claim {', '.join(near)}" if near else "a claim in another namespace"

    # --- counters ---

    def _published(self, device: DeviceID) -> PooledDevice | None:
        return self._counted(device.of_pool).devices.get(device.device)

    def _counted(self, pool: PoolID) -> _PoolBooks:
        books = self._pools.get(pool)
        if books is None:
            books = self._pools[pool] = _PoolBooks(pool, self._of_pool.get(pool, {}).values(), self._ledger)
        return books

    def _use_changed(self, device: DeviceID) -> None:
        in_use = self._ledger.exclusive(device) or self._ledger.shared(device)
        problem = self._counted(device.of_pool).use(device, in_use)
        if problem is not None and self._refused is not None:
            self._refused[device] = problem
        if not in_use and self._pools[device.of_pool].stale:
            del self._pools[device.of_pool]

    def _release(self, claim: str) -> None:
        self._ledger.release(claim)
        self._disputed.pop(claim, None)
        for instance, group in self._locked.pop(claim, ()):
            users = self._locks[instance][group]
            users[claim] -= 1
            if not users[claim]:
                del users[claim]
            if not users:
                del self._locks[instance][group]
            if not self._locks[instance]:
                del self._locks[instance]

    def _lock(self, claim: str, locks: tuple[tuple[DeviceID, str], ...]) -> None:
        if not locks:
            return
        self._locked[claim] = locks
        for instance, group in locks:
            users = self._locks.setdefault(instance, {}).setdefault(group, {})
            users[claim] = users.get(claim, 0) + 1

    def validate(self, fresh: Books) -> None:
        """That these books agree with fresh ones, and that no decision overdrew anything. Raises AssertionError."""
        self._ledger.validate()
        assert not self._disputed, f"promised twice: {sorted(self._disputed)}"
        assert self._slices == fresh._slices
        assert self._locks == fresh._locks
        assert all(len(groups) == 1 for groups in self._locks.values()), "an instance is split in two ways"
        claims = {*self._ledger.claims(), *fresh._ledger.claims()}
        for claim in claims:
            assert self._ledger.holdings(claim) == fresh._ledger.holdings(claim), claim
        for pool, books in self._pools.items():
            again = _PoolBooks(pool, self._of_pool.get(pool, {}).values(), self._ledger)
            assert books.left == again.left, f"counters of pool {pool}"


class _PoolBooks:
    """One pool: the newest word on each of its devices, and what is left of its counters.

    The newest word: of several slices with a device or counter set of one name, that of the highest generation. ``stale`` once
    something was given back that cannot be subtracted, as groups cannot.
    """

    def __init__(self, pool: PoolID, slices: Iterable[ResourceSlice], ledger: Ledger) -> None:
        self.pool = pool
        self.stale = False
        self.devices: dict[str, PooledDevice] = {}
        sets: dict[str, CounterSet] = {}
        for slice in sorted(slices, key=lambda each: (each.spec.pool.generation, each.metadata.name)):
            sets.update({each.name: each for each in slice.spec.shared_counters})
            self.devices.update({spec.name: PooledDevice(spec, slice) for spec in slice.spec.devices})
        drawing = [each for each in self.devices.values() if each.spec.consumes_counters]
        sound = [each for each in drawing if _counters_exist(each, sets)]
        self._broken = {each.spec.name for each in drawing} - {each.spec.name for each in sound}
        self._positions = {each.spec.name: position for position, each in enumerate(sound)}
        self._plan = CounterTable([Pool(pool, tuple(sound), counter_sets=tuple(sets.values()))], sound)
        self._grouped = any(use.compatibility_groups for each in sound for use in each.spec.consumes_counters)
        in_use = 0
        for position, each in enumerate(sound):
            in_use |= (ledger.exclusive(each.id) or ledger.shared(each.id)) << position
        self._charged = in_use
        self._counters = Counters(self._plan, in_use, ledger, grouped=self._grouped)

    @property
    def left(self) -> list[int]:
        return self._counters.left

    def counts(self, device: DeviceID) -> bool:
        """Whether a device draws on counters, be they there or not."""
        return device.device in self._positions or device.device in self._broken

    def problem(self, device: DeviceID) -> str | None:
        """Why nothing of a device should be given out now, though it may be in use already: one more share draws nothing
        from the counters, and still is a new promise."""
        if device.device in self._broken:
            return f"device {_named(device)} consumes counters that its pool does not have"
        if device.device in self._positions and self._counters.overdrawn:
            return f"device {_named(device)} consumes counters and its pool is overdrawn"
        return None

    def use(self, device: DeviceID, in_use: bool) -> str | None:
        """Counts a device as in use, or no more; the reason why it should not have been put to use, if there is one."""
        position = self._positions.get(device.device)
        if position is None or bool(self._charged >> position & 1) == in_use:
            return None
        self._charged ^= 1 << position
        if in_use:
            return self._take(device, position)
        self._give(position)
        return None

    def _take(self, device: DeviceID, position: int) -> str | None:
        draw, counters = self._plan.draws[position], self._counters
        if counters.take(draw) is not None:
            return None
        short = counters.short_of(draw)
        overdrawn = draw.pool in counters.overdrawn
        counters.charge(draw)
        if short:
            counters.overdrawn.add(draw.pool)
        if overdrawn:
            return f"device {_named(device)} consumes counters and its pool is overdrawn"
        if short:
            told = ", ".join(f"{amount} of {counter} in counter set {set}" for set, counter, amount in short)
            return f"device {_named(device)} consumes more than is left of its pool's counters: {told} short"
        return f"device {_named(device)} shares no compatibility group with devices in use"

    def _give(self, position: int) -> None:
        counters = self._counters
        counters.give(self._plan.draws[position], [])
        if counters.overdrawn:
            counters.overdrawn = {0} if min(counters.left) < 0 else set()
        self.stale = self._grouped


def promise_of(claim: Obj) -> Promise:
    """What a claim's status holds; nothing if it cannot be read, which validation reports."""
    allocation = (claim.get("status") or {}).get("allocation")
    if not isinstance(allocation, dict):
        return NOTHING
    try:
        results = decode(resource.AllocationResult, allocation).devices.results
        return Promise(tuple([holding(result) for result in results]), tuple(_locks(claim)))
    except ApiError:
        return NOTHING


def promise_of_record(record: Record) -> Promise:
    return promise_of(record.peek()) if b'"allocation":' in record.data else NOTHING


def _locks(claim: Obj) -> Iterator[tuple[DeviceID, str]]:
    """The trees of partitions that a semantic claim has a part of: each instance on the way, and by which group."""
    carried = v1alpha2.as_carried(claim)
    if carried is None:
        return
    for id in held_ids(decode(semantic.ResourceClaim, carried)):
        names = id.device.split("/")
        for end in range(1, len(names), 2):
            yield id._replace(device="/".join(names[:end])), names[end]
        yield id, ""


def _counters_exist(device: PooledDevice, sets: dict[str, CounterSet]) -> bool:
    return all(
        use.counter_set in sets and use.counters.keys() <= sets[use.counter_set].counters.keys()
        for use in device.spec.consumes_counters
    )


def _slice(record: Record) -> ResourceSlice | None:
    try:
        return decode(ResourceSlice, record.data)
    except ApiError:
        return None


def _pool_id(slice: ResourceSlice) -> PoolID:
    return PoolID(slice.spec.driver, slice.spec.pool.name)


def _claim(record: Record) -> str:
    return f"{record.key.namespace}/{record.key.name}"


def _named(device: DeviceID) -> str:
    return f"{device.device} of pool {device.pool} of driver {device.driver}"


def _told(holdings: Iterable[Holding]) -> str:
    return ", ".join(sorted({_named(each.device) for each in holdings}))


def _refused(name: str, refusal: AllocationConflict) -> StatusError:
    """A conflict that a scheduler can tell from one of versions: reading the claim again would not help."""
    error = conflict("resourceclaims", name, "resource.k8s.io", str(refusal))
    cause = {"reason": "DeviceTaken", "field": "status.allocation", "message": str(refusal)}
    return Refused(error.message, {**error.details, "causes": [cause]})
