"""Why a pod waits, asked through the dashboard: what ``allot explain pod`` tells, with the rights of whoever asks.

What it takes is read by their client. The search runs beside the event loop, so that nobody else waits for it, and not for long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from allotment.insight.errors import Failure

if TYPE_CHECKING:
    from allotment.client.client import Client
    from allotment.insight.usage_document import Document

EXPLAIN_SECONDS = 2.0
_ADVICE = "; -n names others"  # of use on a command line only


async def explained(client: Client, namespace: str, name: str) -> Document:
    """As ``allot explain pod -o json``; where that could not tell, only why not."""
    from allotment.insight.explain.document import explanation_document
    from allotment.insight.explain.pod import named_pod, told_of_pod
    from allotment.insight.explain.trial_scheduler import KINDS
    from allotment.insight.snapshot import look_at

    try:
        seen = await look_at(client, KINDS, (namespace,))
        pod = named_pod(seen, name, (namespace,))
        told = await asyncio.to_thread(told_of_pod, pod, seen, datetime.now(UTC), within(EXPLAIN_SECONDS))
    except Failure as exc:
        return {"state": "NoAnswer", "reason": exc.message}
    notes = [note.removesuffix(_ADVICE) for note in seen.notes]
    return {**explanation_document(told), "notes": notes}


def within(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end
