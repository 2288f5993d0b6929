"""Shared counters and compatibility groups: taking, giving back, and what is left after what others hold."""

import random
from collections.abc import Sequence

import pytest

from allotment.allocator.counters import NOBODY, UNGROUPED, Counters, CounterTable
from allotment.allocator.held import NOTHING_HELD, Held
from allotment.allocator.pool import DeviceID
from allotment.api.resource import CounterSet, ResourceSlice
from allotment.api.resource import Device as DeviceSpec
from tests.allocator.build import DRIVER, counter_set, device, draw, held, pools, quantity, slice_

BILLION = 10**9


def card(
    specs: Sequence[DeviceSpec], *sets: CounterSet, others: Sequence[DeviceSpec] = ()
) -> list[ResourceSlice]:
    """A pool: these devices here, others on another node, and the counters of both."""
    return [
        slice_(*specs, name="devices", of=3),
        slice_(*others, name="elsewhere", of=3, on="node-2"),
        slice_(name="counters", of=3, everywhere=True, counters=sets),
    ]


class Bench:
    """Counters over the devices of some slices, asked by the devices' names."""

    def __init__(
        self, slices: list[ResourceSlice], in_use: Held = NOTHING_HELD, *, grouped: bool = True
    ) -> None:
        found = pools(slices)
        devices = [each for pool in found for each in pool.devices]
        self.plan = CounterTable(found, devices)
        self.positions = {each.spec.name: position for position, each in enumerate(devices)}
        used = sum(
            1 << position
            for position, each in enumerate(devices)
            if in_use.exclusive(each.id) or in_use.shared(each.id)
        )
        self.counters = Counters(self.plan, used, in_use, grouped=grouped)

    def take(self, name: str) -> list[tuple[int, int]] | None:
        return self.counters.take(self.plan.draws[self.positions[name]])

    def give(self, name: str, before: list[tuple[int, int]]) -> None:
        self.counters.give(self.plan.draws[self.positions[name]], before)

    def left(self) -> dict[str, int]:
        return {
            f"{set}.{name}": amount // BILLION
            for (set, name), amount in zip(self.plan.names, self.counters.left, strict=True)
        }


SLOTS = counter_set("gpu", slots="7", memory="40")
PARTS = [
    device("full", draws=[draw("gpu", slots="7", memory="40")]),
    device("half", draws=[draw("gpu", slots="4", memory="20")]),
    device("small", draws=[draw("gpu", slots="1", memory="5")]),
    device("tiny", draws=[draw("gpu", slots="1", memory="5")]),
]


def test_taking_and_giving_back() -> None:
    bench = Bench(card(PARTS, SLOTS))
    assert bench.left() == {"gpu.slots": 7, "gpu.memory": 40}
    half = bench.take("half")
    assert half is not None
    assert bench.left() == {"gpu.slots": 3, "gpu.memory": 20}
    assert bench.take("full") is None
    assert bench.left() == {"gpu.slots": 3, "gpu.memory": 20}, "what is refused leaves no trace"
    bench.give("half", half)
    assert bench.take("full") is not None
    assert bench.take("tiny") is None


def test_what_others_hold_counts_first_also_on_other_nodes() -> None:
    slices = card(PARTS, SLOTS, others=[device("far", draws=[draw("gpu", slots="2", memory="1")])])
    bench = Bench(slices, held("half", "far"))
    assert bench.left() == {"gpu.slots": 1, "gpu.memory": 19}


def test_shares_of_others_count_like_the_whole_device() -> None:
    bench = Bench(card(PARTS, SLOTS), held(shared={"half": {}}))
    assert bench.left() == {"gpu.slots": 3, "gpu.memory": 20}


def test_an_overdrawn_counter_blocks_every_device_of_the_pool_that_consumes_any() -> None:
    """A driver may shrink its pool under what is allocated."""
    shrunk = counter_set("gpu", slots="3", memory="40")
    bench = Bench(
        card([*PARTS, device("nic", draws=[draw("net", lanes="1")])], shrunk, counter_set("net", lanes="9")),
        held("half"),
    )
    assert bench.counters.overdrawn == {0}
    assert bench.take("nic") is None, "although its own counters have enough"


def test_other_pools_are_not_blocked() -> None:
    other = [
        slice_(device("fine", draws=[draw("gpu", slots="1")]), name="x", pool="q", of=2),
        slice_(name="y", pool="q", of=2, counters=[counter_set("gpu", slots="1")]),
    ]
    bench = Bench([*card(PARTS, counter_set("gpu", slots="3", memory="40")), *other], held("half"))
    assert bench.take("tiny") is None
    assert bench.take("fine") is not None


def test_the_same_set_name_in_two_pools_is_two_sets() -> None:
    both = [
        part
        for pool in ("p", "q")
        for part in (
            slice_(device(f"{pool}-a", draws=[draw("gpu", slots="1")]), name=f"{pool}1", pool=pool, of=2),
            slice_(name=f"{pool}2", pool=pool, of=2, counters=[counter_set("gpu", slots="1")]),
        )
    ]
    bench = Bench(both)
    assert bench.take("p-a") is not None
    assert bench.take("q-a") is not None


