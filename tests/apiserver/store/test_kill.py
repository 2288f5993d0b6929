"""A few kills; ``make soak`` has many more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apiserver.store.killing import ALL, FEW, kill_and_check


@pytest.mark.parametrize("changes", [ALL, FEW], ids=["long history", "short history"])
def test_kill_9_loses_nothing_that_was_acknowledged(changes: int, tmp_path: Path) -> None:
    assert kill_and_check(tmp_path / "store.db", changes, seed=3, kills=3, longest=1500) > 0
