"""A write on its way to disk.

It is on the head from the start; awaiting it waits until it is durable. Any number of tasks may wait; cancelling one
affects neither the write nor the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from allotment.apiserver.store.errors import StoreError
from allotment.apiserver.store.record import Change, Record


class Pending:
    """``await pending`` gives the record once it is durable, or raises the :class:`StoreError` that it failed with."""

    __slots__ = ("_error", "_waiters", "change", "created", "done", "epoch")

    def __init__(self, change: Change, created: float, epoch: int) -> None:
        self.change = change
        self.created = created  # seconds since 1970
        self.epoch = epoch  # counts failed commits: the writer drops writes decided on a head that is gone
        self.done = False
        self._error: StoreError | None = None
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def record(self) -> Record:
        """The record as it is or will be stored."""
        return self.change.record

    def __await__(self) -> Generator[Any, None, Record]:
        if not self.done:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            yield from waiter
        if self._error is not None:
            raise self._error
        return self.change.record

    def settle(self, error: StoreError | None = None) -> None:
        """Records that the write is durable or has failed. The store calls it once."""
        self.done = True
        self._error = error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
