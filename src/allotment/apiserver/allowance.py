"""What a small write may cost before it goes on in a thread.

Large bodies are worked on in a thread (``http/resources.py``). A small one can turn out to be as much work: a patch copies a part a
hundred times, defaults are filled into each element of a list, a rule compares every pair of elements, an alias stands for
a thousand values. Nobody can say so in advance. So steps that may grow are counted where they are done, and when they
are too many for the event loop the write is made anew, in a thread, where nothing is counted.

Only steps that leave nothing behind may be counted: what was begun is thrown away.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

ALLOWED_MICROSECONDS = 20_000.0
"""Microseconds, more or less, that the counted steps of one write may take on the loop."""


class TooMuchAtOnce(Exception):
    """A write is more work than the event loop may do at a time. Nothing has been changed."""


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
    """To be called before, or right after, a step that may be long. Raises TooMuchAtOnce where work is counted."""
    left = _left.get()
    if left is None:
        return
    _left.set(left - microseconds)
    if microseconds > left:
        raise TooMuchAtOnce


def left() -> float:
    """What may still be spent; without end where nothing is counted."""
    known = _left.get()
    return inf if known is None else known
