"""A job of the server itself: wakes up when the store changes, works in short turns, lets requests in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from allotment.api.status import StatusError
from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.registry.call import Call
from allotment.apiserver.store.errors import StoreError

log = logging.getLogger(__name__)

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def controller(name: str) -> Identity:
    """The identity under which Kubernetes' own controller of that name works."""
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    return Identity(f"system:serviceaccount:kube-system:{name}", groups)


class Upkeep:
    """One job. A subclass says what a turn does; a turn does one small thing and must not await.

    A turn that fails is logged and does not stop the job. Refusals are expected: between a look and a write another
    writer may have been there, and the change that they made wakes the job again.
    """

    name = "upkeep"

    def __init__(self, clock: Clock = utc_now) -> None:
        self._clock = clock
        self._news = asyncio.Event()

    @property
    def pause(self) -> float | None:
        """Seconds after which to look even though nothing happened."""
        return None

    def turn(self) -> bool:
        """Does one thing. False: nothing is left to do for now."""
        raise NotImplementedError

    def wake(self) -> None:
        self._news.set()

    def call(self) -> Call:
        """The circumstances of a write by this job."""
        return Call(controller(self.name), stamp(self._clock()), manager=self.name)

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            self._news.clear()
            while self._turn():
                await asyncio.sleep(0)
            try:
                async with asyncio.timeout(self.pause):
                    await self._news.wait()
            except TimeoutError:
                pass

    def settle(self) -> None:
        """Works until nothing is left to do, for tests that do not run the loop."""
        while self._turn():
            pass

    def _turn(self) -> bool:
        try:
            return self.turn()
        except (StatusError, StoreError) as exc:
            log.info("%s: %s", self.name, exc)
            return True
        except Exception:
            log.exception("%s: a turn failed", self.name)
            return True
