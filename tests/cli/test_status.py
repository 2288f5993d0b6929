"""``allot status`` and ``allot down``, and how commands find the server that ``allot up`` started."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from allotment.apiserver.auth.certificates import open_authority
from allotment.apiserver.store.lock import StoreLock, holder_of
from tests.cli.test_up import ALLOT, BARE, PATIENCE, ended, greeting, up


def test_a_server_is_found_looked_at_and_stopped_without_a_kubeconfig(tmp_path: Path) -> None:
    """As a person without any kubeconfig, in whose data folder a server runs."""
    folder = tmp_path / "share" / "allotment"
    person = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "share")}
    for name in ("KUBECONFIG", "ALLOT_DATA_DIR"):
        person.pop(name, None)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [ALLOT, *arguments], env=person, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    before = run("status")
    assert before.returncode == 1
    assert before.stdout.startswith("not running: start it with allot up --demo\n")
    with up(folder, *BARE) as process:
        greeting(process)
        status = json.loads(run("status", "-o", "json").stdout)
        assert status["ready"]
        assert status["process"] == process.pid
        assert status["objects"]["namespaces"] == 4
        shown = run("status")
        assert shown.returncode == 0
        assert shown.stdout.startswith(f"running at {status['server']}\n")
        assert shown.stdout.endswith("\n  allot down\n")
        assert run("pools").stdout == "There are no pools: no driver has published devices.\n"
        stopped = run("down")
        assert (stopped.returncode, process.wait(PATIENCE)) == (0, 0)
        assert f"stopped process {process.pid}" in stopped.stderr
    again = run("down")
    assert again.returncode == 0
    assert "no server runs in" in again.stderr
    assert run("status").stdout.startswith("not running: start it with allot up\n")


def test_in_another_folder_every_command_to_go_on_with_names_the_folder(tmp_path: Path) -> None:
    """So that it works when copied to any terminal, in any directory."""
    folder = tmp_path / "my data"
    named = f"--data-dir '{folder}'"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [ALLOT, *arguments],
            cwd=tmp_path,
            env={**os.environ, "ALLOT_DATA_DIR": folder.name},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    assert run("status").stdout.startswith(f"not running: start it with allot up --demo {named}\n")
    assert f"start one with: allot up {named}\n" in run("kubeconfig", "--user", "ann").stderr
    with up(folder, *BARE) as process:
        greeting(process)
        assert run("status").stdout.endswith(
            f"\n  export KUBECONFIG='{folder}/kubeconfig'\n  allot down {named}\n"
        )
        assert run("down").returncode == 0
    (folder / "store.db").unlink()
    lost = run("up")
    assert f"(allot restore FILE {named})" in lost.stderr
    assert f"(allot up --accept-loss {named})" in lost.stderr


def test_a_certificate_that_has_expired_is_named_by_whoever_holds_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with up(folder, *BARE) as process:
        greeting(process)
        issued = ended("kubeconfig", "--user", "ann", "--data-dir", folder)
        config = yaml.safe_load(issued.stdout)
        long_ago = datetime.now(UTC) - timedelta(days=2)
        credential = open_authority(folder / "pki", datetime.now(UTC)).issue_client(
            "ann", (), long_ago, timedelta(days=1)
        )
        for name, material in (("certificate", credential.certificate), ("key", credential.key)):
            del config["users"][0]["user"][f"client-{name}-data"]
            (tmp_path / name).write_bytes(material)
            config["users"][0]["user"][f"client-{name}"] = str(tmp_path / name)
        file = tmp_path / "ann.kubeconfig"
        file.write_text(yaml.safe_dump(config))
        ran = ended("pools", "--kubeconfig", file)
    assert ran.returncode == 2
    assert (
        f"the client certificate in {file} expired on {long_ago + timedelta(days=1):%Y-%m-%d}" in ran.stderr
    )


def test_a_lock_is_held_by_whoever_has_the_store_open(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    assert holder_of(store) is None, "there was never a store"
    lock = StoreLock(store)
    holder = holder_of(store)
    assert holder is not None
    assert holder.process == os.getpid()
    lock.release()
    assert holder_of(store) is None, "the file stays, the lock does not"


def test_a_number_that_another_process_has_by_now_is_not_taken_for_the_server(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    StoreLock.path_of(store).write_text(f"{os.getppid()} 2026-01-01T00:00:00Z\n")
    assert holder_of(store) is None
