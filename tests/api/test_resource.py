"""The structs of resource.k8s.io/v1 as Python objects: defaults, what is written, and that nothing is shared."""

import json

import msgspec
import pytest

from allotment.api.codec import decode, encode, to_builtins
from allotment.api.quantity import Quantity
from allotment.api.resource import (
    CapacityRequestPolicyRange,
    Counter,
    Device,
    DeviceAttribute,
    DeviceRequestAllocationResult,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
    ResourceSliceSpec,
)


def test_absent_parts_read_as_empty_so_that_paths_need_no_checks() -> None:
    claim = ResourceClaim()
    assert claim.metadata.name == ""
    assert claim.spec.devices.requests == ()
    assert claim.status.allocation is None
    assert claim.status.reserved_for == ()


def test_an_object_says_what_it_is_even_if_nobody_told_it() -> None:
    assert to_builtins(ResourceClaim()) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "spec": {},
    }


def test_required_fields_are_written_and_optional_ones_are_not() -> None:
    assert to_builtins(ResourceSliceSpec(driver="gpu.example.com")) == {
        "driver": "gpu.example.com",
        "pool": {"name": "", "generation": 0, "resourceSliceCount": 0},
    }


def test_absent_and_zero_are_different() -> None:
    assert decode(ExactDeviceRequest, b"{}").count is None
    assert decode(ExactDeviceRequest, b'{"count": 0}').count == 0
    assert json.loads(encode(ExactDeviceRequest(count=0, device_class_name="a"))) == {
        "count": 0,
        "deviceClassName": "a",
    }


def test_a_required_quantity_reads_as_zero_when_it_is_missing() -> None:
    assert decode(Counter, b"{}").value == Quantity.parse("0")


def test_the_minimum_of_a_range_stays_absent_so_that_validation_sees_it() -> None:
    assert decode(CapacityRequestPolicyRange, b"{}").min is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"int": 0}', DeviceAttribute(int_value=0)),
        ('{"bool": false}', DeviceAttribute(bool_value=False)),
        ('{"string": ""}', DeviceAttribute(string_value="")),
        ('{"version": "1.2.3"}', DeviceAttribute(version_value="1.2.3")),
        ('{"ints": [1, 2]}', DeviceAttribute(int_values=(1, 2))),
        ('{"bools": [true]}', DeviceAttribute(bool_values=(True,))),
        ('{"strings": ["a"]}', DeviceAttribute(string_values=("a",))),
        ('{"versions": []}', DeviceAttribute(version_values=())),  # an empty list is a value
    ],
)
def test_each_form_of_an_attribute_keeps_its_json_name(text: str, expected: DeviceAttribute) -> None:
    attribute = decode(DeviceAttribute, text.encode())
    assert attribute == expected
    assert json.loads(encode(attribute)) == json.loads(text)


def test_names_that_camel_case_would_get_wrong_are_kubernetes_names() -> None:
    result = DeviceRequestAllocationResult(share_id="a")
    assert to_builtins(result)["shareID"] == "a"


def test_maps_of_two_objects_are_not_one_map() -> None:
    first, second = Device(), Device()
    first.attributes["a"] = DeviceAttribute()
    assert second.attributes == {}


def test_objects_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ResourceSlice().spec = ResourceSliceSpec()  # type: ignore[misc]  # that it is refused is the point


def test_a_changed_copy_leaves_the_original_alone() -> None:
    device = Device(name="a")
    assert msgspec.structs.replace(device, name="b").name == "b"
    assert device.name == "a"
