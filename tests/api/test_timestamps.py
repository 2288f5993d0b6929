"""Times as the API writes and reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.timestamps import fine_timestamp, moment, seconds_of, timestamp

NOON = datetime(2026, 1, 2, 12, 0, 5, 123456, UTC)


def test_a_moment_is_written_in_whole_seconds_or_with_microseconds() -> None:
    assert timestamp(NOON) == "2026-01-02T12:00:05Z"
    assert timestamp(NOON.timestamp()) == "2026-01-02T12:00:05Z"
    assert fine_timestamp(NOON) == "2026-01-02T12:00:05.123456Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T12:00:05Z", NOON.replace(microsecond=0)),
        ("2026-01-02T12:00:05.123456Z", NOON),
        ("2026-01-02T14:00:05.123456+02:00", NOON),
        ("2026-01-02T12:00:05", None),  # no zone
        ("0001-01-01T00:00:00+14:00", None),  # before the first moment that there is
        ("soon", None),
        ("", None),
        (None, None),
        (5, None),
    ],
)
def test_what_is_no_time_in_a_zone_is_no_moment(text: object, expected: datetime | None) -> None:
    found = moment(text)
    assert found == expected
    assert found is None or found.tzinfo is UTC
    assert seconds_of(text) == (None if expected is None else expected.timestamp())


@given(st.integers(0, 4_000_000_000), st.integers(-14 * 60, 14 * 60))
def test_a_timestamp_is_read_back_wherever_it_was_written(seconds: int, minutes: int) -> None:
    assert seconds_of(timestamp(seconds)) == seconds
    elsewhere = datetime.fromtimestamp(seconds, timezone(timedelta(minutes=minutes)))
    assert seconds_of(elsewhere.isoformat()) == seconds
