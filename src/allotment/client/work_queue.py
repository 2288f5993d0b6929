"""A queue of keys: each waits once, however often it is added, one worker has it at a time, and failures are delayed.

A key that is added while a worker has it is handed out again when that worker is done. ``retry`` puts a key back after a
delay that doubles with each failure of that key. A bucket of tokens also limits retries overall, so that a thousand
failing keys do not cause a thousand requests a second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

from allotment.client.bucket import Bucket

__all__ = ["QueueClosed", "WorkQueue"]

K = TypeVar("K", bound=Hashable)


class QueueClosed(Exception):
    """The queue is closed and empty."""


class WorkQueue(Generic[K]):
    """A queue of distinct keys for one event loop.

    Invariants, re-derived by :meth:`validate`: a key waits at most once; no key is waiting and being worked on at a time
    (it is then marked dirty); a key has at most one timer.
    """

    def __init__(
        self,
        *,
        first_delay: float = 0.005,
        longest_delay: float = 1000.0,
        retries_per_second: float = 10.0,
        burst: int = 100,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._first_delay, self._longest_delay = first_delay, longest_delay
        self._now = now or (lambda: asyncio.get_running_loop().time())
        self._waiting: deque[K] = deque()
        self._queued: set[K] = set()
        self._working: set[K] = set()
        self._dirty: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, tuple[float, asyncio.TimerHandle]] = {}
        self._bucket = Bucket(retries_per_second, burst)
        self._news = asyncio.Event()
        self._closed = False

    def add(self, key: K) -> None:
        """Queues a key."""
        if self._closed:
            return
        if key in self._working:
            self._dirty.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._waiting.append(key)
            self._news.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Queues a key after a delay; of several pending delays, the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._now() + seconds
        if self._closed or (key in self._timers and self._timers[key][0] <= due):
            return
        self._stop_timer(key)
        timer = asyncio.get_running_loop().call_later(seconds, self._ring, key)
        self._timers[key] = (due, timer)

    def retry(self, key: K) -> None:
        """Queues a key again after a failure, with a longer delay each time."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        own = min(self._first_delay * 2.0 ** min(failures, 60), self._longest_delay)
        self.add_after(key, max(own, self._bucket.delay(self._now())))

    def forget(self, key: K) -> None:
        """Forgets the failures of a key after a success."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key; call :meth:`done` for it afterwards. Raises :class:`QueueClosed`."""
        while not self._waiting:
            if self._closed:
                raise QueueClosed
            self._news.clear()
            await self._news.wait()
        key = self._waiting.popleft()
        self._queued.discard(key)
        self._working.add(key)
        if self._waiting:
            self._news.set()
        return key

    def done(self, key: K) -> None:
        """Reports that the worker has finished with a key, successfully or not."""
        self._working.discard(key)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def close(self) -> None:
        """Accepts no more keys, and ends all waiting workers once the queue is empty."""
        self._closed = True
        for key in list(self._timers):
            self._stop_timer(key)
        self._news.set()

    def __len__(self) -> int:
        return len(self._waiting)

    def _ring(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _stop_timer(self, key: K) -> None:
        with suppress(KeyError):
            self._timers.pop(key)[1].cancel()

    def validate(self) -> None:
        """Raises AssertionError if an invariant does not hold."""
        assert len(self._waiting) == len(self._queued), "a key waits twice"
        assert set(self._waiting) == self._queued, "waiting and queued differ"
        assert not self._queued & self._working, "a key waits while it is worked on"
        assert self._dirty <= self._working, "a dirty key is not worked on"
