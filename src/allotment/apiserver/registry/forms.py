"""The forms in which a client may request objects: as stored, in another version, as a table, or metadata only.

Each form makes the body of one object, of a list, and of the events of a watch. The plain form, in the hub version,
sends stored bytes unchanged, and encodes an event once for all watchers. Lists are made piece by piece: decoding ten
thousand objects takes longer than others should have to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Protocol, TypeVar

import msgspec

from allotment.apiserver.registry.catalogue import ServedResource
from allotment.apiserver.registry.table import IncludeObject, column_definitions, partial, row, table
from allotment.apiserver.store.record import Change, Obj, Record

encode = msgspec.json.Encoder().encode

OBJECTS_PER_PIECE = 100
"""The most objects of a list that are decoded at once."""
PIECE_BYTES = 64 * 1024
"""A piece ends after this size, however few objects it has, because a stalled reader keeps a piece in memory."""

Buffer = bytes | memoryview
B = TypeVar("B", bytes, bytes | memoryview)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list: the state at one revision, and the token for the rest."""

    records: Sequence[Record]
    revision: int
    token: str = ""
    remaining: int | None = None

    def metadata(self) -> Obj:
        metadata: Obj = {"resourceVersion": str(self.revision)}
        if self.token:
            metadata["continue"] = self.token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata


class ResponseForm(Protocol):
    """``event`` and ``bookmark`` give whole lines, ``parts`` a line in parts, ``many`` the pieces of a list, each of them short
    work. A part or piece that is large is the stored bytes themselves, so that many readers do not hold a copy each."""

    content_type: str
    piece: int
    """The most objects that are short work together."""

    def one(self, record: Record) -> bytes: ...

    def many(self, page: Page) -> Iterator[Buffer]: ...

    def event(self, type_: str, record: Record) -> bytes: ...

    def parts(self, type_: str, record: Record) -> tuple[bytes, ...]: ...

    def change(self, change: Change) -> bytes:
        """The event of a change as it is, for a watch that leaves nothing out."""

    def bookmark(self, revision: int, initial_end: bool) -> bytes: ...


class StoredForm:
    """Objects as stored, in the hub version."""

    content_type = "application/json"
    piece = 20 * OBJECTS_PER_PIECE  # this only copies

    def __init__(self, served: ServedResource) -> None:
        self._kind = served.resource.kind
        self._list_kind = served.resource.list_kind or f"{self._kind}List"
        self._api_version = served.api_version
        self._itself = b'{"kind":"%b","apiVersion":"%b",' % (self._kind.encode(), self._api_version.encode())
        self._keeps_kind = bool(served.resource.schemas)

    def one(self, record: Record) -> bytes:
        return record.data

    def _item(self, record: Record) -> tuple[Buffer, ...]:
        """An item of a list. Items of built-in kinds omit apiVersion and kind."""
        data, itself = record.data, self._itself
        if data.startswith(itself):
            return b"{", memoryview(data)[len(itself) :]
        obj = record.load()
        del obj["kind"], obj["apiVersion"]
        return (encode(obj),)

    def _itself_in_list(self, record: Record) -> tuple[Buffer, ...]:
        return (self.one(record),)

    def many(self, page: Page) -> Iterator[Buffer]:
        head = {"kind": self._list_kind, "apiVersion": self._api_version, "metadata": page.metadata()}
        shown = self._itself_in_list if self._keeps_kind else self._item
        return _listed(head, "items", page.records, shown, self.piece)

    def event(self, type_: str, record: Record) -> bytes:
        return b"".join(self.parts(type_, record))

    def parts(self, type_: str, record: Record) -> tuple[bytes, ...]:
        return b'{"type":"%b","object":' % type_.encode(), self.one(record), b"}\n"

    def change(self, change: Change) -> bytes:
        line = change.line
        if line is None:
            line = change.line = self.event(change.type.value, change.record)
        return line

    def bookmark(self, revision: int, initial_end: bool) -> bytes:
        obj = {
            "kind": self._kind,
            "apiVersion": self._api_version,
            "metadata": _bookmark(revision, initial_end),
        }
        return encode({"type": "BOOKMARK", "object": obj}) + b"\n"


class Converted(StoredForm):
    """Objects in a version other than the hub."""

    piece = OBJECTS_PER_PIECE

    def __init__(self, served: ServedResource) -> None:
        super().__init__(served)
        self._from_hub = served.from_hub

    def one(self, record: Record) -> bytes:
        return encode(self._from_hub(record.load()))

    def _item(self, record: Record) -> tuple[Buffer, ...]:
        obj = self._from_hub(record.load())
        return (encode({name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}),)

    def change(self, change: Change) -> bytes:
        return self.event(change.type.value, change.record)


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_METADATA = msgspec.json.Decoder(_Metadata)


