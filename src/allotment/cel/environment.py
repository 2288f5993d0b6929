"""An environment contains what an expression may refer to; a program is an expression ready to run in it.

``Environment.compile`` does everything that needs no data: parse, check, validate literals, plan, compile. A
:class:`Program` is immutable and may be evaluated any number of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from allotment.cel import literals
from allotment.cel.checker import Checked, check
from allotment.cel.code import ABSORBED_INDEX, COPIED_INDEX, COST_INDEX, LIMIT_INDEX, Frame
from allotment.cel.compiler import compile_plan
from allotment.cel.cost import Limits, worst_case
from allotment.cel.declare import Library
from allotment.cel.errors import CelCheckError, CelCostExceeded, CelRuntimeError
from allotment.cel.estimate import Range
from allotment.cel.meter import Meter
from allotment.cel.parser import Macros, Syntax, parse
from allotment.cel.plan import KUBERNETES, ExecutionPlan, LanguageRules, plan
from allotment.cel.scope import Declarations, Variable
from allotment.cel.types import Type
from allotment.cel.values import Value

MAX_EXPRESSION_BYTES: Final = 10 * 1024
"""Longest expression the API admits; callers that take expressions from users check it."""
COST_LIMIT: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A value and the cost of computing it."""

    value: Value
    cost: int


@dataclass(slots=True)
class Environment:
    """Declarations and dialect. ``fields`` gives the fields of object types by type name."""

    libraries: Iterable[Library]
    variables: Mapping[str, Type] = field(default_factory=dict)
    fields: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    container: str = ""
    homogeneous: bool = False
    """Lists and maps hold values of one type, and literal patterns and times are checked: Kubernetes."""
    macros: bool = True
    disabled: frozenset[str] = frozenset()
    """Overloads that may not be written."""
    rules: LanguageRules = KUBERNETES
    limits: Limits = lambda path: None
    """Declared sizes, for the static cost."""
    declarations: Declarations = field(init=False)
    _macros: Macros = field(init=False)

    def __post_init__(self) -> None:
        libraries = list(self.libraries)
        self._macros = (
            Macros(macro for library in libraries for macro in library.macros) if self.macros else Macros(())
        )
        self.declarations = Declarations(
            fields=dict(self.fields), container=self.container, disabled=self.disabled
        )
        for library in libraries:
            self.declarations.add_library(library)
        for name, type_ in self.variables.items():
            self.declarations.variables[name] = Variable(name, type_)

    def parse(self, text: str) -> Syntax:
        """Raises :class:`CelSyntaxError`."""
        return parse(text, self._macros)

    def check(self, text: str) -> Checked:
        """Raises :class:`CelCompileError`."""
        checked = check(self.parse(text), self.declarations)
        issues = list(literals.issues(checked, self.homogeneous))
        if issues:
            raise CelCheckError(issues)
        return checked

    def compile(self, text: str) -> Program:
        """Raises :class:`CelCompileError`."""
        checked = self.check(text)
        return Program(text, checked, plan(checked, self.rules), self.limits)


class Program:
    """One compiled expression."""

    def __init__(self, text: str, checked: Checked, steps: ExecutionPlan, limits: Limits) -> None:
        self.text = text
        self.checked = checked
        self.plan = steps
        self._limits = limits
        self._code = compile_plan(steps)
        self._blank: Frame = [None] * max(steps.slots - 1, COPIED_INDEX)

    @property
    def output(self) -> Type:
        return self.checked.output

    def worst_case(self) -> Range:
        return worst_case(self.checked, self._limits)

    def frame(self, bindings: Mapping[str, Value], limit: int) -> Frame:
        frame: Frame = [self._code.cost, *self._blank]
        frame[LIMIT_INDEX] = limit + self._code.slack
        frame[ABSORBED_INDEX] = False
        frame[COPIED_INDEX] = 0
        for name, slot in self.plan.variables.items():
            frame[slot] = (
                bindings[name] if name in bindings else CelRuntimeError(f"no such attribute(s): {name}")
            )
        return frame

    def value(self, bindings: Mapping[str, Value], limit: int = COST_LIMIT) -> Value:
        """The value alone. Raises :class:`CelRuntimeError`; beyond the limit, :class:`CelCostExceeded`."""
        if self._is_bound(bindings):
            return self.run(self.frame(bindings, limit), limit)
        return self._evaluate_unbound(bindings, limit).value

    def _is_bound(self, bindings: Mapping[str, Value]) -> bool:
        return all(name in bindings for name in self.plan.variables)

    def _evaluate_unbound(self, bindings: Mapping[str, Value], limit: int) -> Evaluation:
        """Evaluates with unbound variables. One is an error only where it is read, which the closures do not test."""
        meter = Meter(self.plan, self.frame(bindings, limit), limit)
        value = meter.run()
        if isinstance(value, CelRuntimeError):
            value.cost = meter.cost
            raise value
        return Evaluation(value, meter.cost)

    def run(self, frame: Frame, limit: int = COST_LIMIT) -> Value:
        """The value in a frame that :meth:`frame` made."""
        try:
            value = self._code.run(frame)
        except CelCostExceeded as exc:
            raise CelCostExceeded(limit) from exc
        except RecursionError as exc:
            raise CelRuntimeError("expression nests too deeply to evaluate") from exc
        if frame[COST_INDEX] > limit:
            raise CelCostExceeded(limit)
        return value

    def evaluate(self, bindings: Mapping[str, Value], limit: int = COST_LIMIT) -> Evaluation:
        """The value and its exact cost. An error raised from here has the cost in ``cost``."""
        if not self._is_bound(bindings):
            return self._evaluate_unbound(bindings, limit)
        frame = self.frame(bindings, limit)
        try:
            value = self.run(frame, limit)
            cost = frame[COST_INDEX]
            if frame[ABSORBED_INDEX]:
                cost = self._exact_cost(bindings, limit, cost)
            if cost > limit:
                raise CelCostExceeded(limit)
        except CelRuntimeError as exc:
            exc.cost = self._exact_cost(bindings, limit, frame[COST_INDEX])
            raise
        return Evaluation(value, cost)

    def _exact_cost(self, bindings: Mapping[str, Value], limit: int, otherwise: int) -> int:
        meter = Meter(self.plan, self.frame(bindings, limit), limit)
        try:
            meter.run()
        except CelCostExceeded:
            pass
        except RecursionError:
            return otherwise
        return meter.cost
