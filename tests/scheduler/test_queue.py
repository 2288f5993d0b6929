"""What waits: who is tried next, who rests, and whom an event wakes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from allotment.api.core import Node
from allotment.api.meta import ApiStruct
from allotment.scheduler.clock import Clock
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.framework import ObjectAction, Status, StatusCode, Wake
from allotment.scheduler.gate import Gate
from allotment.scheduler.pod import PodInfo
from allotment.scheduler.queue import (
    ACTIVE,
    BACKOFF,
    GATED,
    PARKED,
    REVISIT_SECONDS,
    TAKEN,
    QueueBackoff,
    SchedulingQueue,
)
from tests.builders.typed import node, pod


class Nodes:
    """A plugin that new nodes help, if they are for the pod."""

    name = "Nodes"
    wakes: Sequence[Wake] = (Wake(Node, frozenset({ObjectAction.ADD})),)

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        wanted = pod.pod.spec.node_selector.get("name")
        return isinstance(new, Node) and wanted in (None, new.metadata.name)


SHUT = Status(StatusCode.UNRESOLVABLE, "Nodes", "waits for a node")


class Queued:
    """A queue, and the events that it gets."""

    def __init__(self) -> None:
        self.clock = Clock()
        backoff = QueueBackoff(initial=1.0, turned_away=4.0, failed=16.0)
        self.queue = SchedulingQueue(
            self.clock, [Nodes()], Gate(self.clock, Cluster(), {}, gangs=False), backoff
        )

    def add(self, *names: str, priority: int = 0, now: float = 0.0, wants: str | None = None) -> None:
        self.clock.now = now
        for name in names:
            info = PodInfo(pod(name, selector={"name": wants} if wants else None))
            self.queue.add(name, priority, (info,))
            self.queue.validate()

    def pop(self, now: float = 0.0) -> str | None:
        self.clock.now = now
        entry = self.queue.pop()
        self.queue.validate()
        return entry.key if entry is not None else None

    def refuse(
        self, now: float = 0.0, shape: str = "shape", plugins: Sequence[str] = ("Nodes",)
    ) -> str | None:
        """Pops an entry and turns it away."""
        name = self.pop(now)
        if name is not None:
            self.queue.park(name, shape, plugins)
            self.queue.validate()
        return name

    def appear(self, name: str = "n") -> list[str]:
        found = self.queue.wake(None, node(name), Cluster())
        self.queue.validate()
        return [entry.key for entry in found]

    def places(self) -> dict[str, str]:
        return {key: entry.place for key in ("a", "b", "c") if (entry := self.queue.get(key)) is not None}


# --- order ---


def test_the_highest_priority_goes_first_then_who_came_first() -> None:
    made = Queued()
    made.add("late", now=2.0)
    made.add("early", now=1.0)
    made.add("important", priority=5, now=3.0)

    assert [made.pop() for _ in range(4)] == ["important", "early", "late", None]


def test_of_those_that_came_at_once_the_first_goes_first() -> None:
    made = Queued()
    made.add("z", "a")

    assert [made.pop(), made.pop()] == ["z", "a"]


# --- backoff ---


@pytest.mark.parametrize(
    ("failures", "plugins", "seconds"),
    [
        (1, (), 1.0),
        (2, (), 2.0),
        (5, (), 16.0),
        (50, (), 16.0),  # at most
        (1, ("Nodes",), 1.0),
        (3, ("Nodes",), 4.0),
        (9, ("Nodes",), 4.0),  # one that was turned away is woken by what can help, so it rests less
    ],
)
def test_how_long_an_entry_rests(failures: int, plugins: tuple[str, ...], seconds: float) -> None:
    made = Queued()
    made.add("a")
    now = 0.0
    for _ in range(failures):
        assert made.pop(now) == "a"
        made.queue.park("a", "shape", plugins)
        rested = now
        made.appear()
        now += 100.0

    due = made.queue.next_time()

    assert due == rested + seconds
    assert made.pop(due - 0.01) is None
    assert made.pop(due) == "a"


def test_without_a_plugin_to_blame_nothing_has_to_wake_it() -> None:
    made = Queued()
    made.add("a")

    made.refuse(plugins=())

    assert made.places() == {"a": BACKOFF}


# --- scouts ---


def test_equal_entries_send_one_scout() -> None:
    made = Queued()
    made.add("a", "b", "c")
    assert [made.refuse() for _ in range(3)] == ["a", "b", "c"]

    made.appear()

    assert made.places() == {"a": BACKOFF, "b": PARKED, "c": PARKED}


def test_a_scout_that_is_turned_away_leaves_the_others_in_peace() -> None:
    made = Queued()
    made.add("a", "b")
    made.refuse(), made.refuse()
    made.appear()

    assert made.refuse(10.0) == "a"

    assert made.places() == {"a": PARKED, "b": PARKED}
    assert made.queue.next_time() is None


def test_while_a_scout_is_on_its_way_events_do_not_look_at_its_shape_again_and_then_they_do() -> None:
    looked = 0

    class Shape(str):
        __slots__ = ()

        def __hash__(self) -> int:
            nonlocal looked
            looked += 1
            return super().__hash__()

    made = Queued()
    made.add("a", "b")
    for _ in range(2):
        made.refuse(shape=Shape("shape"))
    queue, cluster, came = made.queue, Cluster(), node("n")
    for _ in range(2):
        queue.wake(None, came, cluster)
    looked = 0
    for _ in range(50):
        queue.wake(None, came, cluster)
    assert looked == 0

    made.refuse(now=10.0, shape=Shape("shape"))
    assert made.places() == {"a": PARKED, "b": PARKED}
    made.appear()
    assert made.places() == {"a": BACKOFF, "b": PARKED}


def test_after_a_scout_that_found_a_place_the_next_follows() -> None:
    made = Queued()
    made.add("a", "b", "c")
    for _ in range(3):
        made.refuse()
    made.appear()

    assert made.pop(10.0) == "a"
    made.queue.remove("a")

    assert made.places() == {"b": BACKOFF, "c": PARKED}


def test_the_scout_is_who_would_be_tried_first() -> None:
    made = Queued()
    made.add("a")
    made.add("b", priority=9)
    made.refuse(), made.refuse()

    made.appear()

    assert made.places() == {"a": PARKED, "b": BACKOFF}


def test_a_scout_that_turns_out_to_be_of_another_shape_does_not_hold_the_others_up() -> None:
    made = Queued()
    made.add("a", "b")
    made.refuse(), made.refuse()
    made.appear()

    assert made.refuse(10.0, shape="another") == "a"

    assert made.places() == {"a": PARKED, "b": BACKOFF}


def test_a_scout_that_is_gated_does_not_hold_the_others_up() -> None:
    made = Queued()
    made.add("a", "b")
    made.refuse(), made.refuse()
    made.appear()

    made.queue.shut("a", SHUT)
    made.queue.validate()

    assert made.places() == {"a": GATED, "b": BACKOFF}


def test_a_scout_that_goes_does_not_hold_the_others_up() -> None:
    made = Queued()
    made.add("a", "b")
    made.refuse(), made.refuse()
    made.appear()

    made.queue.remove("a")
    made.queue.validate()

    assert made.places() == {"b": BACKOFF}


def test_an_entry_that_asks_for_something_else_now_goes_by_itself() -> None:
    made = Queued()
    made.add("a", "b")
    made.refuse(), made.refuse()

    made.queue.activate("b")
    made.queue.validate()

    assert made.places() == {"a": PARKED, "b": BACKOFF}
    assert made.pop(10.0) == "b"


def test_the_only_entry_of_its_shape_can_go_by_itself() -> None:
    made = Queued()
    made.add("a")
    made.refuse()

    made.queue.activate("a")
    made.queue.validate()

    assert made.refuse(10.0) == "a"
    assert made.places() == {"a": PARKED}


# --- events ---


def test_an_event_wakes_only_whom_it_helps() -> None:
    made = Queued()
    made.add("a", wants="x")
    made.add("b", wants="y")
    made.refuse(shape="x"), made.refuse(shape="y")

    made.appear("y")

    assert made.places() == {"a": PARKED, "b": BACKOFF}


def test_an_event_of_another_kind_wakes_nobody() -> None:
    made = Queued()
    made.add("a")
    made.refuse()

    assert made.queue.wake(None, pod("p"), Cluster()) == []
    assert made.queue.wake(node("n"), None, Cluster()) == []

    assert made.places() == {"a": PARKED}


def test_gated_entries_are_told_and_not_tried() -> None:
    made = Queued()
    made.add("a", wants="x")
    made.queue.shut("a", SHUT)
    assert made.pop() is None

    assert made.appear("y") == []
    assert made.appear("x") == ["a"]

    made.queue.open("a")
    assert made.pop() == "a"


def test_a_gate_that_opens_does_not_shorten_a_rest() -> None:
    made = Queued()
    made.add("a")
    made.refuse(now=5.0, plugins=())
    made.queue.shut("a", SHUT)

    made.queue.open("a")
    made.queue.validate()

    assert made.pop(5.5) is None
    assert made.pop(6.0) == "a"


def test_what_nothing_has_woken_for_long_is_tried_again() -> None:
    made = Queued()
    made.add("a")
    made.refuse(now=10.0)

    made.clock.now = 10.0 + REVISIT_SECONDS - 1
    made.queue.revisit()
    assert made.places() == {"a": PARKED}
    made.clock.now = 10.0 + REVISIT_SECONDS
    made.queue.revisit()

    assert made.places() == {"a": BACKOFF}


def test_counts_by_place() -> None:
    made = Queued()
    made.add("a", "b", "c", "d")
    made.refuse()
    made.refuse(plugins=())
    made.queue.shut("c", SHUT)

    assert made.queue.counts() == {ACTIVE: 1, BACKOFF: 1, PARKED: 1, GATED: 1}
    assert len(made.queue) == 4
    assert "a" in made.queue


# --- validate sees what is wrong ---


def test_validate_sees_an_entry_in_two_places() -> None:
    made = Queued()
    made.add("a")
    made.refuse()
    entry = made.queue.get("a")
    assert entry is not None
    entry.place = TAKEN

    with pytest.raises(AssertionError, match="a: parked"):
        made.queue.validate()
