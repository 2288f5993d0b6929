"""How often machines are launched for one pod."""

from __future__ import annotations

from allotment.controllers.autoscaling.patience import FIRST_PAUSE, FREE_LAUNCHES, LONGEST_PAUSE, Patience


def test_a_few_times_at_once_then_less_and_less_often() -> None:
    patience, now, pauses = Patience(), 100.0, []
    for _ in range(FREE_LAUNCHES + 12):
        patience.spend(["a"], now)
        pause = next(
            each
            for each in (0.0, *(FIRST_PAUSE * 2**n for n in range(6)), LONGEST_PAUSE)
            if patience.has("a", now + each)
        )
        pauses.append(pause)
        now += pause
    assert pauses[: FREE_LAUNCHES + 2] == [0.0] * (FREE_LAUNCHES - 1) + [30.0, 60.0, 120.0]
    assert pauses[-1] == LONGEST_PAUSE
    assert pauses == sorted(pauses)


def test_who_waits_no_more_is_forgotten() -> None:
    patience = Patience()
    for _ in range(FREE_LAUNCHES):
        patience.spend(["a", "b"], 0.0)
    assert not patience.has("a", 1.0)
    assert patience.has("c", 1.0)
    patience.keep({"b"})
    assert patience.has("a", 1.0)
    assert not patience.has("b", 1.0)
