"""One peer: whose connection it is, in which order its requests are answered, and what becomes of one that is too slow.

A request goes to the application as soon as its head is there; one that is sent behind another waits for its turn, and so
does the refusal of what is no request. All connections read into one buffer, as what arrives is parsed before anybody else
reads: to ask for a piece of memory of the largest size at each read was a fifth of what a small request cost.
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


class House(Protocol):
    """What the connections of a listener share."""

    app: App
    unsent: BufferHoldings[HttpConnection]
    """What peers have not read, by user."""
    tasks: set[asyncio.Task[None]]
    """Requests that are being answered."""
    buffer: memoryview
    date: bytes
    stopping: bool

    def come(self, connection: HttpConnection) -> None:
        """Another peer is there; one of whoever has the most may have to go."""

    def gone(self, connection: HttpConnection) -> None: ...

    def moved(self, connection: HttpConnection, owner: str) -> None:
        """A connection turns out to be somebody else's."""


class HttpConnection(asyncio.BufferedProtocol):
    """``certificate`` is the peer's own (DER), if TLS verified one; ``writable`` is there while it has to be waited for.
    ``owner`` is the user that it has proved to be, or else its ``address``."""

    def __init__(self, house: House, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # there before anything else happens
        self.certificate: bytes | None = None
        self.address = self.owner = ""
        self.writable: asyncio.Future[None] | None = None
        self._house = house
        self._parser: Parser | None = None  # while the connection is there
        self._deadline = Deadline(loop, self._late)
        self._patience = limits.STALLED_SECONDS  # for which the peer may still leave things unread
        self._stalled_at = 0.0
        self._discarded = 0
        self._begun_at = 0.0  # of the request that arrives, or arrived last
        self._in_body = False
        self._received = 0  # of its body, since we last looked
        self._arriving = False  # a request's first byte is there, its last is not
        self._latest: Exchange | None = None
        self._running: Exchange | None = None
        self._waiting: deque[Exchange] = deque()  # sent before the last one was answered
        self._refusal: Response | None = None  # of what came behind those, the last that was read
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
        self._parser = self._running = self._latest = None  # what a peer left unread is freed at once
        self.transport.set_protocol(_NOBODY)  # TLS keeps our methods: a circle, with its buffers in it

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._house.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received(self._house.buffer[:nbytes])

    def eof_received(self) -> None:
        """The transport closes now. What is still being made would never arrive whole, so it need not wait to be read."""
        if self._running is not None and not self._running.complete:
            self._abort()

    def received(self, data: bytes | memoryview) -> None:
        """The peer has sent something, which is kept only as far as it is copied."""
        latest = self._latest
        if self._parser is None or self._refusal is not None or self.transport.is_closing():
            return  # nothing more is read of a peer that was refused
        if latest is not None and not latest.keep_alive and not latest.more:
            return  # nor behind the last request
        wrong = self._parser.feed(data)
        if wrong is not None:
            self._refuse(wrong)

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Unless requests wait: to read on would only make them more."""
        if not self._reading and not self._waiting:
            self._reading = True
            self.transport.resume_reading()

    @property
    def idle(self) -> bool:
        """Nothing is asked or answered."""
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
        """A peer that takes what it is sent may wait again; one that takes it by drops may not wait for ever."""
        if self._patience < limits.STALLED_SECONDS:
            self._patience = min(self._patience + size / limits.READ_RATE, limits.STALLED_SECONDS)

    async def room(self, held: int) -> None:
        """Of those who leave too much unread, the largest are closed; perhaps this one."""
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
        """The server stops: a request that has arrived is answered, half a one is not waited for."""
        exchange = self._running
        if exchange is None or exchange.complete:
            self.close()
        elif exchange.more:
            self._abort()
        else:
            exchange.keep_alive = False  # what waits behind it is not begun any more

    def end(self) -> None:
        """The server has stopped: what is not answered by now never will be."""
        if self._running is None or self._running.complete:
            self.close()
        else:
            self._abort()

    def close(self) -> None:
        """After what was written has gone out. A second time does nothing: asyncio's TLS would forget whose it is."""
        if self.transport.is_closing():
            return
        with suppress(RuntimeError):  # of uvloop, when the socket under TLS is closed and we are not yet told
            self.transport.close()

    def _abort(self) -> None:
        self.transport.abort()

    def _late(self) -> None:
        if not self._arriving:
            if self._latest is None:
                self._abort()  # it never said a word
            else:
                self.close()
            return
        left = limits.REQUEST_SECONDS - (self.loop.time() - self._begun_at)
        fast = self._received >= limits.BODY_RATE * limits.BODY_SECONDS
        if self._in_body and left > 0 and (fast or not self._reading):  # whose reading we stopped is not slow
            self._received = 0
            self._deadline.set(min(limits.BODY_SECONDS, left))
            return
        what = "body" if self._in_body else "headers"
        self._refuse(TooSlow(f"the request's {what} came too slowly; the connection is closed"))

    # --- a request as it is parsed ---

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
        self.pause_reading()  # so we would not see the peer leave
        if self._wait_timer is None:
            self._wait_timer = self.loop.call_later(limits.STALLED_SECONDS, self._abort)

    def body_arrived(self, body: bytes) -> None:
        """A client that was answered early may still be sending: it is heard out, within bounds, to read its answer."""
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
        """Ends the connection over what cannot be read, when all that came before has been answered."""
        self._refusal = Response.error(error)
        self._arriving = False
        self._deadline.lift()
        broken = self._latest
        if broken is not None and broken.more:  # its body is what is wrong
            if broken.begun:
                self.close()  # it has had its answer, and there is no other
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
        """With what was sent before the last reply had gone out, or with what comes now."""
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
"""Whom the transport of a peer that is gone belongs to."""
