"""The connection of one peer: its owner, the order in which its requests are answered, and the limits on slow peers.

A request goes to the application as soon as its head has arrived. A request sent behind another waits for its turn, and
so does the refusal of invalid input. All connections read into one buffer, since input is parsed before the next read:
allocating a buffer of the largest size for each read took a fifth of the cost of a small request.
"""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from collections import deque
from contextlib import suppress
from typing import ClassVar, Protocol, cast

from allotment.api.status import StatusError
from allotment.apiserver.http import limits
from allotment.apiserver.http.app import App
from allotment.apiserver.http.deadline import Deadline
from allotment.apiserver.http.exchange import Exchange
from allotment.apiserver.http.holdings import BufferHoldings
from allotment.apiserver.http.parser import Head, Parser
from allotment.apiserver.http.reply import Response
from allotment.apiserver.http.response import head_of, length_of


class TooSlow(StatusError):
    code: ClassVar[int] = 408


class ListenerState(Protocol):
    """The state that the connections of a listener share."""

    app: App
    unsent: BufferHoldings[HttpConnection]
    """Bytes that peers have not read, by user."""
    tasks: set[asyncio.Task[None]]
    """The tasks that answer requests."""
    buffer: memoryview
    date: bytes
    stopping: bool

    def come(self, connection: HttpConnection) -> None:
        """Admits another peer; a connection of the owner with the most may have to close."""

    def gone(self, connection: HttpConnection) -> None: ...

    def moved(self, connection: HttpConnection, owner: str) -> None:
        """Records that a connection belongs to another owner."""


