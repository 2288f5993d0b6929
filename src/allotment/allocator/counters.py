"""Shared counters and compatibility groups, on which several devices of a pool draw.

Two rules for a device that consumes counters:

* *Counters*: the total drawn from a counter must not exceed it. Existing allocations count first, including those of other
nodes' devices. A pool with any overdrawn counter allows no further allocation that consumes counters.
* *Groups*: on each counter set, the groups of all devices in use have one in common; devices without groups go only
  with devices without groups. A set with no counters and one group for each device is a lock: only one of several
  alternatives can be used. Semantic partitions are expressed in this way.

Another share of a shared device that is already in use draws nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING

from allotment.api.quantity import Quantity

if TYPE_CHECKING:
    from allotment.allocator.held import Holdings
    from allotment.allocator.pool import Pool, PooledDevice
    from allotment.api.quantity import Format

NOBODY = -1
"""State of a counter set that no device in use draws from: any device may join."""
UNGROUPED = -2
"""State of a counter set whose devices in use have no groups. Other states are bit sets of the common groups."""

_AMOUNTS_REMEMBERED = 4096  # the most least amounts cached for one site


class Draw:
    """What one device draws: (counter, amount) pairs and (counter set, group bits) pairs, by index."""

    __slots__ = ("amounts", "groups", "pool")

    def __init__(
        self, pool: int, amounts: tuple[tuple[int, int], ...], groups: tuple[tuple[int, int], ...]
    ) -> None:
        self.pool = pool
        self.amounts = amounts
        self.groups = groups

    def signature(self) -> tuple[object, ...]:
        """A value that is equal for devices that draw the same."""
        return self.pool, self.amounts, self.groups


class CounterTable:
    """The counters of a site's pools and what each device draws; independent of use."""

    def __init__(self, pools: Sequence[Pool], devices: Sequence[PooledDevice]) -> None:
        self.names: list[tuple[str, str]] = []  # (set, counter) of each counter
        self.pool_of: list[int] = []  # the total of each counter
        self.totals: list[int] = []
        self.formats: list[Format] = []  # the name of each counter
        self.sets = 0
        self._least: dict[tuple[str, int], int] = {}
        self._bits: list[dict[str, int]] = []  # per counter set, group name → bit
        self._index: dict[tuple[int, str, str], int] = {}
        self._set_index: dict[tuple[int, str], int] = {}
        for number, pool in enumerate(pools):
            self._open(number, pool)
        numbers = {pool.id: number for number, pool in enumerate(pools)}
        self.draws: dict[int, Draw] = {  # by position
            position: self._draw(numbers[device.id.of_pool], device)
            for position, device in enumerate(devices)
            if device.spec.consumes_counters
        }
        self.elsewhere = [  # draws of devices that only other nodes reach
            (device.id, self._draw(number, device))
            for number, pool in enumerate(pools)
            for device in pool.elsewhere
            if device.spec.consumes_counters
        ]

    def _open(self, number: int, pool: Pool) -> None:
        for counter_set in pool.counter_sets:
            self._set_index[number, counter_set.name] = self.sets
            self.sets += 1
            self._bits.append({})
            for name, counter in counter_set.counters.items():
                self._index[number, counter_set.name, name] = len(self.totals)
                self.names.append((counter_set.name, name))
                self.pool_of.append(number)
                self.totals.append(counter.value.nanos)
                self.formats.append(counter.value.format)

    def _draw(self, number: int, device: PooledDevice) -> Draw:
        amounts: dict[int, int] = {}
        groups: list[tuple[int, int]] = []
        for use in device.spec.consumes_counters:
            for name, counter in use.counters.items():
                index = self._index[number, use.counter_set, name]
                amounts[index] = amounts.get(index, 0) + counter.value.nanos
            place = self._set_index[number, use.counter_set]
            known = self._bits[place]
            bits = 0
            for group in use.compatibility_groups:
                bits |= 1 << known.setdefault(group, len(known))
            groups.append((place, bits))
        return Draw(number, tuple(amounts.items()), tuple(groups))

    @cached_property
    def by_name(self) -> dict[str, frozenset[int]]:
        """The counters of each name, over all sets."""
        found: dict[str, set[int]] = {}
        for index, (_, name) in enumerate(self.names):
            found.setdefault(name, set()).add(index)
        return {name: frozenset(counters) for name, counters in found.items()}

    @cached_property
    def alike(self) -> dict[int, int]:
        """For each device that draws, all devices that draw on one of its counter sets, including itself."""
        drawing: dict[int, int] = {}  # by counter set
        for position, draw in self.draws.items():
            for place, _ in draw.groups:
                drawing[place] = drawing.get(place, 0) | 1 << position
        return {
            position: reduce(or_, [drawing[place] for place, _ in draw.groups])
            for position, draw in self.draws.items()
        }

    def least(self, name: str, candidates: int) -> int:
        """The least that any of these devices draws from counters of a name."""
        key = (name, candidates)
        least = self._least.get(key)
        if least is None:
            counters = self.by_name[name]
            amounts = [
                sum([amount for index, amount in draw.amounts if index in counters])
                for position, draw in self.draws.items()
                if candidates >> position & 1
            ]
            drawing = len(amounts) == candidates.bit_count() and amounts
            if len(self._least) >= _AMOUNTS_REMEMBERED:
                self._least.clear()
            least = self._least[key] = min(amounts) if drawing else 0
        return least

    def related(self, positions: int) -> int:
        """The devices whose use can affect these: all that draw on the same pools, if these draw at all."""
        pools = {draw.pool for position, draw in self.draws.items() if positions >> position & 1}
        for position, draw in self.draws.items():
            if draw.pool in pools:
                positions |= 1 << position
        return positions


