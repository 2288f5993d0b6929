"""``allot up`` over a store that lost something, and on a disk that is full: what the message says, and how to go on."""

from __future__ import annotations

import os
import re
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from allotment.api.status import InsufficientStorage, NotFound
from allotment.apiserver.store import mark
from allotment.client.client import Client
from tests.apiserver.store.small_disk import MountedDisk, mounted
from tests.cli.test_up import BARE, PATIENCE, ask, config_map, ended, greeting, up
from tests.command_line import Allot

MAPS = ("v1", "configmaps")
ENOUGH = 10_000


def write(folder: Path, *names: str) -> None:
    async def steps(client: Client) -> None:
        for name in names:
            await client.plain(*MAPS).create(config_map(name))

    ask(folder / "kubeconfig", steps)


def read(folder: Path, name: str) -> Any:
    return ask(folder / "kubeconfig", lambda client: client.plain(*MAPS).get(name, "default"))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a server left that was killed: its folder, and a backup from before the second object."""
    found = tmp_path_factory.mktemp("killed")
    folder = found / "data"
    with up(folder, *BARE) as process:
        greeting(process)
        write(folder, "first")
        assert ended("backup", found / "backup", "--data-dir", folder).returncode == 0
        write(folder, "second")
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
    return found


@pytest.fixture
def killed(found: Path, tmp_path: Path) -> Path:
    """The folder of the killed server, for one test alone, beside the backup."""
    shutil.copytree(found, tmp_path, dirs_exist_ok=True)
    return tmp_path / "data"


def damage(folder: Path) -> None:
    """Cuts off the end of the write-ahead log."""
    log = folder / "store.db-wal"
    os.truncate(log, log.stat().st_size - 100)


def acknowledged(folder: Path) -> int:
    progress = mark.read(folder / "store.db")
    assert progress is not None
    return progress.acknowledged


def test_a_server_that_lost_acknowledged_writes_says_so_and_restores_or_goes_on(
    killed: Path, tmp_path: Path, allot: Allot
) -> None:
    newest = acknowledged(killed)
    damage(killed)
    refused = ended("up", "--data-dir", killed, "--port", "0", *BARE)
    assert refused.returncode == 1
    assert re.search(
        rf"revisions? (\d+ to )?{newest}, that it had acknowledged (is|are) missing", refused.stderr
    )
    assert "store.db-wal is damaged, or was cut" in refused.stderr
    assert "allot restore FILE" in refused.stderr
    assert "allot up --accept-loss" in refused.stderr
    assert allot("backup", str(tmp_path / "late"), "--data-dir", str(killed)).code == 1

    with up(killed, *BARE, "--accept-loss") as process:
        greeting(process)
        assert int(read(killed, "first")["metadata"]["resourceVersion"]) < newest
        with pytest.raises(NotFound):
            read(killed, "second")
        write(killed, "third")
        assert int(read(killed, "third")["metadata"]["resourceVersion"]) > newest
    assert (killed / "store.db.damaged").exists()

    with up(killed, *BARE, "--accept-loss") as process:  # of a store that lost nothing it changes nothing
        greeting(process)
        read(killed, "third")
    assert not (killed / "store.db.damaged.2").exists()

    assert allot("restore", str(tmp_path / "backup"), "--data-dir", str(killed)).code == 0
    with up(killed, *BARE) as process:
        greeting(process)
        read(killed, "first")


@pytest.mark.parametrize(
    "gone", [("store.db", "store.db-wal"), ("store.db", "store.db-wal", "store.db.mark")]
)
def test_a_store_that_is_missing_beside_its_keys_is_not_replaced_by_an_empty_one(
    gone: tuple[str, ...], killed: Path
) -> None:
    for name in gone:
        (killed / name).unlink()
    refused = ended("up", "--data-dir", killed, "--port", "0", *BARE)
    assert refused.returncode == 1
    assert "store.db is missing" in refused.stderr or "service-account.key" in refused.stderr
    assert "--accept-loss" in refused.stderr
    with up(killed, *BARE, "--accept-loss") as process:
        greeting(process)
        with pytest.raises(NotFound):
            read(killed, "first")


def test_on_a_full_disk_a_server_refuses_in_a_sentence_deletes_and_recovers(
    tmp_path: Path, allot: Allot
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    with mounted(folder, 64 * 1024 * 1024):
        disk = MountedDisk(folder)
        with up(disk.folder, *BARE) as process:
            greeting(process)
            write(disk.folder, *(f"m{number}" for number in range(20)))
            disk.fill()
            with pytest.raises(InsufficientStorage, match=r"full, so only deletions .*free some space"):
                write(disk.folder, *(f"last-{number}" for number in range(ENOUGH)))
            told = allot("status", "--data-dir", str(disk.folder))
            assert (told.code, told.out.splitlines()[0]) == (
                1,
                "running, but it is not ready: store failed: the disk is full: only deletions are accepted",
            )
            ask(disk.folder / "kubeconfig", lambda c: c.plain(*MAPS).delete("m0", "default"))
            with pytest.raises(NotFound):
                read(disk.folder, "m0")
            disk.empty()
            for _ in range(ENOUGH):  # it looks for room once a second
                with suppress(InsufficientStorage):
                    write(disk.folder, "after")
                    break
            read(disk.folder, "after")
