"""LeastAllocated, MostAllocated and BalancedAllocation: figures worked out by hand from the rule in each docstring."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.core import Node, Pod
from allotment.scheduler.framework import MAX_SCORE, SKIP
from allotment.scheduler.plugins.balanced_allocation import BalancedAllocation
from allotment.scheduler.plugins.least_allocated import CPU_AND_MEMORY, LeastAllocated
from allotment.scheduler.plugins.most_allocated import MostAllocated
from tests.builders.typed import cycle, node, node_info, pod

Scorer = type[LeastAllocated] | type[MostAllocated] | type[BalancedAllocation]
GPU = "example.com/gpu"
SQUARE = node(cpu=10, memory=10)


def score(
    kind: Scorer, of: Pod, on: Node, *there: Pod, resources: Mapping[str, int] = CPU_AND_MEMORY
) -> int | None:
    """None: the pod is not scored."""
    plugin, attempt = kind(resources), cycle(of)
    return None if plugin.pre_filter(attempt) is SKIP else plugin.score(attempt, node_info(on, *there))


@pytest.mark.parametrize(
    ("of", "there", "least", "most", "balanced"),
    [
        pytest.param(pod(), [], 99, 0, None, id="asking for nothing counts as one of 110 pods"),
        pytest.param(pod(cpu=0), [pod(n) for n in "abcdefghij"], 90, 10, None, id="among others"),
        pytest.param(pod(cpu=5, memory=5), [], 50, 50, 75, id="half of it, evenly"),
        pytest.param(pod(cpu=5), [], 75, 25, 62, id="half of the cpu tilts it"),
        pytest.param(pod(cpu=5), [pod("q", memory=5)], 50, 50, 87, id="half of the cpu evens it out"),
        pytest.param(pod(cpu=1, memory=1), [pod("q", cpu=2, memory=4)], 60, 40, 75, id="with others"),
        pytest.param(pod(cpu=5, memory=5), [pod("q", cpu=20, memory=20)], 0, 100, 75, id="an overfull node"),
    ],
)
def test_scores(of: Pod, there: list[Pod], least: int, most: int, balanced: int | None) -> None:
    kinds: list[Scorer] = [LeastAllocated, MostAllocated, BalancedAllocation]
    assert [score(kind, of, SQUARE, *there) for kind in kinds] == [least, most, balanced]


def test_weights_of_resources() -> None:
    heavy = {"cpu": 3, "memory": 1}
    assert score(LeastAllocated, pod(cpu=10), SQUARE, resources=heavy) == 25
    assert score(MostAllocated, pod(cpu=10), SQUARE, resources=heavy) == 75
    assert score(LeastAllocated, pod(cpu=10, memory=5), SQUARE, resources={"cpu": 0, "memory": 1}) == 50


def test_extended_resources_count_only_for_pods_that_ask_for_them() -> None:
    resources = {"cpu": 1, GPU: 1}
    on = node(cpu=10, more={GPU: 4})
    assert score(MostAllocated, pod(cpu=5), on, resources=resources) == 50
    assert score(MostAllocated, pod(cpu=5, more={GPU: 4}), on, resources=resources) == 75
    assert score(BalancedAllocation, pod(cpu=5), on, resources={GPU: 1}) is None
    assert score(LeastAllocated, pod(cpu=5), on, resources={GPU: 1}) == 99  # by the number of pods


def test_a_resource_that_the_node_does_not_offer_does_not_count() -> None:
    assert score(LeastAllocated, pod(cpu=5), node(cpu=10, memory=None)) == 50
    assert score(LeastAllocated, pod(cpu=5), node(cpu=None, memory=None)) == 0
    assert score(BalancedAllocation, pod(cpu=5), node(cpu=10, memory=None)) == 75


def test_three_resources_are_balanced_by_their_standard_deviation() -> None:
    resources = {"cpu": 1, "memory": 1, "ephemeral-storage": 1}
    on = node(cpu=10, memory=10, more={"ephemeral-storage": 10})
    # Parts 0.9, 0, 0: mean 0.3, deviation sqrt(0.54 / 3) = 0.424; 57 with the pod, 100 without.
    assert score(BalancedAllocation, pod(cpu=9), on, resources=resources) == 50 + (50 + 57 - 100) // 2


@given(
    offered=st.tuples(st.integers(1, 50), st.integers(1, 50)),
    taken=st.tuples(st.integers(0, 60), st.integers(0, 60)),
    asked=st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
def test_every_score_is_in_range_and_least_and_most_are_opposites(
    offered: tuple[int, int], taken: tuple[int, int], asked: tuple[int, int]
) -> None:
    on, there, of = (
        node(cpu=offered[0], memory=offered[1]),
        pod("q", cpu=taken[0], memory=taken[1]),
        pod(cpu=asked[0], memory=asked[1]),
    )
    least, most = score(LeastAllocated, of, on, there), score(MostAllocated, of, on, there)
    balanced = score(BalancedAllocation, of, on, there)
    assert least is not None
    assert most is not None
    assert 0 <= least <= MAX_SCORE
    assert 0 <= most <= MAX_SCORE
    assert MAX_SCORE - 2 <= least + most <= MAX_SCORE  # each is rounded down, twice
    assert (balanced is None) == (asked == (0, 0))
    assert balanced is None or 50 <= balanced <= MAX_SCORE
