"""One picture of ``allot top``, for a screen of a given size. Pure. Only what is visible is computed.

The totals are at the top, then three lists, then the keys. Each list gets the lines that it needs. If there are not enough
lines, each list gets its share, and the list in focus gets the rest. Each node has its own line if there is room; otherwise
nodes stand side by side. At 200 columns, 300 nodes with eight devices each fit on one screen.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from allotment.api.text import plural, printable
from allotment.api.timestamps import moment
from allotment.cli.render.device_cell import DeviceSign, cells, room_for
from allotment.cli.render.top_view import ListExtent, Sort, TopPart
from allotment.cli.render.usage_table import allocated_words, parts, problem
from allotment.insight.usage_document import UNKNOWN
from allotment.usage.rollup import PoolOnNode

if TYPE_CHECKING:
    from allotment.cli.render.screen import Span
    from allotment.cli.render.top_view import TopView
    from allotment.insight.overview import NodeView, Overview
    from allotment.insight.waiting_pods import WaitingPod
    from allotment.usage.pool import PoolUsage
    from allotment.usage.summary import Summary

Line = list["Span"]

_SHARES = {TopPart.NODES: 2, TopPart.PENDING: 1, TopPart.POOLS: 1}
_NAME_WIDTH = 40  # columns of a name
_GRID_NAME = 24
_GAP = 2
_MOST_BAR_WIDTH = 30
_REASON_LINES = 2
_KEYS = (
    ("q", "quit"),
    ("/", "filter by names: nodes, drivers, claims, pods; Esc clears"),
    ("s", "sort by name, free devices, used devices, trouble"),
    ("Tab", "next list; the one in focus gets the most room"),
    ("↑ ↓ PgUp PgDn Home End", "scroll the list"),
    ("h", "this help, and back"),
)


@dataclass(frozen=True, slots=True)
class Frame:
    """``lines`` are at most as many and as wide as requested. ``pods`` are the waiting pods on the screen."""

    lines: list[Line]
    extents: Mapping[TopPart, ListExtent]
    pods: Sequence[str]


@dataclass(frozen=True, slots=True)
class Setting:
    """The facts of a picture that are not in the cluster: whose cluster it is, the time, and a message that the user must see
    at once, such as a lost server."""

    name: str
    now: datetime
    alarm: str = ""


def frame(overview: Overview, view: TopView, setting: Setting, width: int, height: int | None) -> Frame:
    """``height`` None: all of every list, and no keys."""
    head = _head(overview, setting, width)
    if view.help:
        return Frame(_cropped([*head, *_help(overview)], width, height), {}, ())
    foot = [_foot(view)] if height is not None else []
    lists = _lists(overview, view, setting, width)
    room = None if height is None else max(height - len(head) - len(foot) - len(lists), 0)
    given = _given(lists, view.focus, room)
    body: list[Line] = []
    extents: dict[TopPart, ListExtent] = {}
    pods: Sequence[str] = ()
    for part, each in lists.items():
        shown = each.draw(given[part], view)
        extents[part] = shown.extent
        if part is TopPart.PENDING:
            pods = shown.names
        body += [_title(part, each, shown, view), *shown.lines]
    if height is not None:
        room = max(height - len(head) - len(foot), 0)
        body = (body + [[] for _ in range(room)])[:room]
    return Frame(_cropped([*head, *body, *foot], width, height), extents, pods)


# --- head and foot ---


def _head(overview: Overview, setting: Setting, width: int) -> list[Line]:
    cluster = overview.cluster
    nodes = plural(len(overview.nodes) + (overview.bare or 0), "node")
    nodes += f" ({overview.bare} without devices)" if overview.bare else ""
    facts = f"{nodes}, {plural(cluster.pools, 'pool')}, {plural(cluster.summary.total, 'device')}"
    clock = setting.now.strftime("%H:%M:%S")
    first: Line = [("allot top", "bold"), (f"  {facts}", ""), (f"  {printable(setting.name)}", "dim")]
    first = [*_padded(_crop(first, width - len(clock) - _GAP), width - len(clock)), (clock, "dim")]
    known = cluster.hidden is not None
    second = [*_bar(cluster.summary, min(_MOST_BAR_WIDTH, width // 4)), ("  ", "")]
    second.append((parts(cluster.summary, known=known), ""))
    lines = [first, second]
    if setting.alarm:
        lines.append([(printable(setting.alarm), "bold red")])
    elif overview.notes:
        more = f" (and {len(overview.notes) - 1} more: h)" if len(overview.notes) > 1 else ""
        lines.append([(f"note: {printable(overview.notes[0])}{more}", "yellow")])
    return lines


def _bar(summary: Summary, room: int) -> list[Span]:
    """The used, partly used, free, unavailable and unknown devices as parts of a line. A part that is not zero gets at least
    one column."""
    kinds = (
        (DeviceSign.USED, summary.allocated - summary.partially_allocated),
        (DeviceSign.PARTLY, summary.partially_allocated),
        (DeviceSign.BLOCKED, summary.unavailable),
        (DeviceSign.UNKNOWN, summary.unknown),
        (DeviceSign.FREE, summary.available),
    )
    left, spans = room, list["Span"]()
    rest = summary.total
    for kind, count in kinds:
        size = min(-(-count * left // rest), left) if rest > 0 and count > 0 else 0
        spans += [(kind.sign[0] * size, kind.sign[1])] if size else []
        left, rest = left - size, rest - count
    return spans


def _foot(view: TopView) -> Line:
    if view.typing is not None:
        return [("/", "bold"), (view.filter, ""), ("▏", "bold"), ("  Enter keeps it, Esc discards it", "dim")]
    line: Line = [(f"only with “{printable(view.filter)}”  ", "bold")] if view.filter else []
    return [
        *line,
        (f"sorted by {view.sort.value}   q quit  / filter  s sort  Tab list  ↑↓ scroll  h help", "dim"),
    ]


def _help(overview: Overview) -> list[Line]:
    width = max(len(key) for key, _ in _KEYS)
    lines: list[Line] = [[], [("KEYS", "bold")]]
    lines += [[(f"  {key:{width}}  ", "bold"), (words, "")] for key, words in _KEYS]
    lines += [[], [("DEVICES", "bold")]]
    lines += [[("  ", ""), kind.sign, (f"  {kind.words}", "")] for kind in DeviceSign]
    lines.append(
        [("  █12 ░4", ""), ("  twelve used and four free, if there is no room for a sign each", "dim")]
    )
    if overview.notes:
        lines += [[], [("NOTES", "bold")], *([(f"  {printable(note)}", "")] for note in overview.notes)]
    return lines


# --- lists ---


@dataclass(frozen=True, slots=True)
class _ShownList:
    lines: list[Line]
    extent: ListExtent
    first: int
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _FrameList:
    """One list. ``need`` is the number of lines that it takes; ``draw`` makes the given number of visible lines."""

    part: TopPart
    count: int  # the number of things in it
    words: str
    need: int
    draw: Callable[[int, TopView], _ShownList]


def _lists(overview: Overview, view: TopView, setting: Setting, width: int) -> dict[TopPart, _FrameList]:
    text = view.filter.lower()
    nodes = [node for node in overview.nodes if node.mentions(text)] if text else list(overview.nodes)
    pods = [pod for pod in overview.pending if text in f"{pod} {pod.reason}".lower()]
    pools = [
        pool for pool in overview.pools if text in f"{pool.pool_name} {pool.driver} {pool.node_name}".lower()
    ]
    nodes.sort(key=_node_order(view.sort))
    pools.sort(key=_pool_order(view.sort))
    legend = "  ".join(
        f"{kind.sign[0]} {kind.words}" for kind in DeviceSign if kind is not DeviceSign.UNKNOWN
    )
    return {
        TopPart.NODES: _FrameList(
            TopPart.NODES, len(nodes), legend, len(nodes), lambda room, view: _nodes(nodes, room, view, width)
        ),
        TopPart.PENDING: _FrameList(
            TopPart.PENDING, len(pods), "pods without a node, and why",
            sum(len(_pod(pod, setting.now, width)) for pod in pods[:200]) + len(pods[200:]),
            lambda room, view: _pods(pods, room, view, setting.now, width),
        ),
        TopPart.POOLS: _FrameList(
            TopPart.POOLS, len(pools), "", len(pools), lambda room, view: _pools(pools, room, view, width)
        ),
    }  # fmt: skip


def _given(lists: Mapping[TopPart, _FrameList], focus: TopPart, room: int | None) -> dict[TopPart, int]:
    """The number of lines for each list: what it needs; if that is too much, its share plus what others leave, the list in
    focus first."""
    if room is None:
        return {part: each.need for part, each in lists.items()}
    total = sum(_SHARES.values())
    given = {part: min(each.need, room * _SHARES[part] // total) for part, each in lists.items()}
    for part in (focus, *lists):
        left = room - sum(given.values())
        given[part] += min(left, lists[part].need - given[part])
    return given


def _title(part: TopPart, each: _FrameList, shown: _ShownList, view: TopView) -> Line:
    focused = part is view.focus
    line: Line = [(f"{part.value.upper()} {each.count}", "bold reverse" if focused else "bold")]
    if shown.extent.last:
        end = shown.first + (len(shown.names) or shown.extent.shown)
        line.append((f"  rows {shown.first + 1}–{end} of {shown.extent.rows}", "dim"))
    return [*line, (f"  {each.words}", "dim")] if each.words else line


def _window(
    items: Sequence[Any], room: int, view: TopView, part: TopPart
) -> tuple[Sequence[Any], ListExtent, int]:
    extent = ListExtent(min(room, len(items)), len(items))
    first = view.offset(part, extent)
    return items[first : first + room], extent, first


# --- nodes ---


def _nodes(nodes: Sequence[NodeView], room: int, view: TopView, width: int) -> _ShownList:
    across = _across(nodes, width) if len(nodes) > room else 1
    if across > 1:
        return _grid(nodes, room, view, width, across)
    seen, extent, first = _window(nodes, room, view, TopPart.NODES)
    name = min(max([len(node.name) for node in nodes], default=0), _NAME_WIDTH, width // 3)
    counts = [_counts(node.usage.summary, node.usage.hidden) for node in seen]
    wide = max(map(len, counts), default=0)
    most = max([room_for(node.usage.pools) for node in nodes], default=0)
    signs = max(min(most, width - name - wide - 20), 1)
    lines: list[Line] = []
    for node, count in zip(seen, counts, strict=True):
        line: Line = [(_cut(node.name, name).ljust(name + _GAP), "red" if node.trouble else "")]
        line += [*_padded(cells(node.usage.pools, signs), signs + _GAP), (count.ljust(wide), "")]
        line += [(f"  {node.trouble}", "red")] if node.trouble else []
        lines.append(line)
    return _ShownList(lines, extent, first)


def _across(nodes: Sequence[NodeView], width: int) -> int:
    return max((width + _GAP) // (sum(_grid_widths(nodes)) + 1 + _GAP), 1)


def _grid_widths(nodes: Sequence[NodeView]) -> tuple[int, int]:
    name = min(max([len(node.name) for node in nodes], default=0), _GRID_NAME)
    return name, min(max([room_for(node.usage.pools) for node in nodes], default=0), 3 * _GRID_NAME)


def _grid(nodes: Sequence[NodeView], room: int, view: TopView, width: int, across: int) -> _ShownList:
    """Several nodes per line."""
    name, signs = _grid_widths(nodes)
    rows = range(0, len(nodes), across)
    starts, extent, first = _window(rows, room, view, TopPart.NODES)
    lines: list[Line] = []
    for start in starts:
        line: Line = []
        for node in nodes[start : start + across]:
            line.append((_cut(node.name, name).ljust(name + 1), "red" if node.trouble else "dim"))
            line += _padded(cells(node.usage.pools, signs), signs + _GAP)
        lines.append(line)
    return _ShownList(lines, extent, first)


# --- pods that wait ---


def _pods(pods: Sequence[WaitingPod], room: int, view: TopView, now: datetime, width: int) -> _ShownList:
    """Scrolls pod by pod; a long sentence takes lines of its own."""
    last, left = len(pods), room
    while last > 0 and left >= (need := len(_pod(pods[last - 1], now, width))):
        last, left = last - 1, left - need
    extent = ListExtent(max(len(pods) - last, 1), len(pods))
    first = view.offset(TopPart.PENDING, extent)
    lines: list[Line] = []
    names: list[str] = []
    for pod in pods[first:]:
        mine = _pod(pod, now, width)
        if lines and len(lines) + len(mine) > room:
            break
        lines += mine
        names.append(str(pod))
    return _ShownList(lines[:room], extent, first, names)


def _pod(pod: WaitingPod, now: datetime, width: int) -> list[Line]:
    head = f"{_cut(str(pod), max(width // 3, 20))}  {age(pod.since, now)}".rstrip()
    sentence = printable(pod.sentence).replace("\n", " ")
    if len(head) + _GAP + len(sentence) <= width:
        return [[(head, "yellow"), (f"  {sentence}", "")]]
    wrapped = textwrap.wrap(sentence, max(width - 4, 10), max_lines=_REASON_LINES, placeholder=" …")
    return [[(head, "yellow")], *([(f"    {text}", "")] for text in wrapped)]


def age(since: str, now: datetime) -> str:
    """The age of a timestamp in one unit; empty if there is no timestamp."""
    begun = moment(since)
    if begun is None:
        return ""
    seconds = int((now - begun).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"


# --- pools ---


def _pools(pools: Sequence[PoolUsage], room: int, view: TopView, width: int) -> _ShownList:
    seen, extent, first = _window(pools, room, view, TopPart.POOLS)
    name = min(max([len(pool.pool_name) for pool in pools], default=0), _NAME_WIDTH, width // 4)
    driver = min(max([len(pool.driver) for pool in pools], default=0), _NAME_WIDTH, width // 4)
    counts = [_counts(pool.summary, pool.hidden) for pool in seen]
    wide = max(map(len, counts), default=0)
    signs = max(min(max([pool.summary.total for pool in pools], default=0), width // 4), 1)
    lines: list[Line] = []
    for pool, count in zip(seen, counts, strict=True):
        whole = PoolOnNode(pool.id, pool.devices, pool.summary, pool.hidden)
        line: Line = [
            (_cut(pool.pool_name, name).ljust(name + _GAP), "red" if pool.broken else ""),
            (_cut(pool.driver, driver).ljust(driver + _GAP), "dim"),
            *_padded(cells([whole], signs), signs + _GAP),
            (count.ljust(wide), ""),
        ]
        if words := problem(pool):
            line.append((f"  {words}", "red" if pool.broken else "yellow"))
        lines.append(line)
    return _ShownList(lines, extent, first)


# --- orders ---


def _node_order(sort: Sort) -> Callable[[NodeView], Any]:
    return {
        Sort.NAME: lambda node: node.name,
        Sort.FREE: lambda node: (-node.usage.summary.available, node.name),
        Sort.USED: lambda node: (-node.usage.summary.allocated, node.name),
        Sort.TROUBLE: lambda node: (
            not node.trouble, not node.broken, -node.usage.summary.unavailable, node.name,
        ),
    }[sort]  # fmt: skip


def _pool_order(sort: Sort) -> Callable[[PoolUsage], Any]:
    return {
        Sort.NAME: lambda pool: pool.id,
        Sort.FREE: lambda pool: (-pool.summary.available, pool.id),
        Sort.USED: lambda pool: (-pool.summary.allocated, pool.id),
        Sort.TROUBLE: lambda pool: (
            not pool.broken, not pool.validation_errors, -pool.summary.unavailable, pool.id,
        ),
    }[sort]  # fmt: skip


# --- text ---


def _counts(summary: Summary, hidden: int | None) -> str:
    used = f"{allocated_words(summary, known=hidden is not None)} of {summary.total} used"
    partly = f", {summary.partially_allocated} partly" if summary.partially_allocated else ""
    return f"{used}, {summary.available if hidden is not None else UNKNOWN} free{partly}"


def _cut(text: str, room: int) -> str:
    """Shortens a name at its beginning, because names mostly differ at their ends."""
    text = printable(text)
    return text if len(text) <= room else f"…{text[len(text) - room + 1 :]}"


def _padded(spans: list[Span], room: int) -> list[Span]:
    """Pads to so many columns, and always adds a gap."""
    return [*spans, (" " * max(room - sum(len(text) for text, _ in spans), _GAP), "")]


def _cropped(lines: list[Line], width: int, height: int | None) -> list[Line]:
    return [_crop(line, width) for line in (lines if height is None else lines[:height])]


def _crop(line: Line, width: int) -> Line:
    if sum(len(text) for text, _ in line) <= width:
        return line
    left, kept = max(width - 1, 0), list["Span"]()
    for text, style in line:
        kept.append((text[:left], style))
        left -= len(kept[-1][0])
    return [span for span in [*kept, ("…" * min(width, 1), "dim")] if span[0]]
