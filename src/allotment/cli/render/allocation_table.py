"""The answer for people: who got what, a picture of the devices, and why the rest does not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from allotment.allocator.errors import nameless
from allotment.allocator.phrases import counted
from allotment.allocator.reasons import FITS, AskReason, fold
from allotment.api import semantic
from allotment.api.text import few
from allotment.cli.render.device_picture import CellState, PoolPicture, pictures
from allotment.cli.render.screen import Cell, Screen, Span
from allotment.insight.manifest_cluster import Claim
from allotment.insight.placement.placing import NeedOutcome, PlacementRun
from allotment.insight.placement.rejections import Rejection, _closeness, folded, in_common, tally

NAMED_DEVICES = 16
"""Pools with at most this many devices are drawn with names, larger ones as bare cells."""
ROW_WIDTH = 100
NODES_NAMED = 5
NODES_DRAWN = 40
"""In a cluster with more nodes, only nodes where devices were allocated now are drawn, up to this number."""
GROUPS_SHOWN = 10
"""Nodes that fail for the same reasons form a group. Without --explain, each need shows at most this many groups."""


def show(placement: PlacementRun, screen: Screen, *, explain: bool) -> None:
    """Shows the whole answer."""
    for note in placement.cluster.notes:
        screen.line(("note: ", "dim"), (note, "dim"))
    _show_given(placement, screen)
    _show_devices(placement, screen)
    _show_refused(placement, screen, explain=explain)
    if explain:
        _show_passed_over(placement, screen)


# --- who got what ---


def _show_given(placement: PlacementRun, screen: Screen) -> None:
    if not placement.placed:
        screen.line("Nothing was allocated." if placement.refused else "There is nothing to allocate.")
        return
    screen.heading(f"Who got what ({len(placement.placed)} placed)")
    rows = [row for decision in placement.placed for row in _rows(placement, decision)]
    if rows:
        screen.table(("claim", "request", "device", "node", "share"), rows)
    for decision in placement.placed:
        for name in decision.need.claims:
            if name not in decision.fresh:
                devices = ", ".join(device for _, device, _ in given(placement.cluster.claims[name]))
                screen.line(f"{decision.need.who} joins claim {'/'.join(name)} on {decision.node}: {devices}")


def _rows(placement: PlacementRun, decision: NeedOutcome) -> Iterator[list[Cell]]:
    for name in decision.fresh:
        for request, device, share in given(placement.cluster.claims[name]):
            yield ["/".join(name), request, (device, "cyan"), decision.node or "", share]


def given(claim: Claim) -> Iterator[tuple[str, str, str]]:
    """The request, the device and the share of everything that a claim has."""
    allocation = claim.status.allocation
    if allocation is None:
        return
    if isinstance(allocation, semantic.AllocationResult):
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


def _show_devices(placement: PlacementRun, screen: Screen) -> None:
    places = {place: pools for place, pools in pictures(placement).items() if pools}
    if not places:
        return
    screen.heading("Devices")
    seen = {state for pools in places.values() for pool in pools for _, state in pool.devices}
    legend: list[Cell] = []
    for state in CellState:
        if state in seen:
            legend += [" " * 3 if legend else "", (state.mark, state.style), f" {state.words}"]
    screen.line(*legend)
    drawn = places if len(places) <= NODES_DRAWN else dict(islice(_touched(places), NODES_DRAWN))
    for place, pools in drawn.items():
        screen.line((place, "bold"))
        for pool in pools:
            _show_pool(pool, screen)
    rest = [s for place in places.keys() - drawn.keys() for pool in places[place] for _, s in pool.devices]
    if rest:
        free = f"{rest.count(CellState.FREE)} of {_counted(len(rest), 'devices')} free"
        screen.line(f"... and {_counted(len(places) - len(drawn), 'more nodes')}: {free}")


def _touched(places: Mapping[str, list[PoolPicture]]) -> Iterator[tuple[str, list[PoolPicture]]]:
    """The places where devices were allocated now."""
    for place, pools in places.items():
        if any(state is CellState.NEW for pool in pools for _, state in pool.devices):
            yield place, pools


def _show_pool(pool: PoolPicture, screen: Screen) -> None:
    if pool.flaw:
        screen.line(f"{pool.name}  ", (pool.flaw, "red"), indent=2)
        return
    named = len(pool.devices) <= NAMED_DEVICES
    free = sum(state is CellState.FREE for _, state in pool.devices)
    shared = f", {pool.shared} shared" if pool.shared else ""
    screen.line(f"{pool.name}: {free} of {len(pool.devices)} free{shared}", indent=2)
    for row in _rows_of_cells(
        [(f"{s.mark} {name}" if named else s.mark, s.style) for name, s in pool.devices]
    ):
        screen.line(*row, indent=4)


def _rows_of_cells(cells: Sequence[Span]) -> Iterator[list[Cell]]:
    """The cells in rows of limited width, with gaps between them if they have names."""
    gap = "  " if any(len(text) > 1 for text, _ in cells) else ""
    row: list[Cell] = []
    width = 0
    for text, style in cells:
        if row and width + len(gap + text) > ROW_WIDTH:
            yield row
            row, width = [], 0
        row += [gap, (text, style)] if row else [(text, style)]
        width += len(gap + text)
    if row:
        yield row


# --- what does not fit, and why ---


def _show_refused(placement: PlacementRun, screen: Screen, *, explain: bool) -> None:
    if not placement.refused:
        return
    screen.heading(f"What does not fit ({len(placement.refused)})")
    for decision in placement.refused:
        screen.line((decision.need.who, "bold red"), f": {sentence(decision)}")
        if explain:
            for rejection in decision.rejections:
                show_rejection([rejection], screen, explain=True)
            continue
        groups = folded(decision.rejections)
        for rejections in groups[:GROUPS_SHOWN]:
            show_rejection(rejections, screen, explain=False)
        more = sum(map(len, groups[GROUPS_SHOWN:]))
        if more:
            screen.line(f"... and {_counted(more, 'nodes')} more; --explain shows all", indent=2)


def show_rejection(rejections: Sequence[Rejection], screen: Screen, *, explain: bool) -> None:
    """Groups of nodes that fail for the same reasons, with what each request lacks: in counts, or device by device."""
    first = rejections[0]
    if not first.node:
        return
    nodes: Cell = (few([rejection.node for rejection in rejections]), "bold")
    asks = [n for n, ask in enumerate(first.reason.asks) if explain or ask.short] if first.reason else []
    if first.reason is None or not asks:
        screen.line(nodes, f": {in_common(rejections)}", indent=2)
        return
    for number in asks:
        ask = first.reason.asks[number]
        fits = f"{ask.fitting} of {_counted(len(ask.devices), 'devices')} fit"
        screen.line(nodes, f": request {ask.request} needs {ask.needed}, {fits}", indent=2)
        alike = [each.reason.asks[number] for each in rejections if each.reason is not None]
        for line in map(str, ask.devices) if explain else _counts(alike):
            screen.line(line, indent=4)
    rest = [] if any(ask.short for ask in first.reason.asks) else [first.reason.together or first.words]
    pools = first.reason.pools if len(rejections) == 1 else list(map(nameless, first.reason.pools))
    for line in [*rest, *pools]:
        screen.line(nodes, f": {line}", indent=2)


def _counts(alike: Sequence[AskReason]) -> Iterator[str]:
    """The reasons why devices fail, counted on one node, with the values that differ between the devices of all nodes."""
    details: dict[tuple[str, str], Counter[str]] = {}
    for ask in alike:
        for device in ask.devices:
            if device.detail:
                details.setdefault((device.code, device.text), Counter())[device.detail] += 1
    for (code, text), count in tally(alike[0]).most_common():
        if code != FITS:
            seen = [detail for detail, _ in details.get((code, text), Counter()).most_common()]
            yield counted(count, text) + (f" ({few(seen, 3, '; ')})" if seen else "")


def sentence(decision: NeedOutcome) -> str:
    """Why a need fits nowhere, in one sentence: what is wrong on every node, or what the closest node lacks."""
    if not decision.rejections:
        return "there is no node to try; give Node objects, or slices with a nodeName"
    first = decision.rejections[0]
    if not first.node or all(rejection.words == first.words for rejection in decision.rejections):
        return first.words
    if len(folded(decision.rejections)) == 1 and first.reason is None:
        return in_common(decision.rejections)
    closest = max(decision.rejections, key=_closeness)
    short = [ask for ask in closest.reason.asks if ask.short] if closest.reason is not None else []
    lacks = _lack(short[0]) if short else closest.words
    return f"fits on none of {len(decision.rejections)} nodes; closest is {closest.node}: {lacks}"


def _lack(ask: AskReason) -> str:
    """What a request has, and why it has no more. Devices of another kind than it wants are left out."""
    others = [device for device in ask.devices if device.code != FITS]
    near = [device for device in others if device.code != "selector"]
    why = fold(near or others)
    return f"request {ask.request} needs {ask.needed} and has {ask.fitting}" + (f", {why}" if why else "")


def _show_passed_over(placement: PlacementRun, screen: Screen) -> None:
    """For --explain: why a need that was placed did not go to an earlier node."""
    moved = [decision for decision in placement.placed if decision.rejections]
    if not moved:
        return
    screen.heading("Nodes passed over")
    for decision in moved:
        screen.line((decision.need.who, "bold"), f" is on {decision.node}, because")
        for rejection in decision.rejections:
            show_rejection([rejection], screen, explain=True)


def _counted(count: int, what: str) -> str:
    return f"{count} {what if count != 1 else what.removesuffix('s')}"
