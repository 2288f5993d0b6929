"""The error for an object that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from allotment.api.text import printable
from allotment.insight.errors import Failure


def absent(what: str, name: str, known: Iterable[str], lists: str) -> Failure:
    """The Failure to raise; ``lists`` is the command that shows which objects exist."""
    near = get_close_matches(name, sorted({each for each in known if each}), n=2, cutoff=0.7)
    hint = f"did you mean {' or '.join(map(printable, near))}?" if near else f"{lists} shows what exists"
    return Failure(f"there is no {what} {name}", hint)
