"""A state machine against a model: random writes through the client, with lists in pages, watches from random revisions, and
restarts of the server in between. At every revision, lists and watches tell what the model knows.

``tests/apiserver/http/test_model.py`` replays the history after the fact; here pages and watches are open while it happens.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from allotment.api.status import AlreadyExists, Conflict, NotFound
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.server import ApiServer, Options
from allotment.client.client import Client, Happening, PatchType
from allotment.client.in_process import InProcessTransport

T = TypeVar("T")
Obj = dict[str, Any]
Key = tuple[str, str]

PATIENCE = 60.0
SPACES, NAMES, LABELS = ("one", "two"), ("a", "b", "c"), ("x", "y")
PATH = "/api/v1/secrets"

keys = st.tuples(st.sampled_from(SPACES), st.sampled_from(NAMES))
labels = st.sampled_from(LABELS)
selectors = st.sampled_from(["", "l=x", "l!=x", "l in (x,y)", "!l"])
spaces = st.sampled_from(["", *SPACES])


def matches(selector: str, obj: Obj) -> bool:
    value: str | None = obj["metadata"].get("labels", {}).get("l")
    return {
        "": True,
        "l=x": value == "x",
        "l!=x": value != "x",
        "l in (x,y)": value in ("x", "y"),
        "!l": value is None,
    }[selector]


def key_of(obj: Obj) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def bare(obj: Obj) -> Obj:
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}


@dataclass
class Change:
    revision: int
    key: Key
    before: Obj | None
    after: Obj | None  # None: it is gone


@dataclass
class Watcher:
    """A watch that goes on; after a restart it resumes where it was."""

    namespace: str
    selector: str
    since: int
    events: list[tuple[str, Obj]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def seen(self) -> int:
        return int(self.events[-1][1]["metadata"]["resourceVersion"]) if self.events else self.since


@dataclass
class Pages:
    """A list of which not all pages are read."""

    namespace: str
    selector: str
    limit: int
    revision: int
    token: str
    items: list[Obj]


class Server(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.history: list[Change] = []
        self.objects: dict[Key, Obj] = {}
        self.watchers: list[Watcher] = []
        self.pages: list[Pages] = []
        self.run(self._open())
        for name in SPACES:
            made = self.client.plain("v1", "namespaces", namespaced=False).create(
                {"metadata": {"name": name}}
            )
            self.run(made)
        self.run(self._settled())
        self.first = self.server.store.revision

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.run(self._close())
            self.runner.close()
            self.folder.cleanup()

    # --- writes ---

    @rule(key=keys, label=labels)
    def create(self, key: Key, label: str) -> None:
        body = {"metadata": {"namespace": key[0], "name": key[1], "labels": {"l": label}}}
        try:
            made = self.run(self.secrets.create(body))
        except AlreadyExists:
            assert key in self.objects
        else:
            assert key not in self.objects
            self._changed(key, made)

    @rule(key=keys, label=labels, stale=st.booleans())
    def put(self, key: Key, label: str, stale: bool) -> None:
        old = self.objects.get(key)
        if old is None:
            return
        version = str(self.first) if stale else old["metadata"]["resourceVersion"]
        meta = {**old["metadata"], "labels": {"l": label}, "resourceVersion": version}
        try:
            made = self.run(self.secrets.update({**old, "metadata": meta}))
        except Conflict:
            assert stale
        else:
            assert not stale
            self._changed(key, made)

    @rule(key=keys, label=st.none() | labels, value=st.sampled_from("01"))
    def merge(self, key: Key, label: str | None, value: str) -> None:
        self._patch(key, {"metadata": {"labels": {"l": label}, "annotations": {"v": value}}}, PatchType.MERGE)

    @rule(key=keys, label=labels)
    def json_patch(self, key: Key, label: str) -> None:
        self._patch(key, [{"op": "add", "path": "/metadata/labels", "value": {"l": label}}], PatchType.JSON)

    @rule(key=keys, held=st.booleans())
    def hold(self, key: Key, held: bool) -> None:
        if held and "deletionTimestamp" in self.objects.get(key, {"metadata": {}})["metadata"]:
            return  # refused: no new finalizers on what is being deleted
        self._patch(key, {"metadata": {"finalizers": ["example.com/x"] if held else None}}, PatchType.MERGE)

    @rule(key=keys, value=st.sampled_from("01"))
    def apply(self, key: Key, value: str) -> None:
        meta = {"namespace": key[0], "name": key[1], "annotations": {"v": value}}
        obj = {"apiVersion": "v1", "kind": "Secret", "metadata": meta}
        self._changed(key, self.run(self.secrets.apply(obj, force=True)))

    @rule(key=keys)
    def delete(self, key: Key) -> None:
        try:
            self.run(self.secrets.delete(key[1], key[0]))
        except NotFound:
            assert key not in self.objects
        else:
            self._deleted(key)

    def _patch(self, key: Key, patch: Any, type_: PatchType) -> None:
        try:
            made = self.run(self.secrets.patch(key[1], patch, key[0], type_=type_))
        except NotFound:
            assert key not in self.objects
            return
        meta = made["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            self._gone(key)
        else:
            self._changed(key, made)

    def _deleted(self, key: Key) -> None:
        old = self.objects[key]
        if old["metadata"].get("finalizers"):
            made = self.run(self.secrets.get(key[1], key[0]))
            assert "deletionTimestamp" in made["metadata"]
            self._changed(key, made)
        else:
            self._gone(key)

    def _changed(self, key: Key, obj: Obj) -> None:
        """A write that was answered: a new revision, or nothing at all."""
        obj = bare(obj)
        old = self.objects.get(key)
        if old is not None and obj["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]:
            assert obj == old
            return
        self._record(Change(int(obj["metadata"]["resourceVersion"]), key, old, obj))
        self.objects[key] = obj

    def _gone(self, key: Key) -> None:
        self._record(Change(self.server.store.revision, key, self.objects.pop(key), None))

    def _record(self, change: Change) -> None:
        assert change.revision > (self.history[-1].revision if self.history else self.first)
        assert change.revision == self.server.store.revision
        self.history.append(change)

    # --- reads ---

    @rule(namespace=spaces, selector=selectors, limit=st.integers(1, 3))
    def list_first_page(self, namespace: str, selector: str, limit: int) -> None:
        if len(self.pages) < 4:
            self.pages.append(Pages(namespace, selector, limit, self.server.store.revision, "", []))
            self._read_page(self.pages[-1])

    @precondition(lambda self: self.pages)
    @rule(which=st.integers(0, 3))
    def list_next_page(self, which: int) -> None:
        self._read_page(self.pages[which % len(self.pages)])

    def _read_page(self, pages: Pages) -> None:
        query = {"limit": str(pages.limit), "labelSelector": pages.selector, "continue": pages.token}
        path = f"/api/v1/namespaces/{pages.namespace}/secrets" if pages.namespace else PATH
        page = self.run(self.client.read(path, {name: value for name, value in query.items() if value}))
        assert page["metadata"]["resourceVersion"] == str(pages.revision)
        assert len(page["items"]) <= pages.limit
        pages.items += page["items"]
        pages.token = page["metadata"].get("continue", "")
        if not pages.token:
            self.pages.remove(pages)
            assert pages.items == self._selected(self._at(pages.revision), pages.namespace, pages.selector)

    @rule(back=st.integers(0, 10), namespace=spaces, selector=selectors)
    def list_the_past(self, back: int, namespace: str, selector: str) -> None:
        revision = self._revision(back)
        query = {"resourceVersion": str(revision), "resourceVersionMatch": "Exact", "labelSelector": selector}
        path = f"/api/v1/namespaces/{namespace}/secrets" if namespace else PATH
        listed = self.run(self.client.read(path, query))
        assert listed["items"] == self._selected(self._at(revision), namespace, selector)

    @rule(back=st.integers(0, 10), namespace=spaces, selector=selectors)
    def watch(self, back: int, namespace: str, selector: str) -> None:
        if len(self.watchers) < 6:
            self.watchers.append(Watcher(namespace, selector, self._revision(back)))
            self.run(self._follow(self.watchers[-1]))

    @precondition(lambda self: self.watchers)
    @rule(which=st.integers(0, 5))
    def unwatch(self, which: int) -> None:
        watcher = self.watchers.pop(which % len(self.watchers))
        self.run(_cancel(watcher.task))

    @rule()
    def restart(self) -> None:
        revision = self.server.store.revision
        self.run(self._close())
        self.run(self._open())
        assert self.server.store.revision == revision
        for watcher in self.watchers:
            self.run(self._follow(watcher))

    # --- what must hold ---

    @invariant()
    def lists_tell_what_there_is(self) -> None:
        if not hasattr(self, "runner"):
            return
        for namespace in ("", *SPACES):
            listed = self.run(self.secrets.list(namespace, limit=2))
            assert [bare(each) for each in listed.items] == self._selected(self.objects, namespace, "")

    @invariant()
    def watches_tell_what_happened(self) -> None:
        if not hasattr(self, "runner"):
            return
        for watcher in self.watchers:
            expected = self._expected(watcher)
            self.run(_hear(watcher, len(expected)))
            assert watcher.events == expected

    def _expected(self, watcher: Watcher) -> list[tuple[str, Obj]]:
        """In the model's words: an object that begins to match is ADDED, one that ceases to is DELETED."""
        told = []
        for change in self.history:
            if change.revision <= watcher.since or watcher.namespace not in ("", change.key[0]):
                continue
            before = change.before if change.before and matches(watcher.selector, change.before) else None
            after = change.after if change.after and matches(watcher.selector, change.after) else None
            if after is not None:
                told.append(("MODIFIED" if before else "ADDED", after))
            elif before is not None:
                meta = {**before["metadata"], "resourceVersion": str(change.revision)}
                told.append(("DELETED", {**before, "metadata": meta}))
        return told

    def _revision(self, back: int) -> int:
        revisions = [self.first, *(change.revision for change in self.history)]
        return revisions[max(len(revisions) - 1 - back, 0)]

    def _at(self, revision: int) -> dict[Key, Obj]:
        state: dict[Key, Obj] = {}
        for change in self.history:
            if change.revision <= revision:
                if change.after is None:
                    state.pop(change.key)
                else:
                    state[change.key] = change.after
        return state

    def _selected(self, state: dict[Key, Obj], namespace: str, selector: str) -> list[Obj]:
        chosen = (obj for key, obj in sorted(state.items()) if namespace in ("", key[0]))
        return [obj for obj in chosen if matches(selector, obj)]

    # --- the server ---

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def _open(self) -> None:
        self.server = ApiServer(Options(Path(self.folder.name)))
        await self.server.start()
        self.client = Client(
            InProcessTransport(self.server.app, {"identity": ADMINISTRATOR}), manager="model"
        )
        self.secrets = self.client.plain("v1", "secrets")

    async def _settled(self) -> None:
        """Until every namespace has its service account: from then on, nobody writes but the model."""
        store = self.server.store
        watch = store.watch("serviceaccounts", since=store.revision)
        async with asyncio.timeout(PATIENCE):
            while len(store.list("serviceaccounts")) < len(store.list("namespaces")):
                await watch.next(PATIENCE)
        watch.close()

    async def _close(self) -> None:
        for watcher in self.watchers:
            await _cancel(watcher.task)
        await self.server.stop()

    async def _follow(self, watcher: Watcher) -> None:
        watcher.task = asyncio.ensure_future(self._listen(watcher))

    async def _listen(self, watcher: Watcher) -> None:
        place = self.secrets.watch(watcher.namespace, since=str(watcher.seen), labels=watcher.selector)
        async with place as stream:
            async for event in stream:
                if event.type is not Happening.BOOKMARK:
                    assert event.object is not None
                    watcher.events.append((event.type.value, bare(event.object)))
                    watcher.heard.set()


async def _hear(watcher: Watcher, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(watcher.events) < count:
            watcher.heard.clear()
            assert watcher.task is not None
            assert not watcher.task.done(), "the watch has ended"
            await watcher.heard.wait()


async def _cancel(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


TestServer = Server.TestCase
TestServer.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
