"""The state of the live view: filter, sort order and scroll positions, and how keys change them. Pure.

Keys arrive as names: a printable character stands for itself, others are words (``up``, ``page down``, ``enter``,
``escape``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar

E = TypeVar("E", bound=Enum)
_FILTER_MAX = 100


class TopPart(Enum):
    """The lists, from top to bottom."""

    NODES = "nodes"
    PENDING = "pending"
    POOLS = "pools"


class Sort(Enum):
    """The order of nodes and pools; the words complete "sorted by …"."""

    NAME = "name"
    FREE = "free devices"
    USED = "used devices"
    TROUBLE = "trouble"


@dataclass(frozen=True, slots=True)
class ListExtent:
    """How many rows of a list are visible, and how many there are."""

    shown: int
    rows: int

    @property
    def last(self) -> int:
        """The first row of the last screenful of the list."""
        return max(self.rows - self.shown, 0)


@dataclass(frozen=True, slots=True)
class TopView:
    """``offsets`` are the first visible rows. While the user types a filter, ``typing`` keeps the previous one."""

    filter: str = ""
    sort: Sort = Sort.NAME
    focus: TopPart = TopPart.NODES
    offsets: Mapping[TopPart, int] = field(default_factory=dict)
    help: bool = False
    typing: str | None = None
    ended: bool = False

    def offset(self, part: TopPart, extent: ListExtent) -> int:
        """The first visible row of a list. It never lies beyond the end, because the list may have become shorter."""
        return min(self.offsets.get(part, 0), extent.last)


def pressed(view: TopView, key: str, extents: Mapping[TopPart, ListExtent]) -> TopView:
    """The view after a key. ``extents`` describes the lists on the screen. Unknown keys change nothing."""
    if view.typing is not None:
        return _typed(view, key)
    match key:
        case "q" | "Q":
            return replace(view, ended=True)
        case "h" | "?":
            return replace(view, help=not view.help)
        case "escape" if view.help:
            return replace(view, help=False)
        case "escape":
            return replace(view, filter="", offsets={})
        case "/":
            return replace(view, typing=view.filter, filter="", offsets={}, help=False)
        case "s":
            return replace(view, sort=_next(view.sort), offsets={})
        case "tab":
            return replace(view, focus=_next(view.focus))
        case _:
            return _scrolled(view, key, extents.get(view.focus, ListExtent(0, 0)))


def _typed(view: TopView, key: str) -> TopView:
    match key:
        case "enter":
            return replace(view, typing=None)
        case "escape":
            return replace(view, filter=view.typing or "", typing=None)
        case "backspace":
            return replace(view, filter=view.filter[:-1])
        case _ if len(key) == 1 and len(view.filter) < _FILTER_MAX:
            return replace(view, filter=view.filter + key, offsets={})
        case _:
            return view


def _scrolled(view: TopView, key: str, extent: ListExtent) -> TopView:
    now, page = view.offset(view.focus, extent), max(extent.shown - 1, 1)
    places = {
        "up": now - 1,
        "down": now + 1,
        "page up": now - page,
        "page down": now + page,
        "home": 0,
        "end": extent.last,
    }
    if key not in places:
        return view
    place = min(max(places[key], 0), extent.last)
    return replace(view, offsets={**view.offsets, view.focus: place})


def _next(value: E) -> E:
    known = list(type(value))
    return known[(known.index(value) + 1) % len(known)]
