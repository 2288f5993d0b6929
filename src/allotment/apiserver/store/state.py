"""The newest record of every key, and the keys of each resource in order.

Lists are far more frequent than new or removed keys, so each resource keeps its keys sorted: a list is one walk, and a
namespace is a range of it. Invariants: a resource's sorted keys are exactly those of its records; ``bytes`` is the sum of
their data.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from allotment.apiserver.store.record import Key, Record


class StoreState:
    """Records by key. Not safe for more than one thread."""

    __slots__ = ("_keys", "_records", "bytes")

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records = {record.key: record for record in records}
        self._keys: dict[str, list[Key]] = {}
        for key in sorted(self._records):
            self._keys.setdefault(key.resource, []).append(key)
        self.bytes = sum(len(record.data) for record in self._records.values())

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: Key) -> Record | None:
        return self._records.get(key)

    def list(self, resource: str, namespace: str = "") -> list[Record]:
        """Sorted by namespace and name; a new list."""
        keys = self._keys.get(resource, [])
        if namespace:
            keys = keys[_start(keys, resource, namespace) : _start(keys, resource, namespace + "\0")]
        return list(map(self._records.__getitem__, keys))

    def count(self, resource: str) -> int:
        return len(self._keys.get(resource, ()))

    def resources(self) -> Iterable[str]:
        return self._keys

    def put(self, record: Record) -> None:
        key = record.key
        previous = self._records.get(key)
        self._records[key] = record
        if previous is None:
            insort(self._keys.setdefault(key.resource, []), key)
            self.bytes += len(record.data)
        else:
            self.bytes += len(record.data) - len(previous.data)

    def remove(self, key: Key) -> None:
        self.bytes -= len(self._records.pop(key).data)
        keys = self._keys[key.resource]
        del keys[bisect_left(keys, key)]
        if not keys:
            del self._keys[key.resource]

    def validate(self) -> None:
        again = StoreState(self._records.values())
        assert self._keys == again._keys, "sorted keys differ from the records' keys"
        assert self.bytes == again.bytes, f"{self.bytes} bytes accounted, {again.bytes} held"


def _start(keys: list[Key], resource: str, namespace: str) -> int:
    return bisect_left(keys, Key(resource, namespace, ""))
