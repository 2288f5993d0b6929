"""Schedules as cron writes them: what they mean, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.cron import CronError, Schedule, seconds

FRIDAY = datetime(2027, 1, 15, 8, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("* * * * *", "2027-01-15 08:30"),
        ("0 8 * * *", "2027-01-15 08:00"),
        ("31 8 * * *", "2027-01-14 08:31"),
        ("*/20 * * * *", "2027-01-15 08:20"),
        ("5/20 * * * *", "2027-01-15 08:25"),
        ("0-10/5,45 7 * * ?", "2027-01-15 07:45"),
        ("0 9 * * mon-fri", "2027-01-14 09:00"),
        ("0 9 * * SAT,sun", "2027-01-10 09:00"),
        ("0 0 1 * *", "2027-01-01 00:00"),
        ("0 0 1 dec *", "2026-12-01 00:00"),
        ("0 0 1 * 3", "2027-01-13 00:00"),  # the first, or a Wednesday
        ("0 0 1 */2 0-2", "2027-01-12 00:00"),
        ("@hourly", "2027-01-15 08:00"),
        ("@weekly", "2027-01-10 00:00"),
        ("@yearly", "2027-01-01 00:00"),
        ("0 0 29 2 *", "2024-02-29 00:00"),
        ("0 0 31 2 *", ""),  # never
    ],
)
def test_the_last_time(text: str, last: str) -> None:
    found = Schedule.parse(text).last(FRIDAY, timedelta(days=10_000))
    assert (f"{found:%Y-%m-%d %H:%M}" if found else "") == last


@pytest.mark.parametrize(("within", "found"), [(timedelta(minutes=30), False), (timedelta(minutes=31), True)])
def test_what_began_long_ago_has_ended(within: timedelta, found: bool) -> None:
    assert (Schedule.parse("0 8 * * *").last(FRIDAY, within) is not None) is found


@given(
    st.integers(0, 59),
    st.integers(0, 23),
    st.integers(0, 6),
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)),
)
def test_a_weekly_time_is_as_by_counting_minutes(minute: int, hour: int, weekday: int, now: datetime) -> None:
    now = now.replace(tzinfo=UTC)
    found = Schedule.parse(f"{minute} {hour} * * {weekday}").last(now, timedelta(days=8))
    assert found is not None
    assert timedelta() <= now - found < timedelta(days=7, minutes=1)
    assert (found.minute, found.hour, found.isoweekday() % 7, found.second) == (minute, hour, weekday, 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("@every 5m", "five fields"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day"),
        ("* * * 13 *", "month"),
        ("* * * * 7", "weekday"),
        ("* * * * nevr", "weekday"),
        ("* * * * xyz", "there is no weekday"),
        ("5-1 * * * *", "minute"),
        ("*/0 * * * *", "minute"),
        ("1,,2 * * * *", "minute"),
        ("CRON_TZ=UTC 0 8 * * *", "time zones"),
        ("*" * 300, "longer than"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(CronError, match=words):
        Schedule.parse(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [("30s", 30), ("1h30m", 5400), ("0s", 0), ("1h0m0s", 3600), ("5", None), ("", None), ("-5m", None), ("1d", None), ("Never", None)],
)  # fmt: skip
def test_durations(text: str, found: int | None) -> None:
    assert seconds(text) == found
