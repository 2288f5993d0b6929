"""A process to be killed: writes to a store as fast as it can and says on its output what it was promised.

``open R``            the store was opened at revision R
``put R NAME TOKEN``  a write was acknowledged
``delete R NAME -``   a deletion was acknowledged
``seen-put R NAME TOKEN``, ``seen-delete R NAME TOKEN``  a watch that began at ``open`` told of a change
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from allotment.apiserver.store.history import Window
from allotment.apiserver.store.record import ChangeType
from allotment.apiserver.store.store import Store
from tests.apiserver.store.build import key, thing

WRITERS = 8
NAMES = 30


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def write(store: Store, dice: random.Random) -> None:
    while True:
        name = f"p{dice.randrange(NAMES)}"
        last = store.head(key(name))
        if last is not None and dice.random() < 0.3:
            record = await store.delete(key(name), last.load())
            say("delete", record.revision, name, "-")
        else:
            token = f"{dice.getrandbits(64):x}"
            obj = thing(name, token) | {"padding": "x" * dice.choice((0, 10, 3000, 20_000))}
            record = await store.put(key(name), obj)
            say("put", record.revision, name, token)


async def watch(store: Store) -> None:
    watch = store.watch("pods", since=store.revision)
    while True:
        for change in await watch.next():
            what = "seen-delete" if change.type is ChangeType.DELETED else "seen-put"
            say(what, change.revision, change.record.key.name, change.record.load()["value"])


async def main(path: Path, changes: int, seed: int) -> None:
    say("start", 0, "-", "-")
    store = Store.open(path, window=Window(changes=changes))
    say("open", store.revision, "-", "-")
    dice = random.Random(seed)
    await asyncio.gather(watch(store), *(write(store, dice) for _ in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
