"""Calls over a pair of sockets: replies, streams and failures arrive, a slow reader holds up only itself, nothing is left behind."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import uvloop

from allotment.client.over_pipe import A_TURN, WINDOW_LINES, Pipe
from allotment.client.transport import Call, Disconnected, Reply, Stream

PATIENCE = 60.0


class Echo:
    """Answers with what it was asked. ``/silence`` is never answered, ``/trouble`` fails, and streams count up to their path."""

    def __init__(self) -> None:
        self.open = 0
        self.sent = 0

    async def call(self, call: Call) -> Reply:
        self.open += 1
        try:
            if call.path == "/silence":
                await asyncio.Event().wait()
            if call.path == "/trouble":
                raise Disconnected("the line is cut")
            return Reply(201, {"path": call.path, **call.query, **call.headers}, call.body or b"")
        finally:
            self.open -= 1

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        self.open += 1
        try:
            yield Stream(200, {"path": call.path}, self._batches(call.path))
        finally:
            self.open -= 1

    async def _batches(self, path: str) -> AsyncIterator[list[bytes]]:
        if path == "/trouble":
            yield [b"one"]
            raise Disconnected("the line is cut")
        if path == "/silence":
            await asyncio.Event().wait()
        if path == "/together":
            yield [b"one", b"two"]
            yield [b"three"]
            return
        for number in range(int(path[1:])):
            self.sent += 1
            yield [b"%d" % number]

    async def close(self) -> None: ...


Case = Callable[[Pipe, Pipe, Echo], Awaitable[None]]


def between(case: Case, run: Callable[..., None] = uvloop.run) -> None:
    """A near end that calls, a far end that offers ``echo``."""

    async def main() -> None:
        ours, theirs = socket.socketpair()
        echo = Echo()
        near, far = await Pipe.over(ours, {"back": Echo()}), await Pipe.over(theirs, {"echo": echo})
        try:
            async with asyncio.timeout(PATIENCE):
                await case(near, far, echo)
                await near.close()
                await far.gone()
        finally:
            await near.close()
            await far.close()
        assert echo.open == 0

    run(main())


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_requests_and_replies_arrive_as_they_are(run: Callable[..., None]) -> None:
    async def case(near: Pipe, far: Pipe, echo: Echo) -> None:
        call = Call("POST", "/a b", {"q": "1"}, {"h": "2"}, bytes(range(256)) * 10_000)
        assert await near.to("echo").call(call) == Reply(
            201, {"path": "/a b", "q": "1", "h": "2"}, call.body or b""
        )
        assert (await far.to("back").call(Call("GET", "/back"))).headers == {"path": "/back"}

    between(case, run)


def test_many_calls_at_once_each_get_their_own_reply() -> None:
    async def case(near: Pipe, far: Pipe, echo: Echo) -> None:
        asked = [near.to("echo").call(Call("GET", f"/{number}")) for number in range(1000)]
        replies = await asyncio.gather(*asked)
        assert [reply.headers["path"] for reply in replies] == [f"/{number}" for number in range(1000)]

    between(case)


@pytest.mark.parametrize(
    ("name", "call", "why"),
    [
        ("echo", Call("GET", "/trouble"), "the line is cut"),
        ("nobody", Call("GET", "/"), "nothing is offered as 'nobody'"),
        ("echo", Call("GET", "/silence", timeout=0.01), "no answer within 0.01 s"),
    ],
)
def test_no_answer_is_told_as_such(name: str, call: Call, why: str) -> None:
    async def case(near: Pipe, far: Pipe, echo: Echo) -> None:
        with pytest.raises(Disconnected, match=why):
            await near.to(name).call(call)
        await until(lambda: echo.open == 0)

    between(case)


def test_each_call_has_its_own_time_and_one_without_a_limit_goes_on() -> None:
    async def case(near: Pipe, far: Pipe, echo: Echo) -> None:
        async def ask(seconds: float | None) -> None:
            await near.to("echo").call(Call("GET", "/silence", timeout=seconds))

        patient = asyncio.ensure_future(ask(None))
        told = await asyncio.gather(*map(ask, (0.03, 0.01, 0.02)), return_exceptions=True)
        assert [str(each) for each in told] == [
            f"GET /silence: no answer within {seconds} s" for seconds in (0.03, 0.01, 0.02)
        ]
        await until(lambda: echo.open == 1)
        assert not patient.done()
        patient.cancel()
        await until(lambda: echo.open == 0)

    between(case)


def test_a_stream_ends_when_it_ends_and_fails_when_it_fails() -> None:
    async def case(near: Pipe, far: Pipe, echo: Echo) -> None:
        count = 3 * WINDOW_LINES + 1
        async with near.to("echo").stream(Call("GET", f"/{count}")) as stream:
            assert stream.headers == {"path": f"/{count}"}
            assert [line async for line in stream.lines()] == [b"%d" % number for number in range(count)]
        async with near.to("echo").stream(Call("GET", "/trouble")) as stream:
            assert await anext(stream.batches) == [b"one"]
            with pytest.raises(Disconnected, match="the line is cut"):
                await anext(stream.batches)

    between(case)


def test_many_calls_are_begun_a_few_in_a_turn_and_one_that_is_given_up_before_is_not() -> None:
    async def case(near: Pipe, far: Pipe, echo: Echo) -> None:
        calls = [
            asyncio.ensure_future(near.to("echo").call(Call("GET", "/silence"))) for _ in range(3 * A_TURN)
        ]
        await until(lambda: echo.open > 0)
        assert echo.open == A_TURN
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert (await near.to("echo").call(Call("GET", "/after"))).status == 201
        await until(lambda: echo.open == 0)

    between(case)


def test_lines_that_came_together_stay_together() -> None:
    async def case(near: Pipe, far: Pipe, echo: Echo) -> None:
        async with near.to("echo").stream(Call("GET", "/together")) as stream:
            assert [batch async for batch in stream.batches] == [[b"one", b"two"], [b"three"]]

    between(case)


def test_a_slow_reader_holds_up_only_its_own_stream() -> None:
    async def case(near: Pipe, far: Pipe, echo: Echo) -> None:
        async with near.to("echo").stream(Call("GET", f"/{10 * WINDOW_LINES}")) as slow:
            await until(lambda: echo.sent > WINDOW_LINES)
            assert (await near.to("echo").call(Call("GET", "/still"))).status == 201
            assert echo.sent == WINDOW_LINES + 1  # the last of them waits for room
            async with near.to("echo").stream(Call("GET", "/5000")) as other:
                assert len([line async for line in other.lines()]) == 5000
            assert len([line async for line in slow.lines()]) == 10 * WINDOW_LINES

    between(case)


@pytest.mark.parametrize("path", ["/silence", f"/{10 * WINDOW_LINES}"])
def test_a_stream_that_is_left_ends_at_the_other_end(path: str) -> None:
    async def case(near: Pipe, far: Pipe, echo: Echo) -> None:
        async with near.to("echo").stream(Call("GET", path)):
            await until(lambda: echo.open == 1)
        await until(lambda: echo.open == 0)

    between(case)


def test_a_caller_that_gives_up_is_told_to_the_other_end() -> None:
    async def case(near: Pipe, far: Pipe, echo: Echo) -> None:
        calling = asyncio.ensure_future(near.to("echo").call(Call("GET", "/silence")))
        await until(lambda: echo.open == 1)
        calling.cancel()
        await until(lambda: echo.open == 0)
        with suppress(asyncio.CancelledError):
            await calling

    between(case)


@pytest.mark.parametrize("which", ["near", "far"])
def test_when_one_end_closes_all_calls_are_over(which: str) -> None:
    async def case(near: Pipe, far: Pipe, echo: Echo) -> None:
        calling = asyncio.ensure_future(near.to("echo").call(Call("GET", "/silence")))
        async with near.to("echo").stream(Call("GET", "/silence")) as stream:
            await until(lambda: echo.open == 2)
            await (near if which == "near" else far).close()
            with pytest.raises(Disconnected):
                await calling
            with pytest.raises(Disconnected):
                await anext(stream.batches)
        with pytest.raises(Disconnected, match="closed"):
            await near.to("echo").call(Call("GET", "/"))
        await until(lambda: echo.open == 0)

    between(case)


@pytest.mark.parametrize("junk", [b"\xff\xff\xff\xff", b"\0\0\0\1\xc1", b"\0\0\0\2\x91\x63"])
def test_what_is_no_message_closes_the_pipe(junk: bytes) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            pipe = await Pipe.over(ours)
            calling = asyncio.ensure_future(pipe.to("echo").call(Call("GET", "/")))
            theirs.sendall(junk)
            with pytest.raises(Disconnected):
                await calling
            await asyncio.wait_for(pipe.gone(), PATIENCE)
            await pipe.close()

    uvloop.run(main())
