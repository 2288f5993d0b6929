"""The check of histories finds what is wrong; histories of a real server that is killed and started again are right."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allotment.api.status import Conflict
from allotment.client.client import Client, Collection
from allotment.client.connection import load
from allotment.client.over_http import HttpTransport
from allotment.client.transport import Disconnected
from tests.apiserver.histories import Kind, Operation, check
from tests.apiserver.killing import PATIENCE, config_map, ready, up

CLIENTS, OBJECTS = 6, 2


def write(start: float, end: float, token: str, version: int) -> Operation:
    return Operation(Kind.WRITE, start, end, token, version)


def read(start: float, end: float, token: str, version: int) -> Operation:
    return Operation(Kind.READ, start, end, token, version)


def swap(start: float, end: float, token: str, version: int, expected: int) -> Operation:
    return Operation(Kind.SWAP, start, end, token, version, expected)


def refused(start: float, end: float, expected: int) -> Operation:
    return Operation(Kind.REFUSED, start, end, expected=expected)


A, B = write(0, 1, "a", 1), write(2, 3, "b", 2)
LOST = Operation(Kind.WRITE, 2, token="lost")

RIGHT = {
    "one after the other": [A, read(1.5, 1.6, "a", 1), B, read(4, 5, "b", 2)],
    "writes at the same time, in either order": [write(0, 5, "a", 2), write(1, 4, "b", 1)],
    "a read of a write that is under way": [A, B, read(2.1, 2.2, "b", 2)],
    "a read of the past while a write is under way": [A, B, read(2.1, 2.2, "a", 1)],
    "a write of unknown end that happened": [A, LOST, read(4, 5, "lost", 2)],
    "a write of unknown end that did not": [A, LOST, read(4, 5, "a", 1)],
    "a write of unknown end that happened late": [A, LOST, read(3, 4, "a", 1), read(5, 6, "lost", 2)],
    "a conditional write": [A, swap(2, 3, "b", 2, 1), refused(2, 3, 1)],
    "one that was refused for a write of unknown end": [A, LOST, refused(3, 4, 1)],
}
WRONG = {
    "a lost write": ([A, B, read(4, 5, "a", 1)], "told of 2 before"),
    "a stale read": ([A, B, read(3.5, 4, "b", 2), read(4.5, 5, "a", 1)], "told of 2 before"),
    "a version given twice": ([A, write(2, 3, "b", 1)], "version 1 is a, and b too"),
    "versions against the clock": ([write(0, 1, "a", 2), write(2, 3, "b", 1)], "told of 2 before"),
    "a read of the future": ([A, read(1.1, 1.2, "b", 2), B], "ended before"),
    "a token out of nowhere": ([A, read(2, 3, "x", 2)], "nobody wrote"),
    "a write that was done twice": ([A, read(2, 3, "a", 2)], "two versions"),
    "a lost update": ([A, B, swap(4, 5, "c", 3, 1)], r"after \[2\]"),
    "refused for nothing": ([A, refused(2, 3, 1)], "nobody had written"),
    "a write of unknown end that went away": (
        [A, LOST, read(3, 4, "lost", 2), read(5, 6, "a", 1)],
        "told of 2 before",
    ),
}


@pytest.mark.parametrize("history", RIGHT.values(), ids=RIGHT)
def test_what_can_be_put_in_order_is_right(history: list[Operation]) -> None:
    check(history)


@pytest.mark.parametrize(("history", "why"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_put_in_order_is_wrong(history: list[Operation], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        check(history)


class Clients:
    """Several clients on a few objects, until their server is killed. Keeps the history of each object over all lives."""

    def __init__(self, dice: random.Random) -> None:
        self.histories: dict[str, list[Operation]] = {f"shared-{n}": [] for n in range(OBJECTS)}
        self._dice = dice
        self._tokens = itertools.count()

    async def live(self, folder: Path, requests: int, kill: Callable[[], None]) -> None:
        async with Client(HttpTransport(load(folder / "kubeconfig")), manager="histories") as client:
            maps = client.plain("v1", "configmaps")
            for name, history in self.histories.items():
                if history:
                    await self._read(maps, name)
                else:
                    await self._write(maps, name)
            left = iter(range(requests))
            callers = [asyncio.ensure_future(self._call(maps, left)) for _ in range(CLIENTS)]
            async with asyncio.timeout(PATIENCE):
                await asyncio.wait(callers, return_when=asyncio.FIRST_COMPLETED)
                kill()
                await asyncio.gather(*callers)

    async def _call(self, maps: Collection[Any], left: Any) -> None:
        """Until so many requests are made, or the connection breaks."""
        try:
            for _ in left:
                name = self._dice.choice(list(self.histories))
                await self._dice.choice([self._read, self._write, self._swap])(maps, name)
        except Disconnected:
            return

    async def _read(self, maps: Collection[Any], name: str) -> Any:
        start = time.monotonic()
        obj = await maps.get(name, "default")
        self._told(name, Kind.READ, start, obj)
        return obj

    async def _write(self, maps: Collection[Any], name: str) -> None:
        token, start = f"t{next(self._tokens)}", time.monotonic()
        try:
            obj = await maps.apply(config_map(name, token), force=True)
        except Disconnected:
            self.histories[name].append(Operation(Kind.WRITE, start, token=token))
            raise
        self._told(name, Kind.WRITE, start, obj)

    async def _swap(self, maps: Collection[Any], name: str) -> None:
        obj = await self._read(maps, name)
        expected, token = int(obj["metadata"]["resourceVersion"]), f"t{next(self._tokens)}"
        obj["metadata"]["annotations"]["token"] = obj["data"]["token"] = token
        start = time.monotonic()
        try:
            obj = await maps.update(obj)
        except Conflict:
            refusal = Operation(Kind.REFUSED, start, time.monotonic(), expected=expected)
            self.histories[name].append(refusal)
        except Disconnected:
            self.histories[name].append(Operation(Kind.SWAP, start, token=token, expected=expected))
            raise
        else:
            self._told(name, Kind.SWAP, start, obj, expected)

    def _told(self, name: str, kind: Kind, start: float, obj: Any, expected: int = 0) -> None:
        version = int(obj["metadata"]["resourceVersion"])
        done = Operation(kind, start, time.monotonic(), obj["data"]["token"], version, expected)
        self.histories[name].append(done)


@pytest.mark.parametrize("kills", [2, pytest.param(25, marks=pytest.mark.soak)])
def test_what_clients_see_of_a_server_that_is_killed_and_started_again_is_linearizable(
    kills: int, tmp_path: Path
) -> None:
    dice = random.Random(7)
    clients = Clients(dice)
    for life in range(kills + 1):
        with up(tmp_path / "data") as process:
            ready(process, tmp_path / "data")
            requests = dice.randrange(50, 400) if life < kills else 0
            asyncio.run(clients.live(tmp_path / "data", requests, process.kill))
    for history in clients.histories.values():
        assert len(history) > 20
        check(history)
