"""What a toleration of node taints is for; keys and effects are in the tables of the scheduler's plugin."""

import pytest

from allotment.api.core import Taint, Toleration
from allotment.api.toleration import tolerates

NUMBERS = [
    ("Lt", "10", "9", True),
    ("Lt", "10", "10", False),
    ("Gt", "10", "11", True),
    ("Gt", "10", "9", False),
    ("Gt", "-10", "-9", True),
    ("Gt", "ten", "11", False),
    ("Gt", "10", "1e3", False),
    ("Gt", "010", "11", False),
    ("Gt", "-0", "11", False),
    ("Lt", "9" * 19, "1", False),  # more than 64 bits
    ("Gt", "10", "", False),
    ("In", "10", "10", False),
]


@pytest.mark.parametrize(("operator", "ours", "theirs", "expected"), NUMBERS)
def test_values_compare_as_whole_numbers(operator: str, ours: str, theirs: str, expected: bool) -> None:
    toleration = Toleration(key="k", operator=operator, value=ours)
    assert tolerates(toleration, Taint(key="k", value=theirs, effect="NoExecute")) is expected
