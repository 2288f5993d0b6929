"""Kill -9 of a process that writes to a store, at many random moments.

SOAK_KILLS=50   kills in all
SOAK_SEED=1     where the seeds start; the moments are not exactly repeatable, as the processes race
"""

import os
from pathlib import Path

import pytest

from tests.apiserver.store.killing import ALL, FEW, kill_and_check

pytestmark = pytest.mark.soak

KILLS = int(os.environ.get("SOAK_KILLS", "50"))
SEED = int(os.environ.get("SOAK_SEED", "1")) * 1_000_000
STORES = 10


@pytest.mark.parametrize("number", range(STORES))
def test_kill_9_loses_nothing_that_was_acknowledged(number: int, tmp_path: Path) -> None:
    changes = ALL if number % 2 else FEW
    kill_and_check(tmp_path / "store.db", changes, SEED + number, KILLS // STORES, longest=10_000)
