"""Makes requests wait for their turn: the queues of ``fairness.py`` in an event loop.

A request that finds a free seat continues at once, without a future or a timer. After each pass of the event loop in which
something began, the queues start a new turn. A request that waits too long is refused, as in Kubernetes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from time import perf_counter

from allotment.api.status import TooManyRequests
from allotment.apiserver.http.fairness import FairQueues, Level, Ticket, TicketState
from allotment.apiserver.http.metrics import ServerMetrics
from allotment.apiserver.http.priority import LEVELS, REFUSALS, QueuePlace

WAIT_SECONDS = 15.0


class Seats:
    """The seats of one server. ``wait_seconds`` is the longest time that a request waits."""

    def __init__(self, metrics: ServerMetrics, levels: Iterable[Level] = LEVELS) -> None:
        self.queues = {level.name: FairQueues(level) for level in levels}
        self.wait_seconds = WAIT_SECONDS
        self._metrics = metrics
        self._waiters: dict[Ticket, asyncio.Future[None]] = {}
        self._begun: dict[FairQueues, None] = {}  # levels in which something began in this turn
        metrics.follow_queues(self.queues.values())

    async def take(self, place: QueuePlace, width: int = 1) -> Ticket | None:
        """Takes a seat, to be returned with :meth:`leave`; None if the request needs none. Raises TooManyRequests."""
        if place.level is None:
            return None
        ticket = self._arrived(place, width)
        if ticket.state is not TicketState.SEATED:
            await self._wait(ticket, place)
        return ticket

    def leave(self, ticket: Ticket | None) -> None:
        if ticket is not None:
            self._told(self.queues[ticket.level.name].leave(ticket))

    async def pause(self, place: QueuePlace) -> None:
        """Waits between two parts of a long reply until it is the reader's turn. Never refuses."""
        await asyncio.sleep(0)
        if place.level is None:
            return
        ticket = self._arrived(place, 1, pressing=True)
        try:
            if ticket.state is TicketState.QUEUED:
                await self._future(ticket)
        finally:
            self._waiters.pop(ticket, None)
            self.leave(ticket)

    def _arrived(self, place: QueuePlace, width: int, *, pressing: bool = False) -> Ticket:
        assert place.level is not None
        queues = self.queues[place.level.name]
        ticket = Ticket(queues.level, place.flow, width, pressing)
        self._told(queues.arrive(ticket))
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._turn)
        self._begun[queues] = None
        return ticket

    async def refuse(self, place: QueuePlace) -> None:
        """Returns when a refusal for this place may be sent."""
        if place.level is not None:
            await self.pause(QueuePlace(REFUSALS, place.flow))

    async def _wait(self, ticket: Ticket, place: QueuePlace) -> None:
        begun = perf_counter()
        level = ticket.level.name
        try:
            if ticket.state is TicketState.QUEUED:
                async with asyncio.timeout(self.wait_seconds):
                    await self._future(ticket)
            if ticket.state is TicketState.REFUSED:
                self._metrics.refused(level, "queue-full")
                await self.refuse(place)
                raise too_many()
        except TimeoutError:
            self.leave(ticket)
            self._metrics.refused(level, "time-out")
            raise too_many() from None
        except asyncio.CancelledError:
            self.leave(ticket)
            raise
        finally:
            self._waiters.pop(ticket, None)
            self._metrics.waits.labels(level).observe(perf_counter() - begun)

    def _future(self, ticket: Ticket) -> asyncio.Future[None]:
        waiter = self._waiters[ticket] = asyncio.get_running_loop().create_future()
        return waiter

    def _told(self, tickets: list[Ticket]) -> None:
        for ticket in tickets:
            waiter = self._waiters.get(ticket)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def _turn(self) -> None:
        begun, self._begun = self._begun, {}
        for queues in begun:
            self._told(queues.turn())
            if not queues.idle:
                self._begun[queues] = None
        if self._begun:
            asyncio.get_running_loop().call_soon(self._turn)


def too_many() -> TooManyRequests:
    return TooManyRequests("Too many requests, please try again later.", {"retryAfterSeconds": 1})
