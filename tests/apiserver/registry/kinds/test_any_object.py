"""Whatever fits the schema of a kind, its rules, columns and selectable fields cope with it: they report, they never raise."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allotment.api.schema.conform import conform
from allotment.api.schema.schema import Schema, schema_of
from allotment.api.status import BadRequest, StatusError
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry import kinds
from allotment.apiserver.registry.catalogue import found_in
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Operation, Write

NOW = "2026-11-16T05:00:00Z"
RESOURCES = [
    each for each in found_in(kinds) if each.group not in ("resource.k8s.io", "apiextensions.k8s.io")
]
DEPTH = 9

# Drawn more often than by chance: what the rest hangs on.
_INTERESTING = {
    "spec",
    "status",
    "template",
    "jobTemplate",
    "containers",
    "initContainers",
    "resources",
    "selector",
    "conditions",
    "containerStatuses",
    "initContainerStatuses",
    "state",
    "podGroupTemplates",
    "compositePodGroupTemplates",
    "schedulingPolicy",
}
_WORDS = st.sampled_from(
    [
        "",
        "a",
        "B_",
        "x y",
        "Always",
        "Exists",
        "In",
        "RollingUpdate",
        "cpu",
        "memory",
        "example.com/gpu",
        "50%",
        "Container",
    ]
)
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": _WORDS,
    "integer": st.integers(-3, 5) | st.just(2**31 - 1),
    "number": st.integers(-3, 5),
    "boolean": st.booleans(),
    "int-or-string": st.integers(-3, 5) | _WORDS,
    "quantity": st.sampled_from(["0", "1", "500m", "1Gi", "-1"]),
    "time": st.just("2026-01-02T03:04:05Z"),
    "any": st.none() | st.just({"a": 1}),
}


def values(schema: Schema, depth: int) -> st.SearchStrategy[Any]:
    """Values of a schema; ``null`` may stand for any of them, as users write it."""
    if schema.type == "object" and schema.properties:
        if depth == 0:
            return st.just({})
        return st.deferred(lambda: _objects(schema, depth))
    if schema.type == "object":
        inner = schema.additional
        if inner is None or depth == 0:
            return st.just({})
        return st.dictionaries(_WORDS, values(inner, depth - 1), max_size=2)
    if schema.type == "array":
        if schema.items is None or depth == 0:
            return st.just([])
        return st.lists(values(schema.items, depth - 1), max_size=2)
    if schema.enum:
        return st.sampled_from(schema.enum)
    return _SCALARS.get(schema.type, st.none())


@st.composite
def _objects(draw: st.DrawFn, schema: Schema, depth: int) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(sorted(schema.properties)), max_size=5, unique=True))
    names += [
        name
        for name in sorted(_INTERESTING & schema.properties.keys())
        if name not in names and draw(st.booleans())
    ]
    made = {}
    for name in names:
        inner = schema.properties[name]
        made[name] = draw(st.none() if draw(st.integers(0, 9)) == 0 else values(inner, depth - 1))
    return made


@st.composite
def objects(draw: st.DrawFn, resource: Resource) -> dict[str, Any]:
    schema = schema_of(resource.api_version, resource.kind)
    obj: dict[str, Any] = {"apiVersion": resource.api_version, "kind": resource.kind}
    for name, inner in schema.properties.items():
        if name not in ("apiVersion", "kind", "metadata") and draw(st.booleans()):
            obj[name] = draw(values(inner, DEPTH))
    obj["metadata"] = draw(
        st.fixed_dictionaries(
            {}, optional={"labels": st.just({"app": "x"}), "annotations": st.just({"a": "b"})}
        )
    )
    try:
        conformed = conform(schema, obj).obj
    except BadRequest:  # it did not fit after all: a secret's data that is not base64
        return draw(st.nothing())
    conformed["metadata"] |= {"name": "a", "uid": "u", "creationTimestamp": NOW}
    if resource.namespaced:
        conformed["metadata"]["namespace"] = "n"
    return conformed


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.id)
def test_a_kind_copes_with_anything_that_fits_its_schema(resource: Resource) -> None:
    @settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(objects(resource), objects(resource))
    def check(obj: dict[str, Any], other: dict[str, Any]) -> None:
        strategy = resource.strategy
        create = Write(Operation.CREATE, ADMINISTRATOR, NOW)
        for each in (obj, other):
            strategy.default(each, create)
            strategy.prepare_create(each, create)
            strategy.validate(each)
            strategy.warnings(each)
            strategy.held(each)
            strategy.grace_seconds(each, None)
        again = copy.deepcopy(obj)
        strategy.default(again, create)
        assert again == obj, "what is complete stays as it is"
        update = Write(Operation.UPDATE, ADMINISTRATOR, NOW)
        changed, reported = copy.deepcopy(other), copy.deepcopy(other)
        strategy.prepare_update(changed, obj, update)
        strategy.validate_update(changed, obj)
        strategy.prepare_status(reported, obj, update)
        strategy.validate_status(reported, obj)
        for shown in (obj, reported):
            for column in resource.columns:
                column.read(shown, NOW)
            for read in resource.fields.values():
                assert isinstance(read(shown), str)
        for version in resource.versions:
            if version.from_hub and version.to_hub:
                assert version.to_hub(version.from_hub(copy.deepcopy(obj))) == obj
        for view in resource.views.values():
            view.read(obj)
            with suppress(StatusError):
                view.write(copy.deepcopy(obj), view.read(copy.deepcopy(other)))

    check()
