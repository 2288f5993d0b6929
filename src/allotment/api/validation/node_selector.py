"""Node selectors: terms that test labels, or the name of the node."""

from collections.abc import Iterator
from typing import Final

from allotment.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import dns_subdomain_problem, label_key_problem, label_value_problem
from allotment.api.validation.lists import each
from allotment.api.validation.naming import formed

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def check_node_selector(
    selector: NodeSelector, path: FieldPath, *, one_term: bool = False
) -> Iterator[FieldError]:
    """Requires valid terms: at least one, or exactly one where selectors of several devices are merged."""
    terms = path.child("nodeSelectorTerms")
    count = len(selector.node_selector_terms)
    if not count:
        yield terms.required("must have at least one node selector term")
    if one_term and count != 1:
        yield terms.invalid(f"must have exactly one node selector term, has {count}", count)
    yield from each(selector.node_selector_terms, terms, None, _check_term)


def _check_term(term: NodeSelectorTerm, path: FieldPath) -> Iterator[FieldError]:
    if term.match_expressions:
        yield from each(term.match_expressions, path.child("matchExpressions"), None, _check_expression)
    if term.match_fields:
        yield from each(term.match_fields, path.child("matchFields"), None, _check_field)


def _check_expression(test: NodeSelectorRequirement, path: FieldPath) -> Iterator[FieldError]:
    values = path.child("values")
    if test.operator not in _OPERATORS:
        yield path.child("operator").invalid("not a valid selector operator", test.operator)
    elif test.operator in ("In", "NotIn") and not test.values:
        yield values.required(f"is required for operator {test.operator}")
    elif test.operator in ("Exists", "DoesNotExist") and test.values:
        yield values.forbidden(f"must be empty for operator {test.operator}")
    elif test.operator in ("Gt", "Lt") and len(test.values) != 1:
        yield values.required(f"must be a single value for operator {test.operator}")
    yield from formed(test.key, path.child("key"), label_key_problem)
    for index, value in enumerate(test.values):
        if problem := label_value_problem(value):
            yield values.index(index).invalid(problem, value)


def _check_field(test: NodeSelectorRequirement, path: FieldPath) -> Iterator[FieldError]:
    if test.key != "metadata.name":
        yield path.child("key").invalid("not a valid field selector key; use metadata.name", test.key)
    if test.operator not in ("In", "NotIn"):
        yield path.child("operator").invalid("not a valid selector operator", test.operator)
    elif len(test.values) != 1:
        yield path.child("values").required(f"must be a single node name for operator {test.operator}")
    for index, value in enumerate(test.values):
        if problem := dns_subdomain_problem(value):
            yield path.child("values").index(index).invalid(problem, value)