class Metadata:
    """Only the metadata of each object, which is not decoded."""

    piece = OBJECTS_PER_PIECE

    def __init__(self, version: str) -> None:
        self._api_version = f"meta.k8s.io/{version}"
        self.content_type = "application/json"

    def one(self, record: Record) -> bytes:
        return b'{"kind":"PartialObjectMetadata","apiVersion":"%b","metadata":%b}' % (
            self._api_version.encode(),
            _METADATA.decode(record.data).metadata,
        )

    def many(self, page: Page) -> Iterator[Buffer]:
        head = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": self._api_version,
            "metadata": page.metadata(),
        }
        return _listed(head, "items", page.records, lambda record: (self.one(record),), self.piece)

    def event(self, type_: str, record: Record) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (type_.encode(), self.one(record))

    def parts(self, type_: str, record: Record) -> tuple[bytes, ...]:
        return (self.event(type_, record),)

    def change(self, change: Change) -> bytes:
        return self.event(change.type.value, change.record)

    def bookmark(self, revision: int, initial_end: bool) -> bytes:
        obj = partial(_bookmark(revision, initial_end), self._api_version.rpartition("/")[2])
        return encode({"type": "BOOKMARK", "object": obj}) + b"\n"


class Table:
    """Objects as table rows. In a watch, only the first event has the columns."""

    content_type = "application/json"

    def __init__(
        self, served: ServedResource, version: str, include: IncludeObject, now: Callable[[], str]
    ) -> None:
        self._served = served
        self._version = version
        self._include = include
        self._now = now
        self._told = False
        resource = served.resource
        # columns of custom kinds may look through a whole object each
        columns = len(resource.columns) if resource.readers else 1
        self.piece = max(OBJECTS_PER_PIECE // max(columns, 1), 1)

    def one(self, record: Record) -> bytes:
        revision = {"resourceVersion": str(record.revision)}
        return encode(self._table([self._row(record, self._now())], revision, True))

    def many(self, page: Page) -> Iterator[Buffer]:
        now = self._now()
        head = self._table([], page.metadata(), True)
        del head["rows"]
        return _listed(
            head, "rows", page.records, lambda record: (encode(self._row(record, now)),), self.piece
        )

    def event(self, type_: str, record: Record) -> bytes:
        revision = {"resourceVersion": str(record.revision)}
        shown = self._table([self._row(record, self._now())], revision, not self._told)
        self._told = True
        return encode({"type": type_, "object": shown}) + b"\n"

    def parts(self, type_: str, record: Record) -> tuple[bytes, ...]:
        return (self.event(type_, record),)

    def change(self, change: Change) -> bytes:
        return self.event(change.type.value, change.record)

    def bookmark(self, revision: int, initial_end: bool) -> bytes:
        made: Obj = {"cells": []}
        metadata = _bookmark(revision, initial_end)
        made["object"] = partial(metadata, self._version)
        shown = self._table([made], {"resourceVersion": str(revision)}, not self._told)
        self._told = True
        return encode({"type": "BOOKMARK", "object": shown}) + b"\n"

    def _row(self, record: Record, now: str) -> Obj:
        obj = record.load()
        if self._served.resource.readers:  # columns of custom kinds are those of a version
            obj = self._served.from_hub(obj)
        shown = obj
        if self._include is IncludeObject.OBJECT and not self._served.hub:
            shown = self._served.from_hub(record.load())
        return row(self._served.resource, obj, shown, self._include, now)

    def _table(self, rows: list[Obj], metadata: Obj, with_columns: bool) -> Obj:
        columns = column_definitions(self._served.resource) if with_columns else None
        return table(self._version, columns, rows, metadata)


def plain(served: ServedResource) -> StoredForm:
    """The form for a client that requested nothing special."""
    return StoredForm(served) if served.hub else Converted(served)


def _listed(
    head: Obj, field: str, records: Sequence[Record], shown: Callable[[Record], Iterable[Buffer]], piece: int
) -> Iterator[Buffer]:
    """An object with a field that lists records, which comes last."""
    yield encode(head)[:-1] + b',"%b":[' % field.encode()
    glue = chain((b"",), repeat(b","))
    for run in runs(records, piece):
        parts = ((next(glue), *shown(record)) for record in run)
        yield from joined(chain.from_iterable(parts), 2 * piece)
    yield b"]}"


def runs(records: Iterable[Record], most: int) -> Iterator[list[Record]]:
    """Groups that are short work, whatever is made of them: of at most so many records, each of which ends with the record that makes
    it PIECE_BYTES or more. A row of a table is short, however long the object is that has to be decoded for it."""
    run: list[Record] = []
    size = 0
    for record in records:
        run.append(record)
        size += len(record.data)
        if size >= PIECE_BYTES or len(run) >= most:
            yield run
            run, size = [], 0
    if run:
        yield run


def joined(parts: Iterable[B], most: int) -> Iterator[B]:
    """Groups of at most so many parts, each of which ends with the part that makes it PIECE_BYTES or more. A part that is as
    much by itself is not copied."""
    group: list[B] = []
    size = 0
    for part in parts:
        if len(part) >= PIECE_BYTES:
            if group:
                yield b"".join(group)
                group.clear()
                size = 0
            yield part
            continue
        group.append(part)
        size += len(part)
        if size >= PIECE_BYTES or len(group) >= most:
            whole = b"".join(group)
            group.clear()  # not after the yield, which may last as long as a reader does not read
            size = 0
            yield whole
    if group:
        yield b"".join(group)


def _bookmark(revision: int, initial_end: bool) -> Obj:
    metadata: Obj = {"resourceVersion": str(revision)}
    if initial_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return metadata
