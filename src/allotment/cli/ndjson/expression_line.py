"""The questions of ``allot cel --ndjson``: an expression evaluated on a device, or a plain CEL expression.

A line with ``bindings``, ``declarations`` or ``container`` is plain CEL; any other line asks about a device. In the answer to
a device question, ``maxCost`` is the static worst case and ``cost`` the actual cost of this evaluation. An expression that
does not compile has the largest possible cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from allotment.api.codec import decode, encode
from allotment.api.meta import ApiStruct
from allotment.api.resource import DeviceAttribute, DeviceCapacity
from allotment.cel.errors import CelCompileError, CelError, CelResultError, CelRuntimeError
from allotment.cli.ndjson.problem_line import Answer, LineError

if TYPE_CHECKING:
    from allotment.cel.device import EnvType

COST_OF_ERRORS = 2**64 - 1
_PLAIN = ("bindings", "declarations", "container")


class CelFeatures(ApiStruct, frozen=True, kw_only=True):
    """The optional parts of the device that the expression may read."""

    consumable_capacity: bool = msgspec.field(default=False, name="EnableConsumableCapacity")
    list_type_attributes: bool = msgspec.field(default=False, name="EnableListTypeAttributes")


class DeviceQuestion(ApiStruct, frozen=True, kw_only=True):
    """An expression and the device on which to evaluate it."""

    name: str = ""
    expression: str = ""
    driver: str = ""
    attributes: dict[str, DeviceAttribute] = msgspec.field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    allow_multiple_allocations: bool | None = None
    derived: bool = False  # the expression yields an attribute instead of a bool
    env_type: str | None = None  # StoredExpressions when absent
    features: CelFeatures | None = None  # absent: all; otherwise only those that are true


class PlainQuestion(ApiStruct, frozen=True, kw_only=True):
    """A plain CEL expression and the values of its variables."""

    name: str = ""
    expression: str = ""
    bindings: dict[str, Any] = msgspec.field(default_factory=dict)
    declarations: dict[str, str] = msgspec.field(default_factory=dict)
    container: str | None = None
    disable_macros: bool = False
    disable_check: bool = False


def evaluate_line(data: bytes) -> Answer:
    """Answers one line. Raises DecodeError or LineError if the line is not a question."""
    question = decode(DeviceQuestion, data)  # also bounds what is decoded again below
    fields = msgspec.json.decode(data)
    if not fields or "expression" not in fields:
        raise LineError("expression: is missing")
    if any(part in fields for part in _PLAIN):
        return _plain(decode(PlainQuestion, data))
    return _device(question)


def _device(question: DeviceQuestion) -> Answer:
    from allotment.cel.device import DeviceFeatures, compile_derived, compile_selector

    env_type = _env_type(question.env_type or "StoredExpressions")
    wanted = question.features or CelFeatures(consumable_capacity=True, list_type_attributes=True)
    features = DeviceFeatures(wanted.consumable_capacity, wanted.list_type_attributes)
    answer: Answer = {"name": question.name, "compileError": "", "matchError": "", "maxCost": 0, "cost": None}
    device = (
        question.driver,
        question.attributes,
        question.capacity,
        bool(question.allow_multiple_allocations),
    )
    try:
        if question.derived:
            derived = compile_derived(question.expression, features, env_type)
            answer["maxCost"] = derived.max_cost
            attribute, answer["cost"] = derived.evaluate(*device)
            answer["attribute"] = msgspec.Raw(encode(attribute))
        else:
            answer["match"] = False
            selector = compile_selector(question.expression, features, env_type)
            answer["maxCost"] = selector.max_cost
            answer["match"], answer["cost"] = selector.evaluate(*device)
    except CelCompileError as exc:
        failed = "" if isinstance(exc, CelResultError) else "compilation failed: "
        answer |= {"compileError": f"{failed}{exc}", "maxCost": COST_OF_ERRORS}
    except CelRuntimeError as exc:
        answer |= {"matchError": str(exc), "cost": exc.cost}
    return answer


def _env_type(name: str) -> EnvType:
    match name:
        case "StoredExpressions" | "NewExpressions":
            return name
    raise LineError(f"envType: is {name!r}, must be StoredExpressions or NewExpressions")


def _plain(question: PlainQuestion) -> Answer:
    from allotment.cel.plain import DeclarationError, compile_plain
    from allotment.cli.ndjson.typed_value import TypedValueError, from_typed, to_typed

    answer: Answer = {"name": question.name, "compileError": "", "value": None, "error": ""}
    try:
        program = compile_plain(
            question.expression,
            declarations=question.declarations,
            container=question.container or "",
            macros=not question.disable_macros,
            check=not question.disable_check,
        )
    except CelCompileError as exc:
        return {**answer, "compileError": str(exc)}
    except DeclarationError as exc:
        return {**answer, "error": f"declarations: {exc}"}
    try:
        bindings = {name: from_typed(typed) for name, typed in question.bindings.items()}
        return {**answer, "value": to_typed(program.evaluate(bindings))}
    except (CelError, TypedValueError) as exc:
        return {**answer, "error": str(exc)}
