"""The log reports an outage once when it begins and once when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from allotment.client.outage import OutageTeller
from allotment.client.transport import Call, Disconnected, Reply, Stream

AWAY = "https://server does not answer: refused; trying again until it does"
BACK = "https://server answers again"


class Scripted:
    """Answers where the script has a point, and does not where it has a cross; b: a stream that breaks later."""

    def __init__(self, script: str) -> None:
        self._script = iter(script)

    async def call(self, call: Call) -> Reply:
        self._next()
        return Reply(200, {}, b"")

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        broken = self._next() == "b"
        yield Stream(200, {}, _nothing())
        if broken:
            raise Disconnected("broken")

    async def close(self) -> None: ...

    def _next(self) -> str:
        found = next(self._script)
        if found == "x":
            raise Disconnected("refused")
        return found


async def _nothing() -> AsyncIterator[list[bytes]]:
    for batch in list[list[bytes]]():
        yield batch


CASES: dict[str, tuple[str, Sequence[str]]] = {
    "it is there": ("....", []),
    "one call is too slow": (".x.x.xx.", []),
    "it goes": ("..xxxxxxxxxx", [AWAY]),
    "it goes and comes": ("..xxxxx...", [AWAY, BACK]),
    "twice": ("xxx.xxxx.", [AWAY, BACK, AWAY, BACK]),
    "watches that end early": (".bbbbb.", []),
}


@pytest.mark.parametrize("streaming", [False, True], ids=["calls", "streams"])
@pytest.mark.parametrize(("script", "told"), CASES.values(), ids=CASES)
def test_what_is_told(script: str, told: Sequence[str], streaming: bool) -> None:
    said: list[str] = []

    async def run() -> None:
        transport = OutageTeller(Scripted(script), "https://server", said.append)
        for _ in script:
            with suppress(Disconnected):
                if streaming:
                    async with transport.stream(Call("GET", "/")):
                        pass
                else:
                    await transport.call(Call("GET", "/"))
        assert transport.away is (bool(said) and said[-1] == AWAY)

    asyncio.run(run())
    assert said == told
