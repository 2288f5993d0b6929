"""One's own writes are waited for, and forgotten once the copy shows them."""

import asyncio
from typing import Any, cast

import pytest

from allotment.api.status import Expired
from allotment.client.informer import Informer
from allotment.controllers import own_writes
from allotment.controllers.own_writes import OwnWrites


class Copy:
    """As much of an informer as is asked for."""

    def __init__(self) -> None:
        self.version = 0
        self.asked: list[int] = []
        self.restored = False

    async def reached(self, version: int) -> None:
        self.asked.append(version)
        if self.restored:
            raise Expired("restored")
        if version > self.version:
            await asyncio.Event().wait()


def made(copy: Copy, **options: float) -> OwnWrites[str]:
    return OwnWrites(cast("Informer[Any]", copy), **options)


def test_the_last_write_is_waited_for_once() -> None:
    copy = Copy()
    copy.version = 7
    writes = made(copy)
    writes.wrote("k", "5")
    writes.wrote("k", 7)
    writes.wrote("k", 6)
    asyncio.run(writes.seen("k"))
    asyncio.run(writes.seen("k"))
    asyncio.run(writes.seen("other"))
    assert copy.asked == [7]


@pytest.mark.parametrize("restored", [True, False])
def test_a_write_that_was_lost_is_not_waited_for_for_ever(restored: bool) -> None:
    copy = Copy()
    copy.restored = restored
    writes = made(copy, longest_wait=0.001)
    writes.wrote("k", 5)
    asyncio.run(writes.seen("k"))
    asyncio.run(writes.seen("k"))
    assert copy.asked == [5]


def test_only_what_is_on_its_way_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_writes, "_LEAST_ROOM", 10)
    copy = Copy()
    writes = made(copy)
    for number in range(1, 1001):
        copy.version = number - 5
        writes.wrote(f"object {number}", number)
        assert len(writes._versions) <= 11
    copy.version = 1000
    asyncio.run(writes.seen("object 1000"))
    assert copy.asked == [1000]
