"""One object at one revision, and one change of it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any, NamedTuple

import msgspec

Obj = dict[str, Any]
"""An object as plain JSON values. The caller of a function that returns it owns it and may change it."""


class Key(NamedTuple):
    """Where an object lives. ``resource`` is the plural with its group: ``pods``, ``resourceclaims.resource.k8s.io``."""

    resource: str
    namespace: str  # empty for cluster-scoped kinds
    name: str


LARGE_OBJECT = 64 * 1024
"""The size in bytes from which an object counts as large, with many parts."""


def _decoded(data: bytes) -> Obj:
    obj: Obj = msgspec.json.decode(data)
    return obj


class _Labels(msgspec.Struct, gc=False):
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct, gc=False):
    metadata: _Labels


_LABELS = msgspec.json.Decoder(_Head)
_NONE: Mapping[str, str] = {}


class Record:
    """An object as stored by one write. Immutable; values derived from ``data`` are computed on demand."""

    __slots__ = ("_labels", "accounted", "at_hand", "data", "fields", "key", "revision", "selector")

    def __init__(self, key: Key, revision: int, data: bytes) -> None:
        self.key = key
        self.revision = revision  # the revision of the write; the object's metadata.resourceVersion
        self.data = data  # JSON in the hub version, resourceVersion included
        # selectable fields, kept by the registry once it worked them out
        self.fields: Mapping[str, str] | None = None
        # decoded, while the loop works on it or followers are told of the write: not to be kept or changed
        self.at_hand: Obj | None = None
        # the schema that the account of who owns which fields agrees with, if known
        self.accounted: object = None
        # of a kind that selects others: what it selects by, once somebody has worked it out
        self.selector: Callable[[Mapping[str, str]], bool] | None = None
        self._labels: Mapping[str, str] | None = None

    def load(self) -> Obj:
        """The object, decoded again, for the caller to keep."""
        if len(self.data) > LARGE_OBJECT and gc.isenabled():
            gc.disable()  # the collector would scan the heap again and again while the parts are created
            try:
                return _decoded(self.data)
            finally:
                gc.enable()
        return _decoded(self.data)

    @contextmanager
    def decoded(self, obj: Obj | None) -> Iterator[None]:
        """Provides the decoded object, if it is known, to readers inside the context."""
        self.at_hand = obj
        try:
            yield
        finally:
            self.at_hand = None

    def peek(self) -> Obj:
        """The object to read, but not to keep or change."""
        return self.load() if self.at_hand is None else self.at_hand

    @property
    def labels_known(self) -> bool:
        """Whether the labels have been read; reading them takes time in proportion to the object."""
        return self._labels is not None

    @property
    def labels(self) -> Mapping[str, str]:
        if self._labels is None:
            self._labels = _LABELS.decode(self.data).metadata.labels or _NONE
        return self._labels


class ChangeType(Enum):
    """The names are those of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change:
    """What one write did. ``line`` is for the http layer, which encodes an event once for all watchers."""

    __slots__ = ("line", "previous", "record", "type")

    def __init__(self, type_: ChangeType, record: Record, previous: Record | None) -> None:
        self.type = type_
        self.record = record  # for a deletion: the last state, with the deletion's revision
        self.previous = previous  # None iff ADDED
        self.line: bytes | None = None

    @property
    def revision(self) -> int:
        return self.record.revision
