"""What every job does when the store is in trouble: nothing that is due gets lost, and nothing is tried without end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.store import store as store_module
from allotment.apiserver.store.errors import CommitFailed, Overloaded
from allotment.apiserver.store.record import Key
from allotment.apiserver.upkeep import task
from allotment.apiserver.upkeep.collector import Collector
from allotment.apiserver.upkeep.custom import CustomKinds
from allotment.apiserver.upkeep.events import EventExpiry
from allotment.apiserver.upkeep.namespaces import NamespaceEmptier, ServiceAccountGiver
from allotment.apiserver.upkeep.task import Upkeep
from tests.apiserver.registry.custom.schemas import definition
from tests.apiserver.store.build import Disk
from tests.apiserver.upkeep.rig import Rig, with_rig
from tests.apiserver.upkeep.test_events import event


def _work(job: Upkeep[Any]) -> None:
    while job.turn():
        pass


def _orphan(rig: Rig) -> None:
    owner = rig.config_map("owner")
    rig.config_map("dependent", owner)
    rig.delete("configmaps", "ns", "owner")


def _old_event(rig: Rig) -> None:
    rig.create("events", "ns", event("old"))
    rig.later(hours=2)


def _going_namespace(rig: Rig) -> None:
    rig.config_map("content")
    rig.delete("namespaces", "", "ns")


Job = Callable[..., Upkeep[Any]]

JOBS: dict[str, tuple[Job, Callable[[Rig], object], Callable[[Rig], bool]]] = {
    "garbage": (Collector, _orphan, lambda rig: rig.names() == []),
    "expired events": (EventExpiry, _old_event, lambda rig: rig.names("events") == []),
    "a namespace": (
        NamespaceEmptier,
        _going_namespace,
        lambda rig: rig.find("namespaces", "", "ns") is None,
    ),
    "an account": (
        ServiceAccountGiver,
        lambda rig: None,
        lambda rig: rig.names("serviceaccounts") == ["default"],
    ),
    "a definition": (
        CustomKinds,
        lambda rig: rig.create("customresourcedefinitions.apiextensions.k8s.io", "", definition()),
        lambda rig: rig.catalogue.resource("widgets.example.com") is not None,
    ),
}


@pytest.mark.parametrize("what", JOBS)
def test_what_the_store_could_not_take_is_done_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    kind, prepare, done = JOBS[what]

    async def scenario(rig: Rig) -> None:
        job = kind(rig.writes, rig.catalogue, clock=rig.clock)
        prepare(rig)
        with monkeypatch.context() as patched:
            patched.setattr(store_module, "MAX_PENDING_WRITES", 0)
            with pytest.raises(Overloaded):
                _work(job)
        job.settle()
        assert done(rig)

    with_rig(tmp_path, scenario)


def test_a_job_pauses_while_the_disk_loses_what_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def scenario(rig: Rig) -> None:
        disk = Disk(rig.store)
        job = Collector(rig.writes, rig.catalogue, clock=rig.clock)
        _orphan(rig)
        await rig.store.put(Key("namespaces", "", "default"), rig.get("namespaces", "", "default"))
        disk.break_down()
        failed = asyncio.Event()

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) >= 5:
                failed.set()
            pending = rig.store.on_its_way(rig.served("configmaps").key("ns", "dependent"))
            if pending is not None:
                with pytest.raises(CommitFailed):
                    await pending
            await real(0)

        real = asyncio.sleep
        monkeypatch.setattr(asyncio, "sleep", sleep)
        running = asyncio.ensure_future(job.run())
        await failed.wait()
        disk.repair()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with_rig(tmp_path, scenario)
    assert pauses.count(task.STORE_TROUBLE_SECONDS) >= 2
