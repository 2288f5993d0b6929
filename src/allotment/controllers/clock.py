"""The controllers' clock, which is an argument so that tests need not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from allotment.api.timestamps import moment

Now = Callable[[], datetime]


def real_time() -> datetime:
    return datetime.now(UTC)


def loop_time() -> float:
    """The running loop's own seconds, which never jump."""
    return asyncio.get_running_loop().time()


def left(since: str | None, seconds: float, now: datetime) -> float:
    """How many of these seconds are left since a time of the API; an absent or malformed time counts as now."""
    begun = moment(since) or now
    try:
        return (begun + timedelta(seconds=seconds) - now).total_seconds()
    except OverflowError:  # more seconds than time has
        return seconds
