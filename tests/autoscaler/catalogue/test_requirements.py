"""Sets of label values against the plain meaning of the operators."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.autoscaling import Requirement
from allotment.autoscaler.catalogue.requirements import (
    ANY,
    NONE,
    LabelValues,
    contradiction,
    failed,
    labelled,
    one,
    passing,
)

WORDS = ("a", "b", "0", "1", "2", "3", "4")


def need(operator: str, *values: str, key: str = "k") -> Requirement:
    return Requirement(key=key, operator=operator, values=values)


def passes(test: Requirement, value: str | None) -> bool:
    """What the operator says of a node with this value of the label, or without the label."""
    if value is None:
        return test.operator in ("NotIn", "DoesNotExist")
    number, bound = int(value) if value.isdecimal() else None, test.values[0] if test.values else ""
    match test.operator:
        case "In":
            return value in test.values
        case "NotIn":
            return value not in test.values
        case "Exists":
            return True
        case "DoesNotExist":
            return False
        case "Gt":
            return number is not None and number > int(bound)
        case "Gte":
            return number is not None and number >= int(bound)
        case "Lt":
            return number is not None and number < int(bound)
        case _:
            return number is not None and number <= int(bound)


TESTS = st.one_of(
    st.builds(need, st.sampled_from(["In", "NotIn"]), st.sampled_from(WORDS)),
    st.builds(need, st.sampled_from(["In", "NotIn"]), st.sampled_from(WORDS), st.sampled_from(WORDS)),
    st.builds(need, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(need, st.sampled_from(["Gt", "Gte", "Lt", "Lte"]), st.sampled_from(["0", "2", "4"])),
)


@given(st.lists(TESTS, min_size=1, max_size=4), st.sampled_from((*WORDS, None)))
def test_all_tests_of_a_label_at_once(tests: list[Requirement], value: str | None) -> None:
    machine = labelled({} if value is None else {"k": value})
    assert (failed(machine, passing(tests)) is None) == all(passes(test, value) for test in tests)


@given(TESTS, TESTS)
def test_what_only_is_possible_contradicts_if_no_value_is_left(one: Requirement, other: Requirement) -> None:
    values = (*WORDS, "other", "9", None)  # with some that nobody lists
    possible = any(passes(one, value) and passes(other, value) for value in values)
    assert (contradiction(passing([one]), passing([other])) is None) == possible


@pytest.mark.parametrize(
    ("values", "empty"),
    [
        (LabelValues(), True),
        (ANY, False),
        (LabelValues(frozenset("5"), others=True, least=5, most=5), True),
        (LabelValues(frozenset("56"), others=True, least=5, most=7), False),
        (LabelValues(others=True, least=3, most=2), True),
    ],
)
def test_empty(values: LabelValues, empty: bool) -> None:
    assert values.empty is empty


def test_only_one_value_is_certain() -> None:
    assert one("a").only == "a"
    assert LabelValues(frozenset("ab")).only is None
    assert LabelValues(frozenset("a"), others=True).only is None
    assert (LabelValues(frozenset(("4", "8"))) & LabelValues(others=True, least=5)).only == "8"


def test_a_label_that_a_machine_is_known_not_to_have() -> None:
    machine = {"k": NONE}
    assert failed(machine, passing([need("NotIn", "a")])) is None
    assert failed(machine, passing([need("DoesNotExist")])) is None
    assert failed(machine, passing([need("Exists")])) == "k"
    assert contradiction(machine, passing([need("In", "a")])) == "k"
