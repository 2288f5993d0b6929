"""``make venv``: what is half made is made anew, what is whole is left alone, and every package has its hashes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.checkout import CHECKOUT

REMADE, UPDATED, NOTHING = "is made anew", "is updated", "stays"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with an environment that works, as far as make can see."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(CHECKOUT / name, tmp_path)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    python(tmp_path, works=True)
    for stamp in (".runs", ".ready"):
        (tmp_path / ".venv" / stamp).touch()
    return tmp_path


def python(checkout: Path, *, works: bool) -> None:
    program = checkout / ".venv" / "bin" / "python"
    program.write_text(f"#!/bin/sh\nexit {0 if works else 1}\n")
    program.chmod(0o755)


def plan(checkout: Path) -> str:
    """What `make venv` would do."""
    done = subprocess.run(
        ["make", "-n", "venv"], cwd=checkout, check=True, capture_output=True, text=True
    ).stdout
    if "setting up" not in done:
        return NOTHING
    (condition,) = re.findall(r"test -e (\S+) \|\| .*-m venv", done)
    return UPDATED if (checkout / condition).exists() else REMADE


def test_a_whole_environment_is_left_alone(checkout: Path) -> None:
    assert plan(checkout) == NOTHING


def test_other_requirements_update_it(checkout: Path) -> None:
    (checkout / ".venv" / ".ready").unlink()
    assert plan(checkout) == UPDATED


def test_an_environment_that_was_never_finished_is_made_anew(checkout: Path) -> None:
    for stamp in (".runs", ".ready"):
        (checkout / ".venv" / stamp).unlink()
    assert plan(checkout) == REMADE


def test_one_without_pip_is_made_anew(checkout: Path) -> None:
    python(checkout, works=False)
    assert plan(checkout) == REMADE


def test_one_whose_python_is_gone_is_made_anew(checkout: Path) -> None:
    program = checkout / ".venv" / "bin" / "python"
    program.unlink()
    program.symlink_to(checkout / "no" / "such" / "python")
    assert plan(checkout) == REMADE


def test_every_package_has_a_version_and_hashes() -> None:
    lines = (CHECKOUT / "constraints.txt").read_text().replace("\\\n", " ").splitlines()
    packages = [line for line in lines if not line.startswith("#")]
    assert len(packages) > 50
    for line in packages:
        assert re.fullmatch(r"[\w.-]+==[\w.+!-]+( +--hash=sha256:[0-9a-f]{64})+", line), line
