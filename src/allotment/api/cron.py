"""Recurring times, as cron writes them: ``minute hour day month weekday``, in UTC; and durations.

The syntax is that of Kubernetes' CronJob and Karpenter's budgets: ``*`` or ``?``, numbers, names of months and weekdays,
ranges, lists and steps, and ``@hourly`` and the like. If both a day and a weekday are given, either is enough; if one
of them is open, the other decides, as in every cron. Time zones are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NoReturn

from allotment.api.text import quoted

_LONGEST_SCHEDULE: Final = 256
_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 6))
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES: Final = {
    "month": {name: number for number, name in enumerate(_MONTHS, 1)},
    "weekday": {name: number for number, name in enumerate(_WEEKDAYS)},
}
_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_PART: Final = re.compile(r"(?:(?P<all>[*?])|(?P<low>\w{1,3})(?:-(?P<high>\w{1,3}))?)(?:/(?P<step>\d{1,2}))?")
_FAR: Final = 5 * 366  # days; a time that has not come by then never will (31 February)


_UNITS: Final = {"h": 3600, "m": 60, "s": 1}
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}[hms]){1,9}")


def seconds(text: str) -> int | None:
    """``1h30m`` in seconds, at most five years; None if the text is not a duration."""
    if _DURATION.fullmatch(text) is None:
        return None
    parts = re.findall(r"([0-9]+)([hms])", text)
    return min(sum(int(amount) * _UNITS[unit] for amount, unit in parts), _FAR * 86_400)


class CronError(ValueError):
    """The text is not a schedule; the message says which part."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A set of recurring times. ``Schedule.parse`` makes one."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool  # true: a day in either ``days`` or ``weekdays`` is enough

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Raises CronError."""
        if len(text) > _LONGEST_SCHEDULE:
            _refuse(text, f"it is longer than {_LONGEST_SCHEDULE}")
        return _parse(text)

    def last(self, now: datetime, within: timedelta) -> datetime | None:
        """The latest time of the schedule that is not after ``now``, if it is less than ``within`` ago."""
        now = now.astimezone(UTC)
        for ago in range(min(within.days + 2, _FAR)):
            day = now.date() - timedelta(days=ago)
            if not self._on(day.day, day.month, day.isoweekday() % 7):
                continue
            until = (now.hour, now.minute) if not ago else (24, 0)
            times = [
                (hour, minute) for hour in self.hours for minute in self.minutes if (hour, minute) <= until
            ]
            if times:
                hour, minute = max(times)
                found = datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)
                return found if now - found < within else None
        return None

    def _on(self, day: int, month: int, weekday: int) -> bool:
        if month not in self.months:
            return False
        tests = (day in self.days, weekday in self.weekdays)
        return any(tests) if self.either else all(tests)


def _refuse(text: str, why: str) -> NoReturn:
    raise CronError(f"{quoted(text)} is not a schedule: {why}")


@lru_cache(maxsize=256)
def _parse(text: str) -> Schedule:
    fields = _MACROS.get(text.strip(), text).split()
    if fields and "=" in fields[0]:
        _refuse(text, "time zones are not supported, times are in UTC")
    if len(fields) != len(_FIELDS):
        _refuse(
            text,
            "it must have five fields, minute hour day month weekday, or be one of " + ", ".join(_MACROS),
        )
    try:
        minutes, hours, days, months, weekdays = (
            _values(field, *spec) for field, spec in zip(fields, _FIELDS, strict=True)
        )
    except CronError as exc:
        _refuse(text, str(exc))
    either = not any(field.startswith(("*", "?")) for field in (fields[2], fields[4]))
    return Schedule(minutes, hours, days, months, weekdays, either)


def _values(field: str, name: str, least: int, most: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise CronError(f"the {name} {quoted(part)} is no number, range or step")
        low, high = least, most
        if not match["all"]:
            low = _number(match["low"], name)
            high = _number(match["high"], name) if match["high"] else (most if match["step"] else low)
        step = int(match["step"] or 1)
        if not (least <= low <= high <= most and step):
            raise CronError(f"the {name} {quoted(part)} is not within {least} to {most}")
        found.update(range(low, high + 1, step))
    return frozenset(found)


def _number(text: str, name: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    number = _NAMES.get(name, {}).get(text.lower())
    if number is None:
        raise CronError(f"there is no {name} {quoted(text)}")
    return number
