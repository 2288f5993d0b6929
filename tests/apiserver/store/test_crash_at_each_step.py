"""The process is killed, the power goes, or a step fails, at each step that the store takes on its disk."""

from __future__ import annotations

import asyncio
import random
import shutil
from itertools import count
from pathlib import Path

import pytest

from allotment.apiserver.store import mark
from allotment.apiserver.store.errors import CommitFailed
from allotment.apiserver.store.history import Window
from allotment.apiserver.store.store import Store
from tests.apiserver.store.build import key, put, thing
from tests.apiserver.store.recording import Recording

NAMES = 6

STEPS = pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.soak), 9])
"""How many steps lie between two that are tried."""


async def live(recording: Recording, fault: int | None = None) -> dict[int, tuple[str, object]]:
    """Writes and deletes, alone and in groups, with compactions and checkpoints; what was written, by revision.

    ``fault``: the step that fails, counted from the opening.
    """
    written: dict[int, tuple[str, object]] = {}
    store = Store.open(recording.folder / "store.db", window=Window(changes=8))
    store._database.connection.execute("PRAGMA wal_autocheckpoint = 12")
    if fault is not None:
        recording.fail_at = len(recording.steps) + fault

    async def write(number: int) -> None:
        name = f"p{number % NAMES}"
        last = store.head(key(name))
        if number % 5 == 4 and last is not None:
            pending, value = store.delete(key(name), last.load()), None
        else:
            value = str(number) * 400
            pending = store.put(key(name), thing(name, value))
        written[pending.record.revision] = (name, value)
        try:
            recording.acknowledge((await pending).revision)
        except CommitFailed:  # whether it reached the disk is not known until the store is opened again
            assert fault is not None

    for number in range(0, 24, 4):
        await write(number)
        await asyncio.gather(*(write(number + i) for i in range(1, 4)))
        if number % 16 == 0:
            await store.compact(store.revision - 3)
    await store.close()
    return written


async def look(path: Path) -> tuple[int, dict[str, object]]:
    store = Store.open(path)
    try:
        store.validate()
        found = {record.key.name: record.load()["value"] for record in store.list("pods")}
        revision = store.revision
        await put(store, "later")
        return revision, found
    finally:
        await store.close()


def state(written: dict[int, tuple[str, object]], revision: int) -> dict[str, object]:
    """The objects at a revision."""
    found = {name: value for at, (name, value) in sorted(written.items()) if at <= revision}
    return {name: value for name, value in found.items() if value is not None}


def expect(path: Path, written: dict[int, tuple[str, object]], acknowledged: int) -> int:
    """The store has all that was acknowledged, and at most what came after it. Returns its revision."""
    revision, found = asyncio.run(look(path))
    assert revision >= acknowledged
    later = [state(written, at) for at in range(acknowledged, max(written) + 1)]
    assert found in later
    return revision


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    folder = tmp_path / "data"
    folder.mkdir()
    return Recording(folder)


@pytest.fixture
def lived(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> dict[int, tuple[str, object]]:
    with recording.running(monkeypatch):
        written = asyncio.run(live(recording))
    assert {"store.db", "store.db-wal", "store.db.mark"} == {step.file for step in recording.steps}
    return written


def moments(recording: Recording, every: int) -> list[tuple[int, int]]:
    """Steps, each with the revision that was acknowledged last before it. The first are those that make the file."""
    made = next(at for at, step in enumerate(recording.steps) if step.file == "store.db.mark")
    return [
        (step, max((r for r, at in recording.acknowledged.items() if at <= step), default=1))
        for step in range(made, len(recording.steps) + 1, every)
    ]


@STEPS
def test_killed_at_each_step_it_has_all_that_was_acknowledged(
    every: int, recording: Recording, lived: dict[int, tuple[str, object]], tmp_path: Path
) -> None:
    for step, acknowledged in moments(recording, every):
        recording.after_kill(step, tmp_path / "left")
        expect(tmp_path / "left" / "store.db", lived, acknowledged)
        shutil.rmtree(tmp_path / "left")


@STEPS
def test_without_power_at_each_step_it_has_all_that_was_acknowledged_and_goes_on_above_it(
    every: int,
    recording: Recording,
    lived: dict[int, tuple[str, object]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was not synced is there in parts, or not at all, or torn, in another order."""
    dice = random.Random(5)
    newest = max(lived)
    monkeypatch.setattr(mark, "this_boot", lambda: b"another run of it")
    for step, acknowledged in moments(recording, every):
        recording.after_power_loss(step, tmp_path / "left", dice)
        revision = expect(tmp_path / "left" / "store.db", lived, acknowledged)
        assert revision > newest or acknowledged in (1, newest)
        shutil.rmtree(tmp_path / "left")


@STEPS
def test_when_each_step_fails_once_nothing_is_lost_and_the_store_goes_on(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = 0
    for fault in count(0, 2 * every):
        folder = tmp_path / str(fault)
        folder.mkdir()
        recording = Recording(folder)
        with recording.running(monkeypatch):
            written = asyncio.run(live(recording, fault))
        expect(folder / "store.db", written, max(recording.acknowledged))
        if recording.fail_at is not None:  # there are not so many steps
            break
        failed += 1
    assert failed > 3
