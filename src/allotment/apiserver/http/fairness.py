"""Whose request is next: events in, decisions out. No clock, no I/O.

Requests belong to a *level* (``priority.py``), and in it to a *flow*: the requests of one user. A request that has its seat is
answered; others wait in the queue of their flow.

* A level has so many *seats*; a request takes one or, if it means much work, more (its *width*). Levels share nothing,
  so none can starve another.
* In one *turn* of the event loop only so much *work* is begun in a level, whatever seats are free: who has a turn of their own
  (an administrator, another level) is never behind more than that.
* Between flows the next seat goes to the one that has had least: start-time fair queueing. A flow that comes back after
  a rest begins where the others are; it saves nothing up.
* A flow may have so many requests waiting, and a level so many in all. When a level is full, the newest request of the longest
  queue makes room, so that a user who asks for little is never refused because another asks for much.

Invariants: :meth:`Queues.validate`. The bound of fairness: of two flows that have requests waiting all the time, neither gets
more than the width of one request of each ahead of the other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush

_REMEMBERED = 10_000
"""Flows that are remembered although they have no request, so that they pay for what they had while others waited."""


class TicketState(Enum):
    QUEUED = "queued"
    SEATED = "seated"
    REFUSED = "refused"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Level:
    """What the requests of one priority may have at a time. ``flow_queue`` and ``queue`` are requests that wait."""

    name: str
    seats: int
    work: int
    flow_queue: int
    queue: int


@dataclass(slots=True, eq=False)
class Ticket:
    """One request's place. ``pressing`` ones are never refused: they are parts of a reply that has begun."""

    level: Level
    flow: str
    width: int
    pressing: bool = False
    state: TicketState = TicketState.QUEUED


@dataclass(slots=True)
class _Flow:
    """``served`` is the virtual time up to which it has had its share; ``entry`` its place in the heap, if it waits."""

    waiting: OrderedDict[Ticket, None] = field(default_factory=OrderedDict)
    served: int = 0
    entry: tuple[int, int, str] | None = None


class FairQueues:
    """One level. What :meth:`arrive`, :meth:`leave` and :meth:`turn` return are tickets whose state has changed."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.seated = 0  # widths of the requests that have seats
        self.executing = 0
        self.waiting = 0
        self.dispatched = 0  # requests that got a seat, ever
        self._begun = 0  # work of this turn
        self._now = 0  # virtual time: the start of the last request that got a seat
        self._order = 0
        self._flows: dict[str, _Flow] = {}
        self._heap: list[tuple[int, int, str]] = []

    def arrive(self, ticket: Ticket) -> list[Ticket]:
        """A request comes: it is seated, queued or refused; another may be refused in its place."""
        if not self.waiting and self._begun < self.level.work and self._has_seats(ticket):
            self._begin(ticket)  # nobody waits, so there is nobody to be fair to
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
        """A request is over, or nobody waits for it any more. Does nothing for one that was refused or has left."""
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
        """The event loop has come round: as much work as in the last turn may begin."""
        self._begun = 0
        return self._seat() if self.waiting else []

    @property
    def idle(self) -> bool:
        """Nothing has begun in this turn, so whatever waits waits for a seat, not for a turn."""
        return not self._begun

    def _make_room(self, ticket: Ticket) -> list[Ticket]:
        """Who is refused so that the queues stay within their bounds: nobody, the request itself, or another."""
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
        """Gives seats while there are some and work may begin. The next in line waits for all it needs: nobody overtakes."""
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
        """What flows have had, once nobody waits; that of those who do not wait, when they are too many."""
        if not self.waiting:
            self._flows.clear()
            self._heap.clear()
        elif len(self._flows) > _REMEMBERED:
            self._flows = {name: flow for name, flow in self._flows.items() if flow.waiting}

    def validate(self, seated: Iterable[Ticket]) -> None:
        """``seated`` are all tickets that have seats."""
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
