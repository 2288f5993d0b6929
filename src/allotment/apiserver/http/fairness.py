"""Decides whose request is next: events in, decisions out. No clock, no I/O.

Requests belong to a *level* (``priority.py``), and within it to a *flow*: the requests of one user. A request with a seat
is answered; the others wait in the queue of their flow.

* A level has a number of *seats*. A request takes one or, if it is much work, several (its *width*). Levels share
nothing, nothing, so none can starve another.
* In one *turn* of the event loop a level begins only a limited amount of *work*, however many seats are free. So
requests outside the level (an administrator's, another level's) never wait for more than that.
* Among flows, the next seat goes to the one that has had least: start-time fair queueing. A flow that returns after a
pause starts level with the others; it saves nothing up.
* The waiting requests of a flow, and of a level in total, are bounded. When a level is full, the newest request of the
longest queue makes room, so that a user with few requests is never refused because of another with many.

Invariants: :meth:`FairQueues.validate`. The bound of fairness: of two flows that always have requests waiting, neither
gets ahead of the other by more than the width of one request of each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush

_FLOWS_REMEMBERED = 10_000
"""The most idle flows that we remember, so that they pay for seats they had while others waited."""


class TicketState(Enum):
    QUEUED = "queued"
    SEATED = "seated"
    REFUSED = "refused"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Level:
    """The limits on the requests of one priority. ``flow_queue`` and ``queue`` bound the waiting requests."""

    name: str
    seats: int
    work: int
    flow_queue: int
    queue: int


@dataclass(slots=True, eq=False)
class Ticket:
    """One request's place. ``pressing`` tickets are never refused: they are parts of a reply that has begun."""

    level: Level
    flow: str
    width: int
    pressing: bool = False
    state: TicketState = TicketState.QUEUED


@dataclass(slots=True)
class _Flow:
    """The requests of one user. ``served`` is the virtual time up to which it has had its share; ``entry`` its heap entry."""

    waiting: OrderedDict[Ticket, None] = field(default_factory=OrderedDict)
    served: int = 0
    entry: tuple[int, int, str] | None = None


