"""JSON in, JSON out: nothing known is lost, nothing wrong passes, and every complaint names its field."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allotment.api import core, kinds, resource, semantic
from allotment.api.codec import (
    MAX_UNKNOWN,
    DecodeError,
    decode,
    decode_event,
    encode,
    to_builtins,
    unknown_fields,
)
from allotment.api.meta import ApiStruct
from allotment.api.nesting import MAX_DEPTH
from allotment.api.quantity import Quantity
from allotment.api.resource import Device, DeviceClass, ResourceClaim, ResourceSlice
from allotment.api.schema.shape import (
    ListShape,
    MapShape,
    QuantityShape,
    ScalarShape,
    Shape,
    StructShape,
    shape_of,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
QUANTITIES = st.builds(
    "{}{}".format, st.integers(0, 10**6), st.sampled_from(["", "k", "M", "G", "Ki", "Mi", "Gi", "m"])
).map(lambda text: str(Quantity.parse(text)))


def fitting(shape: Shape, depth: int = 0) -> st.SearchStrategy[Any]:
    """Plain JSON that fits a shape in the form in which we write it."""
    match shape:
        case QuantityShape():
            return QUANTITIES
        case ScalarShape(zero=""):
            return st.text(max_size=5)
        case ScalarShape(zero=False, expected="true or false"):
            return st.booleans()
        case ScalarShape():
            return st.integers(-(2**63), 2**63 - 1)
        case ListShape():
            return st.lists(fitting(shape.item, depth), min_size=1, max_size=2)
        case MapShape():
            return st.dictionaries(st.text(max_size=5), fitting(shape.value, depth), min_size=1, max_size=2)
        case StructShape() if depth < 7:
            fields = {name: _later(inner, depth + 1) for name, inner in shape.fields.items()}
            return st.fixed_dictionaries({}, optional=fields)
        case StructShape():
            return st.just({})
        case _:
            return st.dictionaries(st.text(max_size=3), JSON, max_size=2)


def _later(shape: Shape, depth: int) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: fitting(shape, depth))


def contains(whole: Any, part: Any) -> bool:
    """Whether everything in ``part`` is in ``whole``, which may have more fields (required ones, written out)."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(
            contains(whole[key], value) if key in whole else _says_nothing(value)
            for key, value in part.items()
        )
    if isinstance(part, list) and isinstance(whole, list):
        return len(whole) == len(part) and all(map(contains, whole, part))
    return type(whole) is type(part) and bool(whole == part)


def _says_nothing(value: Any) -> bool:
    return isinstance(value, str) and not value  # metadata.name and its like: empty is absent


ALL_TYPES = sorted(
    {kind.type for kind in kinds.KINDS.values()}, key=lambda kind: (kind.__module__, kind.__name__)
)


