"""Whether requests can all get different devices; and if not, a proof that counting confirms."""

from itertools import combinations

import pytest
from hypothesis import given as suppose
from hypothesis import settings
from hypothesis import strategies as st

from allotment.allocator.matching import Shortage, unmatched
from tests.thoroughness import examples

Demands = list[tuple[int, int, int]]


def possible(demands: Demands) -> bool:
    """By trying every choice of devices for the first request, then for the rest."""
    if not demands:
        return True
    (_, count, candidates), rest = demands[0], demands[1:]
    devices = [1 << position for position in range(candidates.bit_length()) if candidates >> position & 1]
    for chosen in combinations(devices, max(count, 0)):
        taken = sum(chosen)
        if possible([(request, more, left & ~taken) for request, more, left in rest]):
            return True
    return False


def confirm(shortage: Shortage, demands: Demands) -> None:
    """Checks a certificate against the demands that it speaks of, by counting alone."""
    assert shortage.requests
    together = 0
    for request, count in shortage.requests:
        (stated,) = [demand for demand in demands if demand[0] == request]
        assert stated[1] == count
        together |= stated[2]
    assert shortage.candidates == together, "all candidates of the group, and no others"
    assert shortage.needed == sum(count for _, count in shortage.requests)
    assert shortage.available == bin(together).count("1")
    assert shortage.holds()
    assert shortage.needed > shortage.available


@pytest.mark.parametrize(
    ("demands", "group"),
    [
        pytest.param([], None, id="nobody wants anything"),
        pytest.param([(0, 0, 0)], None, id="nothing is wanted"),
        pytest.param([(0, 1, 0b1)], None, id="one of one"),
        pytest.param([(0, 1, 0)], [0], id="one of none"),
        pytest.param([(0, 2, 0b1)], [0], id="two of one"),
        pytest.param([(0, 1, 0b1), (1, 1, 0b1)], [0, 1], id="both want the same"),
        pytest.param([(0, 1, 0b11), (1, 1, 0b01)], None, id="the first gives way"),
        pytest.param([(0, 2, 0b111), (1, 1, 0b001)], None, id="one of two gives way"),
        pytest.param([(0, 1, 0b11), (1, 1, 0b110), (2, 1, 0b100)], None, id="a chain of moves"),
        pytest.param([(7, 1, 0b11), (8, 1, 0b11), (9, 1, 0b11)], [7, 8, 9], id="three on two"),
        pytest.param([(0, 1, 0b100), (1, 1, 0b01), (2, 1, 0b01)], [1, 2], id="who is not short is not named"),
    ],
)
def test_small_cases(demands: Demands, group: list[int] | None) -> None:
    shortage = unmatched(demands)
    if group is None:
        assert shortage is None
    else:
        assert shortage is not None
        assert [request for request, _ in shortage.requests] == group
        confirm(shortage, demands)


DEMANDS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**6 - 1)), max_size=5).map(
    lambda pairs: [(number, *pair) for number, pair in enumerate(pairs)]
)


@settings(max_examples=examples(500), deadline=None)
@suppose(demands=DEMANDS)
def test_agrees_with_trying_everything_and_every_no_has_a_proof(demands: Demands) -> None:
    shortage = unmatched(demands)
    assert (shortage is None) == possible(demands)
    if shortage is not None:
        confirm(shortage, demands)


def test_large_demands_are_quick_to_decide() -> None:
    """32 requests for two devices each, of 63: the augmenting paths are short and few."""
    every = 2**63 - 1
    demands = [(number, 2, every) for number in range(32)]
    shortage = unmatched(demands)
    assert shortage is not None
    confirm(shortage, demands)
    assert unmatched(demands[:31]) is None
