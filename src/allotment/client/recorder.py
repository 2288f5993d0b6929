"""Events: messages from a component about an object, shown by ``kubectl describe`` and ``kubectl events``.

Recording an event never waits and never fails. Repeated messages about the same object become one event with a count.
A burst beyond the buffer loses its oldest events, since an event is a courtesy and not a record. For the same reason the
recorder writes at a bounded rate, and more slowly the busier the server is, which it infers from the time that a write
takes: a component with a message about each of ten thousand pods must not slow those pods down.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import count

from allotment.api.status import NotFound, StatusError
from allotment.api.timestamps import timestamp
from allotment.client.bucket import Bucket
from allotment.client.client import Client
from allotment.client.form import Obj
from allotment.client.transport import Disconnected

__all__ = ["EventType", "Recorder", "Subject"]

log = logging.getLogger(__name__)

MAX_WAITING_EVENTS = 10_000
MAX_REMEMBERED_EVENTS = 4_096
MAX_MESSAGE = 1_024
PER_SECOND = 100.0
EVENTS_AT_ONCE = 200
REST_FACTOR = 4.0
"""After writing an event, the recorder pauses for this multiple of the time that the write took..."""
MAX_REST = 1.0
"""...but no more seconds than this."""


class EventType(Enum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    version: str = ""

    def reference(self) -> Obj:
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
            "resourceVersion": self.version,
        }
        return {name: value for name, value in fields.items() if value}


RIGHTS = ("create,patch: core: events", "create,patch: events.k8s.io: events")
"""The recorder writes to the first group. Kubernetes has the same objects in the second, and grants both together."""

_Words = tuple[Subject, EventType, str, str]


@dataclass(slots=True)
class _CountedEvent:
    name: str
    count: int


class Recorder:
    """Writes events for one component while :meth:`run` runs: at most ``per_second``, and ``burst`` after a quiet time."""

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        per_second: float = PER_SECOND,
        burst: int = EVENTS_AT_ONCE,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._events = client.plain("v1", "events")
        self._component = component
        self._now = now
        self._waiting: OrderedDict[_Words, int] = OrderedDict()
        self._told: OrderedDict[_Words, _CountedEvent] = OrderedDict()
        self._news = asyncio.Event()
        self._bucket = Bucket(per_second, burst)
        self._numbers = count(int(now().timestamp() * 1_000_000))
        self.lost = 0

    def tell(self, subject: Subject, type_: EventType, reason: str, message: str) -> None:
        """Queues a message about an object. ``reason`` is one CamelCase word."""
        words = (subject, type_, reason, message[:MAX_MESSAGE])
        self._waiting[words] = self._waiting.get(words, 0) + 1
        if len(self._waiting) > MAX_WAITING_EVENTS:
            self._waiting.popitem(last=False)
            self.lost += 1
        self._news.set()

    async def run(self) -> None:
        """Writes queued events at a limited rate until cancelled. Repeated messages in the queue only increase a count."""
        clock = asyncio.get_running_loop().time
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                await asyncio.sleep(self._bucket.delay(clock()))
                began = clock()
                await self._next()
                await asyncio.sleep(min(REST_FACTOR * (clock() - began), MAX_REST))

    async def flush(self) -> None:
        """Writes everything queued so far, without delay."""
        while self._waiting:
            await self._next()

    async def _next(self) -> None:
        if not self._waiting:  # a flush wrote it first
            return
        words, times = self._waiting.popitem(last=False)
        try:
            await self._write(words, times)
        except (StatusError, Disconnected) as exc:  # the namespace is being deleted, or the server is away
            self.lost += 1
            log.info("event %s about %s lost: %s", words[2], words[0].name, exc)

    async def _write(self, words: _Words, times: int) -> None:
        told = self._told.get(words)
        if told is not None:
            patch = {"count": told.count + times, "lastTimestamp": self._stamp()}
            try:
                await self._events.patch(told.name, patch, _namespace(words[0]))
            except NotFound:  # the server keeps events for an hour
                del self._told[words]
            else:
                told.count += times
                self._told.move_to_end(words)
                return
        event = self._event(words, times)
        await self._events.create(event)
        self._told[words] = _CountedEvent(event["metadata"]["name"], times)
        if len(self._told) > MAX_REMEMBERED_EVENTS:
            self._told.popitem(last=False)

    def _event(self, words: _Words, times: int) -> Obj:
        subject, type_, reason, message = words
        name = f"{subject.name[:200]}.{next(self._numbers):x}"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": _namespace(subject)},
            "involvedObject": subject.reference(),
            "type": type_.value,
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._component,
            "firstTimestamp": self._stamp(),
            "lastTimestamp": self._stamp(),
            "count": times,
        }

    def _stamp(self) -> str:
        return timestamp(self._now())


def _namespace(subject: Subject) -> str:
    """The namespace for the event. As in Kubernetes, events about cluster-scoped objects are in ``default``."""
    return subject.namespace or "default"
