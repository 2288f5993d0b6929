"""A client's watch: lines, in batches as they come.

It starts with the present state (unless the client gives a revision), then reports every change relative to the selection:
an object that begins to match is ADDED, one that ceases to match is DELETED, whatever happened to it. Bookmarks report its
progress. It ends after its time, when the server stops, or when its reader is too slow.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import chain

from allotment.api.status import Expired, StatusError
from allotment.apiserver.registry.catalogue import ServedResource
from allotment.apiserver.registry.forms import PIECE_BYTES, ResponseForm, encode, joined, runs
from allotment.apiserver.registry.reads import ListOptions, Reads, revision_of
from allotment.apiserver.registry.selection import Selection
from allotment.apiserver.store.errors import Compacted, Overflow, StoreClosed
from allotment.apiserver.store.record import Change, ChangeType, Record
from allotment.apiserver.store.watch import Watch

BOOKMARK_SECONDS = 60.0
SHORTEST_SECONDS = (
    1800  # seconds for a watch without a timeout; random, so that clients do not return together
)
EVENTS_PER_PIECE = 200
"""The most objects of the initial state, or changes, sent in one piece; fewer if they are large (``PIECE_BYTES``)."""


class Watching:
    """One client's watch of one resource. Make it, then read ``lines`` once. ``from_state`` tells whether they begin with all that
    is there."""

    def __init__(
        self,
        reads: Reads,
        served: ServedResource,
        namespace: str,
        options: ListOptions,
        form: ResponseForm,
        clock: Callable[[], float],
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        """Raises StatusError where a client gets an error in place of a stream. ``clock`` counts seconds; ``pause`` returns
        when it is the client's turn to get another piece of the state."""
        self._reads = reads
        self._served = served
        self._namespace = namespace if served.resource.namespaced else ""
        self._options = options
        self._form = form
        self._piece = min(form.piece, EVENTS_PER_PIECE)
        self._clock = clock
        self._pause = pause
        self._source: Watch | None = None
        self._closed = False
        self._asked = revision_of(options.resource_version)
        self.from_state = options.initial_events if options.initial_events is not None else not self._asked
        if options.initial_events:
            reads.check_reached(self._asked)

    async def lines(self) -> AsyncIterator[bytes]:
        """Pieces of lines, as they come. A failure becomes the last line."""
        store, selection = self._reads.store, self._options.selection
        now = store.revision
        since = now if self.from_state else min(self._asked or now, now)
        try:
            source = store.watch(self._served.resource.id, self._namespace, selection.name, since=since)
        except Compacted as exc:
            yield error_line(Expired(f"too old resource version: {self._asked} ({exc.compacted})"))
            return
        self._source = source
        if self._closed:
            source.close()
        try:
            if self.from_state:
                for batch in self._state():
                    yield batch
                    del batch
                    await (
                        self._pause()
                    )  # a fast reader never makes us wait, so other requests get their turn here
                if self._options.initial_events and self._options.bookmarks:
                    yield self._form.bookmark(now, True)
            async for batch in self._changes(source):
                yield batch
        finally:
            source.close()

    def close(self) -> None:
        """Ends the lines, even if nothing happens: the client is gone or the server stops."""
        self._closed = True
        if self._source is not None:
            self._source.close()

    def _state(self) -> Iterator[bytes]:
        """ADDED for all existing objects. The records are taken in one step, so a waiting reader misses or repeats none."""
        records = self._reads.list(self._served, self._namespace, self._options.of_state()).records
        for run in runs(records, self._piece):
            yield from joined(
                chain.from_iterable(self._form.parts("ADDED", record) for record in run), 3 * self._piece
            )

    async def _changes(self, source: Watch) -> AsyncIterator[bytes]:
        clock = self._clock
        timeout = self._options.timeout or random.uniform(SHORTEST_SECONDS, 2 * SHORTEST_SECONDS)
        end = clock() + timeout
        bookmarks = self._options.bookmarks
        bookmark_at = clock() + (BOOKMARK_SECONDS if bookmarks else timeout)
        while True:
            left = min(end, bookmark_at) - clock()
            try:
                changes = await source.next(max(left, 0.0))
            except (Overflow, StoreClosed):
                return
            for run in _runs(changes, self._piece):
                for batch in joined(self._told(run), EVENTS_PER_PIECE):
                    yield batch
                if run[-1] is not changes[-1] or source.more:
                    await self._pause()
            now = clock()
            if bookmarks and (
                not changes or now >= bookmark_at
            ):  # even among changes that do not concern this watch
                yield self._form.bookmark(source.revision, False)
                bookmark_at = now + BOOKMARK_SECONDS
            if now >= end:
                return

    def _told(self, changes: list[Change]) -> Iterator[bytes]:
        selection, form = self._options.selection, self._form
        for change in changes:
            if change.revision <= self._asked:
                continue  # the client requested a revision still to come
            if not selection:
                yield form.change(change)
            elif seen := seen_as(selection, change):
                yield form.event(*seen)


def _runs(changes: list[Change], most: int) -> Iterator[list[Change]]:
    """Groups of changes that are quick to encode, whatever their form."""
    run: list[Change] = []
    size = 0
    for change in changes:
        run.append(change)
        size += len(change.record.data)
        if size >= PIECE_BYTES or len(run) >= most:
            yield run
            run, size = [], 0
    if run:
        yield run


def seen_as(selection: Selection, change: Change) -> tuple[str, Record] | None:
    """A change as a selective watch reports it: the event's type and object, or None if it does not concern the watch."""
    record, previous = change.record, change.previous
    was = previous is not None and selection.matches(previous)
    if change.type is ChangeType.DELETED:
        return ("DELETED", record) if was else None
    if selection.matches(record):
        return ("MODIFIED" if was else "ADDED", record)
    if previous is None or not was:
        return None
    last = previous.load()  # the last state that matched, at the revision at which it ceased to
    last["metadata"]["resourceVersion"] = str(record.revision)
    return "DELETED", Record(record.key, record.revision, encode(last))


def error_line(error: StatusError) -> bytes:
    """An error inside a stream that has begun."""
    return encode({"type": "ERROR", "object": error.to_status()}) + b"\n"
