"""What a controller does about a key that failed: it comes again, and the log says so as loudly as it should."""

from __future__ import annotations

import asyncio
import logging

import pytest

from allotment.api.status import Conflict, Forbidden, NotFound, Unavailable
from allotment.client.transport import Disconnected
from allotment.client.work_queue import WorkQueue
from allotment.controllers.controller import Again, Controller


class Failing:
    """Fails a few times at each key, then ends the controller."""

    name = "failing"

    def __init__(self, error: Exception, times: int) -> None:
        self.queue: WorkQueue[str] = WorkQueue(first_delay=0.001)
        self._errors = [error] * times

    async def reconcile(self, key: str) -> Again | None:
        if self._errors:
            raise self._errors.pop()
        self.queue.close()
        return None


LEVELS = [
    pytest.param(Disconnected("refused"), logging.INFO, id="the server is away"),
    pytest.param(Unavailable("shutting down"), logging.INFO, id="the server is about to be"),
    pytest.param(Conflict("old"), logging.DEBUG, id="our copy is old"),
    pytest.param(NotFound("gone"), logging.DEBUG, id="it is gone"),
    pytest.param(Forbidden("no"), logging.WARNING, id="it is not allowed"),
    pytest.param(KeyError("oops"), logging.ERROR, id="a mistake of ours"),
]


@pytest.mark.parametrize(("error", "level"), LEVELS)
def test_a_key_that_failed_comes_again(
    error: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        failing = Failing(error, times=3)
        failing.queue.add("key")
        async with asyncio.timeout(60):
            await Controller(failing, workers=1).run()

    with caplog.at_level(logging.DEBUG, logger="allotment.controllers.controller"):
        asyncio.run(run())
    assert [record.levelno for record in caplog.records if "key" in record.getMessage()] == [level] * 3
