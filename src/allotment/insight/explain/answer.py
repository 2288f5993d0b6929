"""Explains in the dashboard why a pod waits: the answer of ``allot explain pod``, with the rights of the logged-in user.

The user's own client reads the necessary objects. The search runs beside the event loop, so that it delays no other request,
and its time is limited.
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
_ADVICE = "; -n names others"  # only useful on a command line


async def explained(client: Client, namespace: str, name: str) -> Document:
    """The document of ``allot explain pod -o json``; if there is no answer, only the reason."""
    from allotment.insight.explain.document import explanation_document
    from allotment.insight.explain.pod import named_pod, told_of_pod
    from allotment.insight.explain.trial_scheduler import KINDS
    from allotment.insight.snapshot import look_at

    try:
        snapshot = await look_at(client, KINDS, (namespace,))
        pod = named_pod(snapshot, name, (namespace,))
        told = await asyncio.to_thread(told_of_pod, pod, snapshot, datetime.now(UTC), within(EXPLAIN_SECONDS))
    except Failure as exc:
        return {"state": "NoAnswer", "reason": exc.message}
    notes = [note.removesuffix(_ADVICE) for note in snapshot.notes]
    return {**explanation_document(told), "notes": notes}


def within(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end
