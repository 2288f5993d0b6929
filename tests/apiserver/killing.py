"""Kills a server (``allot up`` in a process) under load, and compares what it kept with what its clients were told.

Writers create, replace, patch, hold by a finalizer and delete ConfigMaps over TLS, each its own names, so each knows what
state an object is in: exactly one, or after a broken connection one of two. Watchers follow along, and after each restart
resume at the last resourceVersion they saw. Every write puts a token that no other write has into two places of the
object, so a write that arrived in part would show.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from allotment.api.status import StatusError
from allotment.client.client import Client, Collection, Happening
from allotment.client.connection import load
from allotment.client.over_http import HttpTransport
from allotment.client.transport import Disconnected

ALLOT = Path(sys.executable).with_name("allot")
PATIENCE = 60.0
WRITERS, NAMES, WATCHERS = 6, 3, 2
FINALIZER = "example.com/hold"

Obj = dict[str, Any]


@dataclass(frozen=True)
class State:
    """What matters of an object; None in place of one is that there is none."""

    token: str
    held: bool = False
    ending: bool = False


@dataclass
class Promises:
    """What clients were told, over all lives of a server."""

    possible: dict[str, set[State | None]] = field(default_factory=dict)  # by name
    acknowledged: dict[int, tuple[str, State]] = field(default_factory=dict)  # by revision
    newest: int = 0  # revision that anybody was told of
    writes: int = 0
    events: list[list[tuple[str, str, int, State]]] = field(default_factory=list)  # of each watcher
    start: str = ""  # revision at which the watchers began
    tokens: Iterator[int] = field(default_factory=itertools.count)


def config_map(name: str, token: str) -> Obj:
    meta = {"name": name, "namespace": "default", "annotations": {"token": token}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"token": token}}


def state_of(obj: Obj) -> State:
    meta = obj["metadata"]
    token = obj["data"]["token"]
    assert meta["annotations"]["token"] == token, "a write arrived in part"
    return State(token, bool(meta.get("finalizers")), "deletionTimestamp" in meta)


@contextlib.contextmanager
def up(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A server's process, without scheduler and controllers; killed on the way out."""
    alone = ("--no-scheduler", "--no-controllers")
    command = [str(ALLOT), "up", "--data-dir", str(folder), "--port", "0", *alone]
    with (folder.parent / "errors").open("a") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate(timeout=PATIENCE)


def ready(process: subprocess.Popen[str], folder: Path) -> None:
    assert process.stdout is not None
    if not any("Ctrl-C" in line for line in process.stdout):
        raise AssertionError(f"it did not start again: {(folder.parent / 'errors').read_text()[-2000:]}")


class Life:
    """One run of the server, from its greeting to its kill."""

    def __init__(self, promises: Promises, maps: Collection[Obj], dice: random.Random, writes: int) -> None:
        self._promises, self._maps, self._dice = promises, maps, dice
        self._left = writes
        self.enough = asyncio.Event()

    async def write(self, number: int) -> None:
        """Writes until the connection breaks."""
        names = [f"w{number}-{each}" for each in range(NAMES)]
        while True:
            name = self._dice.choice(names)
            possible = self._promises.possible.setdefault(name, {None})
            (before,) = possible
            try:
                after, revision = await self._change(name, before, possible)
            except Disconnected:
                return
            self._promises.possible[name] = {after}
            self._told(name, after, revision)

    async def _change(
        self, name: str, before: State | None, possible: set[State | None]
    ) -> tuple[State | None, int]:
        """One write, which may come to ``possible`` states besides the one before."""
        token = f"{name}.{next(self._promises.tokens)}"
        body: Obj = {"annotations": {"token": token}}
        if before is None:
            possible.add(State(token))
            return _told(await self._maps.create(config_map(name, token)))
        kind = self._dice.choice(["put", "patch", "apply", "hold", "delete", "delete"])
        if kind == "delete" and not before.ending:
            after = State(before.token, True, True) if before.held else None
            possible.add(after)
            await self._maps.delete(name, "default")
            return after, 0
        if before.ending or (kind == "hold" and before.held):
            after = None if before.ending else State(token)
            possible.add(after)
            patch = {"metadata": {**body, "finalizers": None}, "data": {"token": token}}
            gone = await self._maps.patch(name, patch, "default")
            return (after, 0) if after is None else _told(gone)
        possible.add(State(token, before.held or kind == "hold"))
        if kind == "apply":
            return _told(await self._maps.apply(config_map(name, token), force=True))
        if kind == "put":
            obj = await self._maps.get(name, "default")
            obj["metadata"]["annotations"] = {"token": token}
            return _told(await self._maps.update({**obj, "data": {"token": token}}))
        meta: Obj = {**body, "finalizers": [FINALIZER]} if kind == "hold" else body
        return _told(await self._maps.patch(name, {"metadata": meta, "data": {"token": token}}, "default"))

    def _told(self, name: str, after: State | None, revision: int) -> None:
        promises = self._promises
        promises.writes += 1
        if after is not None and revision:
            assert revision not in promises.acknowledged, "a revision was given twice"
            promises.acknowledged[revision] = (name, after)
        promises.newest = max(promises.newest, revision)
        self._left -= 1
        if self._left <= 0:
            self.enough.set()

    async def watch(self, number: int, until: int = 0) -> None:
        """Follows from where this watcher was, until the connection breaks or a revision is reached."""
        events = self._promises.events[number]
        since = str(events[-1][2]) if events else self._promises.start
        with contextlib.suppress(Disconnected):
            async with self._maps.watch("default", since=since) as stream:
                async for event in stream:
                    if event.type is Happening.BOOKMARK:
                        continue
                    assert event.object is not None
                    revision, name = int(event.version), event.object["metadata"]["name"]
                    if not name.startswith("w"):
                        continue
                    assert not events or revision > events[-1][2], (
                        "a watch went back, or told something twice"
                    )
                    events.append((event.type.value, name, revision, state_of(event.object)))
                    self._promises.newest = max(self._promises.newest, revision)
                    if until and revision >= until:
                        return


