"""Calls between two processes on one machine, over a pair of connected sockets, without TLS or HTTP.

Requests and replies are the same as over HTTP. Either end may call the other. Each end offers a set of named transports
and passes an incoming call on to the transport that it names. So an API server is offered as several transports, one for
each identity that the other end may use. The ends trust each other: the holder of the socket may use all that is offered.

The wire carries frames: four bytes with the length, and a message in msgpack. Everything sent in one turn of the event loop
leaves in one write. Lines of a stream that arrived together stay together. The sender stays about ``WINDOW_LINES`` lines ahead
of the reader and then waits, so that a slow reader delays only its own stream.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import islice
from math import inf
from typing import cast

import msgspec

from allotment.client.transport import Call, Disconnected, Reply, Stream, Transport

MAX_FRAME = 512 * 1024 * 1024
"""The most bytes of one message: a list of everything in a very large cluster is a tenth of it."""

WINDOW_LINES = 1024
"""The most lines of a stream in transit, not counting those that arrived together with the last of them."""

A_TURN = 12
"""The most calls begun in one turn of the event loop. A component may send a hundred at once. A server that began them
all before it turned to its other clients would leave those, and then the component, idle."""

_BEFORE_WAIT = 4 * 1024 * 1024
"""The most bytes waiting to be written before streams pause."""


class _Message(msgspec.Struct, frozen=True, array_like=True, tag_field="is"):
    """A message about one call, identified by its number; each end numbers its own calls."""

    number: int


class _Asked(_Message, frozen=True, tag=0):
    to: str
    streaming: bool
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes | None


class _Answered(_Message, frozen=True, tag=1):
    """The answer to a call, with its body; for a stream, lines follow."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Lines(_Message, frozen=True, tag=2):
    lines: Sequence[bytes]


class _Ended(_Message, frozen=True, tag=3):
    """The end of a stream or a call without an answer: ``why`` is empty at the regular end of a stream."""

    why: str = ""


class _Read(_Message, frozen=True, tag=4):
    """The reader is ready for this many more lines."""

    lines: int


class _Dropped(_Message, frozen=True, tag=5):
    """The caller no longer waits for the call."""


_Any = _Asked | _Answered | _Lines | _Ended | _Read | _Dropped
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[_Any] = msgspec.msgpack.Decoder(_Any)


