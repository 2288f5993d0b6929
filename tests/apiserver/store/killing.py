"""Kills a process that writes to a store, and looks at what it left."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.apiserver.store.build import drain, key, opened
from tests.apiserver.store.victim import NAMES
from tests.checkout import CHECKOUT

ALL = 1_000_000
FEW = 40
"""How many changes the victim's history keeps; with few, the kill often meets a compaction."""


class Line(NamedTuple):
    what: str
    revision: int
    name: str
    token: str


@dataclass
class Promises:
    """What victims of one store were told, over all their lives."""

    acknowledged: dict[int, Line] = field(default_factory=dict)
    last: dict[str, Line] = field(
        default_factory=dict
    )  # what was told of each name with the highest revision
    newest: int = 1  # revision that anybody was told of
    checked: int = 1  # revision up to which the promises were compared with the store

    def add(self, lines: list[Line]) -> None:
        """The words of one life, which must agree among themselves and with earlier ones."""
        seen = 0
        for line in lines:
            if line.what == "open":
                assert line.revision >= self.newest, "revisions went back"
                seen = line.revision
            elif line.what in ("seen-put", "seen-delete"):
                seen += 1
                assert line.revision == seen, "a watch had a gap or a duplicate"
            elif line.what in ("put", "delete"):
                assert line.revision not in self.acknowledged, "a revision was given twice"
                self.acknowledged[line.revision] = line
            self.newest = max(self.newest, line.revision)
            if line.name not in self.last or self.last[line.name].revision <= line.revision:
                self.last[line.name] = line


def kill(path: Path, changes: int, seed: int, after: int) -> list[Line]:
    """Everything that a victim said, which is killed when it has said so many lines."""
    command = [sys.executable, "-m", "tests.apiserver.store.victim", str(path), str(changes), str(seed)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        lines = [victim.stdout.readline() for _ in range(after)]
        victim.kill()
        lines += victim.stdout.readlines()  # said before it died
    parts = [line.split() for line in lines if line.endswith("\n")]
    return [Line(what, int(revision), name, token) for what, revision, name, token in parts]


async def check(path: Path, changes: int, promises: Promises) -> None:
    """The store has all that was acknowledged, and a watch resumes where the last check ended."""
    async with opened(path) as store:
        assert store.revision >= promises.newest, "something that a client was told of is lost"
        if changes == ALL:
            told = await drain(store.watch("pods", since=promises.checked))
            assert [c.revision for c in told] == list(range(promises.checked + 1, store.revision + 1))
            for change in told:
                line = promises.acknowledged.get(change.revision)
                if line is not None:
                    assert change.record.key.name == line.name
                    assert (change.type.value == "DELETED") == (line.what == "delete")
                    assert line.what == "delete" or change.record.load()["value"] == line.token
        for name, line in promises.last.items():
            record = store.get(key(name))
            if record is not None and record.revision == line.revision:
                assert record.load()["value"] == line.token
            elif record is not None:
                assert record.revision > line.revision, f"{name} went back"
            elif line.what.endswith("put"):  # then it was deleted, too late for the victim to say so
                later = await drain(store.watch("pods", "default", name, since=line.revision))
                assert later[-1].type.value == "DELETED", f"{name} is lost"
        assert len(store.list("pods")) <= NAMES
        promises.checked = promises.newest = store.revision
        promises.last = {
            r.key.name: Line("put", r.revision, r.key.name, r.load()["value"]) for r in store.list("pods")
        }


def kill_and_check(path: Path, changes: int, seed: int, kills: int, longest: int) -> int:
    """Kills as often as told at random moments, sometimes more than once between two looks; the number of writes acknowledged.

    ``longest``: lines that a victim may say before it is killed. A write makes two.
    """
    dice = random.Random(seed)
    promises = Promises()
    for life in range(kills):
        after = dice.choice((1, 2, dice.randrange(3, longest)))  # 1: while it opens the store
        promises.add(kill(path, changes, dice.getrandbits(32), after))
        # A short history must be looked at before another life makes it forget how the last one ended.
        if changes == FEW or life == kills - 1 or dice.random() < 0.7:
            asyncio.run(check(path, changes, promises))
    return len(promises.acknowledged)
