"""Sums over trees of locks: never too small, and exact for requests that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.allocator.counters import Counters, CounterTable
from allotment.allocator.held import Held
from allotment.allocator.locks import Locks
from allotment.allocator.semantic_pools import partition_pools
from allotment.api.semantic import ResourceInstance
from tests.allocator.forests import Situation, in_conflict, situations
from tests.allocator.trees import NODE, at, card, leaf, slice_of


class Forest:
    """Instances of a node and the locks between them."""

    def __init__(self, *trees: ResourceInstance, used: Sequence[str] = ()) -> None:
        (pool,) = partition_pools(NODE, [slice_of(*trees)], at(*used))
        self.names = [device.id.device for device in pool.devices]
        self.free = [name for name in self.names if name not in used]
        plan = CounterTable([pool], pool.devices)
        in_use = self.mask([name for name in used if name in self.names])
        self.locks = Locks(plan.draws, Counters(plan, in_use, Held(at(*used)), grouped=True))

    def mask(self, names: Sequence[str]) -> int:
        return sum(1 << self.names.index(name) for name in names)

    def hopeless(self, *wishes: Sequence[str]) -> bool:
        return self.locks.hopeless([(number, 1, self.mask(wish)) for number, wish in enumerate(wishes)])


def ending(forest: Forest, *ends: str) -> list[str]:
    return [name for name in forest.free if name.rsplit("/", 1)[-1] in ends]


@pytest.mark.parametrize(
    ("used", "wishes", "hopeless"),
    [
        pytest.param([], {"half": 4}, False, id="four halves of two cards"),
        pytest.param([], {"half": 5}, True, id="five"),
        pytest.param([], {"any": 6}, False, id="a half and two quarters of each"),
        pytest.param([], {"any": 7}, True, id="seven devices, but only six at a time"),
        pytest.param(["a/whole/gpu"], {"any": 4}, True, id="one card is locked"),
        pytest.param(["a/parts/rest/half/half"], {"any": 4}, False, id="locked on one level only"),
        pytest.param(["a/parts/rest/half/half"], {"any": 5}, True, id="locked on one level, one too many"),
        pytest.param([], {"gpu": 1, "half": 2}, False, id="a whole and two halves"),
        pytest.param(
            [], {"gpu": 1, "half": 3}, True, id="a whole and three halves: no number shows it, weight does"
        ),
        pytest.param(["b/parts/half"], {"gpu": 2}, True, id="wholes of broken cards"),
    ],
)
def test_what_two_cards_can_serve(used: list[str], wishes: dict[str, int], hopeless: bool) -> None:
    forest = Forest(card("a"), card("b"), used=used)
    kinds = {
        "gpu": ending(forest, "gpu"),
        "half": ending(forest, "gpu", "half"),
        "any": forest.free,
    }
    assert forest.hopeless(*(kinds[kind] for kind, count in wishes.items() for _ in range(count))) == hopeless


def test_devices_outside_of_trees_count_one_each() -> None:
    forest = Forest(leaf("x"), leaf("y"))
    assert not forest.locks
    assert not forest.hopeless(["x", "y"], ["x", "y"])
    assert forest.hopeless(["x", "y"], ["x", "y"], ["x", "y"])
    assert forest.hopeless([])


def together(names: Sequence[str], used: Sequence[str]) -> bool:
    everything = [*names, *used]
    return not any(in_conflict(one, other) for one, other in combinations(everything, 2))


def most(names: Sequence[str], used: Sequence[str]) -> int:
    """By trying every choice."""
    for count in range(len(names), 0, -1):
        if any(together(choice, used) for choice in combinations(names, count)):
            return count
    return 0


def servable(wishes: Sequence[Sequence[str]], used: list[str]) -> bool:
    if not wishes:
        return True
    return any(
        together([name], used) and servable(wishes[1:], [*used, name])
        for name in wishes[0]
        if name not in used
    )


@given(situations(), st.data())
def test_for_requests_that_are_alike_the_sum_is_exact(situation: Situation, data: st.DataObject) -> None:
    _, trees, used = situation
    forest = Forest(*trees, used=used)
    names: list[str] = (
        data.draw(st.lists(st.sampled_from(forest.free), max_size=8, unique=True)) if forest.free else []
    )
    possible = most(names, used)
    if possible:
        assert not forest.hopeless(*[names] * possible)
    assert forest.hopeless(*[names] * (possible + 1))


@given(situations(), st.data())
def test_what_can_be_served_is_never_called_hopeless(situation: Situation, data: st.DataObject) -> None:
    _, trees, used = situation
    forest = Forest(*trees, used=used)
    wish = st.lists(st.sampled_from(forest.free), max_size=6, unique=True) if forest.free else st.just([])
    wishes: list[list[str]] = data.draw(st.lists(wish, min_size=1, max_size=4))
    if servable(wishes, used):
        assert not forest.hopeless(*wishes)