class Pipe(asyncio.Protocol):
    """One end. ``offers`` are the transports that the other end may call, by name."""

    def __init__(self, offers: Mapping[str, Transport]) -> None:
        self._offers = offers
        self._loop = asyncio.get_running_loop()
        self._outbox: list[bytes] = []
        self._inbox = bytearray()
        self._socket: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._gone = self._loop.create_future()
        self._asking: dict[int, _Asking] = {}
        self._serving: dict[int, _Serving] = {}
        self._unserved: dict[int, _Asked] = {}  # in the order of arrival
        self._last = 0
        # one timer for all calls: when it fires, we check which of them are overdue
        self._timer: asyncio.TimerHandle | None = None
        self._rings = inf

    @classmethod
    async def over(cls, connected: socket.socket, offers: Mapping[str, Transport] | None = None) -> Pipe:
        """Takes over a connected socket."""
        connected.setblocking(False)
        _, pipe = await asyncio.get_running_loop().create_unix_connection(
            lambda: cls(offers or {}), sock=connected
        )
        return pipe

    def to(self, name: str) -> Transport:
        """The transport that the other end offers under a name."""
        return _RemoteTransport(self, name)

    async def gone(self) -> None:
        """Returns when either end has closed."""
        await asyncio.shield(self._gone)

    async def close(self) -> None:
        """Ends the calls of both ends, and returns when none is left here."""
        if self._socket is not None:
            self._flush()
            self._socket.close()
        await self.gone()
        await asyncio.gather(*(each.task for each in self._serving.values()), return_exceptions=True)

    # --- calls from this end ---

    async def call(self, name: str, call: Call) -> Reply:
        asking = self._ask(name, call, streaming=False)
        try:
            answer = await asking.answer
        finally:
            self._forget(asking)
        return Reply(answer.status, answer.headers, answer.body)

    @asynccontextmanager
    async def stream(self, name: str, call: Call) -> AsyncIterator[Stream]:
        asking = self._ask(name, call, streaming=True)
        try:
            answer = await asking.answer
            yield Stream(answer.status, answer.headers, self._batches(asking))
        finally:
            self._forget(asking)

    def _ask(self, name: str, call: Call, *, streaming: bool) -> _Asking:
        if self._gone.done():
            raise Disconnected(f"{call.method} {call.path}: the pipe to {name} is closed")
        self._last += 1
        asking = self._asking[self._last] = _Asking(self._last, streaming, call, self._loop.create_future())
        if call.timeout is not None and not streaming:
            asking.due = self._loop.time() + call.timeout
            if asking.due < self._rings:
                self._set_timer(asking.due)
        asked = (call.method, call.path, call.query, call.headers, call.body)
        self._send(_Asked(self._last, name, streaming, *asked))
        return asking

    def _set_timer(self, rings: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings = self._loop.call_at(rings, self._ring), rings

    def _ring(self) -> None:
        self._timer, self._rings = None, inf
        now = self._loop.time()
        waiting = [each for each in self._asking.values() if not each.answer.done()]
        for late in waiting:
            if late.due <= now:
                late.answer.set_exception(Disconnected(late.told_late()))
        soonest = min((each.due for each in waiting if each.due > now), default=inf)
        if soonest < inf:
            self._set_timer(soonest)

    def _forget(self, asking: _Asking) -> None:
        if self._asking.pop(asking.number, None) is not None and not asking.over:
            self._send(_Dropped(asking.number))

    async def _batches(self, asking: _Asking) -> AsyncIterator[Sequence[bytes]]:
        read = 0
        while True:
            while asking.batches:
                batch = asking.batches.popleft()
                yield batch
                read += len(batch)
                if 2 * read >= WINDOW_LINES:
                    self._send(_Read(asking.number, read))
                    read = 0
            if asking.over:
                if asking.why:
                    raise Disconnected(asking.why)
                return
            asking.news.clear()
            await asking.news.wait()

    # --- calls from the other end ---

    def _serve_some(self) -> None:
        """Begins as many calls as one turn allows, so that the event loop serves others in between."""
        for number in list(islice(self._unserved, A_TURN)):
            serving = self._serving[number] = _Serving(number)
            serving.task = self._loop.create_task(self._serve(self._unserved.pop(number), serving))
        if self._unserved:
            self._loop.call_soon(self._serve_some)

    async def _serve(self, asked: _Asked, serving: _Serving) -> None:
        try:
            offered = self._offers.get(asked.to)
            if offered is None:
                raise Disconnected(f"nothing is offered as {asked.to!r}")
            # No time limit here: the caller keeps it, and tells us when it is over.
            call = Call(asked.method, asked.path, asked.query, asked.headers, asked.body, timeout=None)
            if asked.streaming:
                await self._relay(offered, call, serving)
            else:
                reply = await offered.call(call)
                self._send(_Answered(asked.number, reply.status, reply.headers, reply.body))
        except Disconnected as exc:
            self._send(_Ended(asked.number, str(exc)))
        except Exception as exc:
            self._send(_Ended(asked.number, f"{asked.method} {asked.path}: {type(exc).__name__}: {exc}"))
            raise
        finally:
            del self._serving[asked.number]

    async def _relay(self, offered: Transport, call: Call, serving: _Serving) -> None:
        async with offered.stream(call) as stream:
            self._send(_Answered(serving.number, stream.status, stream.headers, b""))
            async for batch in stream.batches:
                while serving.window <= 0:
                    serving.room.clear()
                    await serving.room.wait()
                serving.window -= len(batch)
                await self._writable.wait()
                self._send(_Lines(serving.number, batch))
        self._send(_Ended(serving.number))

    # --- the wire ---

    def _send(self, message: _Any) -> None:
        if self._gone.done():
            return
        data = _ENCODER.encode(message)
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox += (len(data).to_bytes(4, "big"), data)

    def _flush(self) -> None:
        if self._outbox and self._socket is not None:
            self._socket.write(b"".join(self._outbox))
        self._outbox.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are, but their types do not say so
        self._socket = cast(asyncio.Transport, transport)
        self._socket.set_write_buffer_limits(_BEFORE_WAIT)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        inbox = self._inbox
        inbox += data
        begin, size = 0, len(inbox)
        while size - begin >= 4:
            length = int.from_bytes(inbox[begin : begin + 4], "big")
            if length > MAX_FRAME:
                self._fail(f"a message of {length} bytes is too long")
                return
            if size - begin < 4 + length:
                break
            begin += 4
            try:
                message = _DECODER.decode(memoryview(inbox)[begin : begin + length])
            except msgspec.MsgspecError as exc:
                self._fail(f"a message cannot be read: {exc}")
                return
            begin += length
            self._take(message)
        del inbox[:begin]

    def connection_lost(self, exc: Exception | None) -> None:
        self._socket = None
        if self._timer is not None:
            self._timer.cancel()
        if not self._gone.done():
            self._gone.set_result(None)
        for asking in self._asking.values():
            asking.end("the other process closed the pipe")
        self._unserved.clear()
        for serving in self._serving.values():
            serving.task.cancel()
        self._writable.set()

    def _fail(self, why: str) -> None:
        for asking in self._asking.values():
            asking.end(why)
        if self._socket is not None:
            self._socket.abort()

    def _take(self, message: _Any) -> None:
        if isinstance(message, _Answered | _Lines | _Ended):
            if (asking := self._asking.get(message.number)) is not None:
                asking.take(message)
        elif isinstance(message, _Asked):
            if not self._unserved:
                self._loop.call_soon(self._serve_some)
            self._unserved[message.number] = message
        elif isinstance(message, _Dropped):
            self._unserved.pop(message.number, None)
            if (dropped := self._serving.get(message.number)) is not None:
                dropped.task.cancel()
        elif (read := self._serving.get(message.number)) is not None:
            read.window += message.lines
            read.room.set()


class _RemoteTransport:
    """A transport that the other end offers."""

    def __init__(self, pipe: Pipe, name: str) -> None:
        self._pipe, self._name = pipe, name

    async def call(self, call: Call) -> Reply:
        return await self._pipe.call(self._name, call)

    def stream(self, call: Call) -> AbstractAsyncContextManager[Stream]:
        return self._pipe.stream(self._name, call)

    async def close(self) -> None:
        """Does nothing: others use the pipe too."""


class _Asking:
    """A call that this end has made."""

    __slots__ = ("_call", "answer", "batches", "due", "news", "number", "over", "streaming", "why")

    def __init__(self, number: int, streaming: bool, call: Call, answer: asyncio.Future[_Answered]) -> None:
        self.number, self.streaming, self.answer = number, streaming, answer
        self.due = inf  # the time limit for an answer
        self.over, self.why = False, ""
        self._call = call
        if streaming:
            self.batches: deque[Sequence[bytes]] = deque()
            self.news = asyncio.Event()

    def take(self, message: _Answered | _Lines | _Ended) -> None:
        if isinstance(message, _Answered):
            self.over = not self.streaming
            if not self.answer.done():
                self.answer.set_result(message)
        elif isinstance(message, _Ended):
            self.end(message.why)
        elif self.streaming:
            self.batches.append(message.lines)
            self.news.set()

    def end(self, why: str) -> None:
        self.over, self.why = True, why
        if self.streaming:
            self.news.set()
        if not self.answer.done():
            self.answer.set_exception(Disconnected(why or "no answer"))

    def told_late(self) -> str:
        call = self._call
        return f"{call.method} {call.path}: no answer within {call.timeout} s"


class _Serving:
    """A call that the other end has made and this end serves."""

    __slots__ = ("number", "room", "task", "window")

    task: asyncio.Task[None]

    def __init__(self, number: int) -> None:
        self.number = number
        self.window = WINDOW_LINES
        self.room = asyncio.Event()