@pytest.mark.parametrize("kind", ALL_TYPES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
@given(data=st.data())
@settings(max_examples=15, suppress_health_check=list(HealthCheck), deadline=None)
def test_every_known_field_survives_the_round_trip(kind: type[ApiStruct], data: st.DataObject) -> None:
    plain = data.draw(fitting(shape_of(kind)))
    obj = decode(kind, json.dumps(plain).encode())
    assert contains(to_builtins(obj), plain)
    assert decode(kind, encode(obj)) == obj
    assert decode(kind, plain) == obj
    assert unknown_fields(kind, plain) == []


@given(JSON)
@settings(deadline=None)
def test_any_json_is_decoded_or_refused_never_a_crash(value: Any) -> None:
    for kind in (ResourceSlice, ResourceClaim, core.Pod, semantic.NodeResourceSlice):
        for data in (json.dumps(value).encode(), {"spec": value}, {"metadata": value}):
            with suppress(DecodeError):
                encode(decode(kind, data))


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    with suppress(DecodeError):
        decode(ResourceSlice, data)


# --- what Kubernetes accepts beyond the letter ---


@pytest.mark.parametrize(
    ("written", "read"), [('"1Gi"', "1Gi"), ("5", "5"), ("0.5", "500m"), ('" 2k "', "2k"), ('"1e3"', "1e3")]
)
def test_a_quantity_may_be_a_string_or_a_number(written: str, read: str) -> None:
    counter = decode(resource.Counter, f'{{"value": {written}}}'.encode())
    assert str(counter.value) == read


@pytest.mark.parametrize("as_bytes", [True, False], ids=["bytes", "values"])
def test_null_means_absent(as_bytes: bool) -> None:
    plain = {
        "metadata": {"name": "a", "labels": None, "creationTimestamp": None, "ownerReferences": None},
        "spec": {
            "devices": [{"name": None, "attributes": {"a": None}, "capacity": {"m": {"value": None}}}, None]
        },
        "status": None,
    }
    data: Any = json.dumps(plain).encode() if as_bytes else plain
    found = decode(ResourceSlice, data)
    assert found.metadata.labels == {}
    assert found.spec.devices[0].name == ""
    assert found.spec.devices[0].attributes == {"a": resource.DeviceAttribute()}
    assert found.spec.devices[0].capacity["m"].value == Quantity.parse("0")
    assert found.spec.devices[1] == Device()


def test_null_inside_of_opaque_parameters_is_kept() -> None:
    plain = {
        "spec": {"selectors": None, "config": [{"opaque": {"driver": "d", "parameters": {"a": [None, 1.5]}}}]}
    }
    assert to_builtins(decode(DeviceClass, plain))["spec"] == {"config": plain["spec"]["config"]}


def test_a_whole_number_may_be_written_as_a_float() -> None:
    assert decode(resource.ExactDeviceRequest, b'{"count": 2.0}').count == 2


# --- errors ---


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (
            '{"spec": {"devices": [{"attributes": {"gpu.example.com/model": {"int": "x"}}}]}}',
            "spec.devices[0].attributes[gpu.example.com/model].int",
            'must be a whole number of 64 bits, but is the string "x"',
        ),
        ('{"spec": 5}', "spec", "must be an object with fields, but is the number 5"),
        ('{"spec": {"devices": {}}}', "spec.devices", "must be a list, but is an object"),
        ('{"metadata": {"labels": []}}', "metadata.labels", "must be a map, but is a list"),
        ('{"metadata": {"name": 7}}', "metadata.name", "must be a string, but is the number 7"),
        (
            '{"metadata": {"name": true}}',
            "metadata.name",
            "must be a string, but is the truth value true (quote it if you mean text)",
        ),
        (
            '{"spec": {"allNodes": "yes"}}',
            "spec.allNodes",
            'must be true or false, but is the string "yes"',
        ),
        (
            '{"spec": {"pool": {"generation": 9223372036854775808}}}',
            "spec.pool.generation",
            "must be a whole number of 64 bits, but is the number 9223372036854775808",
        ),
        ("[]", "", "must be an object with fields, but is a list"),
        ("{", "", "is not valid JSON: Input data was truncated"),
        ('{"spec": {"pool": {"generation": 1e999}}}', "", "is not valid JSON: Number out of range"),
    ],
)
def test_an_error_names_the_field_and_what_it_should_be(text: str, path: str, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(ResourceSlice, text.encode())
    assert (caught.value.path, caught.value.message) == (path, message)
    assert str(caught.value) == (f"{path}: {message}" if path else message)


def test_a_broken_quantity_is_quoted() -> None:
    with pytest.raises(DecodeError, match=r"^spec.sharedCounters\[0\].counters\[m\].value: .*12Q"):
        decode(ResourceSlice, {"spec": {"sharedCounters": [{"counters": {"m": {"value": "12Q"}}}]}})


@pytest.mark.parametrize(
    "opening", ['{"a":', "[", '{"spec":{"devices":[{"x":[', '{"partitions":[{"resourceInstances":[']
)
def test_deep_nesting_is_refused_plainly(opening: str) -> None:
    with pytest.raises(DecodeError, match="nested too deeply"):
        decode(semantic.ResourceInstance, opening.encode() * 50_000)


def test_deep_values_are_refused_plainly() -> None:
    deep: Any = []
    for _ in range(50_000):
        deep = [deep]
    with pytest.raises(DecodeError):
        decode(ResourceSlice, {"spec": deep})
    recursive: dict[str, Any] = {}
    for _ in range(50_000):
        recursive = {"resourceInstances": [{"partitions": [recursive]}]}
    with pytest.raises(DecodeError, match="nested too deeply"):
        decode(semantic.ResourceInstanceGroup, recursive)
    with pytest.raises(DecodeError, match="nested too deeply"):
        unknown_fields(semantic.ResourceInstanceGroup, recursive)


def test_text_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.api.codec.MAX_SIZE", 10)
    with pytest.raises(DecodeError, match="is 16 bytes long; at most 10 are read"):
        decode(ResourceSlice, b'{"metadata": {}}')


# --- unknown fields ---


@pytest.mark.parametrize(
    ("kind", "plain", "expected"),
    [
        (
            ResourceClaim,
            {"spec": {"devices": {"requests": [{"exactly": {"cuont": 1}}]}}},
            ["spec.devices.requests[0].exactly.cuont (did you mean count?)"],
        ),
        (
            Device,
            {"attributes": {"a.b/c": {"String": "x"}}},
            ["attributes[a.b/c].String (did you mean string?)"],
        ),
        (Device, {"zzz": {"deep": {}}}, ["zzz"]),
        (
            core.Pod,
            {"spec": {"volumes": [{}], "containers": [{"image": "a", "comand": []}]}},
            ["spec.containers[0].comand (did you mean command?)"],
        ),
        (DeviceClass, {"spec": {"config": [{"opaque": {"parameters": {"anything": {"goes": 1}}}}]}}, []),
        (Device, {"attributes": 5, "taints": [7]}, []),  # of the wrong type, which is not for here to say
    ],
)
def test_unknown_fields_are_found_with_a_guess(
    kind: type[ApiStruct], plain: dict[str, Any], expected: list[str]
) -> None:
    assert unknown_fields(kind, plain) == expected


def test_a_flood_of_unknown_fields_is_cut_off() -> None:
    assert len(unknown_fields(Device, {f"f{i}": 1 for i in range(10_000)})) == MAX_UNKNOWN


def test_a_long_unknown_name_is_cut_short_and_not_guessed_at() -> None:
    (path,) = unknown_fields(Device, {"attributes" * 1000: 1})
    assert path.startswith("attributesattributes")
    assert len(path) < 100


def test_a_long_key_does_not_swell_the_error() -> None:
    with pytest.raises(DecodeError) as caught:
        decode(Device, {"attributes": {"a" * 100_000: {"int": "b" * 100_000}}})
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
def test_an_event_is_read_as_its_object_is(type_: str) -> None:
    node = {
        "metadata": {"name": "n", "labels": {"a": "b"}},
        "status": {"capacity": {"cpu": "64"}},
        "unknown": [1],
    }
    line = json.dumps({"type": type_, "object": node}).encode()
    assert decode_event(core.Node, line) == (type_, decode(core.Node, node))


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}', id="a bookmark"),
        pytest.param(b'{"type":"ERROR","object":{"kind":"Status","code":410}}', id="an error"),
        pytest.param(b'{"type":"ADDED","object":{"spec":null}}', id="null for absent"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":{"name":1}}}', id="no node"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":{"na', id="no JSON"),
        pytest.param(
            b'{"type":"ADDED","object":{"x":%b}}' % (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH), id="deep"
        ),
        pytest.param(b"[]", id="no event"),
    ],
)
def test_other_events_are_left_to_be_read_in_parts(line: bytes) -> None:
    assert decode_event(core.Node, line) is None
