"""Usage for people: tables of pools and of devices.

What the caller may not know is stated explicitly: "unknown" for a count, and below the devices the number that are held by
claims which the caller may not see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from allotment.api.text import plural, printable
from allotment.cli.render.screen import Cell, Screen, TerminalScreen
from allotment.insight.remarks import remark
from allotment.insight.usage_document import UNKNOWN
from allotment.usage.partly_free import partly_free
from allotment.usage.summary import NOTHING, DeviceState, Summary

if TYPE_CHECKING:
    from allotment.api.quantity import Quantity
    from allotment.usage.allocation import AllocationInfo
    from allotment.usage.device import DeviceUsage
    from allotment.usage.pool import PoolUsage
    from allotment.usage.rollup import PoolOnNode

_BAR_WIDTH = 16
_MOST_HOLDERS = 3
_STYLES = {
    DeviceState.AVAILABLE: "green",
    DeviceState.ALLOCATED: "yellow",
    DeviceState.PARTIALLY_ALLOCATED: "cyan",
    DeviceState.UNAVAILABLE: "red",
    DeviceState.UNKNOWN: "dim",
}


def show_notes(notes: Iterable[str]) -> None:
    """Writes notes to standard error, so that a pipe gets only the answer. Each note is one line, whatever characters its
    names contain."""
    for note in notes:
        remark(printable(f"note: {note}"))


# --- pools ---


def show_pools(pools: Sequence[PoolUsage], screen: Screen, *, wide: bool) -> None:
    """One line per pool and, if there are several, the sum."""
    if not pools:
        screen.line("There are no pools: no driver has published devices.")
        return
    bars = isinstance(screen, TerminalScreen)
    columns = ["pool", "driver", "node", "total", "allocated", "available", "unavailable"]
    partly = any(pool.summary.partially_allocated for pool in pools)
    columns += [*(["partly free"] if partly else []), *(["use"] if bars else [])]
    columns += [*(["generation", "slices"] if wide else []), "problem"]
    screen.table(columns, [_row(pool, bars=bars, partly=partly, wide=wide) for pool in pools])
    if len(pools) > 1:
        total = sum([pool.summary for pool in pools], NOTHING)
        known = all(pool.hidden is not None for pool in pools)
        screen.line(f"{len(pools)} pools, {total.total} devices: {parts(total, known=known)}")


def _row(pool: PoolUsage, *, bars: bool, partly: bool, wide: bool) -> list[Cell]:
    summary, known = pool.summary, pool.hidden is not None
    row: list[Cell] = [pool.pool_name, pool.driver, pool.node_name or "-", str(summary.total)]
    row += [allocated_words(summary, known=known)]
    row += [str(summary.available), str(summary.unavailable)] if known else [UNKNOWN, UNKNOWN]
    row += [partly_free_words(pool)] if partly else []
    row += [bar(summary)] if bars else []
    if wide:
        row += [str(pool.generation), f"{pool.observed_slices}/{pool.expected_slices}"]
    return [*row, (problem(pool, wide=wide), "red" if pool.broken else "yellow")]


def partly_free_words(pool: PoolUsage | PoolOnNode) -> str:
    """How many devices are partly in use, and what is left of them: ``1 (bandwidth 60G of 100G left)``."""
    if not pool.devices or pool.hidden is None:
        return str(pool.summary.partially_allocated) if pool.hidden is not None else UNKNOWN
    return str(partly_free(pool.devices))


def bar(summary: Summary) -> Cell:
    """The allocated, unavailable and available devices as parts of a line."""
    total = max(summary.total, 1)
    full = -(-summary.allocated * _BAR_WIDTH // total)
    out = min(-(-(summary.unavailable + summary.unknown) * _BAR_WIDTH // total), _BAR_WIDTH - full)
    style = "green" if summary.available else "dim" if summary.unknown else "yellow"
    return "█" * full + "▒" * out + "░" * (_BAR_WIDTH - full - out), style


def problem(pool: PoolUsage, *, wide: bool = False) -> str:
    """What is wrong with a pool, in a word or, if wide, in a sentence."""
    wrong = [each for each in (pool.valid, pool.complete) if not each.holds]
    if wrong:
        return "; ".join(each.message for each in wrong) if wide else ", ".join(each.reason for each in wrong)
    errors = pool.truncated_error_count or len(pool.validation_errors)
    if not errors:
        return ""
    return "; ".join(pool.validation_errors) if wide else plural(errors, "warning")


def parts(summary: Summary, *, known: bool = True) -> str:
    """``3 allocated, 1 available, 0 unavailable``."""
    allocated = f"{allocated_words(summary, known=known)} allocated"
    if not known:
        return f"{allocated}, the rest {UNKNOWN}"
    partial = f" ({summary.partially_allocated} in part)" if summary.partially_allocated else ""
    return f"{allocated}{partial}, {summary.available} available, {summary.unavailable} unavailable"


def allocated_words(summary: Summary, *, known: bool) -> str:
    """A count of which the caller may know only a part."""
    return str(summary.allocated) if known else f"{summary.allocated} or more"


# --- devices ---


def show_devices(devices: Sequence[DeviceUsage], screen: Screen, *, wide: bool) -> None:
    """One line per device: its state, its holder and, where that helps, why nobody can have it."""
    columns = ["device", "state", "held by"]
    columns += ["why"] if wide or any(device.message for device in devices) else []
    columns += ["capacity left"] if wide else []
    rows = []
    for device in devices:
        row: list[Cell] = [device.name, (str(device.state), _STYLES[device.state])]
        row += [holders(device.allocations, None if wide else _MOST_HOLDERS), device.message]
        row += [_left(device.available_capacity, device.total_capacity)]
        rows.append(row[: len(columns)])
    screen.table(columns, rows)


def holders(allocations: Sequence[AllocationInfo], most: int | None = None) -> str:
    """The claims that hold a device, each once, with the amount that they take."""
    words = list(dict.fromkeys(map(_holder, allocations)))
    more = len(words) - most if most is not None else 0
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "") or "-"


def _holder(info: AllocationInfo) -> str:
    if info.admin_access:
        return f"{info.claim} (admin access)"
    amounts = " ".join(f"{name}={amount}" for name, amount in sorted(info.capacity.items()))
    return f"{info.claim} ({amounts or 'a share'})" if info.share_id is not None else info.claim


def _left(left: Mapping[str, Quantity], total: Mapping[str, Quantity]) -> str:
    return ", ".join(
        f"{name} {left.get(name, UNKNOWN)} of {amount}" for name, amount in sorted(total.items())
    )


def hidden_words(hidden: int | None, devices: Sequence[DeviceUsage]) -> str:
    """The sentence about claims that the caller may not see; empty if there are none."""
    unseen = sum(all(each.admin_access for each in device.allocations) for device in devices)
    if hidden == 0 or not unseen:
        return ""
    these = "this 1 device" if unseen == 1 else f"these {unseen} devices"
    if hidden is None:
        return f"How many of {these} are held by claims you may not see is {UNKNOWN}."
    return f"{hidden} of {these} {'is' if hidden == 1 else 'are'} held by claims you may not see."
