"""Node selectors: what they choose, and which of them are broken."""

import pytest

from allotment.allocator.errors import AllocationError
from allotment.allocator.nodeselector import node_matches, selects
from allotment.api.core import NodeSelector, NodeSelectorTerm
from tests.allocator.build import node, selector, selector_of, where

HERE = node("here", zone="z1", tier="3", empty="", signed="-4", huge="9223372036854775808", odd="3x")


@pytest.mark.parametrize(
    ("key", "operator", "values", "chosen"),
    [
        ("zone", "In", ["z1"], True),
        ("zone", "In", ["z2", "z1"], True),
        ("zone", "In", ["z2"], False),
        ("absent", "In", ["z1"], False),
        ("zone", "NotIn", ["z2"], True),
        ("zone", "NotIn", ["z2", "z1"], False),
        ("absent", "NotIn", ["z1"], True),  # what is not there is not in
        ("zone", "Exists", [], True),
        ("empty", "Exists", [], True),  # an empty label is a label
        ("empty", "In", [""], True),
        ("absent", "Exists", [], False),
        ("zone", "DoesNotExist", [], False),
        ("absent", "DoesNotExist", [], True),
        ("tier", "Gt", ["2"], True),
        ("tier", "Gt", ["3"], False),
        ("tier", "Lt", ["4"], True),
        ("tier", "Lt", ["3"], False),
        ("tier", "Gt", ["-9"], True),
        ("tier", "Gt", ["+2"], True),
        ("tier", "Gt", ["000000000000000000000000000002"], True),
        ("signed", "Lt", ["0"], True),
        ("absent", "Gt", ["0"], False),
        ("odd", "Gt", ["0"], False),  # a label that is no number is neither more nor less
        ("odd", "Lt", ["9"], False),
        ("huge", "Gt", ["0"], False),  # nor is one that 64 bits do not hold
        ("empty", "Lt", ["9"], False),
    ],
)
def test_a_requirement_on_labels(key: str, operator: str, values: list[str], chosen: bool) -> None:
    assert selects(selector(where(key, operator, *values)), HERE) is chosen


@pytest.mark.parametrize(
    "label", ["-+5", "+-5", "--5", "5-", " 5", "5 ", "1_0", "٣", "²", "", "-", "+", "0x5"]
)
def test_a_label_that_only_looks_like_a_number_is_none(label: str) -> None:
    here = node("here", tier=label)
    assert not selects(selector(where("tier", "Gt", "-100")), here)
    assert not selects(selector(where("tier", "Lt", "100")), here)


@pytest.mark.parametrize(
    ("operator", "name", "chosen"),
    [("In", "here", True), ("In", "there", False), ("NotIn", "here", False), ("NotIn", "there", True)],
)
def test_a_requirement_on_the_name(operator: str, name: str, chosen: bool) -> None:
    assert selects(selector(fields=[where("metadata.name", operator, name)]), HERE) is chosen


def test_a_term_needs_all_of_its_requirements() -> None:
    yes, no = where("zone", "Exists"), where("absent", "Exists")
    assert selects(selector(yes, yes), HERE)
    assert not selects(selector(yes, no), HERE)
    assert not selects(selector(yes, fields=[where("metadata.name", "In", "there")]), HERE)


def test_one_term_of_several_is_enough() -> None:
    no, yes = (
        NodeSelectorTerm(match_expressions=(where("absent", "Exists"),)),
        NodeSelectorTerm(match_expressions=(where("zone", "Exists"),)),
    )
    assert selects(selector_of(no, yes), HERE)
    assert not selects(selector_of(no, no), HERE)


@pytest.mark.parametrize("terms", [(), (NodeSelectorTerm(),)], ids=["no term", "an empty term"])
def test_nothing_chooses_nothing(terms: tuple[NodeSelectorTerm, ...]) -> None:
    assert not selects(NodeSelector(node_selector_terms=terms), HERE)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (selector(where("zone", "Near", "z1")), "zone: operator 'Near' is not one of In, NotIn"),
        (selector(where("zone", "In")), "zone: In needs at least one value"),
        (selector(where("zone", "NotIn")), "zone: NotIn needs at least one value"),
        (selector(where("zone", "Exists", "z1")), "zone: Exists takes no values"),
        (selector(where("zone", "DoesNotExist", "z1")), "zone: DoesNotExist takes no values"),
        (selector(where("tier", "Gt")), "tier: Gt needs exactly one whole number"),
        (selector(where("tier", "Lt", "1", "2")), "tier: Lt needs exactly one whole number"),
        (selector(where("tier", "Gt", "many")), "tier: Gt needs exactly one whole number"),
        (selector(where("tier", "Gt", "9223372036854775808")), "tier: Gt needs exactly one whole number"),
        (selector(fields=[where("metadata.name", "Exists")]), "only In and NotIn with one value"),
        (selector(fields=[where("metadata.name", "In", "a", "b")]), "only In and NotIn with one value"),
        (selector(fields=[where("metadata.uid", "In", "a")]), "field metadata.uid cannot be selected by"),
    ],
)
def test_a_broken_selector_is_an_error_even_after_a_term_that_matches(
    broken: NodeSelector, complaint: str
) -> None:
    fine = NodeSelectorTerm(match_expressions=(where("zone", "Exists"),))
    for terms in ((fine, *broken.node_selector_terms), (*broken.node_selector_terms, fine)):
        with pytest.raises(AllocationError, match=complaint):
            selects(selector_of(*terms), HERE)


@pytest.mark.parametrize(
    ("name", "everywhere", "chosen_by", "reached"),
    [
        ("here", None, None, True),
        ("there", None, None, False),
        ("there", True, None, False),  # the name comes first
        (None, True, None, True),
        ("", True, None, True),
        (None, False, selector(where("zone", "Exists")), True),
        (None, None, selector(where("absent", "Exists")), False),
        (None, None, None, False),  # some way of binding that is newer than we are
        (None, False, None, False),
    ],
)
def test_the_three_ways_to_reach_a_node(
    name: str | None, everywhere: bool | None, chosen_by: NodeSelector | None, reached: bool
) -> None:
    assert node_matches(HERE, name, everywhere, chosen_by) is reached
