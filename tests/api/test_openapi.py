"""Our structs against Kubernetes' own OpenAPI documents: every field is there, under its name, in its shape.

For resource.k8s.io/v1 that holds in full. For core/v1, a field that we do not read must be listed in the
struct's ``NOT_READ``, so that a field of neither list is truly unknown.
"""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from allotment.api import core, kinds, meta, resource
from allotment.api.codec import encode
from allotment.api.meta import ApiStruct
from allotment.api.schema.shape import (
    ListShape,
    MapShape,
    QuantityShape,
    ScalarShape,
    Shape,
    StructShape,
    shape_of,
)
from tests.corpus import FOLDER, unavailable

RENAMED = {"ContainerClaim": "ResourceClaim", "PodAffinity": "PodAntiAffinity"}
"""Structs whose OpenAPI name we could not or need not keep; the latter serves for both of its names."""
OPTIONAL_QUANTITIES = {("CapacityRequestPolicyRange", "min")}
"""The schema requires it, but its absence must stay visible to validation."""


@cache
def schemas(name: str) -> dict[str, Any]:
    path = FOLDER.parent / "openapi" / name
    if not path.exists():
        unavailable(f"../shared/openapi/{name}")
    found: dict[str, Any] = json.loads(path.read_text())["components"]["schemas"]
    return found


def reference(schema: dict[str, Any]) -> str:
    """The name of the schema that this one only points at, without its package."""
    inner = schema["allOf"][0] if "allOf" in schema else schema
    return str(inner.get("$ref", "")).rpartition(".")[2]


def expected_shape(schema: dict[str, Any]) -> str:
    name = reference(schema)
    if name == "Quantity":
        return "quantity"
    if name == "Time":
        return "a string"
    if name in ("RawExtension", "FieldsV1"):
        return "any"
    if name:
        return f"struct {name}"
    match schema["type"]:
        case "array":
            return f"list of {expected_shape(schema['items'])}"
        case "object":
            return f"map of {expected_shape(schema['additionalProperties'])}"
        case "integer":
            return "a whole number of 64 bits"
        case "boolean":
            return "true or false"
        case _:
            return "a string"


def actual_shape(shape: Shape, expected: str) -> str:
    match shape:
        case StructShape():
            name = shape.type.__name__
            renamed = RENAMED.get(name, name)
            return f"struct {renamed if expected.endswith(f' {renamed}') else name}"
        case ListShape():
            return f"list of {actual_shape(shape.item, expected)}"
        case MapShape():
            return f"map of {actual_shape(shape.value, expected)}"
        case ScalarShape():
            return shape.expected
        case QuantityShape():
            return "quantity"
        case _:
            return "any"


def structs_of(module: Any) -> list[type[ApiStruct]]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, ApiStruct) and value.__module__ == module.__name__
    ]


def differences(kind: type[ApiStruct], schema: dict[str, Any]) -> Iterator[str]:
    shape = shape_of(kind)
    properties = schema.get("properties", {})
    yield from (f"{name} is not in the API" for name in shape.fields.keys() - properties.keys())
    yield from (f"{name} is in NOT_READ but not in the API" for name in kind.NOT_READ - properties.keys())
    yield from (f"{name} is in NOT_READ and read" for name in kind.NOT_READ & shape.fields.keys())
    for name, property_ in properties.items():
        if name in kind.NOT_READ:
            continue
        if name not in shape.fields:
            yield f"{name} is missing"
            continue
        expected = expected_shape(property_)
        actual = actual_shape(shape.fields[name], expected)
        if actual != expected:
            yield f"{name} is {actual}, should be {expected}"


@pytest.mark.parametrize("kind", structs_of(resource), ids=lambda kind: kind.__name__)
def test_every_struct_of_resource_v1_has_the_fields_of_its_schema(kind: type[ApiStruct]) -> None:
    schema = schemas("resource.k8s.io_v1.json")[f"io.k8s.api.resource.v1.{kind.__name__}"]
    assert list(differences(kind, schema)) == []
    assert not kind.NOT_READ, "resource.k8s.io/v1 is held in full"


def test_every_schema_of_resource_v1_has_a_struct() -> None:
    ours = {kind.__name__ for kind in structs_of(resource)}
    prefix = "io.k8s.api.resource.v1."
    theirs = {
        name.removeprefix(prefix) for name in schemas("resource.k8s.io_v1.json") if name.startswith(prefix)
    }
    assert ours == theirs


@pytest.mark.parametrize("kind", structs_of(core), ids=lambda kind: kind.__name__)
def test_every_struct_of_core_v1_accounts_for_all_fields_of_its_schema(kind: type[ApiStruct]) -> None:
    name = RENAMED.get(kind.__name__, kind.__name__)
    assert list(differences(kind, schemas("core_v1.json")[f"io.k8s.api.core.v1.{name}"])) == []


@pytest.mark.parametrize("kind", structs_of(meta)[1:], ids=lambda kind: kind.__name__)
def test_every_struct_of_meta_v1_has_the_fields_of_its_schema(kind: type[ApiStruct]) -> None:
    schema = schemas("core_v1.json")[f"io.k8s.apimachinery.pkg.apis.meta.v1.{kind.__name__}"]
    assert list(differences(kind, schema)) == []


def test_required_fields_are_always_written() -> None:
    for name, schema in schemas("resource.k8s.io_v1.json").items():
        kind = getattr(resource, name.rpartition(".")[2], None)
        if kind is None or not name.startswith("io.k8s.api.resource.v1."):
            continue
        for required in schema.get("required", []):
            shape = shape_of(kind).fields[required]
            # An empty required map or list says nothing that its absence does not.
            if isinstance(shape, ListShape | MapShape) or (kind.__name__, required) in OPTIONAL_QUANTITIES:
                continue
            assert required in json.loads(encode(kind())), f"{kind.__name__}.{required}"


@pytest.mark.parametrize(
    ("document", "prefix", "api_version"),
    [
        ("resource.k8s.io_v1.json", "/apis/resource.k8s.io/v1/", "resource.k8s.io/v1"),
        ("core_v1.json", "/api/v1/", "v1"),
    ],
)
def test_plurals_and_scopes_are_those_of_the_served_paths(
    document: str, prefix: str, api_version: str
) -> None:
    schemas(document)  # skips if it is not there
    paths = json.loads((FOLDER.parent / "openapi" / document).read_text())["paths"]
    for kind in kinds.KINDS.values():
        if kind.api_version == api_version:
            scope = "namespaces/{namespace}/" if kind.namespaced else ""
            assert f"{prefix}{scope}{kind.plural}/{{name}}" in paths, kind.kind
