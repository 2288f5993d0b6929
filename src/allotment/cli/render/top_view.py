"""How a person looks at the live view: what is filtered, sorted, scrolled, and what keys change about that. Pure.

Keys come as names: a printable character as itself, others in words (``up``, ``page down``, ``enter``, ``escape``).
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
    """In which order nodes and pools come; the words complete "sorted by …"."""

    NAME = "name"
    FREE = "free devices"
    USED = "used devices"
    TROUBLE = "trouble"


@dataclass(frozen=True, slots=True)
class Extent:
    """How many rows of a list are shown, and how many there are."""

    shown: int
    rows: int

    @property
    def last(self) -> int:
        """The row from which on the end of the list is shown."""
        return max(self.rows - self.shown, 0)


@dataclass(frozen=True, slots=True)
class TopView:
    """``offsets`` are the first rows that are shown. While somebody types a filter, ``typing`` is what it was before."""

    filter: str = ""
    sort: Sort = Sort.NAME
    focus: TopPart = TopPart.NODES
    offsets: Mapping[TopPart, int] = field(default_factory=dict)
    help: bool = False
    typing: str | None = None
    ended: bool = False

    def offset(self, part: TopPart, extent: Extent) -> int:
        """Where a list begins, never beyond its end: it may have become shorter."""
        return min(self.offsets.get(part, 0), extent.last)


def pressed(view: TopView, key: str, extents: Mapping[TopPart, Extent]) -> TopView:
    """The view after a key. ``extents`` are those of what is on the screen; other keys change nothing."""
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
            return _scrolled(view, key, extents.get(view.focus, Extent(0, 0)))


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


def _scrolled(view: TopView, key: str, extent: Extent) -> TopView:
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
