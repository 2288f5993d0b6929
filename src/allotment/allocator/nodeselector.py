"""Decides whether a node selector matches a node. Broken selectors are errors, never a silent "no"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from allotment.allocator.errors import AllocationError

if TYPE_CHECKING:
    from allotment.api.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def node_matches(
    node: Node, node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None
) -> bool:
    """Whether a slice or device, which names its nodes in one of three ways, reaches this node.

    If none of them is set, it reaches no node: it must use a newer way that we do not know.
    """
    if node_name:
        return node.metadata.name == node_name
    if all_nodes:
        return True
    return selector is not None and selects(selector, node)


def selects(selector: NodeSelector, node: Node) -> bool:
    """True if any term matches. All terms are validated first, so that the answer does not depend on their order."""
    terms = [term for term in selector.node_selector_terms if term.match_expressions or term.match_fields]
    for term in terms:
        _check(term)
    labels = node.metadata.labels or {}
    fields = {"metadata.name": node.metadata.name}
    return any(
        all(_holds(test, labels) for test in term.match_expressions)
        and all(_holds(test, fields) for test in term.match_fields)
        for term in terms
    )


def _check(term: NodeSelectorTerm) -> None:
    for test in term.match_expressions:
        values = test.values
        if test.operator not in OPERATORS:
            raise AllocationError(
                f"node selector: {test.key}: operator {test.operator!r} is not one of {', '.join(OPERATORS)}"
            )
        if test.operator in ("In", "NotIn") and not values:
            raise AllocationError(f"node selector: {test.key}: {test.operator} needs at least one value")
        if test.operator in ("Exists", "DoesNotExist") and values:
            raise AllocationError(f"node selector: {test.key}: {test.operator} takes no values")
        if test.operator in ("Gt", "Lt") and (len(values) != 1 or _integer(values[0]) is None):
            raise AllocationError(
                f"node selector: {test.key}: {test.operator} needs exactly one whole number"
            )
    for test in term.match_fields:
        if test.operator not in ("In", "NotIn") or len(test.values) != 1:
            raise AllocationError(
                f"node selector: field {test.key}: only In and NotIn with one value are possible"
            )
        if test.key != "metadata.name":
            raise AllocationError(f"node selector: field {test.key} cannot be selected by; use metadata.name")


def _holds(test: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(test.key)
    if test.operator == "In":
        return value is not None and value in test.values
    if test.operator == "NotIn":
        return value is None or value not in test.values
    if test.operator == "Exists":
        return value is not None
    if test.operator == "DoesNotExist":
        return value is None
    number, bound = _integer(value), _integer(test.values[0])
    if number is None or bound is None:
        return False
    return number > bound if test.operator == "Gt" else number < bound


def _integer(text: str | None) -> int | None:
    if not text:
        return None
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdecimal()):
        return None
    digits = digits.lstrip("0") or "0"
    if len(digits) > 19:  # more than 64 bits hold
        return None
    number = -int(digits) if text[0] == "-" else int(digits)
    return number if -(2**63) <= number < 2**63 else None
