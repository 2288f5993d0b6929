"""What is special about the device kinds on their way into the store: defaults, generations, what a write may touch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api import defaults
from allotment.api import kinds as known_kinds
from allotment.api.codec import DecodeError, decode, to_builtins
from allotment.api.conversion import v1alpha2
from allotment.api.defaults import Defaults, fill_in, with_defaults
from allotment.api.status import BadRequest
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry import kinds
from allotment.apiserver.registry.catalogue import ResourceCatalogue, ServedResource, found_in
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Operation, Write
from tests.api.validation.examples import CLAIM, CLASS, EXAMPLES, SLICE, STATUS, TAINT_RULE, TEMPLATE
from tests.api.validation.mutations import mutations

Json = dict[str, Any]

NOW = "2026-01-02T00:00:00Z"
CREATE = Write(Operation.CREATE, ADMINISTRATOR, NOW)
UPDATE = Write(Operation.UPDATE, ADMINISTRATOR, NOW)
CATALOGUE = ResourceCatalogue(found_in(kinds))
RESOURCES = {each.kind: each for each in CATALOGUE.resources if each.group == "resource.k8s.io"}


def created(example: Json) -> Json:
    obj, strategy = copy.deepcopy(example), RESOURCES[example["kind"]].strategy
    strategy.default(obj, CREATE)
    strategy.prepare_create(obj, CREATE)
    assert strategy.validate(obj) == []
    return obj


def updated(old: Json, obj: Json) -> Json:
    obj, strategy = copy.deepcopy(obj), RESOURCES[old["kind"]].strategy
    strategy.default(obj, UPDATE)
    strategy.prepare_update(obj, old, UPDATE)
    return obj


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: str(each["kind"]))
def test_examples_are_accepted_in_every_version(example: Json) -> None:
    stored = created(example)
    for version in RESOURCES[example["kind"]].versions:
        form = CATALOGUE.find("resource.k8s.io", version.version, RESOURCES[example["kind"]].plural)
        assert isinstance(form, ServedResource)
        other = form.from_hub(stored)
        assert other["apiVersion"] == f"resource.k8s.io/{version.version}"
        assert form.to_hub(other) == stored


@pytest.mark.parametrize("example", [CLASS, SLICE, TAINT_RULE], ids=lambda each: str(each["kind"]))
def test_the_generation_counts_changes_of_the_spec(example: Json) -> None:
    old = created(example)
    assert old["metadata"]["generation"] == 1
    labelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}, "generation": 7}}
    assert updated(old, labelled)["metadata"]["generation"] == 1
    changed = copy.deepcopy(old)
    changed["spec"].popitem()
    assert updated(old, changed)["metadata"]["generation"] == 2


def test_an_amount_written_otherwise_is_no_change() -> None:
    old = created(SLICE)
    same = copy.deepcopy(old)
    same["spec"]["devices"][0]["capacity"]["cores"]["value"] = "8000m"
    same["spec"]["sharedCounters"] = []
    assert updated(old, same)["metadata"]["generation"] == 1


@pytest.mark.parametrize("example", [CLAIM, TEMPLATE], ids=lambda each: str(each["kind"]))
def test_claims_have_no_generation_and_their_spec_stays(example: Json) -> None:
    old = created(example)
    assert "generation" not in old["metadata"]
    changed = copy.deepcopy(old)
    spec = changed["spec"].get("spec", changed["spec"])
    spec["devices"]["requests"][0]["exactly"]["count"] = 3
    (error,) = RESOURCES[example["kind"]].strategy.validate_update(updated(old, changed), old)
    assert str(error.path) == "spec"


def test_status_is_written_through_its_subresource_only() -> None:
    strategy = RESOURCES["ResourceClaim"].strategy
    old = created({**CLAIM, "status": STATUS})
    assert old["status"] == {}
    assert updated(old, {**old, "status": STATUS})["status"] == {}
    write = Write(Operation.UPDATE, ADMINISTRATOR, NOW, "status")
    sent = {**copy.deepcopy(old), "status": copy.deepcopy(STATUS), "spec": {}}
    sent["metadata"] = {**sent["metadata"], "labels": {"not": "taken"}, "resourceVersion": "5"}
    strategy.prepare_status(sent, old, write)
    assert sent["spec"] == old["spec"]
    assert sent["metadata"] == {**old["metadata"], "resourceVersion": "5"}
    assert sent["status"] == STATUS
    assert strategy.validate_status(sent, old) == []


def test_what_drivers_said_goes_with_the_devices() -> None:
    strategy = RESOURCES["ResourceClaim"].strategy
    old = {**created(CLAIM), "status": STATUS}
    sent = {**copy.deepcopy(old), "status": {"devices": copy.deepcopy(STATUS["devices"])}}
    strategy.prepare_status(sent, old, UPDATE)
    assert sent["status"] == {}


def test_a_taints_time_is_that_of_its_effect() -> None:
    old = created(TAINT_RULE)
    milder = copy.deepcopy(old)
    milder["spec"]["taint"]["effect"] = "NoSchedule"
    assert updated(old, milder)["spec"]["taint"]["timeAdded"] == NOW
    other = copy.deepcopy(old)
    other["spec"]["taint"]["value"] = "other"
    assert updated(old, other)["spec"]["taint"]["timeAdded"] == "2026-01-02T03:04:05Z"


def test_a_driver_in_capitals_is_warned_about() -> None:
    strategy = RESOURCES["ResourceSlice"].strategy
    assert strategy.warnings(SLICE) == []
    shouting = {**SLICE, "spec": {**SLICE["spec"], "driver": "GPU.example.com"}}
    assert strategy.warnings(shouting) == [
        'spec.driver: driver names should be lowercase; "GPU.example.com" contains uppercase characters'
    ]


def test_what_is_no_object_of_the_kind_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match=r"cannot be handled as a ResourceSlice: spec\.devices"):
        RESOURCES["ResourceSlice"].strategy.validate({**SLICE, "spec": {"devices": 5}})


@pytest.mark.parametrize(
    ("status", "metadata", "state"),
    [
        ({}, {}, "pending"),
        ({"allocation": {}}, {}, "allocated"),
        ({"allocation": {}, "reservedFor": [{}]}, {}, "allocated,reserved"),
        ({}, {"deletionTimestamp": NOW}, "deleted"),
        ({"allocation": {}}, {"deletionTimestamp": NOW}, "deleted,allocated"),
    ],
)
def test_a_claims_state_is_told_in_a_word(status: Json, metadata: Json, state: str) -> None:
    assert _cells(RESOURCES["ResourceClaim"], {"metadata": metadata, "status": status})[0] == state


def test_the_other_tables() -> None:
    slice_ = {**SLICE, "metadata": {"creationTimestamp": NOW}}
    assert _cells(RESOURCES["ResourceSlice"], slice_) == ["node-1", "gpu.example.com", "pool-1", "5s"]
    rule = {**TAINT_RULE, "metadata": {"creationTimestamp": NOW}}
    assert _cells(RESOURCES["DeviceTaintRule"], rule)[:3] == ["example.com/broken", "yes", "NoExecute"]


def _cells(resource: Resource, obj: Json) -> list[Any]:
    return [column.read(obj, "2026-01-02T00:00:05Z") for column in resource.columns]


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("ResourceSlice", "spec.nodeName", "node-1"),
        ("ResourceSlice", "spec.driver", "gpu.example.com"),
        ("ResourceSlice", "spec.pool.name", "pool-1"),
    ],
)
def test_slices_are_selected_by_node_driver_and_pool(kind: str, field: str, value: str) -> None:
    assert RESOURCES[kind].fields[field](SLICE) == value
    assert RESOURCES[kind].fields[field]({}) == ""


def test_node_slices_are_selected_by_node_and_driver() -> None:
    slice_ = {"spec": {"nodeName": "n", "driverName": "d"}}
    fields = RESOURCES["NodeResourceSlice"].fields
    assert [fields[name](slice_) for name in ("nodeName", "driverName")] == ["n", "d"]


# --- defaults on plain JSON are those on types ---

_PLAIN: dict[str, Defaults] = {
    "ResourceClaim": defaults.CLAIM,
    "ResourceClaimTemplate": defaults.TEMPLATE,
    "ResourceSlice": defaults.SLICE,
    "DeviceTaintRule": defaults.TAINT_RULE,
}
_CASES = [
    case
    for example in (*EXAMPLES, {**CLAIM, "status": STATUS})
    if example["kind"] in _PLAIN
    for case in (example, *mutations(example))
]


@given(st.sampled_from(_CASES))
def test_plain_defaults_agree_with_typed_ones(case: Json) -> None:
    known = known_kinds.find(case["apiVersion"], case["kind"])
    assert known is not None
    try:
        typed = with_defaults(decode(known.type, case), now=NOW)
    except DecodeError:
        return  # refused before defaults matter
    plain = copy.deepcopy(case)
    fill_in(plain, _PLAIN[case["kind"]], NOW)
    assert to_builtins(decode(known.type, plain)) == to_builtins(typed)


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x))
)
def test_defaults_leave_anything_else_alone(value: Any) -> None:
    for kind, complete in _PLAIN.items():
        fill_in({"kind": kind, "spec": value, "status": value}, complete, NOW)
        fill_in({"kind": kind, "spec": {"devices": value, "spec": value, "taint": value}}, complete, NOW)


# --- semantic claims ---


def semantic(**spec: Any) -> Json:
    return v1alpha2.to_v1(
        {
            "apiVersion": v1alpha2.API_VERSION,
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": spec,
        }
    )


def test_a_v1alpha2_claim_is_defaulted_and_checked_in_its_own_words() -> None:
    shown = v1alpha2.from_v1(created(semantic(resourceClassName="gpus")))
    assert shown["spec"]["allocationMode"] == "WaitForFirstConsumer"
    errors = RESOURCES["ResourceClaim"].strategy.validate(
        semantic(resourceClassName="", allocationMode="Soon")
    )
    assert [str(error.path) for error in errors] == ["spec.resourceClassName", "spec.allocationMode"]


def test_a_v1alpha2_status_without_allocation_reaches_the_store() -> None:
    strategy, old = RESOURCES["ResourceClaim"].strategy, created(semantic(resourceClassName="gpus"))
    sent = v1alpha2.to_v1({**v1alpha2.from_v1(old), "status": {"driverName": "d.example.com"}})
    strategy.prepare_status(sent, old, UPDATE)
    assert strategy.validate_status(sent, old) == []
    assert v1alpha2.from_v1(sent)["status"] == {"driverName": "d.example.com"}
    back = v1alpha2.to_v1({**v1alpha2.from_v1(sent), "status": {}})
    strategy.prepare_status(back, sent, UPDATE)
    assert back == old


def test_what_a_device_had_before_is_not_held_to_new_rules() -> None:
    strategy, old = RESOURCES["ResourceSlice"].strategy, created(SLICE)
    exclusive = copy.deepcopy(old)
    exclusive["spec"]["devices"][0]["allowMultipleAllocations"] = False  # though it has request policies
    assert strategy.validate_update(exclusive, old) == []
    assert strategy.validate(exclusive) != []


def test_a_slice_stays_with_its_driver_pool_and_node() -> None:
    old = created(SLICE)
    moved = copy.deepcopy(old)
    moved["spec"]["nodeName"] = "node-2"
    (error,) = RESOURCES["ResourceSlice"].strategy.validate_update(moved, old)
    assert (str(error.path), error.message) == ("spec.nodeName", "field is immutable")
