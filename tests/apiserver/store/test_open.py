"""Opening: one process at a time, and clear words about files that cannot be used."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from allotment.apiserver.store.errors import Corrupt, Locked, LostWrites, OpenError, TooNew, Unwritable
from allotment.apiserver.store.store import Store
from tests.apiserver.store.build import delete, opened, put, values
from tests.thoroughness import examples


async def _fill(path: Path) -> None:
    async with opened(path) as store:
        for i in range(20):
            await put(store, f"p{i % 7}", str(i) * 300)
        await store.compact(10)
        await delete(store, "p1")
        await put(store, "n", 1, "", "nodes")


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A closed store with objects, history and compaction."""
    path = tmp_path / "store.db"
    asyncio.run(_fill(path))
    return path


def refusal(path: Path) -> OpenError:
    with pytest.raises(OpenError) as refused:
        Store.open(path)
    return refused.value


def test_the_folder_is_made_and_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "store.db"

    async def run() -> None:
        async with opened(path) as store:
            await put(store, "secret")
            for file in path.parent.iterdir():
                assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file

    asyncio.run(run())
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_second_process_is_told_who_has_the_store(written: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from allotment.apiserver.store.store import Store\n"
        "store = Store.open(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(written)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        refused = refusal(written)
        assert isinstance(refused, Locked)
        assert refused.holder == holder.pid
        assert f"process {holder.pid}, started 20" in str(refused)
        assert str(written.parent) in str(refused)
        holder.kill()
    asyncio.run(Store.open(written).close())  # the lock ended with its process


def test_the_same_process_cannot_open_it_twice_either(written: Path) -> None:
    async def run() -> None:
        async with opened(written) as store:
            assert f"process {os.getpid()}" in str(refusal(written))
            await put(store, "a")

    asyncio.run(run())


def test_a_failed_opening_leaves_no_lock_behind(written: Path) -> None:
    whole = written.read_bytes()
    written.write_bytes(b"no database at all, but long enough to be looked at" * 100)
    for _ in range(2):
        assert "it is not a database" in str(refusal(written))
    written.write_bytes(whole)
    asyncio.run(Store.open(written).close())


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


DAMAGES = {
    "another database": (("DROP TABLE meta",), "a database of something else"),
    "no schema": (("DELETE FROM meta WHERE name = 'schema'",), "meta table is damaged"),
    "no compacted revision": (("DELETE FROM meta WHERE name = 'compacted'",), "meta table is damaged"),
    "compacted is text": (("UPDATE meta SET value = 'x' WHERE name = 'compacted'",), "meta table is damaged"),
    "a row is gone": (("DELETE FROM revisions WHERE revision = 15",), "revision 15 is missing"),
    "an early row is gone": (("DELETE FROM revisions WHERE revision = 10",), "state before revision 17"),
    "data changed": (
        ("UPDATE revisions SET data = replace(data, '12', '13') WHERE revision = 14",),
        "revision 14 ",
    ),
    "name changed": (("UPDATE revisions SET name = 'q' WHERE revision = 14",), "(pods default/q) is damaged"),
    "type changed": (("UPDATE revisions SET type = 'ADDED' WHERE revision = 14",), "revision 14 "),
    "data is text": (("UPDATE revisions SET data = 'x' WHERE revision = 14",), "revision 14 "),
    "name is a blob": (("UPDATE revisions SET resource = x'ff' WHERE revision = 14",), "revision 14 "),
}


@pytest.mark.parametrize(("statements", "what"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_store_is_refused(statements: tuple[str, ...], what: str, written: Path) -> None:
    execute(written, *statements)
    refused = refusal(written)
    assert isinstance(refused, Corrupt)
    assert what in str(refused)
    assert str(written) in str(refused)
    assert "Restore a backup" in str(refused)


def test_a_store_of_a_newer_version_is_refused_and_left_alone(written: Path) -> None:
    execute(written, "UPDATE meta SET value = 3 WHERE name = 'schema'")
    before = written.read_bytes()
    refused = refusal(written)
    assert isinstance(refused, TooNew)
    assert "form 3" in str(refused)
    assert written.read_bytes() == before


def test_a_truncated_file_is_refused_at_whatever_length(written: Path) -> None:
    whole = written.read_bytes()
    for length in {*range(1, len(whole), 1500), 1, 99, 100, 511, 4096, 8192, len(whole) - 1}:
        written.write_bytes(whole[:length])
        assert isinstance(refusal(written), Corrupt | LostWrites), length


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@example(where=0.0, bit=0)
@example(where=0.0005, bit=1)  # near the version numbers of the header
def test_a_flipped_bit_is_noticed_or_does_not_matter(where: float, bit: int, written: Path) -> None:
    whole = written.read_bytes()
    broken = bytearray(whole)
    broken[int(where * len(broken))] ^= 1 << bit

    async def contents() -> dict[str, object]:
        store = Store.open(written)
        try:
            return {**values(store.list("pods")), **values(store.list("nodes"))}
        finally:
            await store.close()

    expected = asyncio.run(contents())
    written.write_bytes(broken)
    try:
        assert asyncio.run(contents()) == expected
    except (Corrupt, TooNew, Unwritable):
        pass
    finally:
        for rest in written.parent.glob("store.db-*"):
            rest.unlink()
        written.write_bytes(whole)


@pytest.mark.parametrize("accept_loss", [False, True])
def test_damage_that_is_no_text_is_told_like_any_other(accept_loss: bool, written: Path) -> None:
    """SQLite quotes what it cannot parse, and Python cannot read its message."""
    whole = written.read_bytes()
    assert b"tablemetameta" in whole
    written.write_bytes(whole.replace(b"tablemetameta", b"table\xedetameta"))
    if accept_loss:
        asyncio.run(Store.open(written, accept_loss=True).close())
    else:
        assert isinstance(refusal(written), Corrupt)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    refused = refusal(tmp_path / "file" / "store.db")
    assert isinstance(refused, Unwritable)
    assert str(tmp_path / "file") in str(refused)
    (tmp_path / "store.db").mkdir()
    assert isinstance(refusal(tmp_path / "store.db"), Unwritable)


def test_a_file_that_was_made_and_never_written_is_an_empty_store(file: Path) -> None:
    """The process may have been killed just then."""
    file.parent.mkdir()
    file.touch()

    async def run() -> None:
        async with opened(file) as store:
            assert store.revision == 1

    asyncio.run(run())
