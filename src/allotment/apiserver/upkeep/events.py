"""Lets events expire: an event is kept for an hour after it was last written."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from allotment.apiserver.registry.catalogue import Catalogue
from allotment.apiserver.registry.deletion import DeleteOptions, Deletion
from allotment.apiserver.registry.writes import Writes
from allotment.apiserver.store.record import Key, Record
from allotment.apiserver.upkeep.task import Clock, Upkeep, utc_now

EVENTS = "events"


class EventExpiry(Upkeep):
    """Keeps writes of events in their order, which is also the order in which they expire.

    Events that were there when the server started count from then: a restart may keep one for up to an hour longer.
    """

    name = "event-expiry"

    def __init__(
        self,
        writes: Writes,
        catalogue: Catalogue,
        clock: Clock = utc_now,
        lifetime: timedelta = timedelta(hours=1),
    ) -> None:
        super().__init__(clock)
        self._store = writes.store
        self._deletion = Deletion(writes)
        self._catalogue = catalogue
        self._lifetime = lifetime
        self._written: deque[tuple[datetime, Key, int]] = deque()
        self._store.follow(EVENTS, self._changed)

    @property
    def pause(self) -> float | None:
        return 60.0

    def turn(self) -> bool:
        if not self._written or self._written[0][0] > self._clock() - self._lifetime:
            return False
        _, key, revision = self._written.popleft()
        record = self._store.head(key)
        resource = self._catalogue.resource(EVENTS)
        if record is not None and record.revision == revision and resource is not None:
            self._deletion.delete_record(self._catalogue.hub(resource), record, DeleteOptions(), self.call())
        return True

    def _changed(self, previous: Record | None, current: Record | None) -> None:
        if current is not None:
            self._written.append((self._clock(), current.key, current.revision))
