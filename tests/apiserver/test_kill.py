"""A few kills of a server under load; ``make soak`` has many more."""

from __future__ import annotations

from pathlib import Path

from tests.apiserver.killing import kill_and_check


def test_kill_9_under_load_loses_nothing_that_a_client_was_told(tmp_path: Path) -> None:
    assert kill_and_check(tmp_path / "data", seed=5, kills=3, longest=300).writes > 0
