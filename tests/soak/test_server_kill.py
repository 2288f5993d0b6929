"""Kill -9 of a server under load, at many random moments.

SOAK_KILLS=50   kills in all
SOAK_SEED=1     where the seeds start; the moments are not exactly repeatable, as the processes race
"""

import os
from pathlib import Path

import pytest

from tests.apiserver.killing import kill_and_check

pytestmark = pytest.mark.soak

KILLS = int(os.environ.get("SOAK_KILLS", "50"))
SEED = int(os.environ.get("SOAK_SEED", "1")) * 1_000_000
SERVERS = 5


@pytest.mark.parametrize("number", range(SERVERS))
def test_kill_9_under_load_loses_nothing_that_a_client_was_told(number: int, tmp_path: Path) -> None:
    kill_and_check(tmp_path / "data", SEED + number, KILLS // SERVERS, longest=1500)
