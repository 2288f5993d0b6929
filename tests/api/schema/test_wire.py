"""The protobuf tables against the schemas: the same fields, under the same names, of types that fit."""

from collections.abc import Iterator

import pytest

from allotment.api.schema.schema import Schema, builtin_kinds, schema_of
from allotment.api.schema.wire import Field, Message, message_of

API_VERSIONS = (
    *("v1", "apps/v1", "autoscaling/v1", "batch/v1", "policy/v1", "storage.k8s.io/v1", "node.k8s.io/v1"),
    *("scheduling.k8s.io/v1", "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"),
    *("rbac.authorization.k8s.io/v1", "authentication.k8s.io/v1", "authorization.k8s.io/v1"),
    *("coordination.k8s.io/v1", "events.k8s.io/v1", "apiextensions.k8s.io/v1"),
    *("resource.k8s.io/v1", "resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"),
)
TYPES = {"int32": "integer", "int64": "integer", "bool": "boolean", "double": "number", "bytes": "string"}
NOT_IN_PROTOBUF = {"apiVersion", "kind"}  # of embedded objects: Go's protobuf leaves type information out


def fields_of(message: Message) -> Iterator[Field]:
    """A message's fields as JSON has them."""
    for field in message.fields.values():
        if field.inlined:
            assert field.message is not None
            yield from fields_of(field.message)
        else:
            yield field


def faults(message: Message, schema: Schema, seen: set[str]) -> Iterator[str]:
    if message.name in seen or schema.type == "any":
        return
    seen.add(message.name)
    fields = {field.name: field for field in fields_of(message)}
    yield from (
        f"{message.name}.{name} is not in the schema" for name in fields.keys() - schema.properties.keys()
    )
    for name in schema.properties.keys() - fields.keys() - NOT_IN_PROTOBUF:
        yield f"{message.name}.{name} has no number"
    for name, field in fields.items():
        inner: Schema | None = schema.properties.get(name)
        if inner is not None and (field.repeated or field.mapped):
            inner = inner.items if field.repeated else inner.additional
        if inner is None:
            yield f"{message.name}.{name} is a list or map on one side only"
        elif field.message is None:
            wanted = TYPES.get(field.type, field.type.replace("microtime", "time"))
            if inner.type not in (wanted, "any"):
                yield f"{message.name}.{name} is {field.type}, in the schema {inner.type}"
        elif not field.message.is_list:
            yield from faults(field.message, inner, seen)


@pytest.mark.parametrize("api_version", API_VERSIONS)
def test_every_field_of_every_kind_has_a_number(api_version: str) -> None:
    assert builtin_kinds(api_version)
    for kind in builtin_kinds(api_version):
        schema = schema_of(api_version, kind)
        assert list(faults(message_of(schema.name), schema, set())) == []


def test_an_inlined_message_is_marked() -> None:
    volume = message_of("io.k8s.api.core.v1.Volume")
    assert [field.name for field in volume.fields.values() if not field.inlined] == ["name"]
    assert "emptyDir" in {field.name for field in fields_of(volume)}


@pytest.mark.parametrize("name", ["", "Pod", "io.k8s.api.core.v1.Pot", "com.example.core.v1.Pod", "../x.y.Z"])
def test_other_names_are_key_errors(name: str) -> None:
    with pytest.raises(KeyError):
        message_of(name)
