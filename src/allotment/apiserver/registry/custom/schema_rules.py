"""Rules for schemas in definitions beyond being structural: OpenAPI, lists, defaults and expressions.

One walk over the schema collects two kinds of errors. Errors of expressions are reported only where the surrounding schema
is valid, since types are derived from it. The walk knows what ancestors allow: defaults are forbidden in metadata, and
``oldSelf`` in list elements that cannot be matched with old ones. It multiplies the limits of lists and maps on its way,
because a rule costs as often as its value can occur.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from allotment.api.fields import FieldError, FieldPath
from allotment.apiserver.registry.custom.declarations import SchemaDeclarations
from allotment.apiserver.registry.custom.default_check import default_errors
from allotment.apiserver.registry.custom.field_path import BadPath, field_path
from allotment.apiserver.registry.custom.rules import CompiledRule, compiled, most_often
from allotment.apiserver.registry.custom.structural import META_FIELDS, Structural
from allotment.apiserver.registry.custom.structure import UNSUPPORTED, structure_errors

Raw = Mapping[str, Any]

RULE_LIMIT: Final = 10_000_000
"""The highest estimated cost of one rule."""
SCHEMA_LIMIT: Final = 100_000_000
"""The highest estimated cost of all rules of a schema."""
MOST_RULES: Final = 2_000
MOST_VALUES: Final = 50_000
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_LISTS: Final = ("atomic", "set", "map")
_UNSUPPORTED: Final = [name for name in UNSUPPORTED if name != "$schema"]
_MOST_COST: Final = 2**64 - 1


def schema_errors(raw: Raw, path: FieldPath) -> list[FieldError]:
    """Everything that is wrong with a version's schema; ``path`` leads to ``openAPIV3Schema``."""
    values, rules = _size(raw)
    if values > MOST_VALUES or rules > MOST_RULES:
        return [
            path.forbidden(
                f"describes {values} values with {rules} rules, but this server takes at most {MOST_VALUES} values and "
                f"{MOST_RULES} rules"
            )
        ]
    errors = []
    if raw.get("nullable"):
        errors.append(FieldPath(f"{path}.nullable").forbidden("nullable cannot be true at the root"))
    supported = not _has_unsupported(raw)
    sound = False
    structural = Structural(raw) if supported else None
    if structural is not None:
        found = structure_errors(raw, path) or list(default_errors(structural, path))
        errors += found
        sound = not found
    walk = _SchemaWalk(SchemaDeclarations() if sound else None)
    told = walk.schema(raw, structural if sound else None, path, _Context(root=True))
    errors += told.shape + told.rules
    if walk.cost > SCHEMA_LIMIT:
        errors += walk.too_much(path)
    return errors


def schemas_in(raw: Raw) -> Iterator[Raw]:
    """A schema and all that are in it."""
    pending: list[Raw] = [raw]
    while pending:
        here = pending.pop()
        yield here
        pending.extend(inner for _, inner in _inner(here))


def _size(raw: Raw) -> tuple[int, int]:
    values = rules = 0
    for here in schemas_in(raw):
        values += 1
        rules += len(here.get("x-kubernetes-validations") or ())
    return values, rules


def _has_unsupported(raw: Raw) -> bool:
    return any(
        any(map(_said, (here.get(name) for name in UNSUPPORTED))) or isinstance(here.get("items"), list)
        for here in schemas_in(raw)
    )


def _said(value: Any) -> bool:
    """Whether a part of a schema says anything; ``additionalItems: false`` does."""
    return value is not None and value not in ("", {}, [])


def _inner(raw: Raw) -> Iterator[tuple[str, Raw]]:
    """The schemas inside a schema, with the part of it that they are in."""
    for name in ("properties", "definitions", "patternProperties", "dependencies"):
        part = raw.get(name)
        for inner in part.values() if isinstance(part, dict) else ():
            if isinstance(inner, dict):
                yield name, inner
    for name in ("allOf", "anyOf", "oneOf", "items"):
        part = raw.get(name)
        for inner in part if isinstance(part, list) else ():
            if isinstance(inner, dict):
                yield name, inner
    for name in ("items", "not", "additionalProperties", "additionalItems"):
        if isinstance(raw.get(name), dict):
            yield name, raw[name]


