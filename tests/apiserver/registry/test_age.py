"""Durations as kubectl tells them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.registry.age import between, since, told

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),  # clocks differ by a little
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE + 59, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + MINUTE, "3h1m"),
        (8 * HOUR, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + HOUR, "2d1h"),
        (8 * DAY + HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + DAY, "2y1d"),
        (8 * YEAR + DAY, "8y"),
    ],
)
def test_a_duration_is_told_in_one_or_two_units(seconds: int, text: str) -> None:
    assert told(seconds) == text


def test_an_absent_or_broken_time_has_no_age() -> None:
    assert since(None, "2026-01-02T03:04:05Z") == "<unknown>"
    assert since("yesterday", "2026-01-02T03:04:05Z", absent="") == ""
    assert since("2026-01-02T03:04:05", "2026-01-02T03:04:05Z") == "<unknown>"  # no zone


def test_times_with_microseconds_and_zones_are_understood() -> None:
    assert since("2026-01-02T03:04:05.999999Z", "2026-01-02T03:05:07Z") == "61s"
    assert between("2026-01-02T03:04:05+01:00", "2026-01-02T02:05:05Z") == 60


@given(st.integers(0, 100 * YEAR))
def test_what_is_told_is_not_far_from_the_truth(seconds: int) -> None:
    units = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY, "y": YEAR}
    total, digits = 0, ""
    for sign in told(seconds):
        if sign in units:
            total, digits = total + int(digits) * units[sign], ""
        else:
            digits += sign
    assert total <= seconds
    assert seconds - total <= seconds / 8
