"""When to stop: Ctrl-C, SIGTERM, or a terminal that closes (unless ``nohup`` says that we are to outlive it)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def told_to_end() -> asyncio.Event:
    """An event that one of these signals sets, in place of what it would do. For the running loop."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
    return ended


async def run_until(ended: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Runs something until it returns (True) or the event comes (False); then it has been cancelled and is over.

    Raises what it raises.
    """
    task, waiting = asyncio.ensure_future(work), asyncio.ensure_future(ended.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
            return True
        return False
    finally:
        for each in (task, waiting):
            each.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)
