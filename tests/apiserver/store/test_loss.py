"""Files that lost what was acknowledged: the store says what is missing, changes nothing, and goes on when it may."""

from __future__ import annotations

import asyncio
import errno
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allotment.apiserver.store import database, mark
from allotment.apiserver.store.backup import copy
from allotment.apiserver.store.errors import CommitFailed, Corrupt, LostWrites, OpenError, TooNew, Unwritable
from allotment.apiserver.store.mark import AHEAD
from allotment.apiserver.store.store import Store
from tests.apiserver.store.build import delete, opened, put, values
from tests.apiserver.store.test_open import execute
from tests.thoroughness import examples

NEWEST = 42
"""The revision that was acknowledged last."""


async def _fill_and_stop_dead(path: Path, left: Path) -> None:
    """What a killed process leaves: the last half of the writes is in the write-ahead log only."""
    async with opened(path) as store:
        for i in range(2, 22):
            await put(store, f"p{i % 7}", str(i) * 300)
        await delete(store, "p1")
        await store.compact(10)
        store._database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for i in range(23, NEWEST + 1):
            await put(store, f"q{i % 5}", str(i) * 300)
        left.mkdir()
        for suffix in ("", "-wal", ".mark"):
            shutil.copy(path.with_name(path.name + suffix), left)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    asyncio.run(_fill_and_stop_dead(tmp_path / "lived" / "store.db", tmp_path / "left"))
    return tmp_path / "left" / "store.db"


def wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def contents(path: Path, *, accept_loss: bool = False) -> tuple[int, dict[str, object]]:
    async def look() -> tuple[int, dict[str, object]]:
        store = Store.open(path, accept_loss=accept_loss)
        try:
            store.validate()
            return store.revision, values(store.list("pods"))
        finally:
            await store.close()

    return asyncio.run(look())


def refusal(path: Path) -> OpenError:
    with pytest.raises(OpenError) as refused:
        Store.open(path)
    return refused.value


def flip(path: Path, where: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(where * len(data))] ^= 1
    path.write_bytes(data)


def zero(path: Path, where: float) -> None:
    data = bytearray(path.read_bytes())
    start = int(where * len(data))
    data[start : start + 4096] = bytes(4096)
    path.write_bytes(data)


def cut(path: Path, where: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(where * len(data))])


def test_what_a_killed_process_left_is_complete(killed: Path) -> None:
    revision, found = contents(killed)
    assert revision == NEWEST
    assert found["q2"] == "42" * 300


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a bit flipped in the header": lambda path: flip(wal(path), 0.0001),
    "a bit flipped in the middle": lambda path: flip(wal(path), 0.5),
    "a bit flipped at the end": lambda path: flip(wal(path), 0.9999),
    "zeros in the middle": lambda path: zero(wal(path), 0.5),
    "zeros at the end": lambda path: zero(wal(path), 0.98),
    "cut in the middle": lambda path: cut(wal(path), 0.5),
    "the last byte cut off": lambda path: cut(wal(path), 0.9999),
    "emptied": lambda path: cut(wal(path), 0),
    "removed": lambda path: wal(path).unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_write_ahead_log_that_lost_acknowledged_writes_is_refused_and_left_alone(
    damage: Callable[[Path], None], killed: Path
) -> None:
    damage(killed)
    before = {path.name: path.read_bytes() for path in killed.parent.iterdir()}
    for _ in range(2):
        refused = refusal(killed)
        assert isinstance(refused, LostWrites)
        assert 22 < refused.first <= refused.last == NEWEST
        assert "store.db-wal" in str(refused)
        assert f"revision {NEWEST}," in str(refused) or f"{refused.first} to {NEWEST}" in str(refused)
        assert "allot restore FILE" in str(refused)
        assert "--accept-loss" in str(refused)
    after = {path.name: path.read_bytes() for path in killed.parent.iterdir()}
    assert {name: after[name] for name in before} == before

    revision, found = contents(killed, accept_loss=True)
    assert revision > NEWEST + AHEAD, "a revision that was given out would be given out again"
    assert found["p0"] == "21" * 300
    assert contents(killed) == (revision, found)
    assert wal(killed.with_name("store.db.damaged")).exists() == ("store.db-wal" in before)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    where=st.floats(0, 1, exclude_max=True),
    damage=st.sampled_from([flip, zero, cut]),
    suffix=st.sampled_from(["", "-wal", ".mark"]),
)
def test_whatever_happens_to_a_file_nothing_is_lost_in_silence_and_no_revision_given_twice(
    where: float, damage: Callable[[Path, float], None], suffix: str, killed: Path, tmp_path: Path
) -> None:
    folder, whole = tmp_path / "damaged", tmp_path / "whole"
    for each in (folder, whole):
        shutil.rmtree(each, ignore_errors=True)
        shutil.copytree(killed.parent, each)
    damage(folder / f"store.db{suffix}", where)
    try:
        assert contents(folder / "store.db") == contents(whole / "store.db")
    except (Corrupt, LostWrites):
        assert contents(folder / "store.db", accept_loss=True)[0] > NEWEST
    except (TooNew, Unwritable):  # bits of the header that say so
        assert suffix == ""


