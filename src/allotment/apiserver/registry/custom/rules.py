"""x-kubernetes-validations: rules in the expression language that values, and changes of values, must satisfy.

``compiled`` compiles the rules of one value (not of values in it) and reports faults in them. :class:`RuleTree` runs all
rules of a schema over an object. Each evaluation has a limit, and so has their sum for one object; if the sum is exceeded,
the object is refused. Rules that read ``oldSelf`` judge changes: they run where there is an old value (or, with
``optionalOldSelf``, always). A rule that fails on an unchanged value does not stop a write (see
``values.py`` on ratcheting); it becomes a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from allotment.api.fields import MOST_ERRORS, OMITTED, ErrorKind, FieldError, FieldPath
from allotment.apiserver.allowance import TooMuchAtOnce, left, spend
from allotment.apiserver.registry.custom.declarations import REQUEST_SIZE, Declared, SchemaDeclarations
from allotment.apiserver.registry.custom.equality import same, steps
from allotment.apiserver.registry.custom.field_path import BadPath, field_path
from allotment.apiserver.registry.custom.lists import map_key
from allotment.apiserver.registry.custom.structural import Structural
from allotment.apiserver.registry.custom.values import NOWHERE, UNCORRELATED
from allotment.apiserver.registry.expressions import spend_on_compiling
from allotment.cel import types
from allotment.cel.environment import COST_LIMIT, MAX_EXPRESSION_BYTES, Environment, Evaluation, Program
from allotment.cel.errors import (
    CelCompileError,
    CelCostExceeded,
    CelNoSuchOverload,
    CelRuntimeError,
)
from allotment.cel.estimate import Range
from allotment.cel.library.kubernetes import KUBERNETES
from allotment.cel.types import Type
from allotment.cel.values import OPTIONAL_NONE, Optional, Value

OBJECT_BUDGET: Final = 10_000_000
"""The cost limit for all rules of one object together."""
LONGEST_MESSAGE: Final = 5 * 1024
STEP: Final = 3.0
"""Microseconds for each unit of an evaluation's cost."""
_READING: Final = 4.0
"""Microseconds for each step of reading or comparing values."""
_RUNNING: Final = 3.0
"""Microseconds for an evaluation, whatever it costs."""

_REASONS: Final = {
    "FieldValueForbidden": ErrorKind.FORBIDDEN,
    "FieldValueRequired": ErrorKind.REQUIRED,
    "FieldValueDuplicate": ErrorKind.DUPLICATE,
}
_SPENT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """One rule, compiled. ``problem`` and ``message_problem`` say why it, or its message, does not compile."""

    raw: dict[str, Any]
    program: Program | None = None
    problem: str = ""
    message: Program | None = None
    message_problem: str = ""
    reads_old: bool = False
    max_cost: int = 0
    max_message_cost: int = 0
    at: FieldPath | None = None  # where in the value errors belong, if not to the whole

    @property
    def told(self) -> str:
        """The rule in messages: its author's message, or its text."""
        return str(self.raw.get("message") or self.raw["rule"]).strip()


def compiled(
    structural: Structural, declared: Declared, declarations: SchemaDeclarations
) -> list[CompiledRule]:
    """The compiled rules of a value. The caller must skip those without text."""
    environments: dict[bool, Environment] = {}
    rules = []
    for raw in structural.raw.get("x-kubernetes-validations") or ():
        optional = bool(raw.get("optionalOldSelf"))
        if optional not in environments:
            environments[optional] = _environment(declared, declarations, optional)
        rules.append(_compiled(structural, raw, environments[optional]))
    return rules


def _environment(declared: Declared, declarations: SchemaDeclarations, optional: bool) -> Environment:
    def limits(path: tuple[str, ...]) -> Range | None:
        return declared.size(
            path[1:]
        )  # whatever it begins with: upstream takes `int` for as large as self, too

    old = types.optional_of(declared.type) if optional else declared.type
    return Environment(
        KUBERNETES,
        variables={"self": declared.type, "oldSelf": old},
        fields=declarations.fields,
        homogeneous=True,
        limits=limits,
    )