class Counters:
    """What is left of a plan's counters, and what the search draws from them.

    Invariant: ``take`` leaves the state unchanged when it returns None; ``give`` undoes the last successful ``take`` of
    the device. ``left`` is negative only in a pool that is ``overdrawn``.
    """

    def __init__(self, plan: CounterTable, in_use: int, held: Holdings, *, grouped: bool) -> None:
        """``in_use`` are the positions of devices that claims hold, whole or in part."""
        self._plan = plan
        self.left = list(plan.totals)
        self.state = [NOBODY] * plan.sets  # per counter set: NOBODY, UNGROUPED or group bits
        self._grouped = grouped
        for position, draw in plan.draws.items():
            if in_use >> position & 1:
                self.charge(draw)
        for device, draw in plan.elsewhere:
            if held.exclusive(device) or held.shared(device):
                self.charge(draw)
        self.overdrawn = {pool for pool, left in zip(plan.pool_of, self.left, strict=True) if left < 0}

    def charge(self, draw: Draw) -> None:
        """Counts a device as in use, even if that overdraws a counter."""
        for index, amount in draw.amounts:
            self.left[index] -= amount
        for index, bits in draw.groups:
            self.state[index] = _join(self.state[index], bits)

    def take(self, draw: Draw) -> list[tuple[int, int]] | None:
        """Draws for a device. Returns what ``give`` needs to undo it, or None if it is impossible."""
        if draw.pool in self.overdrawn:
            return None
        left = self.left
        for index, amount in draw.amounts:
            if left[index] < amount:
                return None
        before: list[tuple[int, int]] = []
        if self._grouped:
            for index, bits in draw.groups:
                state = self.state[index]
                if not _admits(state, bits):
                    self._restore(before)
                    return None
                before.append((index, state))
                self.state[index] = _join(state, bits)
        for index, amount in draw.amounts:
            left[index] -= amount
        return before

    def give(self, draw: Draw, before: list[tuple[int, int]]) -> None:
        """Undoes a ``take``."""
        for index, amount in draw.amounts:
            self.left[index] += amount
        self._restore(before)

    def _restore(self, before: list[tuple[int, int]]) -> None:
        for index, state in reversed(before):
            self.state[index] = state

    def hopeless(self, demands: Sequence[tuple[int, int, int]]) -> bool:
        """Whether (request, count, candidates) triples draw more than is left, even if each takes the least it can.

        Counters of one name are added up over all sets: whichever card a partition is on, it takes its memory from some card.
        Requests that can be served without drawing count as nothing.
        """
        plan = self._plan
        for name, counters in plan.by_name.items():
            left = sum([self.left[index] for index in counters if self.left[index] > 0])
            for _, count, candidates in demands:
                left -= count * plan.least(name, candidates)
                if left < 0:
                    return True
        return False

    def short_of(self, draw: Draw) -> list[tuple[str, str, Quantity]]:
        """(set, counter, missing amount) of each counter that has too little left for the device."""
        plan = self._plan
        return [
            (*plan.names[index], Quantity(amount - self.left[index], plan.formats[index]))
            for index, amount in draw.amounts
            if self.left[index] < amount
        ]


def _admits(state: int, bits: int) -> bool:
    if state == NOBODY:
        return True
    if bits == 0 or state == UNGROUPED:
        return bits == 0 and state == UNGROUPED
    return state & bits != 0


def _join(state: int, bits: int) -> int:
    if state == NOBODY:
        return bits or UNGROUPED
    if state == UNGROUPED or bits == 0:
        return state
    return state & bits
