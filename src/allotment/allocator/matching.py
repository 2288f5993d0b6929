"""Can several requests get different devices? If not, a small proof.

Requests want a number of devices each, out of sets of candidates. By Hall's theorem they can all be served exactly
if no group of requests wants more than its candidates together. The augmenting paths of a bipartite matching find
either an assignment or such a group, and the group is a certificate that anyone can check by counting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shortage:
    """These requests together need more devices than there are candidates for any of them."""

    requests: tuple[tuple[int, int], ...]  # (request, devices it needs)
    candidates: int  # bit set

    @property
    def needed(self) -> int:
        return sum(count for _, count in self.requests)

    @property
    def available(self) -> int:
        return self.candidates.bit_count()

    def holds(self) -> bool:
        """Re-checks the certificate, given that the candidates are all there are."""
        return self.needed > self.available


def unmatched(demands: Sequence[tuple[int, int, int]]) -> Shortage | None:
    """For (request, count, candidates) triples: a group that cannot be served, or None if all can.

    >>> unmatched([(0, 1, 0b01), (1, 1, 0b01)])
    Shortage(requests=((0, 1), (1, 1)), candidates=1)
    """
    owner: dict[int, int] = {}  # device bit → index of the demand that has it
    held = [0] * len(demands)  # per demand: the devices it has
    free = 0
    for _, _, candidates in demands:
        free |= candidates
    # The pickiest first: fewer paths to augment.
    for index in sorted(range(len(demands)), key=lambda i: demands[i][2].bit_count()):
        _, count, candidates = demands[index]
        while held[index].bit_count() < count:
            direct = candidates & free
            if direct:
                device = direct & -direct
                free ^= device
                held[index] |= device
                owner[device] = index
                continue
            reached = _augment(index, demands, held, owner, free)
            if reached is not None:
                return _shortage(reached, demands)
            free = _still_free(demands, owner)
    return None


def _still_free(demands: Sequence[tuple[int, int, int]], owner: dict[int, int]) -> int:
    free = 0
    for _, _, candidates in demands:
        free |= candidates
    for device in owner:
        free &= ~device
    return free


def _augment(
    index: int, demands: Sequence[tuple[int, int, int]], held: list[int], owner: dict[int, int], free: int
) -> set[int] | None:
    """Gets one more device for a demand by moving others. None if it did; else the demands that were reached."""
    came_from: dict[int, tuple[int, int]] = {}  # demand → (demand that wants its device, the device)
    reached = {index}
    queue = [index]
    seen = 0
    for current in queue:
        candidates = demands[current][2] & ~seen
        if candidates & free:
            device = (candidates & free) & -(candidates & free)
            _move(current, device, came_from, held, owner)
            return None
        seen |= candidates
        while candidates:
            device = candidates & -candidates
            candidates ^= device
            other = owner[device]
            if other not in reached:
                reached.add(other)
                came_from[other] = (current, device)
                queue.append(other)
    return reached


def _move(
    current: int, device: int, came_from: dict[int, tuple[int, int]], held: list[int], owner: dict[int, int]
) -> None:
    """Gives ``device`` to ``current``, which passes its own on, back to the demand that started."""
    while True:
        held[current] |= device
        owner[device] = current
        if current not in came_from:
            return
        wanting, passed = came_from[current]
        held[current] &= ~passed
        current, device = wanting, passed


def _shortage(reached: set[int], demands: Sequence[tuple[int, int, int]]) -> Shortage:
    candidates = 0
    for index in reached:
        candidates |= demands[index][2]
    return Shortage(tuple((demands[index][0], demands[index][1]) for index in sorted(reached)), candidates)