def test_one_device_may_draw_on_one_counter_in_two_entries() -> None:
    twice = device("twice", draws=[draw("gpu", slots="4"), draw("gpu", slots="4")])
    bench = Bench(card([twice], SLOTS))
    assert bench.take("twice") is None
    assert bench.counters.short_of(bench.plan.draws[0]) == [("gpu", "slots", quantity("1"))]


def test_what_is_short_and_by_how_much() -> None:
    bench = Bench(card(PARTS, SLOTS), held("half"))
    assert bench.counters.short_of(bench.plan.draws[bench.positions["full"]]) == [
        ("gpu", "slots", quantity("4")),
        ("gpu", "memory", quantity("20")),
    ]
    assert bench.counters.short_of(bench.plan.draws[bench.positions["tiny"]]) == []


# --- groups ---

LOCK = counter_set("lock")


def grouped(**groups: list[str]) -> list[DeviceSpec]:
    return [device(name, draws=[draw("lock", allowed)]) for name, allowed in groups.items()]


@pytest.mark.parametrize(
    ("first", "second", "third", "allowed"),
    [
        pytest.param([], [], [], [True, True], id="nobody has groups"),
        pytest.param(["a"], ["a"], ["a"], [True, True], id="all the same"),
        pytest.param(["a"], ["b"], ["a"], [False, True], id="different"),
        pytest.param(["a"], [], ["a"], [False, True], id="none goes not with some"),
        pytest.param([], ["a"], [], [False, True], id="nor some with none"),
        pytest.param(["a", "b"], ["b", "c"], ["b"], [True, True], id="one in common"),
        pytest.param(
            ["a", "b"], ["b", "c"], ["a"], [True, False], id="in common with each, but not with all"
        ),
    ],
)
def test_devices_of_one_set_have_a_group_in_common(
    first: list[str], second: list[str], third: list[str], allowed: list[bool]
) -> None:
    bench = Bench(card(grouped(x=first, y=second, z=third), LOCK))
    assert bench.take("x") is not None
    assert [bench.take("y") is not None, bench.take("z") is not None] == allowed


def test_groups_of_what_is_in_use_count() -> None:
    bench = Bench(card(grouped(x=["a"], y=["b"], z=["a", "b"]), LOCK), held("x"))
    assert bench.take("y") is None
    assert bench.take("z") is not None


def test_groups_can_be_switched_off() -> None:
    bench = Bench(card(grouped(x=["a"], y=["b"]), LOCK), held("x"), grouped=False)
    assert bench.take("y") is not None


def test_a_refusal_by_the_second_set_restores_the_first() -> None:
    specs = [
        device("x", draws=[draw("two", ["b"])]),
        device("y", draws=[draw("one", ["a"]), draw("two", ["a"])]),
        device("z", draws=[draw("one", ["c"])]),
    ]
    bench = Bench(card(specs, counter_set("one"), counter_set("two")))
    assert bench.take("x") is not None
    assert bench.take("y") is None
    assert bench.take("z") is not None, "y was refused, so its group does not bind the first set"


def test_entries_of_one_device_on_one_set_must_agree_among_themselves() -> None:
    bench = Bench(card([device("odd", draws=[draw("lock", ["a"]), draw("lock", ["b"])])], LOCK))
    assert bench.take("odd") is None
    assert bench.counters.state == [NOBODY]


def test_the_states_of_a_set() -> None:
    bench = Bench(card(grouped(x=[], y=["a"]), LOCK))
    before = bench.take("x")
    assert before is not None
    assert bench.counters.state == [UNGROUPED]
    bench.give("x", before)
    assert bench.counters.state == [NOBODY]
    bench.take("y")
    assert bench.counters.state == [1]


# --- relations between devices ---


def test_devices_of_a_pool_are_related_by_its_counters() -> None:
    specs = [*PARTS, device("free")]
    bench = Bench(card(specs, SLOTS))
    every = (1 << len(PARTS)) - 1
    assert bench.plan.related(1 << bench.positions["tiny"]) == every
    assert bench.plan.related(1 << bench.positions["free"]) == 1 << bench.positions["free"]


@pytest.mark.parametrize("seed", range(30))
def test_give_is_the_inverse_of_take_in_any_order_of_a_stack(seed: int) -> None:
    rng = random.Random(seed)
    groups = ["a", "b", "c"]
    specs = [
        device(
            f"d{number}",
            draws=[
                draw(name, rng.sample(groups, rng.randint(0, 2)), slots=str(rng.randint(0, 3)))
                for name in rng.sample(["one", "two"], rng.randint(1, 2))
            ],
        )
        for number in range(6)
    ]
    in_use = Held([DeviceID(DRIVER, "pool", f"d{number}") for number in range(6) if rng.random() < 0.2])
    bench = Bench(card(specs, counter_set("one", slots="6"), counter_set("two", slots="4")), in_use)
    stack: list[tuple[str, list[tuple[int, int]], list[int], list[int]]] = []
    for _ in range(60):
        state = (list(bench.counters.left), list(bench.counters.state))
        if stack and rng.random() < 0.4:
            name, before, left, sets = stack.pop()
            bench.give(name, before)
            assert (bench.counters.left, bench.counters.state) == (left, sets)
        else:
            name = f"d{rng.randrange(6)}"
            taken = bench.take(name)
            if taken is None:
                assert (bench.counters.left, bench.counters.state) == state
            else:
                assert min(bench.counters.left) >= 0
                stack.append((name, taken, *state))
