"""Pod disruption budgets: how many pods of a set must stay when others evict them (``eviction.py`` holds to it)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from allotment.api.fields import FieldError, FieldPath
from allotment.api.label_selector import check_label_selector
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.columns import number
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.status_rules import not_negative, strict_conditions
from allotment.apiserver.registry.strategies import StrategyRules, at
from allotment.apiserver.store.record import Obj

_PERCENT = re.compile(r"[0-9]{1,9}%")
_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
MAX_SELECTED = 5_000
"""Labels, expressions and values of a selector: every eviction compares the pod with all budgets of its namespace."""
_COUNTS = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")


def check_int_or_percent(value: int | str, path: FieldPath) -> Iterator[FieldError]:
    """A number of pods, or a part of all of them."""
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            yield path.invalid(
                "a valid percent string must be a numeric string followed by an ending '%'", value
            )
        elif int(value[:-1]) > 100:
            yield path.invalid("must not be greater than 100%", value)
    elif value < 0:
        yield path.invalid("must be greater than or equal to 0", value)


def _check(budget: Obj) -> Iterator[FieldError]:
    spec, path = budget["spec"], FieldPath("spec")
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield path.invalid("minAvailable and maxUnavailable cannot be both set", spec)
    for name in ("minAvailable", "maxUnavailable"):
        if (value := spec.get(name)) is not None:
            yield from check_int_or_percent(value, path.child(name))
    yield from _check_selector(spec.get("selector"), path.child("selector"))
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _POLICIES:
        yield path.child("unhealthyPodEvictionPolicy").not_supported(policy, _POLICIES)


def _check_selector(selector: Obj | None, path: FieldPath) -> Iterator[FieldError]:
    tests = (selector or {}).get("matchExpressions") or ()
    count = len((selector or {}).get("matchLabels") or ()) + len(tests)
    count += sum(len(test.get("values") or ()) for test in tests)
    if count > MAX_SELECTED:
        yield path.too_many(count, MAX_SELECTED)
    else:
        yield from check_label_selector(selector, path)


def _check_status(budget: Obj, old: Obj) -> Iterator[FieldError]:
    yield from not_negative(budget.get("status") or {}, *_COUNTS)
    yield from strict_conditions(budget)


def _bound(name: str) -> PrinterColumn:
    title, field = {"min": ("Min Available", "minAvailable"), "max": ("Max Unavailable", "maxUnavailable")}[
        name
    ]

    def read(obj: Obj, now: str) -> str:
        value = at(obj, "spec", field)
        return "N/A" if value is None else str(value)

    return PrinterColumn(title, "string", read, "A number of pods, or a part of all of them.")


RESOURCES = (
    Resource(
        group="policy",
        version="v1",
        kind="PodDisruptionBudget",
        plural="poddisruptionbudgets",
        namespaced=True,
        short_names=("pdb",),
        columns=(
            _bound("min"),
            _bound("max"),
            number("Allowed Disruptions", "status.disruptionsAllowed", "How many may go now."),
            AGE,
        ),
        status=True,
        unconditional_update=False,
        strategy=StrategyRules(
            stated=("spec", "status"),
            status=dict.fromkeys(_COUNTS, 0),
            generation=True,
            check=_check,
            check_status=_check_status,
        ),
        doc="How many of a set of pods must stay while others are evicted.",
    ),
)
