"""A job of the server itself: it wakes up when the store changes, and works in short turns with requests in between.

When the store cannot take a write, or a failing disk lost some, the job continues after a pause: its unfinished work is due
again, and without a pause it would retry endlessly.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Generic, TypeVar

from allotment.api.status import StatusError
from allotment.api.timestamps import timestamp
from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.registry.call import WriteContext
from allotment.apiserver.registry.writes import Writes
from allotment.apiserver.store.errors import StoreError

log = logging.getLogger(__name__)

Clock = Callable[[], datetime]
T = TypeVar("T")

LARGE_UPKEEP = 32 * 1024
"""The size in bytes from which a thread handles the long operations on an object."""
STORE_TROUBLE_SECONDS = 1.0
"""Seconds to wait when the store has a problem."""


def utc_now() -> datetime:
    return datetime.now(UTC)


def controller(name: str) -> Identity:
    """The identity of Kubernetes' own controller of that name."""
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    return Identity(f"system:serviceaccount:kube-system:{name}", groups)


class Upkeep(Generic[T]):
    """One job. A subclass says what is due and does it, one small step at a time, without an await.

    A failed turn is logged and does not stop the job. Refusals are expected: another writer may come between a read and a
    write, and its change wakes the job again.
    """

    name = "upkeep"

    def __init__(self, writes: Writes, clock: Clock = utc_now) -> None:
        self._writes = writes
        self._store = writes.store
        self._clock = clock
        self._news = asyncio.Event()
        self._refused = False  # whether the store refused the last turn
        self._left: Callable[[], None] | None = None  # the work that the last turn left to a thread
        self._failures = 0  # the store's failures that we have noticed

    @property
    def pause(self) -> float | None:
        """Seconds after which to check even though nothing happened."""
        return None

    def take(self) -> T | None:
        """The next item of work, which is then no longer due; None if there is none now."""
        raise NotImplementedError

    def do(self, due: T) -> None:
        """Does one item. Raises StatusError for a refusal, StoreError when the store cannot take it now."""
        raise NotImplementedError

    def put_back(self, due: T) -> None:
        """Makes an item that could not be done due again."""
        raise NotImplementedError

    def leave(self, work: Callable[[], None]) -> None:
        """Leaves long, read-only work to a thread. The next turn follows after it."""
        self._left = work

    def turn(self) -> bool:
        """Does one item. False if nothing is left to do for now."""
        due = self.take()
        if due is None:
            return False
        try:
            self.do(due)
        except StoreError:
            self.put_back(due)
            raise
        return True

    def wake(self) -> None:
        self._news.set()

    def call(self) -> WriteContext:
        """The circumstances of a write by this job."""
        return WriteContext(controller(self.name), timestamp(self._clock()), manager=self.name)

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            self._news.clear()
            while self._turn():
                if self._left is not None:
                    await asyncio.to_thread(self._do_left)
                await asyncio.sleep(STORE_TROUBLE_SECONDS if self._in_trouble() else 0)
            try:
                async with asyncio.timeout(self.pause):
                    await self._news.wait()
            except TimeoutError:
                pass

    def settle(self) -> None:
        """Works until nothing is left to do, for tests that do not run the loop."""
        while self._turn():
            self._do_left()

    def _do_left(self) -> None:
        work, self._left = self._left, None
        try:
            if work is not None:
                work()
        except Exception:
            log.exception("%s: work that was left failed", self.name)

    def _in_trouble(self) -> bool:
        """Whether the store refused the last turn, or lost writes since the last call."""
        before, self._failures = self._failures, self._store.stats.failures
        return self._refused or self._failures > before

    def _turn(self) -> bool:
        self._refused = False
        try:
            return self.turn()
        except StatusError as exc:
            log.info("%s: %s", self.name, exc)
            return True
        except StoreError as exc:
            log.warning("%s: %s; trying again", self.name, exc)
            self._refused = True
            return True
        except Exception:
            log.exception("%s: a turn failed", self.name)
            return True
