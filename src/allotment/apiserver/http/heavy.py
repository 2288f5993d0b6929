"""Runs work that is too long for the event loop in a few threads, piece by piece, with users taking turns.

Threads share one interpreter with the loop, so only a few run. However much work one user has waiting, another waits for
at most one piece of it for each thread (``turns.py``). No work is refused: its requests already have seats, and those are
bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from allotment.apiserver.http.turns import Turns

T = TypeVar("T")


class HeavyWork:
    """The threaded work of one server, with a limit on concurrent threads."""

    def __init__(self, threads: int) -> None:
        self._turns: Turns[asyncio.Future[None]] = Turns(threads)

    async def run(self, user: str, work: Callable[[], T]) -> T:
        """Does the work in a thread when it is the user's turn. Returns its result, and raises its exceptions."""
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
        # a thread cannot be stopped, so a caller that gives up does not free it
        return await asyncio.shield(done)

    def _leave(self, user: str) -> None:
        _begin(self._turns.leave(user))


def _begin(turns: Iterable[asyncio.Future[None]]) -> None:
    for turn in turns:
        turn.set_result(None)


def _noticed(done: asyncio.Future[T]) -> None:
    """Retrieves a failure, since the caller may be gone."""
    if not done.cancelled():
        done.exception()
