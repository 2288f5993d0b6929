"""The recent changes, oldest first, without a gap. Watches resume from them, and old lists are reconstructed with them.

The window is bounded in number, age and bytes. The cost of a change is what it alone keeps in memory and on disk: the
record that it superseded, and its own if it is a deletion; the new record of any other change is part of the state.
When a change leaves the window its rows that are no longer needed leave the file: see ``DroppedChange``.

A change handed to watchers may get its encoded line (``Change.line``) from the http layer, to be shared. Only the newest
changes are handed out as such (``_shared``, bounded in bytes); older ones are handed out as copies, so that the history
never keeps lines that nobody reads any more.

Invariants: revisions are ``compacted + 1`` … newest without a gap; ``bytes`` is the sum of the costs; the changes of a
resource are exactly those of the window, in order.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from allotment.apiserver.store.record import Change, ChangeType
from allotment.apiserver.store.scope import Scope, covers


@dataclass(frozen=True, slots=True)
class Window:
    """How much history is kept: changes that exceed any of these limits are dropped."""

    changes: int = 50_000
    bytes: int = 64 * 1024 * 1024
    seconds: float = 3600
    shared_bytes: int = 16 * 1024 * 1024  # bytes of changes whose encoded lines are kept for all watchers


class DroppedChange(NamedTuple):
    """A change that left the window, and the revisions whose rows are no longer needed."""

    revision: int
    rows: tuple[int, ...]


class History:
    """The window of changes after ``compacted``."""

    def __init__(self, compacted: int, window: Window) -> None:
        self.compacted = compacted
        self.bytes = 0
        self._window = window
        self._changes: deque[Change] = deque()
        self._times: deque[float] = deque()
        self._by_resource: dict[str, deque[Change]] = {}
        # taking the first entry from a dict would be slow
        self._shared: OrderedDict[int, Change] = OrderedDict()
        self._shared_bytes = 0

    def __len__(self) -> int:
        return len(self._changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self._changes)

    def append(self, change: Change, created: float) -> None:
        self._changes.append(change)
        self._times.append(created)
        changes = self._by_resource.get(change.record.key.resource)
        if changes is None:
            changes = self._by_resource[change.record.key.resource] = deque()
        changes.append(change)
        self.bytes += cost(change)

    def share(self, change: Change) -> Change:
        """The change that was just appended, in the form in which all watchers get it."""
        shared = Change(change.type, change.record, change.previous)
        self._shared[change.revision] = shared
        self._shared_bytes += len(change.record.data)
        while self._shared_bytes > self._window.shared_bytes:
            _, oldest = self._shared.popitem(last=False)
            self._shared_bytes -= len(oldest.record.data)
        return shared

    def since(self, scope: Scope, revision: int) -> list[Change]:
        """The changes of a scope after a revision, oldest first, for a watch to keep."""
        found = [
            self._shared.get(change.revision) or Change(change.type, change.record, change.previous)
            for change in self.undo(scope.resource, revision)
            if covers(scope, change.record.key)
        ]
        found.reverse()
        return found

    def undo(self, resource: str, revision: int) -> Iterator[Change]:
        """The changes of a resource after a revision, newest first."""
        for change in reversed(self._by_resource.get(resource, ())):
            if change.revision <= revision:
                return
            yield change

    def trim(self, now: float) -> list[DroppedChange]:
        """Drops changes that exceed the window."""
        evicted = []
        window = self._window
        while self._changes and (
            len(self._changes) > window.changes
            or self.bytes > window.bytes
            or now - self._times[0] > window.seconds
        ):
            evicted.append(self._evict())
        return evicted

    def compact(self, revision: int) -> list[DroppedChange]:
        """Drops everything up to a revision."""
        evicted = []
        while self._changes and self._changes[0].revision <= revision:
            evicted.append(self._evict())
        return evicted

    def _evict(self) -> DroppedChange:
        change = self._changes.popleft()
        self._times.popleft()
        resource = change.record.key.resource
        changes = self._by_resource[resource]
        changes.popleft()
        if not changes:
            del self._by_resource[resource]
        shared = self._shared.pop(change.revision, None)
        if shared is not None:
            self._shared_bytes -= len(shared.record.data)
        self.bytes -= cost(change)
        self.compacted = change.revision
        return DroppedChange(change.revision, tuple(superseded(change)))

    def validate(self, newest: int) -> None:
        revisions = [change.revision for change in self._changes]
        assert revisions == list(range(self.compacted + 1, newest + 1)), "the history has a gap"
        assert len(self._times) == len(self._changes)
        assert self.bytes == sum(map(cost, self._changes)), "history bytes are wrongly accounted"
        by_resource: dict[str, deque[Change]] = {}
        for change in self._changes:
            by_resource.setdefault(change.record.key.resource, deque()).append(change)
            assert change.line is None, "a change of the history was handed out"
        assert by_resource == self._by_resource, "the history of a resource differs from the whole"
        assert self._shared_bytes == sum(len(change.record.data) for change in self._shared.values())
        assert set(self._shared) <= set(revisions)


def cost(change: Change) -> int:
    """The bytes that are kept only for this change."""
    kept = len(change.previous.data) if change.previous else 0
    return kept + len(change.record.data) if change.type is ChangeType.DELETED else kept


def superseded(change: Change) -> Iterator[int]:
    """Revisions of the rows that only this change still needs."""
    if change.previous is not None:
        yield change.previous.revision
    if change.type is ChangeType.DELETED:
        yield change.revision
