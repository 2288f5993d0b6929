"""Texts that others write into their objects, cut to what a page can show."""

from __future__ import annotations

from allotment.api.meta import Condition

LONGEST_SHOWN_TEXT = 2000


def said(condition: Condition) -> str:
    """The reason and the message."""
    reason, message = condition.reason or condition.type, condition.message or ""
    return (f"{reason}: {message}" if message else reason)[:LONGEST_SHOWN_TEXT]
