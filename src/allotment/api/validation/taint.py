"""Taints of devices and the tolerations of requests."""

from collections.abc import Iterator
from typing import Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import label_key_problem, label_value_problem
from allotment.api.resource import DeviceTaint, DeviceToleration
from allotment.api.validation.lists import each
from allotment.api.validation.naming import formed

TAINTS: Final = 16
EFFECTS: Final = ("None", "NoSchedule", "NoExecute")


def check_taint(taint: DeviceTaint, path: FieldPath) -> Iterator[FieldError]:
    """Requires a key and an effect; a value is optional."""
    yield from formed(taint.key, path.child("key"), label_key_problem)
    if problem := label_value_problem(taint.value or ""):
        yield path.child("value").invalid(problem, taint.value)
    if not taint.effect:
        yield path.child("effect").required(f"is required: one of {', '.join(EFFECTS)}")
    elif taint.effect not in EFFECTS:
        yield path.child("effect").not_supported(taint.effect, EFFECTS)


def check_tolerations(tolerations: tuple[DeviceToleration, ...], path: FieldPath) -> Iterator[FieldError]:
    """Checks tolerations, of any number. An absent operator means Equal."""
    return each(tolerations, path, None, _check_toleration)


def _check_toleration(toleration: DeviceToleration, path: FieldPath) -> Iterator[FieldError]:
    if toleration.key and (problem := label_key_problem(toleration.key)):
        yield path.child("key").invalid(problem, toleration.key)
    operator = toleration.operator or "Equal"
    if operator == "Exists":
        if toleration.value:
            yield path.child("value").invalid("must be empty for operator Exists", toleration.value)
        # An absent key with Exists tolerates everything.
    elif operator != "Equal":
        yield path.child("operator").not_supported(operator, ("Equal", "Exists"))
    elif problem := label_value_problem(toleration.value or ""):
        yield path.child("value").invalid(problem, toleration.value)
    if toleration.effect and toleration.effect not in EFFECTS:
        yield path.child("effect").not_supported(toleration.effect, EFFECTS)
