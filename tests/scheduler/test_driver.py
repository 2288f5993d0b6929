"""The driver's own loop; what it does with a server is in ``tests/e2e``."""

from __future__ import annotations

import asyncio

import pytest

from allotment.client.client import Client
from allotment.client.in_process import Answer, InProcessTransport
from allotment.client.recorder import Recorder
from allotment.client.shared_informers import Informers
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import DEFAULT
from allotment.scheduler.core import Scheduler
from allotment.scheduler.driver import Driver
from allotment.scheduler.event import Tick


async def _nobody(*_: object) -> Answer:
    raise AssertionError("nothing is to be asked")


@pytest.mark.parametrize("turns", range(6))
def test_it_ends_when_told_to_also_if_news_come_at_the_same_moment(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``turns`` of the event loop between the news and the cancellation."""

    async def run() -> None:
        client = Client(InProcessTransport(_nobody))
        core = Scheduler(Cluster(), DEFAULT.rosters())
        monkeypatch.setattr(core, "next_time", lambda: 1000.0)  # it waits for that, too
        driver = Driver(core, client, Informers(client), Recorder(client, "test"), now=lambda: 0.0)
        loop = asyncio.create_task(driver._loop())
        for _ in range(10):  # it rests
            await asyncio.sleep(0)
        driver._happened(Tick(0.0))
        for _ in range(turns):
            await asyncio.sleep(0)
        loop.cancel()
        done, _pending = await asyncio.wait([loop], timeout=60.0)
        assert done

    asyncio.run(run())
