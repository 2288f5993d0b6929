"""Calls in this process: what a caller sees whose time is up or who gives up, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.client.in_process import Answer, InProcessTransport
from allotment.client.transport import Call, Disconnected
from tests.apiserver.http.serving import CONFIGMAPS, PATIENCE, Serving, configmap, serving


class Slow:
    """An application whose answers do not come, or whose streams do not go on; ``open`` counts what is under way.

    Who leaves a stream waits for ``released``: a generator that takes its time to clean up.
    """

    def __init__(self) -> None:
        self.open = 0
        self.released = asyncio.Event()

    async def __call__(
        self, method: str, path: str, query: Mapping[str, str], headers: Any, body: bytes, state: Any
    ) -> Answer:
        if "watch" in query:
            return 200, {}, self._lines(query["watch"])
        self.open += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.open -= 1
        raise AssertionError("it was never set")

    async def _lines(self, what: str) -> AsyncGenerator[bytes, None]:
        self.open += 1
        try:
            if what != "nothing":
                yield b"one\n"
            await asyncio.Event().wait()
        finally:
            try:
                await self.released.wait()
            finally:
                self.open -= 1


def test_each_call_has_its_own_time() -> None:
    async def main() -> None:
        slow = Slow()
        transport = InProcessTransport(slow)

        async def ask(seconds: float | None) -> str:
            with pytest.raises(Disconnected) as caught:
                await transport.call(Call("GET", f"/{seconds}", timeout=seconds))
            task = asyncio.current_task()
            assert task is not None
            assert not task.cancelling()  # its time was up, nobody asked it to end
            return str(caught.value)

        patient = asyncio.create_task(transport.call(Call("GET", "/", timeout=None)))
        async with asyncio.timeout(PATIENCE):
            told = await asyncio.gather(*map(ask, (0.03, 0.01, 0.02)))
        assert told[0] == "GET /0.03: no answer within 0.03 s"
        assert slow.open == 1
        patient.cancel()
        await asyncio.wait([patient])
        assert slow.open == 0

    asyncio.run(main())


def test_a_caller_that_is_ended_when_its_time_is_up_ends() -> None:
    async def main() -> None:
        transport = InProcessTransport(Slow())
        caller = asyncio.create_task(transport.call(Call("GET", "/", timeout=0.01)))
        await asyncio.sleep(0)
        transport._limits._ring = lambda loop: None  # type: ignore[method-assign]  # we say when
        (limit,) = transport._limits._calls.values()
        limit.passed = True
        caller.cancel()  # by the limit
        caller.cancel()  # and by somebody else
        await asyncio.wait([caller])
        assert caller.cancelled()

    asyncio.run(main())


def test_a_stream_in_place_of_an_answer_is_closed_when_time_is_up() -> None:
    async def main() -> None:
        slow = Slow()
        slow.released.set()
        with pytest.raises(Disconnected):
            await InProcessTransport(slow).call(Call("GET", "/", {"watch": "1"}, timeout=0.01))
        assert slow.open == 0

    asyncio.run(main())


def test_who_is_ended_while_it_leaves_a_stream_ends() -> None:
    async def main() -> None:
        slow = Slow()
        leaving = asyncio.Event()

        async def watch() -> None:
            async with InProcessTransport(slow).stream(Call("GET", "/", {"watch": "nothing"})):
                leaving.set()
            await asyncio.Event().wait()  # who goes on here has not been told to end

        watcher = asyncio.create_task(watch())
        await leaving.wait()
        await asyncio.sleep(0)  # it waits for the stream's own end
        watcher.cancel()
        await asyncio.wait([watcher], timeout=PATIENCE)
        assert watcher.cancelled()
        assert slow.open == 0

    asyncio.run(main())


def test_a_write_whose_caller_gave_up_has_happened_or_not_and_costs_nothing(tmp_path: Path) -> None:
    async def write(ours: Serving, name: str, turns: int) -> bool:
        transport = InProcessTransport(ours.server.app, {"identity": ADMINISTRATOR})
        body = json.dumps(configmap(name)).encode()
        call = Call("POST", CONFIGMAPS, headers={"content-type": "application/json"}, body=body)
        caller = asyncio.create_task(transport.call(call))
        for _ in range(turns):
            await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        return not caller.cancelled()

    async def main() -> None:
        async with serving(tmp_path / "data") as ours:
            told = {f"c-{turns}": await write(ours, f"c-{turns}", turns) for turns in range(30)}
            assert (await ours.call("POST", CONFIGMAPS, configmap("last"))).status == 201  # after all of them
            kept = {
                each["metadata"]["name"]: each["metadata"]
                for each in (await ours.call("GET", CONFIGMAPS)).json["items"]
            }
            assert {name for name, answered in told.items() if answered} <= set(kept)
            assert "c-0" not in kept  # it never began
            assert "c-1" in kept  # given up while it was on its way
            assert all(each["uid"] and each["resourceVersion"] for each in kept.values())
            assert ours.server.app.requests == 0

    asyncio.run(main())


@pytest.mark.parametrize("read", [0, 1, 3])
def test_a_watch_that_is_left_is_closed_however_much_was_read(tmp_path: Path, read: int) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data") as ours:
            for name in "abc":
                await ours.call("POST", CONFIGMAPS, configmap(name))
            app = ours.server.app
            before = len(asyncio.all_tasks())
            transport = InProcessTransport(app, {"identity": ADMINISTRATOR})
            async with transport.stream(Call("GET", CONFIGMAPS, {"watch": "1"}, timeout=None)) as stream:
                assert app.watches == 1  # from the start, read or not
                lines = stream.lines()
                for _ in range(read):
                    assert json.loads(await anext(lines))["type"] == "ADDED"
            assert app.watches == 0
            assert len(asyncio.all_tasks()) == before

    asyncio.run(main())
