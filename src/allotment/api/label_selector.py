"""Label selectors as objects contain them: ``matchLabels`` and ``matchExpressions``, as plain JSON.

An absent selector matches nothing, an empty one everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import label_key_problem, label_value_problem
from allotment.api.selection import Selector, SelectorRequirement, Test

_TESTS = {
    "In": Test.IN,
    "NotIn": Test.NOT_IN,
    "Exists": Test.EXISTS,
    "DoesNotExist": Test.NOT_EXISTS,
}


def selector_of(selector: Mapping[str, Any] | None) -> Selector | None:
    """The selector's requirements; None if it matches nothing because it is absent or invalid."""
    if selector is None:
        return None
    requirements = [
        SelectorRequirement(key, Test.IN, frozenset((value,)))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for test in selector.get("matchExpressions") or ():
        kind = _TESTS.get(test.get("operator") or "")
        if kind is None or (kind in (Test.IN, Test.NOT_IN)) != bool(test.get("values")):
            return None
        requirements.append(
            SelectorRequirement(test.get("key") or "", kind, frozenset(test.get("values") or ()))
        )
    return Selector(tuple(sorted(requirements, key=lambda each: each.key)))


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether the selector matches an object with these labels."""
    wanted = selector_of(selector)
    return wanted is not None and wanted.matches(labels)


def told(selector: Mapping[str, Any] | None) -> str:
    """The selector as on a command line, for tables: ``app=web,tier in (a,b)``; ``<none>`` if it is absent or empty."""
    if selector is None:
        return "<none>"
    if selector_of(selector) is None:
        return "<error>"
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for test in selector.get("matchExpressions") or ():
        key, values = test.get("key") or "", ",".join(sorted(test.get("values") or ()))
        match _TESTS[test["operator"]]:
            case Test.EXISTS:
                parts.append((key, key))
            case Test.NOT_EXISTS:
                parts.append((key, f"!{key}"))
            case operator:
                parts.append((key, f"{key} {operator.value} ({values})"))
    return ",".join(part for _, part in sorted(parts, key=lambda pair: pair[0])) or "<none>"


def told_labels(labels: Mapping[str, str] | None) -> str:
    """Labels, or a selector that is only a map of labels, in one line."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def check_label_selector(selector: Mapping[str, Any] | None, path: FieldPath) -> Iterator[FieldError]:
    """Everything that is wrong with a selector."""
    if selector is None:
        return
    yield from check_label_map(selector.get("matchLabels") or {}, path.child("matchLabels"))
    for index, test in enumerate(selector.get("matchExpressions") or ()):
        here = path.child("matchExpressions").index(index)
        operator, values = test.get("operator") or "", test.get("values") or ()
        if operator not in _TESTS:
            yield here.child("operator").invalid("not a valid selector operator", operator)
        elif operator in ("In", "NotIn") and not values:
            yield here.child("values").required("must be specified when `operator` is 'In' or 'NotIn'")
        elif operator not in ("In", "NotIn") and values:
            yield here.child("values").forbidden(
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
        if problem := label_key_problem(test.get("key") or ""):
            yield here.child("key").invalid(problem, test.get("key") or "")
        for place, value in enumerate(values):
            if problem := label_value_problem(value):
                yield here.child("values").index(place).invalid(problem, value)


def check_label_map(labels: Mapping[str, str], path: FieldPath) -> Iterator[FieldError]:
    """Everything that is wrong with labels. As in Kubernetes, errors have the path of the whole map."""
    for key, value in labels.items():
        if problem := label_key_problem(key):
            yield path.invalid(problem, key)
        if problem := label_value_problem(value):
            yield path.invalid(problem, value)
