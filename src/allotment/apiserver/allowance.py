"""The work that a small write may do on the event loop before it moves to a thread.

Threads process large bodies (``http/resources.py``). A small body can turn out to be as much work: a patch copies a part
a hundred times, each element of a list gets defaults, a rule compares every pair of elements, an alias stands for a
thousand values. Nothing shows this in advance. So the code counts steps that may grow; if there are too many for the event
loop, the write starts again in a thread, where nothing is counted.

Only steps without side effects may be counted, because their results are discarded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

ALLOWED_MICROSECONDS = 20_000.0
"""Approximate microseconds that the counted steps of one write may take on the event loop."""


class TooMuchAtOnce(Exception):
    """A write is more work than the event loop may do at once. Nothing has changed."""


_left: ContextVar[float | None] = ContextVar("left", default=None)


@contextmanager
def at_once() -> Iterator[None]:
    """Until the context is left, :func:`spend` raises TooMuchAtOnce when all that was spent is more than AT_ONCE."""
    token = _left.set(ALLOWED_MICROSECONDS)
    try:
        yield
    finally:
        _left.reset(token)


def spend(microseconds: float) -> None:
    """Call it before, or right after, a step that may be long. Raises TooMuchAtOnce where work is counted."""
    left = _left.get()
    if left is None:
        return
    _left.set(left - microseconds)
    if microseconds > left:
        raise TooMuchAtOnce


def left() -> float:
    """What may still be spent; infinite where nothing is counted."""
    known = _left.get()
    return inf if known is None else known