@dataclass(frozen=True, slots=True)
class _Context:
    """What the surrounding schemas imply for one schema."""

    root: bool = False
    no_defaults: str | None = None  # why defaults are forbidden here
    inside_meta: bool = False
    uncorrelatable: FieldPath | None = None  # the path from which on values cannot be matched with old ones
    cardinality: int | None = 1  # how often a value can occur; None without bound


@dataclass(slots=True)
class _RuleErrors:
    shape: list[FieldError] = field(default_factory=list)
    rules: list[FieldError] = field(default_factory=list)

    def __iadd__(self, other: _RuleErrors) -> _RuleErrors:
        self.shape += other.shape
        self.rules += other.rules
        return self


class _SchemaWalk:
    """One walk over a schema. Without declarations no expression is looked at."""

    def __init__(self, declarations: SchemaDeclarations | None) -> None:
        self._declarations = declarations
        self.cost = 0
        self._expensive: list[tuple[int, FieldPath]] = []

    def schema(
        self, raw: Raw, structural: Structural | None, path: FieldPath, context: _Context
    ) -> _RuleErrors:
        """``structural`` is the schema as values see it; None off the spine."""
        told = _RuleErrors(list(_plain_errors(raw, path, context)))
        inner = replace(context, root=False)
        properties: Raw = raw.get("properties") or {}
        additional, items = raw.get("additionalProperties"), raw.get("items")
        if additional is not None:
            if properties and additional is not True:
                told.shape.append(
                    path.child("additionalProperties").forbidden(
                        "additionalProperties and properties are mutual exclusive"
                    )
                )
            if isinstance(additional, dict):
                below = replace(inner, cardinality=_times(context.cardinality, raw))
                if context.inside_meta:
                    below = replace(
                        below, no_defaults="inside additionalProperties applying to object metadata"
                    )
                known = structural.additional if structural is not None else None
                told += self.schema(additional, known, path.child("additionalProperties"), below)
        for name, each in properties.items():
            told += self._property(raw, name, each, structural, path, context)
        for name in ("not", "allOf", "oneOf", "anyOf"):
            for number, each in enumerate(raw.get(name) or () if name != "not" else [raw.get("not")]):
                if isinstance(each, dict):
                    at = path.child(name) if name == "not" else path.child(name).index(number)
                    told += self.schema(each, None, at, inner)
        if isinstance(items, dict):
            below = replace(inner, cardinality=_times(context.cardinality, raw))
            if raw.get("x-kubernetes-list-type") != "map" and context.uncorrelatable is None:
                below = replace(below, uncorrelatable=path)
            known = structural.items if structural is not None else None
            told += self.schema(items, known, path.child("items"), below)
        told.shape += _extension_errors(raw, path)
        told.shape += _rule_shape_errors(raw, path)
        if raw.get("x-kubernetes-validations") and not told.shape and structural is not None:
            told.rules += self._rule_errors(raw, structural, path, context)
        return told

    def _property(
        self,
        raw: Raw,
        name: str,
        each: Raw,
        structural: Structural | None,
        path: FieldPath,
        context: _Context,
    ) -> _RuleErrors:
        below = replace(context, root=False, cardinality=_times(context.cardinality, raw))
        if (context.root or raw.get("x-kubernetes-embedded-resource")) and name in META_FIELDS:
            below = replace(below, inside_meta=True)
            if context.root:
                below = replace(below, no_defaults=f"in top-level {name}")
        known = structural.properties.get(name) if structural is not None else None
        return self.schema(each, known, path.child("properties").key(name), below)

    def _rule_errors(
        self, raw: Raw, structural: Structural, path: FieldPath, context: _Context
    ) -> Iterator[FieldError]:
        path = path.child("x-kubernetes-validations")
        if self._declarations is None:
            return
        declared = self._declarations.declare(structural, context.root or structural.embedded)
        if declared is None:
            yield path.invalid(
                "failed to construct type information for x-kubernetes-validations rules: unable to convert structural "
                "schema to CEL declarations",
                raw["x-kubernetes-validations"],
            )
            return
        often = context.cardinality if context.cardinality is not None else most_often(declared)
        for number, rule in enumerate(compiled(structural, declared, self._declarations)):
            yield from self._one_rule(rule, path.index(number), often, context)

    def _one_rule(
        self, rule: CompiledRule, at: FieldPath, often: int, context: _Context
    ) -> Iterator[FieldError]:
        cost = min(rule.max_cost * often, _MOST_COST)
        if cost > RULE_LIMIT:
            yield at.child("rule").forbidden(_too_expensive("estimated rule cost", cost, RULE_LIMIT))
        self._observe(at.child("rule"), cost)
        if rule.problem:
            yield at.child("rule").invalid(rule.problem, _told(rule.raw))
        if rule.message_problem:
            yield at.child("messageExpression").invalid(rule.message_problem, _told(rule.raw))
        elif rule.message is not None:
            if rule.max_message_cost > RULE_LIMIT:
                told = _too_expensive("estimated messageExpression cost", rule.max_message_cost, RULE_LIMIT)
                yield at.child("messageExpression").forbidden(told)
            self._observe(at.child("messageExpression"), rule.max_message_cost)
        if rule.reads_old:
            if context.uncorrelatable is not None:
                yield at.child("rule").invalid(
                    f"oldSelf cannot be used on the uncorrelatable portion of the schema within {context.uncorrelatable}",
                    rule.raw.get("rule"),
                )
        elif rule.raw.get("optionalOldSelf") is not None:
            yield at.child("optionalOldSelf").invalid(
                "may not be set if oldSelf is not used in rule", rule.raw["optionalOldSelf"]
            )

    def _observe(self, path: FieldPath, cost: int) -> None:
        self.cost = min(self.cost + cost, _MOST_COST)
        if cost >= SCHEMA_LIMIT // 100:
            self._expensive.append((cost, path))

    def too_much(self, path: FieldPath) -> Iterator[FieldError]:
        worst = sorted(self._expensive, key=lambda pair: -pair[0])[:4]
        for _, at in worst:
            yield at.forbidden(
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            )
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield path.forbidden(_too_expensive(what, self.cost, SCHEMA_LIMIT))