class HttpConnection(asyncio.BufferedProtocol):
    """A connection to one peer.

    ``certificate`` is the peer's own (DER), if TLS verified one. ``writable`` is set while writing has to wait. ``owner``
    is the authenticated user, or else the ``address``.
    """

    def __init__(self, house: ListenerState, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # there before anything else happens
        self.certificate: bytes | None = None
        self.address = self.owner = ""
        self.writable: asyncio.Future[None] | None = None
        self._house = house
        self._parser: Parser | None = None  # set while the connection is open
        self._deadline = Deadline(loop, self._late)
        self._patience = limits.STALLED_SECONDS  # seconds for which the peer may still leave data unread
        self._stalled_at = 0.0
        self._discarded = 0
        self._begun_at = 0.0  # the exchange of the request that is arriving, or arrived last
        self._in_body = False
        self._received = 0  # bytes of its body since the last check
        self._arriving = False  # a request has arrived in part
        self._latest: Exchange | None = None
        self._running: Exchange | None = None
        self._waiting: deque[Exchange] = deque()  # requests received before the last one was answered
        self._refusal: Response | None = None  # the last input read behind those
        self._reading = True
        self._stall_timer: TimerHandle | None = None
        self._wait_timer: TimerHandle | None = None

    @property
    def date(self) -> bytes:
        return self._house.date

    # --- the connection ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop has its own class
        if self._house.stopping:
            self.transport.abort()
            return
        self.transport.set_write_buffer_limits(high=limits.WRITE_PIECE_BYTES)
        peer = transport.get_extra_info("peername")
        self.address = self.owner = peer[0] if peer else ""
        self._house.come(self)
        self._parser = Parser(self)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self.certificate = tls.getpeercert(binary_form=True)
        self._deadline.set(limits.REQUEST_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._house.gone(self)
        self._deadline.close()
        for timer in (self._stall_timer, self._wait_timer):
            if timer is not None:
                timer.cancel()
        for exchange in (self._running, self._latest):
            if exchange is not None and not exchange.complete:
                exchange.leave()
        self.resume_writing()
        if self._parser is not None:
            self._parser.close()
        self._parser = self._running = self._latest = None  # data that a peer left unread is freed at once
        # TLS keeps our methods: a reference cycle that contains its buffers
        self.transport.set_protocol(_NOBODY)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._house.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received(self._house.buffer[:nbytes])

    def eof_received(self) -> None:
        """The transport closes now. Replies still being made would never arrive complete, so they need not wait for the reader."""
        if self._running is not None and not self._running.complete:
            self._abort()

    def received(self, data: bytes | memoryview) -> None:
        """Takes input from the peer. The buffer is reused, so anything to keep must be copied."""
        latest = self._latest
        if self._parser is None or self._refusal is not None or self.transport.is_closing():
            return  # input from a refused peer is ignored
        if latest is not None and not latest.keep_alive and not latest.more:
            return  # and so is input behind the last request
        wrong = self._parser.feed(data)
        if wrong is not None:
            self._refuse(wrong)

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Reads on, unless requests are waiting: reading would only add to them."""
        if not self._reading and not self._waiting:
            self._reading = True
            self.transport.resume_reading()

    @property
    def idle(self) -> bool:
        """Whether no request is arriving or being answered."""
        return not self._arriving and (self._running is None or self._running.complete)

    def is_of(self, user: str) -> None:
        if user != self.owner:
            self._house.moved(self, user)

    def pause_writing(self) -> None:
        self.writable = self.loop.create_future()
        self._stalled_at = self.loop.time()
        self._stall_timer = self.loop.call_later(max(self._patience, 0.0), self._abort)

    def resume_writing(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
            self._patience -= self.loop.time() - self._stalled_at
        if self.writable is not None:
            if not self.writable.done():
                self.writable.set_result(None)
            self.writable = None

    def sent(self, size: int) -> None:
        """Extends the deadline of a peer that reads what we send, but not for ever if it reads only a little at a time."""
        if self._patience < limits.STALLED_SECONDS:
            self._patience = min(self._patience + size / limits.READ_RATE, limits.STALLED_SECONDS)

    async def room(self, held: int) -> None:
        """Limits unread data: the connections with the most are closed, perhaps this one."""
        if self.writable is None:
            return
        unsent, owner = self._house.unsent, self.owner
        unsent.hold(owner, self, held + self.transport.get_write_buffer_size())
        try:
            if unsent.exceeds(owner):
                for each in unsent.excess():
                    each.give_up()
            await self.writable
        finally:
            unsent.drop(owner, self)

    def give_up(self) -> None:
        """Closes the connection of a peer that has left too much unread."""
        self._house.unsent.drop(self.owner, self)
        self._house.app.closed_stream(self.owner)
        self._abort()

    def shutdown(self) -> None:
        """The server is stopping: complete requests are answered, partial ones are dropped."""
        exchange = self._running
        if exchange is None or exchange.complete:
            self.close()
        elif exchange.more:
            self._abort()
        else:
            exchange.keep_alive = False  # requests waiting behind it are not begun any more

    def end(self) -> None:
        """The server has stopped: drops everything that is not answered yet."""
        if self._running is None or self._running.complete:
            self.close()
        else:
            self._abort()

    def close(self) -> None:
        """Closes after all written data has been sent. A second call does nothing: asyncio's TLS would lose its protocol."""
        if self.transport.is_closing():
            return
        # raised by uvloop when the socket under TLS is closed and we do not know it yet
        with suppress(RuntimeError):
            self.transport.close()

    def _abort(self) -> None:
        self.transport.abort()

    def _late(self) -> None:
        if not self._arriving:
            if self._latest is None:
                self._abort()  # the peer never sent anything
            else:
                self.close()
            return
        left = limits.REQUEST_SECONDS - (self.loop.time() - self._begun_at)
        fast = self._received >= limits.BODY_RATE * limits.BODY_SECONDS
        # a peer whose reading we paused is not slow
        if self._in_body and left > 0 and (fast or not self._reading):
            self._received = 0
            self._deadline.set(min(limits.BODY_SECONDS, left))
            return
        what = "body" if self._in_body else "headers"
        self._refuse(TooSlow(f"the request's {what} came too slowly; the connection is closed"))

    # --- events of the parser ---

    def request_begins(self) -> None:
        self._discarded = self._received = 0
        self._in_body = False
        if not self._arriving:
            self._arriving = True
            self._begun_at = self.loop.time()
            self._deadline.set(min(limits.HEAD_SECONDS, limits.REQUEST_SECONDS))

    def head_arrived(self, head: Head) -> None:
        exchange = Exchange(self, head)
        self._in_body = True
        self._deadline.set(min(limits.BODY_SECONDS, limits.REQUEST_SECONDS))
        before, self._latest = self._latest, exchange
        if before is None or before.complete:
            self._start(exchange)
            return
        if len(self._waiting) >= limits.MAX_PIPELINED:
            raise ValueError("too many requests at once")
        self._waiting.append(exchange)
        self.pause_reading()  # otherwise we would not notice that the peer leaves
        if self._wait_timer is None:
            self._wait_timer = self.loop.call_later(limits.STALLED_SECONDS, self._abort)

    def body_arrived(self, body: bytes) -> None:
        """Reads on, within bounds, after an early answer: the client may still be sending, and must be able to read it."""
        exchange = self._latest
        assert exchange is not None
        self._received += len(body)
        if not exchange.complete:
            exchange.feed(body)
            return
        self._discarded += len(body)
        if self._discarded > limits.MAX_DISCARDED:
            self._abort()

    def request_ends(self) -> None:
        exchange = self._latest
        assert exchange is not None
        self._arriving = False
        self._deadline.lift()
        exchange.more = False
        exchange.wake()
        if exchange.complete:
            self._deadline.set(limits.KEEP_ALIVE_SECONDS)

    def _refuse(self, error: StatusError) -> None:
        """Refuses unreadable input: closes the connection once everything before it has been answered."""
        self._refusal = Response.error(error)
        self._arriving = False
        self._deadline.lift()
        broken = self._latest
        if broken is not None and broken.more:  # its body is what is wrong
            if broken.begun:
                self.close()  # it has had its answer already
                return
            broken.leave()
            if broken is self._running:
                self._running = None
            elif broken in self._waiting:
                self._waiting.remove(broken)
        if self._running is None or self._running.complete:
            self._go_on()

    # --- one request after the other ---

    def _start(self, exchange: Exchange) -> None:
        self._running = exchange
        exchange.task = self.loop.create_task(exchange.run(self._house.app))
        self._house.tasks.add(exchange.task)

    def answered(self, exchange: Exchange) -> None:
        if not exchange.keep_alive:
            self.close()
        if not self.transport.is_closing():
            self._go_on()

    def over(self, exchange: Exchange) -> None:
        if exchange.task is not None:
            self._house.tasks.discard(exchange.task)
            exchange.task = None
        if not exchange.complete:
            self.close()

    def _go_on(self) -> None:
        """Continues with requests received before the last reply was sent, or with new input."""
        if self._wait_timer is not None:
            self._wait_timer.cancel()
            self._wait_timer = None
        if self._waiting:
            self._start(self._waiting.popleft())
            if self._waiting:
                self._wait_timer = self.loop.call_later(limits.STALLED_SECONDS, self._abort)
            self.resume_reading()
        elif self._refusal is not None:
            body = self._refusal.body
            self.transport.write(head_of(self._refusal, length_of(body), self.date, False) + body)
            self.close()
        else:
            self.resume_reading()
            if not self._arriving:
                self._deadline.set(limits.KEEP_ALIVE_SECONDS)


_NOBODY = asyncio.BufferedProtocol()
"""The protocol that owns the transport of a peer that is gone."""
