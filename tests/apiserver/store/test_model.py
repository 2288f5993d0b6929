"""Random lives of a store beside a simple model: a list of everything that ever happened."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from allotment.apiserver.store.errors import CommitFailed, Compacted
from allotment.apiserver.store.history import Window
from allotment.apiserver.store.pending import Pending
from allotment.apiserver.store.record import Key, Record
from allotment.apiserver.store.store import Store
from allotment.apiserver.store.watch import Buffer, Watch
from tests.apiserver.store.build import Disk, drain, thing

T = TypeVar("T")
Event = tuple[int, str, Key, int]  # revision, type, key, value

KEYS = [
    Key("pods", "a", "x"),
    Key("pods", "a", "y"),
    Key("pods", "b", "x"),
    Key("nodes", "", "x"),
    Key("nodes", "", "y"),
]
SCOPES = [*KEYS, Key("pods", "", ""), Key("pods", "a", ""), Key("nodes", "", ""), Key("pods", "", "x")]
part = st.floats(0, 1)
"""Where in the past, from the oldest revision to the newest."""


@dataclass
class Reader:
    """A client that watches, and resumes where it was when the server went away."""

    scope: Key
    since: int
    watch: Watch
    seen: list[Event] = field(default_factory=list)


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "store.db"
        self.store = self.open()
        self.disk = Disk(self.store)
        self.log: list[Event] = []
        self.value = 0
        self.readers: list[Reader] = []

    def open(self) -> Store:
        return Store.open(self.path, window=Window(shared_bytes=300), buffer=Buffer(turn_changes=3))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    # The model

    @property
    def newest(self) -> int:
        return 1 + len(self.log)

    def at(self, revision: int) -> dict[Key, tuple[int, int]]:
        """Revision and value of every key, by replaying everything that happened until then."""
        state: dict[Key, tuple[int, int]] = {}
        for when, type_, key, value in self.log[: revision - 1]:
            if type_ == "DELETED":
                del state[key]
            else:
                state[key] = (when, value)
        return state

    def past(self, where: float) -> int:
        return self.store.compacted + round(where * (self.newest - self.store.compacted))

    # What happens

    async def attempt(self, operations: list[tuple[Key, bool]]) -> list[Event]:
        """Writes, all on their way at once; what they are when they succeed."""
        there = set(self.at(self.newest))
        self.disk.hold()
        pending: list[Pending] = []
        events: list[Event] = []
        for key, wanted in operations:
            self.value += 1
            obj = thing(key.name, self.value, key.namespace)
            if wanted:
                events.append(
                    (self.newest + len(events) + 1, "MODIFIED" if key in there else "ADDED", key, self.value)
                )
                pending.append(self.store.put(key, obj))
                there.add(key)
            elif key in there:
                events.append((self.newest + len(events) + 1, "DELETED", key, self.value))
                pending.append(self.store.delete(key, obj))
                there.remove(key)
        assert {
            record.key for resource in ("pods", "nodes") for record in self.store.heads(resource)
        } == there
        self.store.validate()
        self.disk.release()
        results = await asyncio.gather(*pending, return_exceptions=True)
        if any(isinstance(result, CommitFailed) for result in results):
            assert all(isinstance(result, CommitFailed) for result in results)
            return []
        assert [r.revision for r in results if isinstance(r, Record)] == [event[0] for event in events]
        return events

    @rule(operations=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), max_size=6))
    def write(self, operations: list[tuple[Key, bool]]) -> None:
        self.log += self.run(self.attempt(operations))

    @rule(operations=st.lists(st.tuples(st.sampled_from(KEYS), st.just(True)), min_size=1, max_size=6))
    def fail(self, operations: list[tuple[Key, bool]]) -> None:
        self.disk.break_down()
        assert self.run(self.attempt(operations)) == []
        self.disk.repair()

    @rule(where=part)
    def compact(self, where: float) -> None:
        revision = self.past(where)
        self.run(self.store.compact(revision))
        assert self.store.compacted == revision

    @rule()
    def reopen(self) -> None:
        compacted = self.store.compacted
        places = [reader.watch.revision for reader in self.readers]
        self.run(self.store.close())
        self.store = self.open()
        self.disk = Disk(self.store)
        assert (self.store.revision, self.store.compacted) == (self.newest, compacted)
        resumed = []
        for reader, revision in zip(self.readers, places, strict=True):
            if revision < compacted:
                with pytest.raises(Compacted):
                    self.store.watch(*reader.scope, since=revision)
            else:
                reader.watch = self.store.watch(*reader.scope, since=revision)
                resumed.append(reader)
        self.readers = resumed

    @precondition(lambda self: len(self.readers) < 5)
    @rule(scope=st.sampled_from(SCOPES), where=part)
    def watch(self, scope: Key, where: float) -> None:
        since = self.past(where)
        self.readers.append(Reader(scope, since, self.store.watch(*scope, since=since)))

    @precondition(lambda self: self.readers)
    @rule(index=st.integers(0, 4), everything=st.booleans())
    def read(self, index: int, everything: bool) -> None:
        reader = self.readers[index % len(self.readers)]
        changes = self.run(drain(reader.watch) if everything else reader.watch.next(0))
        for change in changes:
            record = change.record
            reader.seen.append((record.revision, change.type.value, record.key, record.load()["value"]))
            before = self.at(record.revision - 1).get(record.key)
            previous = change.previous
            assert before == (previous and (previous.revision, previous.load()["value"]))
        expected = [
            event
            for event in self.log
            if reader.since < event[0] <= reader.watch.revision
            and event[2].resource == reader.scope.resource
            and reader.scope.namespace in ("", event[2].namespace)
            and reader.scope.name in ("", event[2].name)
        ]
        assert reader.seen == expected

    @rule(resource=st.sampled_from(["pods", "nodes"]), namespace=st.sampled_from(["", "a", "b"]), where=part)
    def rewind(self, resource: str, namespace: str, where: float) -> None:
        revision = self.past(where)
        records = self.store.list_at(resource, namespace, revision)
        expected = {
            key: value
            for key, value in sorted(self.at(revision).items())
            if key.resource == resource and namespace in ("", key.namespace)
        }
        assert [(r.key, (r.revision, r.load()["value"])) for r in records] == list(expected.items())
        if self.store.compacted > 1:
            with pytest.raises(Compacted):
                self.store.list_at(resource, namespace, self.store.compacted - 1)

    @invariant()
    def agrees(self) -> None:
        records = {r.key: r for resource in ("nodes", "pods") for r in self.store.list(resource)}
        assert {k: (r.revision, r.load()["value"]) for k, r in records.items()} == self.at(self.newest)
        assert list(records) == sorted(records)
        assert all(self.store.get(key) is self.store.head(key) is records.get(key) for key in KEYS)
        assert self.store.revision == self.newest
        self.store.validate()

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()
        self.folder.cleanup()


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=25, stateful_step_count=30)
