"""Times in the form of the API, and the controllers' clock, which is an argument so that tests need not wait."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Now = Callable[[], datetime]


def real_time() -> datetime:
    return datetime.now(UTC)


def moment(stamp: str | None) -> datetime | None:
    """A time of the API; None if it is absent or malformed."""
    try:
        return datetime.fromisoformat(stamp or "").astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def left(since: str | None, seconds: float, now: datetime) -> float:
    """How many of these seconds are left since a time of the API; an absent or malformed time counts as now."""
    begun = moment(since) or now
    try:
        return (begun + timedelta(seconds=seconds) - now).total_seconds()
    except OverflowError:  # more seconds than time has
        return seconds
