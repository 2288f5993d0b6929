"""The queues for seats: never above their limits, nobody starved, nobody far ahead; whatever comes and goes in which order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.auth.identity import ADMINISTRATOR, ANONYMOUS, Identity
from allotment.apiserver.http import priority
from allotment.apiserver.http.fairness import FairQueues, Level, Ticket, TicketState
from allotment.apiserver.http.priority import EXEMPT, LEVELS, WIDEST, QueuePlace, place_of, width_of
from allotment.apiserver.http.route import Target, target_of

SMALL = Level("small", seats=4, work=3, flow_queue=3, queue=6)
ENDLESS = Level("endless", seats=4, work=1_000_000, flow_queue=10_000, queue=100_000)


@dataclass
class Hall:
    """The queues of a level, and every ticket that came."""

    level: Level
    tickets: list[Ticket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queues = FairQueues(self.level)

    def arrive(self, flow: str, width: int = 1, *, pressing: bool = False) -> Ticket:
        ticket = Ticket(self.level, flow, width, pressing)
        self.tickets.append(ticket)
        self.told(self.queues.arrive(ticket), ticket)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        self.told(self.queues.leave(ticket))

    def turn(self) -> int:
        """How much work began in it."""
        changed = self.queues.turn()
        self.told(changed)
        return sum(ticket.width for ticket in changed)

    def told(self, changed: list[Ticket], new: Ticket | None = None) -> None:
        """Whoever was queued before and is not now must have been named."""
        assert len(changed) == len(set(changed))
        assert all(ticket.state in (TicketState.SEATED, TicketState.REFUSED) for ticket in changed)
        assert new is None or (new in changed) == (new.state is not TicketState.QUEUED)
        self.queues.validate(self.of(TicketState.SEATED))

    def of(self, state: TicketState) -> list[Ticket]:
        return [ticket for ticket in self.tickets if ticket.state is state]


FLOWS = st.sampled_from("abcde")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), FLOWS, st.integers(1, 6), st.booleans()),
        st.tuples(st.just("leave"), st.integers(0, 1_000)),
        st.tuples(st.just("turn")),
    ),
    max_size=60,
)


@given(STEPS)
def test_whatever_happens_the_limits_hold_and_everybody_is_served_in_the_end(steps: list[tuple]) -> None:  # type: ignore[type-arg]  # of each kind of step another
    hall = Hall(SMALL)
    for step in steps:
        if step[0] == "arrive":
            hall.arrive(step[1], step[2], pressing=step[3])
        elif step[0] == "leave" and hall.tickets:
            hall.leave(hall.tickets[step[1] % len(hall.tickets)])
        elif step[0] == "turn":
            assert hall.turn() < SMALL.work + 6
    assert not [ticket for ticket in hall.of(TicketState.REFUSED) if ticket.pressing]
    waited = hall.of(TicketState.QUEUED)
    for _ in range(2 * len(waited) + 1):
        for ticket in hall.of(TicketState.SEATED):
            hall.leave(ticket)
        hall.turn()
    assert not hall.of(TicketState.QUEUED), "somebody is starved"
    assert hall.queues.waiting == 0


@given(
    st.dictionaries(FLOWS, st.lists(st.integers(1, 6), min_size=20, max_size=40), min_size=2),
    st.lists(st.integers(0, 100), max_size=200),
)
def test_of_two_who_always_wait_nobody_is_far_ahead(asked: dict[str, list[int]], leaving: list[int]) -> None:
    """At every moment, by the largest request of each; in whatever order seats become free."""
    hall = Hall(ENDLESS)
    hall.arrive("before", 4)  # so that all of them line up
    for flow, widths in asked.items():
        for width in widths:
            hall.arrive(flow, width)
    for choice in leaving:
        had = dict.fromkeys(asked, 0)
        for ticket in hall.tickets:
            if ticket.flow in had and ticket.state in (TicketState.SEATED, TicketState.GONE):
                had[ticket.flow] += ticket.width
        waiting = {ticket.flow for ticket in hall.of(TicketState.QUEUED)}
        for one in waiting:
            for other in waiting:
                assert had[one] - had[other] <= max(asked[one]) + max(asked[other])
        seated = hall.of(TicketState.SEATED)
        hall.leave(seated[choice % len(seated)])
        if not hall.of(TicketState.SEATED):
            return


@given(st.integers(1, 50), st.integers(1, 5))
def test_who_comes_late_is_next_however_many_wait(many: int, width: int) -> None:
    hall = Hall(ENDLESS)
    for _ in range(4):
        hall.arrive("greedy")
    for _ in range(many):
        hall.arrive("greedy")
    modest = hall.arrive("modest", min(width, 4))
    for ticket in hall.of(TicketState.SEATED):
        hall.leave(ticket)
        if modest.state is TicketState.SEATED:
            break
        hall.leave(hall.of(TicketState.SEATED)[-1])
    for _ in range(8):  # a wide one waits until so many seats are free, and nobody overtakes it
        if modest.state is not TicketState.SEATED:
            hall.leave(hall.of(TicketState.SEATED)[0])
    assert modest.state is TicketState.SEATED
    served = [
        ticket
        for ticket in hall.tickets
        if ticket.flow == "greedy" and ticket.state is not TicketState.QUEUED
    ]
    assert len(served) <= 4 + 2


def test_who_rests_saves_nothing_up() -> None:
    hall = Hall(replace(ENDLESS, seats=1))
    hall.leave(hall.arrive("rests"))
    running = hall.arrive("works")
    for _ in range(50):
        hall.arrive("works")
    for _ in range(40):
        hall.leave(running)
        (running,) = hall.of(TicketState.SEATED)
    for _ in range(10):
        hall.arrive("rests")
    turns = ""
    for _ in range(10):
        hall.leave(running)
        (running,) = hall.of(TicketState.SEATED)
        turns += running.flow[0]
    assert turns.count("w") >= 4


def test_a_full_level_refuses_the_newest_of_who_asks_for_most() -> None:
    hall = Hall(replace(SMALL, seats=1, flow_queue=6))
    hall.arrive("a")
    waiting = [hall.arrive("a") for _ in range(6)]
    assert hall.arrive("a").state is TicketState.REFUSED  # the bound of one
    other = hall.arrive("b")  # the bound of all
    assert other.state is TicketState.QUEUED
    assert [ticket.state for ticket in waiting] == [TicketState.QUEUED] * 5 + [TicketState.REFUSED]


def test_in_a_turn_only_so_much_begins_whatever_seats_are_free() -> None:
    hall = Hall(replace(ENDLESS, seats=100, work=3))
    tickets = [hall.arrive("a") for _ in range(10)]
    assert [ticket.state for ticket in tickets].count(TicketState.SEATED) == 3
    assert [hall.turn(), hall.turn(), hall.turn()] == [3, 3, 1]


def test_a_request_wider_than_the_level_gets_all_of_it() -> None:
    hall = Hall(SMALL)
    first = hall.arrive("a")
    wide = hall.arrive("b", 10)
    hall.turn()
    behind = hall.arrive("c")
    assert hall.of(TicketState.QUEUED) == [wide, behind]
    hall.leave(first)
    assert hall.of(TicketState.SEATED) == [wide]


def test_flows_that_are_over_are_forgotten() -> None:
    hall = Hall(ENDLESS)
    for number in range(1_000):
        hall.leave(hall.arrive(f"flow {number}"))
    assert not hall.queues._flows


# --- who belongs where ---

JANE = Identity("jane", ("system:authenticated",))
LEASE = target_of("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x")
PODS = target_of("/api/v1/pods")
PLACES: list[tuple[Identity, Target | None, QueuePlace]] = [
    (ADMINISTRATOR, PODS, EXEMPT),
    (JANE, PODS, QueuePlace(priority.WORKLOAD, "jane")),
    (JANE, LEASE, QueuePlace(priority.WORKLOAD, "jane")),  # a lease of one's own is no cluster's leader
    (JANE, None, QueuePlace(priority.WORKLOAD, "jane")),
    (ANONYMOUS, PODS, QueuePlace(priority.CATCH_ALL, "1.2.3.4")),
    (Identity("allotment:scheduler"), PODS, QueuePlace(priority.SYSTEM, "allotment:scheduler")),
    (Identity("system:kube-scheduler"), LEASE, QueuePlace(priority.LEADERS, "system:kube-scheduler")),
    (Identity("system:node:n", ("system:nodes",)), LEASE, QueuePlace(priority.NODE, "system:node:n")),
    (
        Identity("system:node:n"),
        PODS,
        QueuePlace(priority.WORKLOAD, "system:node:n"),
    ),  # it is the group that counts
    (
        Identity("system:serviceaccount:kube-system:x"),
        PODS,
        QueuePlace(priority.SYSTEM, "system:serviceaccount:kube-system:x"),
    ),
    # one flow for all that a namespace has: whoever may make one account there may make a thousand
    (
        Identity("system:serviceaccount:team:x"),
        PODS,
        QueuePlace(priority.WORKLOAD, "system:serviceaccount:team"),
    ),
    (
        Identity("system:serviceaccount:team:y"),
        PODS,
        QueuePlace(priority.WORKLOAD, "system:serviceaccount:team"),
    ),
]


@pytest.mark.parametrize(("identity", "target", "place"), PLACES)
def test_where_requests_are_queued(identity: Identity, target: Target | None, place: QueuePlace) -> None:
    assert place_of(identity, target, "1.2.3.4") == place


def test_the_widest_request_leaves_seats_for_others() -> None:
    assert width_of() == width_of(body=100) == 1
    assert width_of(body=3 * 1024 * 1024) == width_of(objects=1_000_000) == WIDEST
    assert all(level.seats > WIDEST for level in LEVELS)
