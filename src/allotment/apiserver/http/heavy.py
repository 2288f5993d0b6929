"""Work that takes longer than anybody may hold the event loop: in a few threads, one piece after the other, users in turn.

Threads share one interpreter with the loop, so few of them run. However much one user has waiting, another waits for at most one
piece of it for each thread (``turns.py``). Nobody is refused: the requests that bring the work have their seats already, and
those are bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from allotment.apiserver.http.turns import Turns

T = TypeVar("T")


class HeavyWork:
    """The work of one server that may take so many threads at a time."""

    def __init__(self, threads: int) -> None:
        self._turns: Turns[asyncio.Future[None]] = Turns(threads)

    async def run(self, user: str, work: Callable[[], T]) -> T:
        """What the work returns, done in a thread when it is the turn of the user. Raises what it raises."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        _begin(self._turns.arrive(user, turn))
        try:
            await asyncio.shield(turn)
        except asyncio.CancelledError:
            if turn.done():
                self._leave(user)
            else:
                self._turns.give_up(user, turn)
            raise
        done = asyncio.ensure_future(asyncio.to_thread(work))
        done.add_done_callback(lambda _: self._leave(user))
        done.add_done_callback(_noticed)
        return await asyncio.shield(done)  # a thread cannot be stopped, so whoever gives up frees none

    def _leave(self, user: str) -> None:
        _begin(self._turns.leave(user))


def _begin(turns: Iterable[asyncio.Future[None]]) -> None:
    for turn in turns:
        turn.set_result(None)


def _noticed(done: asyncio.Future[T]) -> None:
    """Nobody may be left to hear of a failure."""
    if not done.cancelled():
        done.exception()
