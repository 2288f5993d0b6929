"""How long the event loop is held at a time, in processor time of its thread, so that a busy machine changes little."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Longest:
    """The longest step of the loop, in seconds."""

    seconds: float = 0.0


@contextmanager
def longest_step() -> Iterator[Longest]:
    """Measures every callback that asyncio's own loop runs until the context is left.

    The garbage collector is left on: what a request makes it do, it does to others too.
    """
    longest = Longest()
    run = asyncio.events.Handle._run

    def measured(handle: asyncio.events.Handle) -> None:
        begun = time.thread_time()
        run(handle)
        longest.seconds = max(longest.seconds, time.thread_time() - begun)

    asyncio.events.Handle._run = measured  # type: ignore[method-assign, assignment]  # the one place that all callbacks pass
    try:
        yield longest
    finally:
        asyncio.events.Handle._run = run  # type: ignore[method-assign]  # as it was