class FairQueues:
    """The queues of one level. :meth:`arrive`, :meth:`leave` and :meth:`turn` return tickets whose state has changed."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.seated = 0  # the total width of requests that have seats
        self.executing = 0
        self.waiting = 0
        self.dispatched = 0  # the number of requests that ever got a seat
        self._begun = 0  # the work begun in this turn
        self._now = 0  # virtual time: the start of the last request that got a seat
        self._order = 0
        self._flows: dict[str, _Flow] = {}
        self._heap: list[tuple[int, int, str]] = []

    def arrive(self, ticket: Ticket) -> list[Ticket]:
        """A request arrives and is seated, queued or refused; another may be refused in its place."""
        if not self.waiting and self._begun < self.level.work and self._has_seats(ticket):
            self._begin(ticket)  # no request waits, so fairness does not matter
            return [ticket]
        refused: list[Ticket] = []
        if not ticket.pressing:
            refused = self._make_room(ticket)
            if ticket in refused:
                return refused
        flow = self._flows.setdefault(ticket.flow, _Flow())
        flow.waiting[ticket] = None
        self.waiting += 1
        if flow.entry is None:
            self._line_up(ticket.flow, flow)
        return refused + self._seat()

    def leave(self, ticket: Ticket) -> list[Ticket]:
        """A request is over or abandoned. Does nothing for one that was refused or has left."""
        if ticket.state is TicketState.SEATED:
            self.seated -= ticket.width
            self.executing -= 1
        elif ticket.state is TicketState.QUEUED:
            self._unqueue(ticket)
        else:
            return []
        ticket.state = TicketState.GONE
        return self._seat() if self.waiting else []

    def turn(self) -> list[Ticket]:
        """A new turn of the event loop: the level may begin its full amount of work again."""
        self._begun = 0
        return self._seat() if self.waiting else []

    @property
    def idle(self) -> bool:
        """Whether nothing has begun in this turn, so that waiting requests wait for seats and not for a turn."""
        return not self._begun

    def _make_room(self, ticket: Ticket) -> list[Ticket]:
        """The request to refuse so that the queues stay within their bounds: none, the new one, or another."""
        flow = self._flows.get(ticket.flow)
        length = len(flow.waiting) if flow is not None else 0
        if length >= self.level.flow_queue:
            ticket.state = TicketState.REFUSED
            return [ticket]
        if self.waiting < self.level.queue:
            return []
        longest = max(self._flows.values(), key=lambda each: len(each.waiting))
        victim = ticket
        if len(longest.waiting) > length + 1:
            victim = next((each for each in reversed(longest.waiting) if not each.pressing), ticket)
        if victim is not ticket:
            self._unqueue(victim)
        victim.state = TicketState.REFUSED
        return [victim]

    def _unqueue(self, ticket: Ticket) -> None:
        flow = self._flows[ticket.flow]
        del flow.waiting[ticket]
        self.waiting -= 1
        if not flow.waiting:
            flow.entry = None

    def _line_up(self, name: str, flow: _Flow) -> None:
        self._order += 1
        flow.entry = (max(self._now, flow.served), self._order, name)
        heappush(self._heap, flow.entry)

    def _seat(self) -> list[Ticket]:
        """Gives seats while there are some and work may begin. The next in line waits for all it needs: none overtakes it."""
        seated: list[Ticket] = []
        while self._heap and self._begun < self.level.work:
            entry = self._heap[0]
            flow = self._flows.get(entry[2])
            if flow is None or flow.entry is not entry:
                heappop(self._heap)  # it has left
                continue
            ticket = next(iter(flow.waiting))
            if not self._has_seats(ticket):
                break
            heappop(self._heap)
            self._now, flow.served, flow.entry = entry[0], entry[0] + ticket.width, None
            self._unqueue(ticket)
            self._begin(ticket)
            if flow.waiting:
                self._line_up(ticket.flow, flow)
            seated.append(ticket)
        self._forget()
        return seated

    def _has_seats(self, ticket: Ticket) -> bool:
        return not self.seated or self.seated + ticket.width <= self.level.seats

    def _begin(self, ticket: Ticket) -> None:
        ticket.state = TicketState.SEATED
        self.seated += ticket.width
        self.executing += 1
        self.dispatched += 1
        self._begun += ticket.width

    def _forget(self) -> None:
        """Forgets the shares of flows once no request waits, and of idle flows when there are too many."""
        if not self.waiting:
            self._flows.clear()
            self._heap.clear()
        elif len(self._flows) > _FLOWS_REMEMBERED:
            self._flows = {name: flow for name, flow in self._flows.items() if flow.waiting}

    def validate(self, seated: Iterable[Ticket]) -> None:
        """Checks the invariants. ``seated`` are all tickets that have seats."""
        widths = [ticket.width for ticket in seated]
        assert (self.seated, self.executing) == (sum(widths), len(widths))
        assert self.seated <= self.level.seats or len(widths) == 1, "more seats are taken than there are"
        waiting = [ticket for flow in self._flows.values() for ticket in flow.waiting]
        assert self.waiting == len(waiting)
        assert all(ticket.state is TicketState.QUEUED for ticket in waiting)
        assert sum(not ticket.pressing for ticket in waiting) <= self.level.queue
        for name, flow in self._flows.items():
            assert (flow.entry is not None) == bool(flow.waiting), f"{name} waits and is not in line"
            assert flow.entry is None or flow.entry in self._heap
            assert sum(not ticket.pressing for ticket in flow.waiting) <= self.level.flow_queue
        if waiting and self._begun < self.level.work:
            live = [entry for entry in self._heap if self._flows[entry[2]].entry is entry]
            first = next(iter(self._flows[min(live)[2]].waiting))
            assert self.seated, "all seats are free and somebody waits"
            assert self.seated + first.width > self.level.seats, "a seat is free and somebody waits"
