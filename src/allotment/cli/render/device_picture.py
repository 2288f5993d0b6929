"""The state of every device, one cell each: free, allocated now, in use before, out of reach.

A device is drawn under its node, or under "several nodes" if more than one node can reach it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from enum import Enum

from allotment.allocator.counters import Counters, CounterTable
from allotment.allocator.errors import AllocationError
from allotment.allocator.ledger import Ledger
from allotment.allocator.pool import DeviceID, Pool, PooledDevice, PoolID
from allotment.allocator.taint import blocking_taint
from allotment.api.quantity import Quantity
from allotment.insight.placement.placing import PlacementRun

SEVERAL = "several nodes"


class CellState(Enum):
    """The state of a device: its mark, the meaning of the mark, and its style on a terminal."""

    FREE = (".", "free", "green")
    NEW = ("+", "given now", "bold cyan")
    USED = ("#", "in use before", "yellow")
    BLOCKED = ("-", "free, but overlaps what is in use", "dim")
    TAINTED = ("!", "tainted", "red")

    @property
    def mark(self) -> str:
        return self.value[0]

    @property
    def words(self) -> str:
        return self.value[1]

    @property
    def style(self) -> str:
        return self.value[2]


@dataclass(slots=True)
class PoolPicture:
    """The devices of a pool in order, or the reason why it has none."""

    name: str
    devices: list[tuple[str, CellState]] = field(default_factory=list)
    shared: int = 0  # devices of which shares are in use; some may be left
    flaw: str = ""


def pictures(placement: PlacementRun) -> dict[str, list[PoolPicture]]:
    """The pools of each place; every pool appears once per place."""
    places: dict[str, dict[PoolID, PoolPicture]] = {}
    for node in placement.cluster.nodes:
        name = node.metadata.name
        places.setdefault(name, {})
        for model in placement.models:
            try:
                pools = model.pools(node)
            except AllocationError as exc:
                places[name][PoolID("", "")] = PoolPicture("", flaw=str(exc))
                continue
            for pool in pools:
                bound, reached = _by_reach(pool)
                if bound or not reached:
                    places[name][pool.id] = _draw(pool, bound, placement)
                if reached:
                    everywhere = places.setdefault(SEVERAL, {})
                    everywhere.setdefault(pool.id, _draw(pool, reached, placement))
    several = places.pop(SEVERAL, None)
    if several is not None:
        places[SEVERAL] = several  # several nodes come last
    return {place: list(pools.values()) for place, pools in places.items()}


def _by_reach(pool: Pool) -> tuple[list[PooledDevice], list[PooledDevice]]:
    """The devices of one node, and those that several nodes reach."""
    bound: list[PooledDevice] = []
    reached: list[PooledDevice] = []
    for device in pool.devices:
        own = device.slice.spec.node_name or device.spec.node_name
        (bound if own else reached).append(device)
    return bound, reached


def _draw(pool: Pool, devices: Sequence[PooledDevice], placement: PlacementRun) -> PoolPicture:
    if pool.incomplete:
        flaw = f"incomplete: {pool.slices} of {pool.announced} slices, so nothing of it is used"
        return PoolPicture(str(pool.id), flaw=flaw)
    if pool.invalid:
        return PoolPicture(str(pool.id), flaw=f"invalid: {pool.invalid}")
    blocked = _blocked(pool, placement.after)
    shown = [(_label(device, placement), _state(device, blocked, placement)) for device in devices]
    shared = sum(placement.after.shared(device.id) for device in devices)
    return PoolPicture(str(pool.id), shown, shared)


def _label(device: PooledDevice, placement: PlacementRun) -> str:
    """The name and, for a shared device, the part of it that is in use."""
    taken = placement.after.consumed(device.id)
    amounts = [
        f"{Quantity(taken[name], offer.value.format)} of {offer.value} {name}"
        for name, offer in device.spec.capacity.items()
        if name in taken
    ]
    return f"{device.id.device} ({', '.join(amounts)})" if amounts else device.id.device


def _state(device: PooledDevice, blocked: Set[DeviceID], placement: PlacementRun) -> CellState:
    after = placement.after.holders(device.id)
    if after:
        before = placement.before.holders(device.id)
        return CellState.NEW if set(after) - set(before) else CellState.USED
    if blocking_taint(device.spec.taints, ()) is not None:
        return CellState.TAINTED
    return CellState.BLOCKED if device.id in blocked else CellState.FREE


def _blocked(pool: Pool, ledger: Ledger) -> Set[DeviceID]:
    """Devices that nobody holds, but whose counters or locks are too far used up."""
    plan = CounterTable([pool], pool.devices)
    in_use = sum(1 << at for at, device in enumerate(pool.devices) if ledger.holders(device.id))
    counters = Counters(plan, in_use, ledger, grouped=True)
    blocked = set()
    for position, draw in plan.draws.items():
        undo = counters.take(draw)
        if undo is None:
            blocked.add(pool.devices[position].id)
        else:
            counters.give(draw, undo)
    return blocked
