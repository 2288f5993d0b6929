"""A job of the server itself: wakes up when the store changes, works in short turns, lets requests in between.

When the store cannot take a write, or a disk that fails lost some, the job goes on after a pause: what it did not get done
is due again, and without a pause it would be tried without end.
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
"""Bytes of an object from which on a thread does what takes long with it."""
STORE_TROUBLE_SECONDS = 1.0
"""Seconds to wait when the store is in trouble."""


def utc_now() -> datetime:
    return datetime.now(UTC)


def controller(name: str) -> Identity:
    """The identity under which Kubernetes' own controller of that name works."""
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    return Identity(f"system:serviceaccount:kube-system:{name}", groups)


class Upkeep(Generic[T]):
    """One job. A subclass says what is due and how it is done, one small thing at a time, without an await.

    A turn that fails is logged and does not stop the job. Refusals are expected: between a look and a write another
    writer may have been there, and the change that they made wakes the job again.
    """

    name = "upkeep"

    def __init__(self, writes: Writes, clock: Clock = utc_now) -> None:
        self._writes = writes
        self._store = writes.store
        self._clock = clock
        self._news = asyncio.Event()
        self._refused = False  # the last turn, by the store
        self._left: Callable[[], None] | None = None  # what the last turn left to a thread
        self._failures = 0  # of the store, as far as they were noticed

    @property
    def pause(self) -> float | None:
        """Seconds after which to look even though nothing happened."""
        return None

    def take(self) -> T | None:
        """What is to be done next, which is then due no more; None: nothing for now."""
        raise NotImplementedError

    def do(self, due: T) -> None:
        """Does it. Raises StatusError for a refusal, StoreError when the store cannot take it now."""
        raise NotImplementedError

    def put_back(self, due: T) -> None:
        """It could not be done now and is due again."""
        raise NotImplementedError

    def leave(self, work: Callable[[], None]) -> None:
        """Leaves work to a thread that takes longer than the loop may be held. It only reads; the next turn comes after it."""
        self._left = work

    def turn(self) -> bool:
        """Does one thing. False: nothing is left to do for now."""
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
        """Whether the store refused the last turn, or lost writes since this was last asked."""
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
