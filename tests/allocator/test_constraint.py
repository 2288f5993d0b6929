"""Relations between devices, as bit sets: what an attribute's elements are, and who may come next."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given as suppose
from hypothesis import settings
from hypothesis import strategies as st

from allotment.allocator.constraint import FREE, Constraint, elements_of, static_attribute
from allotment.allocator.errors import ClaimError
from allotment.allocator.request import Relation
from allotment.api.codec import to_builtins
from allotment.api.resource import DeviceAttribute
from tests.allocator.build import DRIVER, Plain, attribute, device, placed, version
from tests.bruteforce.constraint import agree
from tests.thoroughness import examples

NAME = f"{DRIVER}/x"


@pytest.mark.parametrize(
    ("value", "elements"),
    [
        (attribute("a"), [("string", "a")]),
        (attribute(0), [("int", 0)]),
        (attribute(False), [("bool", False)]),
        (version("1.0.0"), [("version", "1.0.0")]),
        (attribute([1, 2]), [("int", 1), ("int", 2)]),
        (attribute(["a"]), [("string", "a")]),
        (attribute([True]), [("bool", True)]),
        (version("1.0.0", "2.0.0"), [("version", "1.0.0"), ("version", "2.0.0")]),
        (DeviceAttribute(), []),
        (DeviceAttribute(int_values=()), []),  # an empty list is no value to a constraint
    ],
)
def test_the_elements_of_an_attribute(value: DeviceAttribute, elements: list[tuple[str, object]]) -> None:
    assert elements_of(value, lists=True) == elements


def test_without_lists_a_list_has_no_elements() -> None:
    assert elements_of(attribute([1, 2]), lists=False) == []
    assert elements_of(attribute(1), lists=False) == [("int", 1)]


@pytest.mark.parametrize(
    ("published", "asked", "found"),
    [
        ({"x": "bare"}, NAME, "bare"),
        ({NAME: "full"}, NAME, "full"),
        ({"x": "bare", NAME: "full"}, NAME, "full"),  # the full name comes first
        ({"x": "bare"}, "other.example.com/x", None),  # the bare name belongs to the driver's domain
        ({"other.example.com/x": "theirs"}, "other.example.com/x", "theirs"),
        ({"x": "bare"}, "x", "bare"),
        ({}, NAME, None),
    ],
)
def test_an_attribute_is_found_by_its_full_name_or_the_bare_one(
    published: dict[str, Plain], asked: str, found: str | None
) -> None:
    value = static_attribute(placed(device("d", attributes=published)), asked)
    assert (value.string_value if value else None) == found


class Bench:
    """A constraint over devices with these values; devices are chosen by their index."""

    def __init__(
        self, values: Sequence[DeviceAttribute | None], *, distinct: bool, lists: bool = True
    ) -> None:
        self.constraint = Constraint(Relation(NAME, distinct, frozenset()), lists=lists)
        devices = [placed(device(f"d{n}", attributes={"x": v} if v else {})) for n, v in enumerate(values)]
        self.values = self.constraint.read(devices, lambda each: static_attribute(each, NAME))

    def allowed(self, *chosen: int) -> list[int]:
        state = FREE
        for position in chosen:
            assert self.constraint.allowed(self.values, state) >> position & 1, f"{position} is not allowed"
            state = self.constraint.joined(self.values, position, state)
        mask = self.constraint.allowed(self.values, state)
        return [position for position in range(len(self.values.held)) if mask >> position & 1]


def bench(*values: Plain | None, distinct: bool = False, lists: bool = True) -> Bench:
    return Bench([None if v is None else attribute(v) for v in values], distinct=distinct, lists=lists)


def test_match_pins_the_first_value() -> None:
    same = bench("a", "b", "a", None)
    assert same.allowed() == [0, 1, 2]  # a device without the attribute never may
    assert same.allowed(0) == [0, 2]
    assert same.allowed(1) == [1]


def test_match_of_lists_keeps_what_all_have_in_common() -> None:
    lists = bench([1, 2], [2, 3], [1, 3], 2, [1])
    assert lists.allowed(0) == [0, 1, 2, 3, 4]
    assert lists.allowed(0, 1) == [0, 1, 3]  # 2 is pinned; a single value is a set of one
    assert lists.allowed(0, 1, 3) == [0, 1, 3]


def test_distinct_spends_values() -> None:
    different = bench("a", "b", "a", None, distinct=True)
    assert different.allowed() == [0, 1, 2]
    assert different.allowed(0) == [1]
    assert different.allowed(0, 1) == []


def test_distinct_lists_are_disjoint() -> None:
    lists = bench([1, 2], [2, 3], [3], 4, distinct=True)
    assert lists.allowed(0) == [2, 3]
    assert lists.allowed(0, 2) == [3]


def test_types_never_mix() -> None:
    mixed = ("1", 1, True)
    assert bench(*mixed).allowed(0) == [0]
    assert bench(*mixed, distinct=True).allowed(0) == [1, 2]
    assert bench(1, True, False, 0).allowed(0) == [0]  # Python thinks that 1 == True


def test_a_version_is_not_the_string_that_it_is_written_as() -> None:
    both = Bench([version("1.0.0"), attribute("1.0.0")], distinct=False)
    assert both.allowed(0) == [0]


def test_without_lists_a_value_of_no_known_type_may_come_first_and_alone() -> None:
    """As upstream: the first device is only looked at for having the attribute."""
    for distinct in (False, True):
        odd = bench([1], [1], "a", distinct=distinct, lists=False)
        assert odd.allowed() == [0, 1, 2]
        assert odd.allowed(0) == ([2] if distinct else [])
    assert bench([1], [1], "a", distinct=True, lists=False).allowed(2) == []


def test_a_value_that_cannot_be_computed_is_kept_as_an_error() -> None:
    constraint = Constraint(Relation(NAME, False, frozenset()), lists=True)
    fault = ClaimError("no")
    values = constraint.read([placed(device("d"))], lambda each: fault)
    assert values.errors == {0: fault}
    assert values.present == 0


def test_derived_and_published_values_meet_in_one_constraint() -> None:
    """Two tables of one constraint share the numbers of elements."""
    devices = [placed(device("d0", x="a")), placed(device("d1", x="b"))]
    constraint = Constraint(Relation(NAME, False, frozenset()), lists=True)
    published = constraint.read(devices, lambda each: static_attribute(each, NAME))
    derived = constraint.read(devices, lambda each: attribute("b"))
    state = constraint.joined(derived, 0, FREE)
    assert constraint.allowed(published, state) == 0b10


VALUES = st.one_of(
    st.none(),
    st.sampled_from(["a", "b"]),
    st.integers(0, 2),
    st.booleans(),
    st.lists(st.integers(0, 3), max_size=3, unique=True),
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=2, unique=True),
)


@settings(max_examples=examples(300), deadline=None)
@suppose(
    values=st.lists(VALUES, min_size=1, max_size=5),
    distinct=st.booleans(),
    lists=st.booleans(),
    order=st.randoms(use_true_random=False),
)
def test_agrees_with_comparing_all_values_anew(
    values: list[Plain | None], distinct: bool, lists: bool, order: random.Random
) -> None:
    """Chooses devices at random; at each point, who may come next is who agrees with all chosen so far."""
    typed = [None if value is None else attribute(value) for value in values]
    plain = [None if value is None else to_builtins(value) for value in typed]
    subject = Bench(typed, distinct=distinct, lists=lists)
    constraint = {"distinctAttribute" if distinct else "matchAttribute": NAME}
    chosen: list[int] = []
    while True:
        allowed = subject.allowed(*chosen)
        fresh = [position for position in range(len(values)) if position not in chosen]
        expected = [p for p in fresh if agree(constraint, [plain[each] for each in [*chosen, p]], lists)]
        assert [position for position in allowed if position not in chosen] == expected
        if not expected:
            return
        chosen.append(order.choice(expected))