def _compiled(structural: Structural, raw: dict[str, Any], environment: Environment) -> CompiledRule:
    text = raw.get("rule") or ""
    if not text.strip():
        return CompiledRule(raw)
    program = _program(text, environment, types.BOOL)
    if isinstance(program, str):
        return CompiledRule(raw, problem=program)
    reads_old = any(known.name == "oldSelf" for known in program.checked.names.values())
    message: Program | None = None
    problem = ""
    if expression := raw.get("messageExpression") or "":
        made = _program(expression, environment, types.STRING)
        message, problem = (None, f"messageExpression {made}") if isinstance(made, str) else (made, "")
    at = None
    if raw.get("fieldPath"):
        try:
            at = field_path(raw["fieldPath"], structural)[0]
        except BadPath:
            at = None
    return CompiledRule(
        raw,
        program,
        message=message,
        message_problem=problem.replace("messageExpression cel expression", "messageExpression"),
        reads_old=reads_old,
        max_cost=program.worst_case().max,
        max_message_cost=message.worst_case().max if message is not None else 0,
        at=at,
    )


def _program(text: str, environment: Environment, output: Type) -> Program | str:
    """The program, or what is wrong with its text."""
    if len(text.encode()) > MAX_EXPRESSION_BYTES:
        return f"compilation failed: the expression is longer than {MAX_EXPRESSION_BYTES} bytes"
    spend_on_compiling(text)
    try:
        program = environment.compile(text)
    except CelCompileError as exc:
        return f"compilation failed: {exc}"
    except RecursionError:
        return "compilation failed: the expression nests too deeply"
    if program.output != output:
        return f"cel expression must evaluate to a {output}"
    return program


def most_often(declared: Declared) -> int:
    """How often a value can occur in a request, where no limit of the schema says it."""
    return REQUEST_SIZE // (declared.smallest + 1)


