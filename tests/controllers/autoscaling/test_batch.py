"""How long pods are gathered before they are planned for."""

from __future__ import annotations

import pytest

from allotment.controllers.autoscaling.batch import Batch

CASES = {
    "nothing came": ([], 5.0, 0.0),
    "one just came": ([5.0], 5.0, 1.0),
    "half a second later": ([5.0], 5.5, 0.5),
    "nothing came for long enough": ([5.0], 6.0, 0.0),
    "another one came meanwhile": ([5.0, 5.75], 6.0, 0.75),
    # It would be open until 15.5 if nothing bounded it.
    "they come and come": ([5.0 + number / 2 for number in range(20)], 14.75, 0.25),
    "they have come for long enough": ([5.0 + number / 2 for number in range(21)], 15.0, 0.0),
}


@pytest.mark.parametrize("name", CASES)
def test_how_long_a_batch_stays_open(name: str) -> None:
    arrivals, now, left = CASES[name]
    batch = Batch(idle=1.0, most=10.0)
    for time in arrivals:
        batch.add(time)
    assert batch.left(now) == left


def test_after_it_was_closed_the_next_arrival_opens_another() -> None:
    batch = Batch()
    batch.add(5.0)
    batch.close()
    assert batch.left(5.0) == 0.0
    batch.add(20.0)
    assert batch.left(20.0) == 1.0
