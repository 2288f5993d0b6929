"""Times as the API writes them: RFC 3339 in UTC. The moment comes in as an argument, as nothing here reads a clock."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(when: datetime | float) -> str:
    """A moment, or seconds since 1970, in whole seconds."""
    moment = when if isinstance(when, datetime) else datetime.fromtimestamp(int(when), UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def fine_timestamp(when: datetime) -> str:
    """A moment with microseconds, as leases have it."""
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment(text: object) -> datetime | None:
    """The reverse, in UTC; None for what is absent, no time, or a time without a zone."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
        return found.astimezone(UTC) if found is not None and found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def seconds_of(text: object) -> float | None:
    """The same in seconds since 1970."""
    found = moment(text)
    return found.timestamp() if found is not None else None
