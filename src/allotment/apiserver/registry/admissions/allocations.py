"""Keeps devices from being promised twice: tracks all allocations, and refuses a conflicting status write with 409.

The books follow the head of the store, so they include writes on their way to disk, and a check is still true when the
write takes its revision. Two schedulers can safely run side by side: the second one gets the conflict.

A write is checked by trying it: the claim's new holdings enter the ledger, the counters follow, and all of it is undone,
whatever the result. If the write succeeds, the store reports it to the books. The checks are:

* *devices*: the ledger's rule. No other claim holds the device whole, and none takes it whole while shares of it are
held. If the device is published and may not be shared, no claim holds a share of it.
* *capacity*: the shares of a published device stay within what it has.
* *counters*: the counters have what a published device draws. A pool that is overdrawn, because its driver shrank it,
allows no further allocation that consumes counters until enough is given back.
* *partitions*: semantic instances lock the other ways to split the devices that they are part of.

Only new promises are checked. A status that promises nothing new can always be written again, even for a pool that is
overdrawn by now. adminAccess takes nothing. An unpublished device has no capacity or counters to check, but can still be
promised only once.

Cost: in proportion to the devices of the claim. When a slice of a pool changes, all its slices are read again. A pool with
compatibility groups is recounted after something was given back, because intersections of groups cannot be undone.
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
    """Why an allocation is refused. The message names no claims of other namespaces."""


class Promise(NamedTuple):
    """What the status of a claim holds: devices, and locks in trees of partitions."""

    holdings: tuple[Holding, ...] = ()
    locks: tuple[tuple[DeviceID, str], ...] = ()  # (the instance that is split, the group in use)


NOTHING = Promise()


class Allocations:
    """The admission check, and the index that it needs."""

    judged = frozenset({CLAIMS})

    def __init__(self, store: Store) -> None:
        self.books = Books()
        self._store = store
        self._checked: tuple[Obj | None, Promise] = None, NOTHING  # the last admitted claim
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
        """Rebuilds the books from the store. Raises AssertionError if they differ."""
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
        """The promise of a claim, which is already known for a write that has just been admitted."""
        (claim, promise), stored = self._checked, record.at_hand
        self._checked = None, NOTHING
        if claim is None or stored is None:
            return promise_of_record(record)
        if stored["metadata"] is not claim["metadata"] or stored.get("status") is not claim.get("status"):
            return promise_of_record(record)
        return promise


class Books:
    """The books: who holds what, what is published, and what is left of the counters. They know no store.

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
        self._pools: dict[PoolID, _PoolBooks] = {}  # pools counted so far
        # problems found by counters while a promise is tried
        self._refused: dict[DeviceID, str] | None = None

    # --- changes, as they were stored ---

    def publish(self, name: str, slice: ResourceSlice | None) -> None:
        """Records the present state of a slice; None if it is gone or unreadable."""
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
        """Records what a claim holds from now on."""
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
        """Raises AllocationConflict if the promise conflicts with others. Changes nothing."""
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
        """Whether these are whole devices, each once, without counters, so that trying them would show nothing more."""
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
        """Enters the holdings in the ledger, which informs the counters, and checks the result.

        New holdings come last, so that a conflict with the claim's existing ones shows at the new ones.
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
        """Other claims, named only if they are in the same namespace, so that names elsewhere stay hidden."""
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
        """Checks that these books agree with fresh ones, and that no decision overdrew anything. Raises AssertionError."""
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
    """One pool: the newest description of each of its devices, and what is left of its counters.

    If several slices have a device or counter set of one name, the highest generation counts. ``stale`` is set once
    something was given back that cannot be subtracted, such as groups.
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
        """Whether a device draws on counters, whether or not they exist."""
        return device.device in self._positions or device.device in self._broken

    def problem(self, device: DeviceID) -> str | None:
        """Why no further part of a device should be allocated, even if the device is already in use.

        One more share draws nothing from the counters, but it is still a new promise.
        """
        if device.device in self._broken:
            return f"device {_named(device)} consumes counters that its pool does not have"
        if device.device in self._positions and self._counters.overdrawn:
            return f"device {_named(device)} consumes counters and its pool is overdrawn"
        return None

    def use(self, device: DeviceID, in_use: bool) -> str | None:
        """Marks a device as in use or free; returns the reason why it should not have been used, if there is one."""
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
    """The locks of a semantic claim in trees of partitions: each instance on the path, with the group in use."""
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
    """A conflict that a scheduler can distinguish from a version conflict: reading the claim again would not help."""
    error = conflict("resourceclaims", name, "resource.k8s.io", str(refusal))
    cause = {"reason": "DeviceTaken", "field": "status.allocation", "message": str(refusal)}
    return Refused(error.message, {**error.details, "causes": [cause]})
