"""A store reduced to what admissions ask of one: the head by key, followers, and writes that can be taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from allotment.apiserver.store.record import Key, Obj, Record
from allotment.apiserver.store.store import Store

Follower = Callable[[Record | None, Record | None], None]


class Shelf:
    """Records by key, in memory."""

    def __init__(self) -> None:
        self.records: dict[Key, Record] = {}
        self._followers: dict[str, list[Follower]] = {}
        self._log: list[tuple[Record | None, Record | None]] = []
        self._revision = 0

    def as_store(self) -> Store:
        return cast(Store, self)

    def head(self, key: Key) -> Record | None:
        return self.records.get(key)

    def heads(self, resource: str, namespace: str = "") -> Iterable[Record]:
        return [
            record
            for key, record in sorted(self.records.items())
            if resource in ("", key.resource) and namespace in ("", key.namespace)
        ]

    def follow(self, resource: str, follower: Follower) -> None:
        self._followers.setdefault(resource, []).append(follower)
        for record in self.heads(resource):
            follower(None, record)

    def put(self, key: Key, obj: Obj) -> None:
        self._revision += 1
        obj.setdefault("metadata", {})["resourceVersion"] = str(self._revision)
        self._change(self.records.get(key), Record(key, self._revision, msgspec.json.encode(obj)))

    def delete(self, key: Key, obj: Any = None) -> None:
        if key in self.records:
            self._change(self.records[key], None)

    def roll_back(self, count: int) -> None:
        """Takes the newest writes back, as a failed commit does."""
        for _ in range(min(count, len(self._log))):
            previous, current = self._log.pop()
            self._tell(current, previous)

    def _change(self, previous: Record | None, current: Record | None) -> None:
        self._log.append((previous, current))
        self._tell(previous, current)

    def _tell(self, previous: Record | None, current: Record | None) -> None:
        record = current or previous
        assert record is not None
        if current is not None:
            self.records[current.key] = current
        else:
            del self.records[record.key]
        for follower in (*self._followers.get(record.key.resource, ()), *self._followers.get("", ())):
            follower(previous, current)