def _times(often: int | None, raw: Raw) -> int | None:
    """How often what is in a value can occur, if the value can occur so often."""
    if often is None:
        return None
    kind = raw.get("type")
    if kind == "object" and raw.get("additionalProperties") is not None:
        limit = raw.get("maxProperties")
    elif kind == "array":
        limit = raw.get("maxItems")
    else:
        return often
    return None if limit is None else min(often * max(limit, 0), _MOST_COST)


def _too_expensive(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        told = "more than 100x"
    else:
        told = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {told} (try simplifying the rule, or adding maxItems, maxProperties, and "
        "maxLength where arrays, maps, and strings are declared)"
    )


def _plain_errors(raw: Raw, path: FieldPath, context: _Context) -> Iterator[FieldError]:
    kind = raw.get("type") or ""
    if kind and kind not in _TYPES:
        yield path.child("type").not_supported(kind, _TYPES)
    if raw.get("default") is not None and context.no_defaults is not None:
        yield path.child("default").forbidden(f"must not be set {context.no_defaults}")
    for name in _UNSUPPORTED:
        if _said(raw.get(name)):
            yield path.child(name).forbidden(f"{name} is not supported")
    if kind == "null":
        yield path.child("type").forbidden("type cannot be set to null, use nullable as an alternative")
    if isinstance(raw.get("items"), list):
        yield path.child("items").forbidden("items must be a schema object and not an array")
    if context.inside_meta and raw.get("x-kubernetes-embedded-resource"):
        yield path.child("x-kubernetes-embedded-resource").forbidden(
            "must not be used inside of resource meta"
        )
    if raw.get("uniqueItems"):
        yield path.child("uniqueItems").forbidden(
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        )


def _extension_errors(raw: Raw, path: FieldPath) -> Iterator[FieldError]:
    kind = raw.get("type") or ""
    if raw.get("x-kubernetes-preserve-unknown-fields") is False:
        yield path.child("x-kubernetes-preserve-unknown-fields").invalid("must be true or undefined", False)
    map_type, list_type = raw.get("x-kubernetes-map-type"), raw.get("x-kubernetes-list-type")
    for type_, wanted, extension in ((map_type, "object", "map"), (list_type, "array", "list")):
        if type_ is not None and kind != wanted:
            message = f"must be {wanted} if x-kubernetes-{extension}-type is specified"
            at = path.child("type")
            yield at.invalid(message, kind) if kind else at.required(message)
    if map_type is not None and map_type not in ("atomic", "granular"):
        yield path.child("x-kubernetes-map-type").not_supported(map_type, ("atomic", "granular"))
    if list_type == "set" and kind == "array":
        yield from _set_errors(raw.get("items"), path.child("items"))
    if list_type is not None and list_type not in _LISTS:
        yield path.child("x-kubernetes-list-type").not_supported(list_type, _LISTS)
    if raw.get("x-kubernetes-list-map-keys") and list_type != "map":
        message = "must be map if x-kubernetes-list-map-keys is non-empty"
        at = path.child("x-kubernetes-list-type")
        yield at.required(message) if list_type is None else at.invalid(message, list_type)
    if list_type == "map":
        yield from _map_errors(raw, path)
    if list_type in ("set", "map") and isinstance(raw.get("items"), dict):
        yield from _key_errors(raw, raw["items"], path.child("items"))


def _set_errors(items: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(items, dict):
        return
    message = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and (items.get("x-kubernetes-list-type") or "atomic") != "atomic":
        yield path.child("x-kubernetes-list-type").invalid(message, items["x-kubernetes-list-type"])
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield path.child("x-kubernetes-map-type").invalid(message, items.get("x-kubernetes-list-type"))


def _map_errors(raw: Raw, path: FieldPath) -> Iterator[FieldError]:
    keys, items = raw.get("x-kubernetes-list-map-keys") or [], raw.get("items")
    if not keys:
        yield path.child("x-kubernetes-list-map-keys").required(
            "must not be empty if x-kubernetes-list-type is map"
        )
    if items is None:
        yield path.child("items").required("must have a schema if x-kubernetes-list-type is map")
    if not isinstance(items, dict):
        return
    if items.get("type") != "object":
        yield (
            path.child("items", "type").invalid(
                "must be object if parent array's x-kubernetes-list-type is map", items.get("type") or ""
            )
        )
        return
    properties = items.get("properties") or {}
    for number, key in enumerate(keys):
        if key not in properties:
            yield path.child("x-kubernetes-list-map-keys").invalid(
                "entries must all be names of item properties", keys
            )
        elif properties[key].get("type") in ("array", "object"):
            yield (
                path.child("items", "properties")
                .key(key)
                .child("type")
                .invalid("must be a scalar type if parent array's x-kubernetes-list-type is map", "object")
            )
        if key in keys[:number]:
            yield path.child("x-kubernetes-list-map-keys").invalid("must not contain duplicate entries", keys)


def _key_errors(raw: Raw, items: Raw, path: FieldPath) -> Iterator[FieldError]:
    list_type = raw["x-kubernetes-list-type"]
    if items.get("nullable"):
        yield path.child("nullable").forbidden(
            f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        )
    if list_type != "map":
        return
    for key in raw.get("x-kubernetes-list-map-keys") or ():
        known = (items.get("properties") or {}).get(key)
        if known is None:
            continue
        at = path.child("properties").key(key)
        if key not in (items.get("required") or ()) and known.get("default") is None:
            yield at.child("default").required(
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            )
        if known.get("nullable"):
            yield at.child("nullable").forbidden(
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            )


def _told(rule: Raw) -> dict[str, Any]:
    """A rule as Kubernetes quotes it: with all fields, under their internal names in the server."""
    return {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def _rule_shape_errors(raw: Raw, path: FieldPath) -> Iterator[FieldError]:
    for number, rule in enumerate(raw.get("x-kubernetes-validations") or ()):
        at = path.child("x-kubernetes-validations").index(number)
        text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
        if not text:
            yield at.child("rule").required("rule is not specified")
        elif message and not message.strip():
            yield at.child("message").invalid("must be non-empty if specified", message)
        elif _has_lines(message.strip()):
            yield at.child("message").invalid("must not contain line breaks", message)
        elif _has_lines(text) and not message.strip():
            yield at.child("message").required("message must be specified if rule contains line breaks")
        if rule.get("messageExpression") and not rule["messageExpression"].strip():
            yield at.child("messageExpression").required("messageExpression must be non-empty if specified")
        if rule.get("reason") is not None and rule["reason"] not in _REASONS:
            yield at.child("reason").not_supported(rule["reason"], _REASONS)
        if where := rule.get("fieldPath") or "":
            yield from _where_errors(raw, where, at.child("fieldPath"))


def _where_errors(raw: Raw, where: str, at: FieldPath) -> Iterator[FieldError]:
    if not where.strip():
        yield at.invalid("must be non-empty if specified", where)
    if _has_lines(where):
        yield at.invalid("must not contain line breaks", where)
    try:
        field_path(where, Structural(raw))
    except BadPath:
        yield at.invalid("must be a valid path", where)


def _has_lines(text: str) -> bool:
    return re.search(r"[\n\r]", text) is not None