class RuleTree:
    """The rules of a value and of all that is in it. None where there are none: see :func:`rule_tree`."""

    def __init__(self, structural: Structural, declared: Declared, rules: list[CompiledRule]) -> None:
        self.structural = structural
        self.declared = declared
        self.rules = rules
        self.properties: dict[str, RuleTree] = {}
        self.items: RuleTree | None = None
        self.additional: RuleTree | None = None

    def run(self, value: Any, old: Any = None, ratchet: bool = False) -> RuleOutcome:
        """Judges a value; ``old`` is what it replaces. With ``ratchet`` what did not change is only warned of."""
        verdict = RuleOutcome()
        with suppress(_Spent):
            self._run(verdict, value, old, NOWHERE, old if ratchet else UNCORRELATED, None)
        return verdict

    def _run(
        self, verdict: RuleOutcome, value: Any, old: Any, path: FieldPath, before: Any, unchanged: bool | None
    ) -> None:
        """``before`` is the value that this one replaces as ratcheting sees it; ``unchanged`` whether the
        nearest value around this one that can be compared is the same, once there is no ``before`` here."""
        if value is None:
            return
        spend(_READING)
        ratchet = _Ratchet(value, before, unchanged)
        if self.rules:
            self._judge(verdict, value, old, path, ratchet)
        if isinstance(value, dict):
            self._run_fields(verdict, value, old, path, ratchet)
        elif isinstance(value, list) and self.items is not None:
            raw = self.structural.raw
            keyed = self.structural.list_type == "map"
            olds = _keyed(raw, old) if keyed else {}
            for index, item in enumerate(value):
                key = map_key(raw, item)
                known = olds.get(key) if keyed else None
                earlier, same_ = ratchet.inside(known is not None)
                there = (known if known is not None else UNCORRELATED) if earlier else UNCORRELATED
                self.items._run(verdict, item, known, _index(path, index), there, same_)

    def _run_fields(
        self, verdict: RuleOutcome, value: dict[str, Any], old: Any, path: FieldPath, ratchet: _Ratchet
    ) -> None:
        olds = old if isinstance(old, dict) else {}
        for name, item in value.items():
            tree = self.properties.get(name) or self.additional
            if tree is None:
                continue
            there = _key(path, name) if name not in self.structural.properties else _child(path, name)
            earlier, same_ = ratchet.inside(name in olds)
            tree._run(verdict, item, olds.get(name), there, olds[name] if earlier else UNCORRELATED, same_)

    def _judge(self, verdict: RuleOutcome, value: Any, old: Any, path: FieldPath, ratchet: _Ratchet) -> None:
        kind = self.structural.type
        if verdict.budget <= 0:
            verdict.errors.append(path.invalid(_SPENT, kind))
            raise _Spent
        spend((steps(value) + steps(old)) * _READING)
        try:
            own = self.declared.convert(value)
        except CelRuntimeError as exc:
            own = exc
        try:
            earlier = self.declared.convert(old) if old is not None else None
        except CelRuntimeError:
            earlier = None
        for rule in self.rules:
            if rule.problem:
                verdict.refuse(path.invalid(f"rule compile error: {rule.problem}", kind))
                continue
            optional = bool(rule.raw.get("optionalOldSelf"))
            if rule.program is None or (rule.reads_old and old is None and not optional):
                continue
            if isinstance(own, CelRuntimeError):
                verdict.refuse(path.invalid(f"{own} evaluating rule: {rule.told}", kind))
                continue
            named: dict[str, Value] = {"self": own}
            if optional:
                named["oldSelf"] = OPTIONAL_NONE if old is None else Optional(earlier)
            elif old is not None:
                named["oldSelf"] = earlier
            if not self._holds(verdict, rule, named, path, kind):
                self._refuse(verdict, rule, named, value, path, ratchet)

    def _holds(
        self, verdict: RuleOutcome, rule: CompiledRule, named: dict[str, Value], path: FieldPath, kind: str
    ) -> bool:
        """Whether a value satisfies a rule. A rule that cannot be evaluated is reported, but only once."""
        assert rule.program is not None
        try:
            result = _evaluated(rule.program, named, COST_LIMIT)
        except CelRuntimeError as exc:
            verdict.spend(exc.cost, path, kind)
            if isinstance(exc, CelCostExceeded):
                told = f"'{exc}': no further validation rules will be run due to call cost exceeds limit for rule: {rule.told}"
                verdict.errors.append(path.invalid(told, kind))
                raise _Spent from exc
            if isinstance(exc, CelNoSuchOverload):
                told = f"'{exc}': call arguments did not match a supported operator, function or macro signature for rule: {rule.told}"
            else:
                told = f"{exc} evaluating rule: {rule.told}"
            verdict.refuse(path.invalid(told, kind))
            return True
        verdict.spend(result.cost, path, kind)
        return result.value is True

    def _refuse(
        self,
        verdict: RuleOutcome,
        rule: CompiledRule,
        named: dict[str, Value],
        value: Any,
        path: FieldPath,
        ratchet: _Ratchet,
    ) -> None:
        message = _message(verdict, rule, named)
        if not message:
            given = str(rule.raw.get("message") or "").strip()
            message = given or f"failed rule: {rule.told}"
        where = path
        if rule.at is not None:
            where = _child(path, str(rule.at)) if str(rule.at)[:1] != "[" else FieldPath(f"{path}{rule.at}")
        shown = OMITTED if self.structural.type in ("object", "array") else value
        kind = _REASONS.get(rule.raw.get("reason") or "", ErrorKind.INVALID)
        error = FieldError(where, kind, message, shown)
        if not rule.reads_old and ratchet.holds:
            verdict.warn(error)
        else:
            verdict.refuse(error)


def _evaluated(program: Program, named: dict[str, Value], limit: int) -> Evaluation:
    """Raises CelRuntimeError, and TooMuchAtOnce where work is counted and this would be more than is left."""
    spend(_RUNNING)
    affordable = min(left() / STEP, limit)
    try:
        result = program.evaluate(named, int(affordable))
    except CelRuntimeError as exc:
        if affordable < limit and isinstance(exc, CelCostExceeded):
            raise TooMuchAtOnce from exc
        spend(exc.cost * STEP)
        raise
    spend(result.cost * STEP)
    return result


