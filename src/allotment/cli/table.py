"""The answer for people: who got what, a picture of the devices, and why the rest does not fit."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.api import alpha2
from allotment.cli.cluster import Claim
from allotment.cli.picture import PoolPicture, State, pictures
from allotment.cli.placement import Decision, Placement, Rejection
from allotment.cli.screen import Cell, Screen

NAMED_DEVICES = 8
"""Pools of at most so many devices are drawn with names, larger ones with bare cells."""
CELLS_IN_ROW = 64
NODES_NAMED = 5


def show(placement: Placement, screen: Screen, *, explain: bool) -> None:
    """Shows the whole answer."""
    for note in placement.cluster.notes:
        screen.line(("note: ", "dim"), (note, "dim"))
    _show_given(placement, screen)
    _show_devices(placement, screen)
    _show_refused(placement, screen, explain=explain)
    if explain:
        _show_passed_over(placement, screen)


# --- who got what ---


def _show_given(placement: Placement, screen: Screen) -> None:
    rows = [row for decision in placement.placed for row in _rows(placement, decision)]
    if not rows:
        screen.line("Nothing to allocate." if not placement.refused else "Nothing was allocated.")
        return
    screen.heading(f"Who got what ({_counted(len(placement.placed), 'placed')})")
    screen.table(("for", "claim", "request", "device", "node", "share"), rows)


def _rows(placement: Placement, decision: Decision) -> Iterator[list[Cell]]:
    who = decision.need.who.removeprefix("claim ").removeprefix("pod ")
    pod = who if decision.need.pod is not None else "-"
    for name in decision.need.claims:
        claim = placement.cluster.claims[name]
        for request, device, share in given(claim):
            shown = device if name in decision.fresh else f"{device} (had it)"
            yield [pod, "/".join(name), request, (shown, "cyan"), decision.node or "", share]


def given(claim: Claim) -> Iterator[tuple[str, str, str]]:
    """Request, device and share of everything that a claim has."""
    allocation = claim.status.allocation
    if allocation is None:
        return
    if isinstance(allocation, alpha2.AllocationResult):
        for handle in allocation.resource_handles:
            data = handle.semantic_data
            for instance in data.partitionable.instances if data and data.partitionable else ():
                yield "-", f"{handle.driver_name}/{data.node_name if data else ''}/{instance.id}", ""
        return
    for result in allocation.devices.results:
        parts = [f"{name}={amount}" for name, amount in sorted(result.consumed_capacity.items())]
        parts += ["admin access"] if result.admin_access else []
        yield result.request, f"{result.driver}/{result.pool}/{result.device}", " ".join(parts)


# --- what the devices look like now ---


def _show_devices(placement: Placement, screen: Screen) -> None:
    places = {place: pools for place, pools in pictures(placement).items() if pools}
    if not places:
        return
    screen.heading("Devices")
    seen = {state for pools in places.values() for pool in pools for _, state in pool.devices}
    legend: list[Cell] = []
    for state in State:
        if state in seen:
            legend += [(state.mark, state.style), f" {state.words}   "]
    screen.line(*legend)
    for place, pools in places.items():
        screen.line((place, "bold"))
        for pool in pools:
            _show_pool(pool, screen)


def _show_pool(pool: PoolPicture, screen: Screen) -> None:
    if pool.flaw:
        screen.line(f"{pool.name}  ", (pool.flaw, "red"), indent=2)
        return
    if len(pool.devices) <= NAMED_DEVICES:
        spans: list[Cell] = [f"{pool.name}  "]
        for name, state in pool.devices:
            spans += [(f"{state.mark} {name}", state.style), "  "]
        screen.line(*spans[:-1], indent=2)
        return
    free = sum(state is State.FREE for _, state in pool.devices)
    screen.line(f"{pool.name}  {free} of {len(pool.devices)} free", indent=2)
    for start in range(0, len(pool.devices), CELLS_IN_ROW):
        row = pool.devices[start : start + CELLS_IN_ROW]
        screen.line(*((state.mark, state.style) for _, state in row), indent=4)


# --- what does not fit, and why ---


def _show_refused(placement: Placement, screen: Screen, *, explain: bool) -> None:
    if not placement.refused:
        return
    screen.heading(f"What does not fit ({len(placement.refused)})")
    for decision in placement.refused:
        screen.line((decision.need.who, "bold"), f": {sentence(decision)}")
        for nodes, rejection in folded(decision):
            if rejection.node:
                screen.line((nodes, "bold"), f": {rejection.words}", indent=2)
            if explain:
                _show_tree(rejection, screen)


def sentence(decision: Decision) -> str:
    """Why a need fits nowhere, in one sentence: what is wrong everywhere, or what the closest node lacks."""
    if not decision.rejections:
        return "there is no node to try"
    groups = list(folded(decision))
    if len(groups) == 1:
        nodes, only = groups[0]
        return only.words if not only.node else f"does not fit on {nodes}"
    closest = max(decision.rejections, key=_closeness)
    nodes = _counted(len(decision.rejections), "nodes")
    return f"fits on none of {nodes}; {closest.node} comes closest"


def _closeness(rejection: Rejection) -> float:
    """How much of what is needed a node has; less than nothing if devices are not the question."""
    if rejection.reason is None:
        return -1.0
    asks = rejection.reason.asks
    return sum(min(ask.fitting, ask.needed) / max(ask.needed, 1) for ask in asks) / max(len(asks), 1)


def folded(decision: Decision) -> Iterator[tuple[str, Rejection]]:
    """Rejections that say the same as one, with the names of their nodes."""
    same: dict[str, list[Rejection]] = {}
    for rejection in decision.rejections:
        same.setdefault(rejection.words, []).append(rejection)
    for rejections in same.values():
        names = [rejection.node for rejection in rejections]
        more = len(names) - NODES_NAMED
        yield ", ".join(names[:NODES_NAMED]) + (f" and {more} more" if more > 0 else ""), rejections[0]


def _show_tree(rejection: Rejection, screen: Screen) -> None:
    for ask in rejection.reason.asks if rejection.reason is not None else ():
        screen.line(f"claim {ask.claim}, request {ask.request}: {ask.fitting} of {ask.needed}", indent=4)
        for device in ask.devices:
            screen.line(str(device), indent=6)


def _show_passed_over(placement: Placement, screen: Screen) -> None:
    """With --explain: for what was placed, why not on an earlier node."""
    moved = [decision for decision in placement.placed if decision.rejections]
    if not moved:
        return
    screen.heading("Nodes passed over")
    for decision in moved:
        screen.line((decision.need.who, "bold"), f": is on {decision.node}")
        for nodes, rejection in folded(decision):
            screen.line((nodes, "bold"), f": {rejection.words}", indent=2)
            _show_tree(rejection, screen)


def _counted(count: int, what: str) -> str:
    return f"{count} {what if count != 1 else what.removesuffix('s')}"
