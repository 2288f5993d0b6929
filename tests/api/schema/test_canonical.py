"""Single values as Kubernetes writes them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.schema.canonical import (
    Unreadable,
    canonical_quantity,
    canonical_time,
    is_quantity,
    is_time,
)


@pytest.mark.parametrize(
    ("text", "micro", "written"),
    [
        ("2026-01-02T03:04:05Z", False, "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05+02:00", False, "2026-01-02T01:04:05Z"),
        ("2026-01-02T03:04:05-02:30", False, "2026-01-02T05:34:05Z"),
        ("2026-01-02T03:04:05.123456789Z", False, "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.000600Z", True, "2026-01-02T03:04:05.000600Z"),
        ("0001-01-01T00:00:00Z", False, "0001-01-01T00:00:00Z"),
    ],
)
def test_times_are_written_in_utc(text: str, micro: bool, written: str) -> None:
    assert canonical_time(text, micro) == written
    assert is_time(text, micro) == (text == written)


@pytest.mark.parametrize(
    ("text", "micro", "why"),
    [
        ("", False, 'cannot parse "" as "2006"'),
        ("2026-01-01", False, 'cannot parse "" as "T"'),
        ("2026-W01-1T00:00:00Z", False, 'cannot parse "W01-1T00:00:00Z" as "01"'),
        ("2026-01-01T00:00:00", False, 'cannot parse "" as "Z07:00"'),
        ("2026-01-01T00:00:00Zx", False, 'extra text: "x"'),
        ("2026-13-01T00:00:00Z", False, "month out of range"),
        ("2026-02-30T00:00:00Z", False, "out of range"),
        ("0001-01-01T00:00:00+01:00", False, "out of range"),
        ("2026-01-01T00:00:00Z", True, 'cannot parse "Z" as ".000000"'),
        ("٢٠٢٦-01-01T00:00:00Z", False, "cannot parse"),  # digits, but not those of the format
    ],
)
def test_other_texts_are_no_times(text: str, micro: bool, why: str) -> None:
    with pytest.raises(Unreadable) as caught:
        canonical_time(text, micro)
    assert why in str(caught.value)
    assert not is_time(text, micro)


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_time_is_read_back(moment: datetime) -> None:
    text = moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    assert canonical_time(text, micro=True) == text
    assert canonical_time(text) == text[:19] + "Z"


@given(st.text(max_size=30))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    is_time(text)
    if is_quantity(text):
        assert canonical_quantity(text) == text


@pytest.mark.parametrize("value", ["", "abc", True, None, {}, [], float("nan"), float("inf")])
def test_what_is_no_quantity_is_refused(value: object) -> None:
    with pytest.raises(Unreadable):
        canonical_quantity(value)


def test_a_number_too_long_to_be_written_is_refused() -> None:
    with pytest.raises(Unreadable):
        canonical_quantity(10**5000)
