"""Requirements: tests of the labels that a machine will have, as Karpenter writes them."""

from collections.abc import Iterator, Sequence
from typing import Final

from allotment.api.autoscaling import FlexibleRequirement, Requirement
from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import label_key_problem, label_value_problem
from allotment.api.validation.lists import each
from allotment.api.validation.naming import formed

REQUIREMENTS: Final = 100
MIN_VALUES: Final = 50
COMPARISONS: Final = ("Gt", "Lt", "Gte", "Lte")
OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", *COMPARISONS)

_DIGITS: Final = 18  # a number with this many digits fits in an int64


def check_requirements(requirements: Sequence[Requirement], path: FieldPath) -> Iterator[FieldError]:
    """Allows at most a hundred requirements. Several for one label are fine: all must hold."""
    return each(requirements, path, REQUIREMENTS, _check_requirement)


def _check_requirement(test: Requirement, path: FieldPath) -> Iterator[FieldError]:
    values = path.child("values")
    yield from formed(test.key, path.child("key"), label_key_problem)
    if test.operator not in OPERATORS:
        yield path.child("operator").not_supported(test.operator, OPERATORS)
    elif test.operator in ("In", "NotIn"):
        if not test.values:
            yield values.required(f"is required for operator {test.operator}")
    elif test.operator in COMPARISONS:
        if len(test.values) != 1 or not _is_number(test.values[0]):
            yield values.invalid(
                f"must be a single whole number, 0 or more, for operator {test.operator}", list(test.values)
            )
    elif test.values:
        yield values.forbidden(f"must be empty for operator {test.operator}")
    for index, value in enumerate(test.values):
        if problem := label_value_problem(value):
            yield values.index(index).invalid(problem, value)
    least = test.min_values if isinstance(test, FlexibleRequirement) else None
    if least is not None and not 1 <= least <= MIN_VALUES:
        yield path.child("minValues").invalid(f"must be 1 to {MIN_VALUES}", least)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS
