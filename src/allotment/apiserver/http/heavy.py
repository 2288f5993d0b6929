"""Work that takes longer than anybody may hold the event loop: in a few threads, one piece after the other, users in turn.

Threads share one interpreter with the loop, so few of them run. Who waits for one is queued by user (``fairness.py``): however
much one user has waiting, another waits for at most one piece of it for each thread. Nobody is refused: the requests that
bring the work have their seats already, and those are bounded.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

from allotment.apiserver.http.fairness import Level, Queues, State, Ticket

T = TypeVar("T")


class HeavyWork:
    """The work of one server that may take so many threads at a time."""

    def __init__(self, threads: int) -> None:
        everything = sys.maxsize  # only threads are short
        self._queues = Queues(Level("threads", threads, everything, everything, everything))
        self._waiters: dict[Ticket, asyncio.Future[None]] = {}

    async def run(self, flow: str, work: Callable[[], T]) -> T:
        """What the work returns, done in a thread when it is the turn of the flow. Raises what it raises."""
        ticket = Ticket(self._queues.level, flow, 1)
        self._wake(self._queues.arrive(ticket))
        try:
            if ticket.state is State.QUEUED:
                self._waiters[ticket] = asyncio.get_running_loop().create_future()
                await self._waiters[ticket]
        except asyncio.CancelledError:
            self._leave(ticket)
            raise
        finally:
            self._waiters.pop(ticket, None)
        done = asyncio.ensure_future(asyncio.to_thread(work))
        done.add_done_callback(lambda _: self._leave(ticket))
        done.add_done_callback(_noticed)
        return await asyncio.shield(done)  # a thread cannot be stopped, so whoever gives up frees none

    def _leave(self, ticket: Ticket) -> None:
        self._wake(self._queues.leave(ticket))

    def _wake(self, tickets: Iterable[Ticket]) -> None:
        for ticket in tickets:
            waiter = self._waiters.get(ticket)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)


def _noticed(done: asyncio.Future[T]) -> None:
    """Nobody may be left to hear of a failure."""
    if not done.cancelled():
        done.exception()
