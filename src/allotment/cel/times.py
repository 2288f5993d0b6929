"""Timestamps and durations as text and as calendar fields.

Python's datetime has microseconds, ours nanoseconds; so text is taken apart here and only whole seconds go
through the calendar. Time zone names come from the zone database of the machine.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from allotment.cel.errors import CelRuntimeError
from allotment.cel.values import INT_MAX, INT_MIN, Duration, Timestamp, checked_timestamp

SECOND = 10**9
_EPOCH = date(1970, 1, 1).toordinal()
_EPOCH_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:(Z)|([+-])(\d\d):(\d\d))", re.ASCII
)
_OFFSET = re.compile(r"([+-]?\d+):([+-]?\d+)", re.ASCII)
_PIECE = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}


def parse_timestamp(text: str) -> Timestamp | None:
    """RFC 3339; None if it is not. Raises if it lies outside the years 1 to 9999."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    if (
        hour > 23
        or minute > 59
        or second > 59
        or (match[10] is not None and (int(match[10]) > 24 or int(match[11]) > 60))
    ):
        return None
    try:
        days = date(year or 4, month, day).toordinal() - _EPOCH
    except ValueError:
        return None
    if year == 0:
        days -= date(4, 1, 1).toordinal() - date(1, 1, 1).toordinal() + 366
    offset = 0 if match[8] else (int(match[10]) * 60 + int(match[11])) * (-60 if match[9] == "-" else 60)
    seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset
    fraction = int((match[7] or "0")[:9].ljust(9, "0"))
    return checked_timestamp(seconds * SECOND + fraction, offset)


def format_timestamp(timestamp: Timestamp) -> str:
    seconds, fraction = divmod(timestamp.ns, SECOND)
    year, month, day, rest = _civil(seconds + timestamp.offset)
    text = f"{year:04d}-{month:02d}-{day:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    if fraction:
        text += f".{fraction:09d}".rstrip("0")
    if timestamp.offset == 0:
        return text + "Z"
    minutes = abs(timestamp.offset) // 60
    return f"{text}{'-' if timestamp.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def _civil(seconds: int) -> tuple[int, int, int, int]:
    """Year, month, day and second of the day; the years 0 and 10000 occur near the ends, by offsets."""
    days, rest = divmod(seconds, 86400)
    cycle, day_of_cycle = divmod(days + 719468, 146097)
    year_of_cycle = (
        day_of_cycle - day_of_cycle // 1460 + day_of_cycle // 36524 - day_of_cycle // 146096
    ) // 365
    day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle // 4 - year_of_cycle // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_cycle + cycle * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1, rest


class Fields:
    """A timestamp seen in a time zone: the parts that ``getMonth()`` and its siblings give."""

    def __init__(self, timestamp: Timestamp, zone: str) -> None:
        seconds, self.nanos = divmod(timestamp.ns, SECOND)
        local = seconds + _offset(seconds, zone)
        self.days = local // 86400
        self.year, self.month, self.day, self.second_of_day = _civil(local)

    @property
    def day_of_year(self) -> int:
        first = self.days
        year, month, day, _ = _civil(first * 86400)
        lengths = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
        leap = month > 2 and (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))
        return lengths[month - 1] + day + leap

    @property
    def weekday(self) -> int:
        """Sunday is 0."""
        return (self.days + 4) % 7


def _offset(seconds: int, zone: str) -> int:
    """Seconds east of UTC at that time: of a named zone, or of ``+hh:mm``."""
    if zone in ("", "UTC"):
        return 0
    if ":" in zone:
        match = _OFFSET.fullmatch(zone)
        if match is None:
            raise CelRuntimeError(f"invalid time zone offset: {zone}")
        hours, minutes = int(match[1]), int(match[2])
        return 60 * (hours * 60 - minutes if zone.startswith("-") else hours * 60 + minutes)
    try:
        found = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise CelRuntimeError(f"unknown time zone {zone}") from exc
    try:
        offset = (_EPOCH_TIME + timedelta(seconds=seconds)).astimezone(found).utcoffset()
    except OverflowError:
        return 0
    return 0 if offset is None else int(offset.total_seconds())


def parse_duration(text: str) -> Duration | None:
    """``1h2m3.5s``, with a sign before it or none; None if it is not one or does not fit."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return Duration(0)
    total = position = 0
    while position < len(body):
        match = _PIECE.match(body, position)
        if match is None or not (match[1] or match[2]) or len(match[1]) > 20:
            return None
        unit = _UNITS[match[3]]
        fraction = (match[2] or "")[:18]
        total += int(match[1] or "0") * unit + (
            int(fraction) * unit // 10 ** len(fraction) if fraction else 0
        )
        position = match.end()
    if position == 0:
        return None
    ns = -total if text.startswith("-") else total
    return Duration(ns) if INT_MIN <= ns <= INT_MAX else None


def format_duration(duration: Duration) -> str:
    """Seconds with as many decimals as a double can distinguish."""
    seconds = (
        duration.ns / SECOND
        if abs(duration.ns) < 2**53
        else (duration.ns // SECOND) + (duration.ns % SECOND) / SECOND
    )
    return plain_decimal(seconds) + "s"


def plain_decimal(number: float) -> str:
    """The shortest decimal that reads back as the same double, never with an exponent."""
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
