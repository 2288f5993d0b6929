"""Random lives of a cluster: whatever fails on the way, nothing is promised twice, nothing leaks, and nobody waits in vain.

SIMULATION_SEEDS=500   walks of each kind in the long run (``make soak``)
SIMULATION_SEED=0       where the seeds start; a failure names its seed, and the same seed gives the same failure
"""

from __future__ import annotations

import os

import pytest

from tests.scheduler.walk import Walk

SEED = int(os.environ.get("SIMULATION_SEED", "0"))
SEEDS = int(os.environ.get("SIMULATION_SEEDS", "500"))
PARTS = 8

KINDS = {
    "one scheduler": {},
    "nothing fails": {"faults": False},
    "two schedulers": {"schedulers": 2},
    "a server that does not check": {"admits": False},
    "two schedulers, a server that does not check": {"schedulers": 2, "admits": False},
    "claims are removed from pods that run": {"strips": True},
    "claims are removed from pods that run, nothing fails": {"strips": True, "faults": False},
}


def walk(kind: str, seed: int, steps: int = 150) -> None:
    try:
        Walk(seed, **KINDS[kind]).run(steps)  # type: ignore[arg-type]  # options by name
    except BaseException as exc:
        exc.add_note(f"walk of kind {kind!r}, seed {seed}, {steps} steps")
        raise


@pytest.mark.parametrize("kind", KINDS)
def test_short_walks(kind: str) -> None:
    for seed in range(SEED, SEED + 4):
        walk(kind, seed)


def test_room_for_a_gang_may_vanish_on_trial() -> None:
    """Two schedulers promised one device to two claims: when the first claim's pod was away on trial, the second claim took it."""
    walk("two schedulers", 1012, 300)


def test_a_pod_that_only_kept_nodes_turned_away_hears_of_a_new_node() -> None:
    walk("claims are removed from pods that run, nothing fails", 1014, 300)


def test_a_gang_may_share_a_claim_with_the_pod_that_makes_room_for_it() -> None:
    """On trial the claim stays allocated: a member joined it, and the ledger held its device again in the middle of the trial."""
    walk("nothing fails", 12, 600)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_long_walks(kind: str, part: int) -> None:
    for seed in range(SEED + part, SEED + SEEDS, PARTS):
        walk(kind, seed, 150 if seed % 4 else 600)
