"""Taints and what tolerates them."""

import pytest

from allotment.allocator.taint import blocking_taint, tolerates
from allotment.api.resource import DeviceTaint, DeviceToleration
from tests.allocator.build import taint, toleration

BROKEN = taint("broken", "soon", "NoSchedule")


@pytest.mark.parametrize(
    ("tolerant", "accepted"),
    [
        (toleration("broken", "Equal", "soon"), True),
        (toleration("broken", None, "soon"), True),  # Equal is what is meant
        (toleration("broken", "", "soon"), True),
        (toleration("broken", "Equal", "now"), False),
        (toleration("broken"), False),  # Equal to no value
        (toleration("broken", "Exists"), True),
        (toleration("broken", "Exists", "now"), True),  # the value is not looked at
        (toleration("other", "Exists"), False),
        (toleration(None, "Exists"), True),  # every taint
        (toleration("", "Exists"), True),
        (toleration(None, "Equal", "soon"), True),
        (toleration("broken", "Exists", effect="NoSchedule"), True),
        (toleration("broken", "Exists", effect="NoExecute"), False),
        (toleration("broken", "Exists", effect=""), True),
        (toleration("broken", "Matches", "soon"), False),  # an operator that is newer than we are
    ],
)
def test_a_toleration(tolerant: DeviceToleration, accepted: bool) -> None:
    assert tolerates(tolerant, BROKEN) is accepted


def test_an_absent_value_equals_an_empty_one() -> None:
    assert tolerates(toleration("broken", "Equal", ""), taint("broken"))
    assert tolerates(toleration("broken", "Equal"), taint("broken", ""))


@pytest.mark.parametrize(
    ("effect", "blocks"),
    [("NoSchedule", True), ("NoExecute", True), ("None", False), ("", False), ("NoPanic", False)],
)
def test_only_two_effects_block(effect: str, blocks: bool) -> None:
    found = taint("t", effect=effect)
    assert blocking_taint([found], []) == (found if blocks else None)


@pytest.mark.parametrize(
    ("taints", "tolerations", "blocking"),
    [
        pytest.param([], [], None, id="no taints"),
        pytest.param(["a"], [], "a", id="not tolerated"),
        pytest.param(["a", "b"], ["a"], "b", id="the first that is not tolerated"),
        pytest.param(["a", "b"], ["b", "a"], None, id="all tolerated, in any order"),
        pytest.param(["b", "a"], [], "b", id="the first in order"),
    ],
)
def test_the_first_taint_that_blocks(taints: list[str], tolerations: list[str], blocking: str | None) -> None:
    found: DeviceTaint | None = blocking_taint(
        [taint(key) for key in taints], [toleration(key, "Exists") for key in tolerations]
    )
    assert (found.key if found else None) == blocking
