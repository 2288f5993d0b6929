"""Bodies against schemas: what fits stays, what does not is left out or refused in upstream's words."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allotment.api.schema.conform import MAX_REPORTED, conform, duplicate_fields
from allotment.api.schema.schema import Schema, schema_of
from allotment.api.status import BadRequest
from tests.api.schema.schema_values import ANY_JSON, spoiled, values

POD = schema_of("v1", "Pod")
KINDS = [
    ("v1", "Pod"),
    ("v1", "Secret"),
    ("resource.k8s.io/v1", "ResourceClaim"),
    ("resource.k8s.io/v1", "ResourceSlice"),
    ("resource.k8s.io/v1alpha2", "NodeResourceSlice"),
    ("coordination.k8s.io/v1", "Lease"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("policy/v1", "PodDisruptionBudget"),
]
SCHEMAS = st.sampled_from(KINDS).map(lambda kind: schema_of(*kind))
SLOW = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


def as_pod(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", **fields}


def container(**fields: Any) -> dict[str, Any]:
    return as_pod(spec={"containers": [fields]})


def test_an_object_that_fits_is_returned_as_it_came() -> None:
    obj = container(name="c", resources={"limits": {"cpu": "500m"}}, ports=[{"containerPort": 80}])
    assert conform(POD, obj).obj is obj


def test_what_is_shared_with_an_object_that_fits_is_not_looked_at() -> None:
    known = as_pod(spec={"containers": [{"not": "looked at"}]}, metadata={"name": "a"})
    assert conform(POD, {**known, "metadata": {"name": "b"}}, known).unknown == []
    assert conform(POD, {**known, "metadata": {"nope": "b"}}, known).unknown != []
    assert conform(POD, known).unknown != []


@SLOW
@given(SCHEMAS.flatmap(lambda schema: st.tuples(st.just(schema), values(schema))), st.data())
def test_beside_an_object_that_fits_a_change_of_it_conforms_as_ever(
    drawn: tuple[Schema, Any], data: st.DataObject
) -> None:
    schema, known = drawn
    changed = data.draw(spoiled(known))
    assert outcome(schema, changed, known) == outcome(schema, changed, None)


def outcome(schema: Schema, obj: Any, known: Any) -> Any:
    try:
        conformed = conform(schema, obj, known)
    except BadRequest as exc:
        return str(exc)
    return conformed.obj, conformed.unknown


@pytest.mark.parametrize(
    ("obj", "unknown"),
    [
        (as_pod(Spec={}), ["Spec"]),  # names are case-sensitive
        (container(foo=1, ports=[{"bar": 2}]), ["spec.containers[0].foo", "spec.containers[0].ports[0].bar"]),
        (as_pod(metadata={"nope": None}), ["metadata.nope"]),
        (as_pod(foo={"a": {"b": 1}}), ["foo"]),  # and nothing of what is in it
    ],
)
def test_unknown_fields_are_left_out_and_told_by_path(obj: dict[str, Any], unknown: list[str]) -> None:
    conformed = conform(POD, obj)
    assert conformed.unknown == [f'unknown field "{path}"' for path in unknown]
    assert conform(POD, conformed.obj).obj is conformed.obj


def test_fields_in_maps_are_told_with_the_key() -> None:
    device = {"name": "g", "attributes": {"x": {"bad": 1}}}
    conformed = conform(schema_of("resource.k8s.io/v1", "ResourceSlice"), {"spec": {"devices": [device]}})
    assert conformed.unknown == ['unknown field "spec.devices[0].attributes.x.bad"']
    assert conformed.obj == {"spec": {"devices": [{"name": "g", "attributes": {"x": {}}}]}}


def test_null_means_absent_for_a_field_and_zero_in_lists_and_maps() -> None:
    obj = as_pod(metadata={"labels": {"a": None}, "finalizers": [None], "creationTimestamp": None}, spec=None)
    assert conform(POD, obj).obj == as_pod(metadata={"labels": {"a": ""}, "finalizers": [""]})
    assert conform(POD, as_pod(spec={"containers": [None]})).obj == as_pod(spec={"containers": [{}]})


@pytest.mark.parametrize(
    ("sent", "stored"),
    [("1000m", "1"), ("0.5", "500m"), (2, "2"), (1.5, "1500m"), ("1024Mi", "1Gi"), (None, "0")],
)
def test_quantities_are_stored_in_canonical_form(sent: Any, stored: str) -> None:
    made = conform(POD, container(resources={"limits": {"x": sent}})).obj
    assert made["spec"]["containers"][0]["resources"]["limits"]["x"] == stored


def test_times_are_stored_in_utc_and_whole_seconds() -> None:
    made = conform(POD, as_pod(metadata={"creationTimestamp": "2026-01-01T00:30:00.9+01:00"})).obj
    assert made["metadata"]["creationTimestamp"] == "2025-12-31T23:30:00Z"


def test_what_the_schema_leaves_open_stays_untouched() -> None:
    parameters = {"a": None, "b": [1, {"c": None}], "d": {"e": 1e3}}
    claim = {"spec": {"devices": {"config": [{"opaque": {"driver": "d", "parameters": parameters}}], "x": 1}}}
    conformed = conform(schema_of("resource.k8s.io/v1", "ResourceClaim"), claim)
    assert conformed.unknown == ['unknown field "spec.devices.x"']
    assert conformed.obj["spec"]["devices"]["config"][0]["opaque"]["parameters"] is parameters


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (
            as_pod(metadata={"labels": "x"}),
            "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            as_pod(metadata={"labels": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            as_pod(metadata=[]),
            "json: cannot unmarshal array into Go struct field Pod.metadata of type v1.ObjectMeta",
        ),
        (
            as_pod(spec={"containers": {}}),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            as_pod(spec={"containers": [1]}),
            "json: cannot unmarshal number into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            container(ports=[{"containerPort": 1.5}]),
            "json: cannot unmarshal number 1.5 into Go struct field"
            " ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            container(ports=[{"containerPort": 99999999999}]),
            "json: cannot unmarshal number 99999999999 into Go struct field"
            " ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            as_pod(spec={"hostNetwork": "true"}),
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (
            container(resources={"limits": {"cpu": "abc"}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            as_pod(metadata={"creationTimestamp": "x"}),
            'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
        ),
        (
            as_pod(metadata={"creationTimestamp": 5}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_in_upstreams_words(obj: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRequest) as caught:
        conform(POD, obj)
    assert caught.value.message == f'Pod in version "v1" cannot be handled as a Pod: {why}'


def test_bytes_must_be_base64() -> None:
    with pytest.raises(BadRequest, match="illegal base64 data at input byte 0"):
        conform(schema_of("v1", "Secret"), {"apiVersion": "v1", "kind": "Secret", "data": {"a": "!!"}})


def test_a_micro_time_has_six_digits() -> None:
    lease = schema_of("coordination.k8s.io/v1", "Lease")
    with pytest.raises(BadRequest, match=r'cannot parse "Z" as "\.000000"'):
        conform(lease, {"spec": {"renewTime": "2026-01-01T00:00:00Z"}})


def test_deep_objects_of_a_schema_that_contains_itself_are_refused_not_crashed_on() -> None:
    inner: dict[str, Any] = {"type": 1}
    for _ in range(5000):
        inner = {"not": inner}
    crd = {"spec": {"versions": [{"schema": {"openAPIV3Schema": inner}}]}}
    with pytest.raises(BadRequest, match="too deeply"):
        conform(schema_of("apiextensions.k8s.io/v1", "CustomResourceDefinition"), crd)


def test_no_more_unknown_fields_are_told_than_upstream_tells() -> None:
    assert len(conform(POD, {f"x{n}": n for n in range(500)}).unknown) == MAX_REPORTED


def test_a_huge_number_is_refused_without_writing_it_out() -> None:
    with pytest.raises(BadRequest, match="cannot unmarshal number into"):
        conform(POD, as_pod(spec={"priority": 10**5000}))


@SLOW
@given(data=st.data(), schema=SCHEMAS)
def test_canonical_objects_fit(data: st.DataObject, schema: Schema) -> None:
    obj = data.draw(values(schema))
    assert conform(schema, obj).obj is obj


@SLOW
@given(data=st.data(), schema=SCHEMAS)
def test_conforming_twice_changes_nothing(data: st.DataObject, schema: Schema) -> None:
    obj = data.draw(spoiled(data.draw(values(schema))))
    try:
        once = conform(schema, obj)
    except BadRequest:
        return
    again = conform(schema, once.obj)
    assert again.obj == once.obj
    assert again.unknown == []


@given(value=ANY_JSON)
def test_no_json_does_more_than_be_refused(value: Any) -> None:
    for body in (value, {"metadata": value}, {"spec": value}, {"spec": {"containers": [value]}}):
        with suppress(BadRequest):
            conform(POD, body)


# --- custom kinds ---


def custom() -> Schema:
    """The schema of a custom kind, as a CustomResourceDefinition gives it: it has no name."""

    def made(kind: str, **fields: Any) -> Schema:
        schema = Schema(kind)
        for name, value in fields.items():
            setattr(schema, name, value)
        return schema

    text, number = made("string"), made("integer", format="int8")
    spec = {
        "text": text,
        "number": number,
        "list": made("array", items=number),
        "map": made("object", additional=text),
        "open": made("object", preserve_unknown=True, properties={"text": text}),
        "nullable": made("string", nullable=True),
        "day": made("string", format="date"),
    }
    metadata = POD.properties["metadata"]
    return made("object", properties={"metadata": metadata, "spec": made("object", properties=spec)})


def test_a_custom_object_keeps_values_of_the_wrong_type_for_validation() -> None:
    spec = {"text": 1, "number": 1.5, "list": {}, "map": [], "day": 3, "open": {"text": {}, "more": None}}
    conformed = conform(custom(), {"spec": {**spec, "foo": 1}})
    assert conformed.obj == {"spec": spec}
    assert conformed.unknown == ['unknown field "spec.foo"']
    assert conform(custom(), {"spec": "text"}).obj == {"spec": "text"}


def test_a_custom_object_loses_nulls_that_its_schema_does_not_allow() -> None:
    spec = {"text": None, "list": [None], "map": {"a": None, "b": "c"}, "nullable": None}
    made = conform(custom(), {"spec": {**spec, "foo": 1}}).obj
    assert made == {"spec": {"list": [None], "map": {"b": "c"}, "nullable": None}}


def test_the_metadata_of_a_custom_object_is_read_like_any_other() -> None:
    with pytest.raises(BadRequest, match=r"ObjectMeta\.metadata\.labels of type string"):
        conform(custom(), {"apiVersion": "x/v1", "kind": "X", "metadata": {"labels": {"a": 1}}})
    assert conform(custom(), {"metadata": {"x": 1}, "spec": {"text": 1}}).obj == {
        "metadata": {},
        "spec": {"text": 1},
    }


def test_an_open_custom_object_fits() -> None:
    obj = {"spec": {"open": {"text": "a", "more": {"x": None}}}}
    assert conform(custom(), obj).obj is obj


# --- duplicate keys ---


def duplicates(raw: str, schema: Schema | None = None) -> list[str]:
    return duplicate_fields(raw.encode(), json.loads(raw), schema)


def test_duplicate_fields_are_told_in_upstreams_order() -> None:
    raw = (
        '{"metadata":{"name":"a","name":"b","labels":{"x":"1","x":"2"}},'
        '"spec":{"containers":[{"name":"a","name":"b"}],"containers":[]},"spec":{}}'
    )
    paths = ["metadata.name", "metadata.labels.x", "spec.containers[0].name", "spec.containers", "spec"]
    assert duplicates(raw) == [f'duplicate field "{path}"' for path in paths]
    assert duplicates(raw, POD) == duplicates(raw)


def test_what_the_schema_does_not_know_is_not_looked_into() -> None:
    assert duplicates('{"foo":{"a":1,"a":2}}', POD) == []
    raw = '{"spec":{"devices":{"config":[{"opaque":{"parameters":{"a":1,"a":2}}}]}}}'
    assert duplicates(raw, schema_of("resource.k8s.io/v1", "ResourceClaim")) == []


@pytest.mark.parametrize(
    "raw",
    [
        '{"a":1,"\\u0061":2}',  # the same key, written differently
        '{"a":"\\u0022\\u0022","a":2,"b":"\\u0022"}',  # as many quotation marks before and after
        '{"a" : 1 , "a" : 2}',
    ],
)
def test_escapes_and_blanks_do_not_hide_a_duplicate(raw: str) -> None:
    assert duplicates(raw) == ['duplicate field "a"']


@given(value=ANY_JSON)
def test_json_written_from_values_has_no_duplicates(value: Any) -> None:
    raw = json.dumps(value).encode()
    assert duplicate_fields(raw, json.loads(raw)) == []