def _told(obj: Obj) -> tuple[State, int]:
    return state_of(obj), int(obj["metadata"]["resourceVersion"])


def config_maps(client: Client) -> Collection[Obj]:
    return client.plain("v1", "configmaps")


async def live(
    folder: Path, process: subprocess.Popen[str], promises: Promises, dice: random.Random, writes: int
) -> None:
    """Checks what the last life left, loads the server, and kills it after so many acknowledged writes."""
    async with Client(HttpTransport(load(folder / "kubeconfig")), manager="killing") as client:
        maps = config_maps(client)
        await check(maps, promises)
        life = Life(promises, maps, dice, writes)
        watchers = [asyncio.ensure_future(life.watch(number)) for number in range(WATCHERS)]
        writers = [asyncio.ensure_future(life.write(number)) for number in range(WRITERS)]
        async with asyncio.timeout(PATIENCE):
            enough = asyncio.ensure_future(life.enough.wait())
            await asyncio.wait([enough, *writers, *watchers], return_when=asyncio.FIRST_COMPLETED)
            process.kill()
            await asyncio.gather(*writers, *watchers)
        enough.cancel()


async def check(maps: Collection[Obj], promises: Promises) -> None:
    """Nothing acknowledged is lost, nothing is there in part, and watches resume without gap or duplicate."""
    listed = await maps.list("default")
    revision = int(listed.version)
    if not promises.start:
        promises.start, promises.newest = listed.version, revision
        promises.events = [[] for _ in range(WATCHERS)]
        return
    assert revision >= promises.newest, "revisions went back"
    found = {obj["metadata"]["name"]: obj for obj in listed.items if obj["metadata"]["name"].startswith("w")}
    for name, possible in promises.possible.items():
        there = state_of(found[name]) if name in found else None
        assert there in possible, f"{name} is {there} and not one of {possible}"
        promises.possible[name] = {there}
    last = await _mark(maps, promises)
    life = Life(promises, maps, random.Random(0), 0)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(life.watch(number, until=last) for number in range(WATCHERS)))
    for events in promises.events:
        _check_events(events, promises, found)
    promises.newest = max(promises.newest, last)


async def _mark(maps: Collection[Obj], promises: Promises) -> int:
    """A write of our own, so that the watchers know when they have seen everything before it."""
    token = f"mark.{next(promises.tokens)}"
    revision = int((await maps.apply(config_map("w-mark", token), force=True))["metadata"]["resourceVersion"])
    assert revision > promises.newest, "revisions went back"
    return revision


def _check_events(
    events: list[tuple[str, str, int, State]], promises: Promises, found: dict[str, Obj]
) -> None:
    """The events lead through every acknowledged write to what is there now."""
    told = {revision: (name, state) for type_, name, revision, state in events if type_ != "DELETED"}
    missing = {at: what for at, what in promises.acknowledged.items() if told.get(at) != what}
    assert not missing, f"a watch missed {missing}"
    seen: dict[str, State] = {}
    for type_, name, _, state in events:
        assert (type_ == "ADDED") is (name not in seen), (
            f"{type_} {name} does not follow from what came before"
        )
        if type_ == "DELETED":
            del seen[name]
        else:
            seen[name] = state
    del seen["w-mark"]
    assert seen == {name: state_of(obj) for name, obj in found.items() if name != "w-mark"}


def kill_and_check(folder: Path, seed: int, kills: int, longest: int) -> Promises:
    """Kills as often as told at random moments, ``longest`` writes after the start or sooner, some while it starts."""
    dice = random.Random(seed)
    promises = Promises()
    try:
        for life in range(kills):
            with up(folder) as process:
                if life and dice.random() < 0.25:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(dice.uniform(0.05, 1.0))
                    continue  # killed while it starts
                ready(process, folder)
                asyncio.run(live(folder, process, promises, dice, dice.randrange(1, longest)))
        with up(folder) as process:
            ready(process, folder)
            asyncio.run(_last(folder, promises))
    except (AssertionError, StatusError, TimeoutError) as exc:
        exc.add_note(f"seed {seed}; the moments of the kills are not exactly repeatable, as processes race")
        raise
    return promises


async def _last(folder: Path, promises: Promises) -> None:
    async with Client(HttpTransport(load(folder / "kubeconfig")), manager="killing") as client:
        maps = config_maps(client)
        await check(maps, promises)
        again = Promises(start=promises.start, events=[[]], acknowledged=promises.acknowledged)
        until = promises.events[0][-1][2]
        async with asyncio.timeout(PATIENCE):
            await Life(again, maps, random.Random(0), 0).watch(0, until)
        assert again.events[0] == promises.events[0], (
            "the history from the start differs from what was told in pieces"
        )
