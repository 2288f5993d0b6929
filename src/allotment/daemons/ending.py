"""When to stop: on Ctrl-C, SIGTERM, or when the terminal closes (unless the program runs under ``nohup``)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def told_to_end() -> asyncio.Event:
    """An event that these signals set instead of their usual effect. For the running event loop."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
    return ended


async def run_until(ended: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Runs something until it returns (True) or the event is set (False); in that case, it has been cancelled and has ended.

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