def test_a_damaged_row_is_noticed_before_anything_is_changed(killed: Path) -> None:
    """What SQLite does when it opens and closes a file (it moves the log into it) would be done to the evidence."""
    killed.write_bytes(killed.read_bytes().replace(b"1616161616", b"1616161617"))
    before = {path.name: path.read_bytes() for path in killed.parent.iterdir()}
    refused = refusal(killed)
    assert isinstance(refused, Corrupt)
    assert "revision 16 (pods default/p2) is damaged" in str(refused)
    after = {path.name: path.read_bytes() for path in killed.parent.iterdir()}
    assert {name: after[name] for name in before} == before


def test_what_the_disk_cannot_read_is_damage_and_can_be_left_behind(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(database, "check_pages", unreadable)
        refused = refusal(killed)
    assert isinstance(refused, Corrupt)
    assert "the disk cannot read it" in str(refused)
    assert "--accept-loss" in str(refused)


def test_the_file_that_lost_writes_is_the_one_that_is_named(killed: Path) -> None:
    contents(killed)  # closes it: without a write-ahead log it is complete
    whole = killed.read_bytes()
    killed.write_bytes(b"")
    assert "as store.db is empty" in str(refusal(killed))
    killed.unlink()
    assert "as store.db is missing" in str(refusal(killed))
    killed.write_bytes(whole)
    execute(killed, f"DELETE FROM revisions WHERE revision = {NEWEST}")
    assert "as store.db is damaged, or an older one" in str(refusal(killed))


def test_a_mark_of_an_earlier_time_can_vouch_for_nothing(killed: Path, tmp_path: Path) -> None:
    contents(killed)
    shutil.copy(mark.path_of(killed), tmp_path / "earlier")

    async def go_on() -> None:
        async with opened(killed) as store:
            await put(store, "later")

    asyncio.run(go_on())
    shutil.copy(tmp_path / "earlier", mark.path_of(killed))
    assert "store.db.mark beside it is of an earlier time" in str(refusal(killed))
    revision, found = contents(killed, accept_loss=True)
    assert revision > NEWEST + AHEAD
    assert "later" in found


def test_revisions_are_not_given_out_before_the_disk_has_that_they_may_be(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    async def run() -> None:
        async with opened(killed) as store:
            store._database._mark._reserved = store.revision
            with monkeypatch.context() as patch:
                patch.setattr(mark.Mark, "sync", broken)
                for _ in range(2):
                    with pytest.raises(CommitFailed):
                        await put(store, "later")
            given = await put(store, "later")
            progress = mark.read(killed)
            assert progress is not None
            assert progress.reserved >= given.revision

    asyncio.run(run())


@pytest.mark.parametrize("state", ["empty", "not there"])
def test_a_store_without_its_mark_that_is_empty_or_missing_is_not_taken_for_a_new_one(
    state: str, killed: Path
) -> None:
    """Its write-ahead log, or the keys, show that there was one; SQLite would remove the former."""
    keys = killed.parent / "service-account.key"
    mark.path_of(killed).unlink()
    killed.write_bytes(b"") if state == "empty" else killed.unlink()
    with pytest.raises(Corrupt, match=rf"it is {state}, although .*store\.db-wal shows"):
        Store.open(killed)
    wal(killed).unlink()
    keys.touch()
    with pytest.raises(Corrupt, match=rf"it is {state}, although .*service-account\.key shows"):
        Store.open(killed, expected=keys)


def test_a_store_that_is_missing_beside_its_mark_or_keys_is_refused(killed: Path) -> None:
    killed.unlink()
    wal(killed).unlink()
    refused = refusal(killed)
    assert isinstance(refused, LostWrites)
    assert (refused.first, refused.last) == (2, NEWEST)
    assert "store.db is missing" in str(refused)

    mark.path_of(killed).unlink()
    keys = killed.parent / "service-account.key"
    keys.touch()
    with pytest.raises(Corrupt, match=r"not there, although .*service-account\.key .*--accept-loss"):
        Store.open(killed, expected=keys)

    async def run() -> None:
        store = Store.open(killed, expected=keys, accept_loss=True)
        assert store.revision > NEWEST + AHEAD
        assert store.list("pods") == []
        await store.close()

    asyncio.run(run())


def test_an_empty_store_that_is_missing_is_made_again(tmp_path: Path) -> None:
    """Nothing was acknowledged, so nothing is lost."""
    path = tmp_path / "store.db"
    asyncio.run(Store.open(path).close())
    path.unlink()
    assert contents(path) == (1, {})


def test_a_mark_that_is_missing_or_damaged_is_refused_as_it_can_vouch_for_nothing(killed: Path) -> None:
    mark.path_of(killed).write_bytes(b"rubbish")
    assert "store.db.mark beside it is damaged" in str(refusal(killed))
    mark.path_of(killed).unlink()
    assert "store.db.mark is not beside it" in str(refusal(killed))
    revision, found = contents(killed, accept_loss=True)
    assert revision > NEWEST + AHEAD
    assert found["q2"] == "42" * 300


@pytest.mark.parametrize("block", [0, 4096])
def test_one_torn_block_of_the_mark_does_no_harm(block: int, killed: Path) -> None:
    path = mark.path_of(killed)
    data = bytearray(path.read_bytes())
    data[block + 20] ^= 1
    path.write_bytes(data)
    assert contents(killed)[0] == NEWEST


def test_an_old_object_that_vanished_from_the_file_is_noticed(killed: Path) -> None:
    """Compaction leaves gaps, so no number is missing where a page went back to what it was before."""
    contents(killed)
    execute(
        killed,
        "DELETE FROM revisions WHERE revision = (SELECT min(revision) FROM revisions WHERE revision <= 10)",
    )
    refused = refusal(killed)
    assert isinstance(refused, Corrupt)
    execute(killed, "UPDATE meta SET value = value - 1 WHERE name = 'count'")
    assert "and they are not those" in str(refusal(killed)) or "is missing" in str(refusal(killed))


def test_a_store_damaged_in_the_middle_goes_on_with_what_can_be_read(killed: Path) -> None:
    contents(killed)  # closes it, so that all is in the file
    whole = bytearray(killed.read_bytes())
    pages = [at for at in range(4096, len(whole), 4096) if b"3030303030" in whole[at : at + 4096]]
    for at in pages[:1]:
        whole[at : at + 4096] = bytes(4096)
    killed.write_bytes(whole)
    assert isinstance(refusal(killed), Corrupt)
    revision, found = contents(killed, accept_loss=True)
    assert revision > NEWEST
    assert {"p0", "p6", "q2"} <= set(found)
    assert killed.with_name("store.db.damaged").read_bytes() == whole


def test_a_file_that_is_no_database_makes_way_for_an_empty_store(killed: Path) -> None:
    contents(killed)  # closes it, so that all is in the file
    killed.write_bytes(b"no database at all, but long enough to be looked at" * 100)
    assert isinstance(refusal(killed), Corrupt)
    revision, found = contents(killed, accept_loss=True)
    assert (revision > NEWEST + AHEAD, found) == (True, {})


def test_no_backup_is_made_of_a_store_that_lost_something(killed: Path, tmp_path: Path) -> None:
    cut(wal(killed), 0.5)
    with pytest.raises(LostWrites):
        copy(killed, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_after_a_power_loss_it_goes_on_above_all_that_was_given_out(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may have claimed to have what it lost. Nobody can tell, so no revision is used that may have been seen."""
    monkeypatch.setattr(mark, "this_boot", lambda: b"another run of it")

    async def run() -> None:
        async with opened(killed) as store:
            assert store.revision == store.compacted > AHEAD
            assert values(store.list("pods"))["q2"] == "42" * 300

    asyncio.run(run())
    revision, _ = contents(killed)
    assert revision < NEWEST + 2 * AHEAD, "it was closed in good order, and goes on where it was"


def test_a_store_of_the_first_form_is_brought_to_the_present_one(killed: Path) -> None:
    found = contents(killed)
    mark.path_of(killed).unlink()
    execute(
        killed,
        "UPDATE meta SET value = 1 WHERE name = 'schema'",
        "DELETE FROM meta WHERE name IN ('marked', 'count', 'checksums')",
    )
    assert contents(killed) == found
    assert mark.path_of(killed).exists()
