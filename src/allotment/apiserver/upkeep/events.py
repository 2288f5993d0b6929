"""Expires events: an event is kept for an hour after its last write."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta

from allotment.apiserver.registry.catalogue import ResourceCatalogue
from allotment.apiserver.registry.deletion import DeleteOptions, Deletion
from allotment.apiserver.registry.writes import Writes
from allotment.apiserver.store.record import Key, Record
from allotment.apiserver.upkeep.task import Clock, Upkeep, utc_now

EVENTS = "events"


class EventExpiry(Upkeep[Key]):
    """Keeps events in the order of their last writes, which is also the order in which they expire.

    For events that existed when the server started, the hour begins then, so a restart may keep one an hour longer.
    """

    name = "event-expiry"

    def __init__(
        self,
        writes: Writes,
        catalogue: ResourceCatalogue,
        clock: Clock = utc_now,
        lifetime: timedelta = timedelta(hours=1),
    ) -> None:
        super().__init__(writes, clock)
        self._deletion = Deletion(writes)
        self._catalogue = catalogue
        self._lifetime = lifetime
        self._written: OrderedDict[Key, datetime] = OrderedDict()
        self._store.follow(EVENTS, self._changed)

    @property
    def pause(self) -> float | None:
        return 60.0

    def take(self) -> Key | None:
        key = next(iter(self._written), None)
        if key is None or self._written[key] > self._clock() - self._lifetime:
            return None
        del self._written[key]
        return key

    def do(self, due: Key) -> None:
        record, resource = self._store.head(due), self._catalogue.resource(EVENTS)
        if record is not None and resource is not None:
            self._deletion.delete_record(self._catalogue.hub(resource), record, DeleteOptions(), self.call())

    def put_back(self, due: Key) -> None:
        self._written[due] = self._clock() - self._lifetime
        self._written.move_to_end(due, last=False)

    def _changed(self, previous: Record | None, current: Record | None) -> None:
        if previous is not None:
            self._written.pop(previous.key, None)
        if current is not None:
            self._written[current.key] = self._clock()
