"""Validates values against a schema, with Kubernetes' messages.

A :class:`ValueSchema` is a schema with its patterns compiled. Checking a value gives all errors at once, in the order
in which upstream finds them; where upstream's order is that of a Go map, ours is that of the value or the schema.

On updates an error counts only where something changed (*ratcheting*): a value that equals the one it replaces keeps
what is wrong with it. Values are matched with old ones by name, and by key in lists of the type map; elements of other
lists have no old value, but the list as a whole has.

If ``anyOf`` or ``oneOf`` fails, the errors are those of the alternative in which most checks passed, so passed checks are
counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Final

from allotment.api.fields import MOST_CHOICES, MOST_ERRORS, OMITTED, ErrorKind, FieldError, FieldPath
from allotment.api.text import shortened
from allotment.api.trail import LONGEST_TRAIL
from allotment.apiserver.allowance import spend
from allotment.apiserver.registry.custom.equality import chosen, same, steps
from allotment.apiserver.registry.custom.formats import format_check, format_price, supported
from allotment.apiserver.registry.custom.lists import map_key
from allotment.apiserver.registry.custom.numbers import is_whole, range_error, told
from allotment.apiserver.registry.custom.patterns import Pattern

Raw = Mapping[str, Any]

NOWHERE: Final = FieldPath("<nil>")
"""The field of errors that give their place only in the message."""
MOST_CHECKS: Final = 500_000
"""Values times alternatives: many more than any real object needs, but few enough to take only seconds."""
_CHECKING: Final = 4.0
"""Microseconds for each check."""
_WORK_A_CHECK: Final = 20.0
"""Microseconds of matching texts that count as one check, since their price is that of the worst case."""
UNCORRELATED: Final = object()
"""Stands for a missing old value: there is none to compare with."""

_KINDS: Final[dict[type, str]] = {
    str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"
}  # fmt: skip
_NATIVE: Final = {"integer": "int64", "number": "float64"}


@dataclass(slots=True)
class ValueErrors:
    """The result of checking a value: errors by message (each reported once), and the number of passed checks.

    Errors beyond a number that nobody would correct at once are dropped.
    """

    errors: dict[str, FieldError] = field(default_factory=dict)
    passed: int = 0

    def add(self, error: FieldError, message: str) -> None:
        if len(self.errors) < MOST_ERRORS:
            self.errors.setdefault(message, error)

    def merge(self, other: ValueErrors) -> None:
        for message, error in other.errors.items():
            self.add(error, message)
        self.passed += other.passed


class ValueSchema:
    """A schema with compiled patterns. Its parts are compiled on demand, since few objects use all of them."""

    def __init__(self, raw: Raw) -> None:
        spend(_CHECKING)
        self.raw = raw
        kind = raw.get("type") or ""
        both = bool(raw.get("x-kubernetes-int-or-string"))
        self._types = ("integer", "string") if both else (kind,) if kind else ()
        format_ = raw.get("format") or ""
        self._format = format_ if supported("" if both else kind, format_) else ""
        self._check_format = format_check(self._format) if self._format else None
        self._nullable = bool(raw.get("nullable"))
        self._enum: list[Any] = raw.get("enum") or []
        self._texts = frozenset(each for each in self._enum if isinstance(each, str))
        pattern = raw.get("pattern")
        self._pattern = Pattern(pattern) if pattern else None
        self._choice_steps = sum(map(steps, self._enum))
        self._raw_properties: Mapping[str, Raw] = raw.get("properties") or {}
        self._properties: dict[str, ValueSchema] = {}  # the parts compiled so far
        items, additional = raw.get("items"), raw.get("additionalProperties")
        self._items = ValueSchema(items) if isinstance(items, dict) else None
        self._additional = ValueSchema(additional) if isinstance(additional, dict) else None
        self._closed = additional is False
        self._any, self._one, self._all = (
            [ValueSchema(each) for each in raw.get(name) or ()] for name in ("anyOf", "oneOf", "allOf")
        )
        not_ = raw.get("not")
        self._not = ValueSchema(not_) if isinstance(not_, dict) else None

    def errors(self, value: Any, root: FieldPath | None = None, old: Any = UNCORRELATED) -> list[FieldError]:
        """Everything that is wrong with a value that stands at ``root``."""
        place = _Place(root)
        try:
            return list(self.check(place, value, "", old).errors.values())
        except _TooMuch:
            return [place.at("").invalid(f"takes more than {MOST_CHECKS} checks, which is too many", OMITTED)]

    def property(self, name: str) -> ValueSchema | None:
        known = self._properties.get(name)
        if known is None and name in self._raw_properties:
            known = self._properties[name] = ValueSchema(self._raw_properties[name])
        return known

    def check(self, place: _Place, value: Any, path: str, old: Any, ratchet: bool = True) -> ValueErrors:
        found = ValueErrors()
        place.count()
        if type(value) is int and not -(2**63) <= value < 2**63:
            value = float(value)  # as JSON is read where integers have 64 bits
        if value is None:
            self._check_null(found, place, path)
        else:
            self._check_type(found, place, value, path)
            self._check_alternatives(found, place, value, path, old)
            if isinstance(value, str):
                self._check_text(found, place, value, path)
            elif isinstance(value, list):
                self._check_list(found, place, value, path, old)
            elif isinstance(value, int | float) and not isinstance(value, bool):
                self._check_number(found, place, value, path)
            self._check_enum(found, place, value, path)
            if isinstance(value, dict):
                self._check_object(found, place, value, path, old)
            found.passed += 1
        if ratchet and found.errors and old is not UNCORRELATED and place.unchanged(value, old):
            found.errors.clear()
        return found

    def _check_null(self, found: ValueErrors, place: _Place, path: str) -> None:
        if self._types and not self._nullable:
            place.type_error(found, path, ",".join(self._types), "null")
        if self._enum:
            self._refuse_choice(found, place, None, path)

    def _check_type(self, found: ValueErrors, place: _Place, value: Any, path: str) -> None:
        types = self._types
        if not types and not self._format:
            return
        kind = _KINDS[type(value)]
        fits = (
            kind in types
            or (kind == "number" and "integer" in types and is_whole(value))
            or (kind == "integer" and "number" in types)
        )
        native = _NATIVE.get(kind, "")
        if kind not in ("string", "array") and self._format and not fits and native != self._format:
            place.type_error(found, path, self._format, native)
        elif (
            self._format and kind in ("string", "array") and "number" not in types and "integer" not in types
        ) or fits:
            found.passed += 1
        else:
            place.type_error(found, path, ",".join(types), kind)
        found.passed += 1

    def _check_alternatives(self, found: ValueErrors, place: _Place, value: Any, path: str, old: Any) -> None:
        found.passed += 2
        if self._any:
            best: ValueErrors | None = None
            for schema in self._any:
                result = schema.check(place, value, path, old, ratchet=False)
                if not result.errors:
                    place.merge(found, result)
                    break
                if best is None or result.passed > best.passed:
                    best = result
            else:
                place.composed(found, f"{json.dumps(path)} must validate at least one schema (anyOf)")
                if best is not None:
                    place.merge(found, best)
        if self._one:
            self._check_one(found, place, value, path, old)
        if self._all:
            results = [schema.check(place, value, path, old, ratchet=False) for schema in self._all]
            for result in results:
                place.merge(found, result)
            failed = sum(bool(result.errors) for result in results)
            if failed:
                none = ". None validated" if failed == len(results) else ""
                place.composed(found, f"{json.dumps(path)} must validate all the schemas (allOf){none}")
        if self._not is not None and not self._not.check(place, value, path, old, ratchet=False).errors:
            place.composed(found, f"{json.dumps(path)} must not validate the schema (not)")

    def _check_one(self, found: ValueErrors, place: _Place, value: Any, path: str, old: Any) -> None:
        results = [schema.check(place, value, path, old, ratchet=False) for schema in self._one]
        valid = [result for result in results if not result.errors]
        if len(valid) == 1:
            place.merge(found, valid[0])
            return
        told_ = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
        place.composed(found, f"{json.dumps(path)} must validate one and only one schema (oneOf). {told_}")
        if not valid:
            place.merge(found, max(results, key=lambda result: result.passed))

    def _check_text(self, found: ValueErrors, place: _Place, value: str, path: str) -> None:
        raw = self.raw
        longest, shortest = raw.get("maxLength"), raw.get("minLength")
        found.passed += 1
        if longest is not None and len(value) > longest:
            found.add(
                place.at(path).too_long(longest), f"{path} in body should be at most {longest} chars long"
            )
        elif shortest is not None and len(value) < shortest:
            place.invalid(found, path, value, f"should be at least {shortest} chars long")
        elif self._pattern is not None and not place.matches(self._pattern, value):
            place.invalid(found, path, value, f"should match '{shortened(raw['pattern'], LONGEST_TRAIL)}'")
        if self._check_format is not None:
            found.passed += 1
            place.work(format_price(self._format, value))
            if not self._check_format(value):
                place.type_error(found, path, self._format, value)

    def _check_number(self, found: ValueErrors, place: _Place, value: float, path: str) -> None:
        raw = self.raw
        kind = self._types[0] if len(self._types) == 1 and self._types[0] in _NATIVE else ""
        format_ = self._format if kind else ""
        if problem := range_error(value, kind, format_, "Checked", path):
            place.composed(found, problem)
        for name, what, judge in (
            ("multipleOf", "MultipleOf", _multiple),
            ("minimum", "Minimum boundary", _minimum),
            ("maximum", "Maximum boundary", _maximum),
        ):
            bound = raw.get(name)
            if bound is None:
                continue
            native = isinstance(value, int)
            if problem := range_error(bound, kind, format_, what, path):
                place.composed(found, problem)
                native = False
            exclusive = bool(raw.get(f"exclusive{name[0].upper()}{name[1:]}"))
            bound = int(bound) if native else float(bound)
            if name == "multipleOf" and bound <= 0:  # a fraction that became a whole number
                told_ = f"factor MultipleOf declared for {path} must be positive: {told(bound)}"
                found.add(place.at(path).invalid(told_, bound), told_)
            elif message := judge(value, bound, exclusive):
                place.invalid(found, path, value, message)
        found.passed += 2

    def _check_list(self, found: ValueErrors, place: _Place, value: list[Any], path: str, old: Any) -> None:
        if self._items is not None:
            before = self._old_items(old)
            for index, item in enumerate(value):
                earlier = before.get(map_key(self.raw, item), UNCORRELATED) if before else UNCORRELATED
                place.merge(found, self._items.check(place, item, _inside(path, f"[{index}]"), earlier))
        fewest, most = self.raw.get("minItems"), self.raw.get("maxItems")
        if fewest is not None and len(value) < fewest:
            place.invalid(found, path, len(value), f"should have at least {fewest} items")
        if most is not None and len(value) > most:
            error = place.at(path).too_many(len(value), most)
            found.add(error, f"{path} in body should have at most {most} items")
        found.passed += 2

    def _old_items(self, old: Any) -> dict[Any, Any]:
        """The old elements of a list of the type map, by their keys."""
        if not isinstance(old, list) or self.raw.get("x-kubernetes-list-type") != "map":
            return {}
        return {map_key(self.raw, item): item for item in reversed(old) if isinstance(item, dict)}

    def _check_enum(self, found: ValueErrors, place: _Place, value: Any, path: str) -> None:
        found.passed += 1
        if not self._enum:
            return
        if isinstance(value, str):
            known = value in self._texts
        else:  # one after the other, which counts as so many checks
            place.count(min(self._choice_steps, len(self._enum) * steps(value)))
            known = any(chosen(value, choice) for choice in self._enum)
        if not known:
            self._refuse_choice(found, place, value, path)

    def _refuse_choice(self, found: ValueErrors, place: _Place, value: Any, path: str) -> None:
        place.count(len(self._choices) // 4 + steps(value))
        message = f"{path} in body should be one of {self._choices}"
        found.add(place.at(path).not_supported(value, self._choices), message)

    @cached_property
    def _choices(self) -> list[str]:
        """As errors list them."""
        choices = (each if isinstance(each, str) else json.dumps(each) for each in self._enum)
        return [shortened(each, LONGEST_TRAIL) for each in islice(choices, MOST_CHOICES)]

    def _check_object(
        self, found: ValueErrors, place: _Place, value: Mapping[str, Any], path: str, old: Any
    ) -> None:
        fewest, most = self.raw.get("minProperties"), self.raw.get("maxProperties")
        if fewest is not None and len(value) < fewest:
            place.invalid(found, path, len(value), f"should have at least {fewest} properties")
        if most is not None and len(value) > most:
            error = place.at(path).too_many(len(value), most)
            found.add(error, f"{path} in body should have at most {most} properties")
        before = old if isinstance(old, dict) else {}
        for name, item in value.items():
            schema = self.property(name)
            if schema is not None:
                hidden = path == "" and place.root is None and name in ("apiVersion", "kind")
                earlier = UNCORRELATED if hidden else before.get(name, UNCORRELATED)
                place.merge(found, schema.check(place, item, _inside(path, f".{name}"), earlier))
            elif self._additional is not None:
                earlier = before.get(name, UNCORRELATED)
                place.merge(
                    found, self._additional.check(place, item, _inside(path, f".{name}", "."), earlier)
                )
            elif self._closed:
                message = f"{_inside(path, f'.{name}', '.')} in body is a forbidden property"
                found.add(place.at(path).invalid(message, name), message)
        required = self.raw.get("required") or ()
        place.count(len(required) // 20)
        for name in required:
            if name not in value:
                place.count()
                here = _inside(path, f".{name}", ".")
                found.add(place.at(here).required(), f"{here} in body is required")
        found.passed += 1


class _TooMuch(Exception):
    """There are too many checks, so checking stops."""


@dataclass(slots=True)
class _Place:
    """Where the value that is checked stands, as errors bear the path from there; and how many checks there were."""

    root: FieldPath | None
    checks: float = 0
    compared: dict[tuple[int, int], bool] = field(default_factory=dict)

    def count(self, checks: int = 1) -> None:
        self.checks += checks
        if self.checks > MOST_CHECKS:
            raise _TooMuch
        spend(checks * _CHECKING)

    def work(self, microseconds: float) -> None:
        """Counts work on a text, before it is done."""
        self.checks += microseconds / _WORK_A_CHECK
        if self.checks > MOST_CHECKS:
            raise _TooMuch
        spend(microseconds)

    def matches(self, pattern: Pattern, text: str) -> bool:
        self.work(pattern.price(text))
        return pattern.matches(text)

    def unchanged(self, value: Any, old: Any) -> bool:
        """Whether a value equals its old one. Alternatives ask for the same pair again and again."""
        pair = id(value), id(old)
        if pair not in self.compared:
            self.count(steps(value))
            self.compared[pair] = same(value, old)
        return self.compared[pair]

    def merge(self, found: ValueErrors, other: ValueErrors) -> None:
        if other.errors:
            self.count(len(other.errors) // 8)
        found.merge(other)

    def invalid(self, found: ValueErrors, path: str, value: Any, message: str) -> None:
        text = f"{path} in body {message}"
        found.add(self.at(path).invalid(text, value), text)

    def type_error(self, found: ValueErrors, path: str, wanted: str, given: str) -> None:
        shown = shortened(json.dumps(given, ensure_ascii=False), LONGEST_TRAIL)
        text = f"{path} in body must be of type {wanted}: {shown}"
        found.add(FieldError(self.at(path), ErrorKind.TYPE_INVALID, text, given), text)

    def composed(self, found: ValueErrors, message: str) -> None:
        """An error that belongs to the whole."""
        where = self.root if self.root is not None else NOWHERE
        found.add(where.invalid(message, ""), message)

    def at(self, path: str) -> FieldPath:
        path = path.removeprefix(".")
        if self.root is None:
            return FieldPath(path) if path else NOWHERE
        return self.root.child(path) if path else self.root


def _inside(path: str, step: str, root: str = "") -> str:
    """The way to a value inside another, cut where keys make it longer than anybody reads. ``root`` replaces the dot there."""
    if not path:
        step = root + step[1:] if step[0] == "." else step
    return shortened(path + step, LONGEST_TRAIL) if len(path) + len(step) > LONGEST_TRAIL else path + step


def _multiple(value: float, factor: float, exclusive: bool) -> str | None:
    if isinstance(factor, int):
        whole = value % factor == 0
    else:
        whole = is_whole(1 / factor * value if factor < 1 else value / factor)
    return None if whole else f"should be a multiple of {told(factor)}"


def _minimum(value: float, bound: float, exclusive: bool) -> str | None:
    if value > bound or (value == bound and not exclusive):
        return None
    return f"should be greater than {'' if exclusive else 'or equal to '}{told(bound)}"


def _maximum(value: float, bound: float, exclusive: bool) -> str | None:
    if value < bound or (value == bound and not exclusive):
        return None
    return f"should be less than {'' if exclusive else 'or equal to '}{told(bound)}"


def blocking(errors: list[FieldError]) -> Iterator[FieldError]:
    """Those errors after which rules cannot be trusted to find what they look for."""
    return (error for error in errors if error.kind in _BLOCKING)


_BLOCKING: Final = frozenset(
    {
        ErrorKind.NOT_SUPPORTED,
        ErrorKind.REQUIRED,
        ErrorKind.TOO_LONG,
        ErrorKind.TOO_MANY,
        ErrorKind.TYPE_INVALID,
    }
)
UNCHECKED: Final = FieldError(
    NOWHERE,
    ErrorKind.INVALID,
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation",
)