def rule_tree(
    structural: Structural, root: bool, declarations: SchemaDeclarations | None = None
) -> RuleTree | None:
    """The rules of a schema, compiled; None if there are none that can be reached."""
    if not _has_rules(structural):
        return None
    known = declarations or SchemaDeclarations()
    declared = known.declare(structural, root)
    return _tree(structural, declared, known) if declared is not None else None


def _tree(structural: Structural, declared: Declared, known: SchemaDeclarations) -> RuleTree | None:
    made = RuleTree(structural, declared, compiled(structural, declared, known))
    for name, each in structural.properties.items():
        inner = known.declare(each, each.embedded)
        if inner is not None and _has_rules(each) and (tree := _tree(each, inner, known)) is not None:
            made.properties[name] = tree
    for field_ in ("items", "additional"):
        each = getattr(structural, field_)
        if each is not None and declared.element is not None and _has_rules(each):
            setattr(made, field_, _tree(each, declared.element, known))
    return made


def _has_rules(structural: Structural) -> bool:
    return bool(structural.raw.get("x-kubernetes-validations")) or any(map(_has_rules, _inner(structural)))


def _inner(structural: Structural) -> Iterator[Structural]:
    yield from structural.properties.values()
    if structural.items is not None:
        yield structural.items
    if structural.additional is not None:
        yield structural.additional


@dataclass(slots=True)
class RuleOutcome:
    """The outcome of running rules."""

    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldError] = field(default_factory=list)
    budget: int = OBJECT_BUDGET

    def warn(self, error: FieldError) -> None:
        if len(self.warnings) < MOST_ERRORS:
            self.warnings.append(error)

    def refuse(self, error: FieldError) -> None:
        """Raises _Spent when there are as many errors as anybody corrects at once."""
        self.errors.append(error)
        if len(self.errors) >= MOST_ERRORS:
            raise _Spent

    def spend(self, cost: int, path: FieldPath, kind: str) -> None:
        self.budget -= max(cost, 1)  # comparing constants costs nothing, but takes time
        if self.budget < 0:
            self.errors.append(path.invalid(_SPENT, kind))
            raise _Spent


class _Spent(Exception):
    """The budget is used up, or there are enough errors, so no more rules may be evaluated."""


@dataclass(slots=True)
class _Ratchet:
    """What a value was before, for rules that fail on it and for the values in it. They are compared once at most."""

    value: Any
    before: Any
    around: bool | None
    equal: bool | None = None

    @property
    def holds(self) -> bool:
        """Whether the value is unchanged, or what is around it is."""
        if self.before is UNCORRELATED:
            return bool(self.around)
        if self.equal is None:
            spend(steps(self.value) * _READING)
            self.equal = same(self.value, self.before)
        return self.equal

    def inside(self, known: bool) -> tuple[bool, bool | None]:
        """Whether a value inside can be compared with what it was; and, if not, whether what is around it is the same."""
        if self.before is UNCORRELATED:
            return False, self.around
        return (True, None) if known else (False, self.holds)


def _message(verdict: RuleOutcome, rule: CompiledRule, named: dict[str, Value]) -> str:
    """The result of the rule's messageExpression; empty if there is none, or its result cannot be shown."""
    if rule.message is None:
        return ""
    try:
        result = _evaluated(rule.message, named, min(COST_LIMIT, max(verdict.budget, 0)))
    except CelRuntimeError as exc:
        verdict.budget -= exc.cost
        return ""
    verdict.budget -= result.cost
    text = result.value.strip() if isinstance(result.value, str) else ""
    if len(text.encode()) > LONGEST_MESSAGE or re.search(r"\n", text):
        return ""
    return text


def _keyed(raw: Any, old: Any) -> dict[Any, Any]:
    if not isinstance(old, list):
        return {}
    return {map_key(raw, item): item for item in reversed(old) if isinstance(item, dict)}


def _child(path: FieldPath, name: str) -> FieldPath:
    return FieldPath(name) if path is NOWHERE else path.child(name)


def _key(path: FieldPath, name: str) -> FieldPath:
    return FieldPath().key(name) if path is NOWHERE else path.key(name)


def _index(path: FieldPath, index: int) -> FieldPath:
    return path.index(index)
