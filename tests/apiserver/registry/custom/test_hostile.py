"""Definitions and objects that are anything at all: refused in words, or taken, and never a crash."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.api.fields import MOST_CHOICES, MOST_ERRORS
from allotment.api.schema.conform import conform
from allotment.api.schema.schema import schema_of
from allotment.api.status import BadRequest, TooLarge
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry.custom.definition import definition_errors, definition_warnings
from allotment.apiserver.registry.custom.kind import resource_of
from allotment.apiserver.registry.custom.pruning import fill
from allotment.apiserver.registry.custom.structural import Structural
from allotment.apiserver.registry.custom.values import ValueSchema
from allotment.apiserver.registry.kinds.custom_resource_definition import RESOURCES
from allotment.apiserver.registry.strategy import Operation, Write
from tests.apiserver.registry.custom.schemas import Raw, array, definition, obj
from tests.thoroughness import examples

STRATEGY = RESOURCES[0].strategy
WRITE = Write(Operation.CREATE, ADMINISTRATOR, "2026-01-02T03:04:05Z")
SCHEMA = schema_of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
WORDS = st.sampled_from(
    ["", "a", "object", "array", "integer", "string", "map", "set", "self", "self.a == oldSelf.a", "^a", "("]
)
SCALARS = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | WORDS
)
NAMES = st.sampled_from(
    [
        *("type", "format", "items", "properties", "additionalProperties", "required", "default", "nullable", "enum"),
        *("allOf", "anyOf", "oneOf", "not", "pattern", "minimum", "multipleOf", "maxLength", "minItems", "maxProperties"),
        *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-int-or-string", "x-kubernetes-map-type"),
        *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-validations", "rule"),
        *("a", "metadata", "messageExpression", "fieldPath", "optionalOldSelf"),
    ]
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=15,
)


def schemas(depth: int) -> st.SearchStrategy[Raw]:
    """Mostly right, so that checks behind the first ones are reached."""
    leaves: list[Raw] = [{"type": "integer"}, {"type": "string"}, {"x-kubernetes-int-or-string": True}]
    leaf = st.sampled_from(leaves)
    if depth == 0:
        return leaf
    inner = schemas(depth - 1)
    whole = st.one_of(
        leaf,
        st.dictionaries(st.sampled_from(["a", "b-c", "metadata"]), inner, max_size=2).map(
            lambda each: obj(**each)
        ),
        inner.map(lambda each: {"type": "array", "items": each}),
        inner.map(lambda each: {"type": "object", "additionalProperties": each}),
    )
    return st.builds(lambda made, more: {**made, **more}, whole, st.dictionaries(NAMES, ANYTHING, max_size=1))


@settings(max_examples=examples(200), deadline=None)
@given(schemas(3), ANYTHING, ANYTHING)
def test_anything(schema: Raw, spec: Any, old: Any) -> None:
    try:
        crd = conform(SCHEMA, definition(schema=obj(spec=schema))).obj
        STRATEGY.default(crd, WRITE)
    except BadRequest:
        return
    STRATEGY.prepare_create(crd, WRITE)
    definition_warnings(crd)
    if list(definition_errors(crd)):
        return
    crd["metadata"]["generation"] = 2
    crd["status"]["acceptedNames"] = crd["spec"]["names"]
    resource = resource_of(crd)
    head = {"apiVersion": "example.com/v1", "kind": "Widget"}
    try:
        new, before = (
            resource.readers["v1"]({**head, "metadata": {"name": "a"}, "spec": each}).obj
            for each in (spec, old)
        )
    except BadRequest:
        return
    resource.strategy.default(new, WRITE)
    resource.strategy.validate(new)
    resource.strategy.validate_update(new, before)
    for column in resource.columns:
        column.read(new, "2026-01-02T03:04:05Z")


def test_defaults_that_would_make_an_object_huge_are_refused_before_they_are_filled_in() -> None:
    note = {"type": "string", "default": "x" * 100_000}
    structural = Structural(obj(parts=array(obj(note=note))))
    value: Raw = {"parts": [{} for _ in range(1000)]}
    with pytest.raises(TooLarge, match="defaults of this kind would add more than"):
        fill(structural, value)
    assert sum(len(part) for part in value["parts"]) < 100
    fill(structural, {"parts": [{}, {}]})


def test_choices_are_looked_up_and_not_gone_through() -> None:
    texts = ValueSchema(array({"type": "string", "enum": [f"a{number}" for number in range(20_000)]}))
    assert texts.errors([f"a{number}" for number in range(20_000)]) == []
    (error,) = texts.errors(["b"])
    assert len(error.choices) == MOST_CHOICES


def test_choices_that_have_to_be_gone_through_count_as_checks() -> None:
    numbers = ValueSchema(array({"type": "integer", "enum": list(range(20_000))}))
    assert numbers.errors([1, 2, 3]) == []
    (error,) = numbers.errors(list(range(1000)))
    assert "which is too many" in error.message


def test_of_many_errors_some_are_kept() -> None:
    assert len(ValueSchema(array({"type": "string"})).errors(list(range(50_000)))) == MOST_ERRORS
