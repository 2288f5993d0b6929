"""Which pods and nodes a selector of the API matches; each selector is prepared once for many tests.

A broken selector (an operator that does not exist, ``In`` without values) cannot get past validation; here it matches
nothing, as in Kubernetes' scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from allotment.api.selection import Selector, SelectorRequirement, Test

if TYPE_CHECKING:
    from allotment.api.core import (
        Node,
        NodeSelector,
        NodeSelectorRequirement,
        NodeSelectorTerm,
        PodSpec,
    )
    from allotment.api.meta import LabelSelector, LabelSelectorRequirement

NodeTest = Callable[["Node"], bool]

_TESTS = {
    "In": Test.IN,
    "NotIn": Test.NOT_IN,
    "Exists": Test.EXISTS,
    "DoesNotExist": Test.NOT_EXISTS,
}
_NODE_TESTS = {**_TESTS, "Gt": Test.GREATER, "Lt": Test.LESS}
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


def pods_selected(
    selector: LabelSelector | None, more: Iterable[SelectorRequirement] = ()
) -> Selector | None:
    """What a label selector and ``more`` require of a pod's labels. None if it matches nothing, because it is absent or broken.

    Selectors with the same requirements are equal.
    """
    if selector is None:
        return None
    tests = _requirements(selector.match_expressions, _TESTS)
    if tests is None:
        return None
    same = (
        SelectorRequirement(key, Test.IN, frozenset((value,))) for key, value in selector.match_labels.items()
    )
    every = {*tests, *same, *more}
    return Selector(tuple(sorted(every, key=lambda each: (each.key, each.test.value, sorted(each.values)))))


def nodes_required(spec: PodSpec) -> NodeTest | None:
    """The test of whether a node meets the pod's node selector and required node affinity. None if any node does."""
    wanted = spec.node_selector
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    if required is None:
        return _with_labels(wanted) if wanted else None
    among = nodes_selected(required)
    if not wanted:
        return among
    labelled = _with_labels(wanted)
    return lambda node: labelled(node) and among(node)


def nodes_selected(selector: NodeSelector) -> NodeTest:
    """The test of whether any term of a node selector matches."""
    terms = [nodes_in_term(term) for term in selector.node_selector_terms]
    if len(terms) == 1:
        return terms[0]
    return lambda node: any(term(node) for term in terms)


def nodes_in_term(term: NodeSelectorTerm) -> NodeTest:
    """The test of whether all requirements of a term hold. A term without requirements matches no node."""
    tests = _requirements(term.match_expressions, _NODE_TESTS)
    if tests is None or not (tests or term.match_fields):
        return _no_node
    labels = Selector(tuple(tests))
    if not term.match_fields:
        return lambda node: labels.matches(node.metadata.labels)
    names = [(each.operator == "In", each.values[0]) for each in term.match_fields if _names_nodes(each)]
    if len(names) < len(term.match_fields):
        return _no_node
    return lambda node: (
        all((node.metadata.name == name) is same for same, name in names)
        and labels.matches(node.metadata.labels)
    )


def _names_nodes(test: NodeSelectorRequirement) -> bool:
    return test.key == "metadata.name" and test.operator in ("In", "NotIn") and len(test.values) == 1


def _requirements(
    expressions: Iterable[LabelSelectorRequirement] | Iterable[NodeSelectorRequirement],
    operators: dict[str, Test],
) -> list[SelectorRequirement] | None:
    found = []
    for each in expressions:
        test = operators.get(each.operator)
        if test is None or not _fitting(test, each.values):
            return None
        found.append(SelectorRequirement(each.key, test, frozenset(each.values)))
    return found


def _fitting(test: Test, values: tuple[str, ...]) -> bool:
    if test in (Test.EXISTS, Test.NOT_EXISTS):
        return not values
    if test in (Test.GREATER, Test.LESS):
        return len(values) == 1 and _WHOLE.fullmatch(values[0]) is not None
    return bool(values)


def _with_labels(wanted: dict[str, str]) -> NodeTest:
    if len(wanted) == 1:
        ((key, value),) = wanted.items()
        return lambda node: node.metadata.labels.get(key) == value
    items = wanted.items()
    return lambda node: items <= node.metadata.labels.items()


def _no_node(node: Node) -> bool:
    return False
