"""One claim in two forms: whatever is written in one version reads the same in it after a detour through the other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api import resource, semantic
from allotment.api.codec import decode, to_builtins
from allotment.api.conversion.v1alpha2 import (
    CARRIER,
    LEFT_OVER,
    WRAPPED,
    as_carried,
    device_name,
    from_v1,
    to_v1,
)
from allotment.api.names import dns_label_problem
from tests.api.validation.examples import CLAIM, STATUS, TEMPLATE

Json = dict[str, Any]


def semantic_claim(spec: Json | None = None, status: Json | None = None, **metadata: Any) -> Json:
    claim: Json = {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default", **metadata},
        "spec": {"resourceClassName": "gpus", "allocationMode": "WaitForFirstConsumer"} | (spec or {}),
    }
    return claim if status is None else claim | {"status": status}


def allocation(*ids: str, driver: str = "gpu.example.com", **more: Any) -> Json:
    data = {"nodeName": "node-1", "partitionable": {"instances": [{"id": id} for id in ids]}}
    return {"resourceHandles": [{"driverName": driver, "semanticData": data}], **more}


PARAMETERS = {"parametersRef": {"apiGroup": "example.com", "kind": "GPU", "name": "two"}}
NODES = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
}
POD = {"resource": "pods", "name": "p", "uid": "u"}

names = st.text("ab-/. é", max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | names,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=4,
)
handles = st.fixed_dictionaries(
    {},
    optional={
        "driverName": names,
        "data": names,
        "semanticData": st.fixed_dictionaries(
            {"nodeName": names},
            optional={
                "vendorClassParameters": plain,
                "vendorClaimParameters": plain,
                "partitionable": st.fixed_dictionaries(
                    {"instances": st.lists(st.fixed_dictionaries({"id": names}), max_size=3)}
                ),
            },
        ),
    },
)
statuses = st.fixed_dictionaries(
    {},
    optional={
        "driverName": names,
        "reservedFor": st.lists(st.just(POD), max_size=2),
        "deallocationRequested": st.booleans(),
        "allocation": st.fixed_dictionaries(
            {},
            optional={
                "resourceHandles": st.lists(handles, max_size=3),
                "availableOnNodes": st.just(NODES),
                "shareable": st.booleans(),
            },
        ),
    },
)
specs = st.fixed_dictionaries(
    {"resourceClassName": names},
    optional={"parametersRef": st.just(PARAMETERS["parametersRef"]), "allocationMode": names, "other": plain},
)


@given(specs, st.none() | statuses)
def test_a_v1alpha2_claim_survives_v1(spec: Json, status: Json | None) -> None:
    claim = semantic_claim(spec, status)
    stored = to_v1(copy.deepcopy(claim))
    assert as_carried(stored) == claim
    assert from_v1(stored) == claim


@given(specs)
def test_a_v1alpha2_template_survives_v1(spec: Json) -> None:
    template = semantic_claim() | {
        "kind": "ResourceClaimTemplate",
        "spec": {"metadata": {"labels": {"a": "b"}}, "spec": spec},
    }
    assert from_v1(to_v1(template)) == template


@st.composite
def v1_objects(draw: st.DrawFn) -> Json:
    """Objects of v1: rich ones with parts taken away, carriers among them, and carriers that were tampered with."""
    chosen = draw(
        st.sampled_from(
            [
                {**CLAIM, "status": STATUS},
                CLAIM,
                TEMPLATE,
                to_v1(semantic_claim(PARAMETERS, {"driverName": "d"})),
                to_v1(semantic_claim(PARAMETERS, {"allocation": allocation("a/b/c"), "reservedFor": [POD]})),
            ]
        )
    )
    claim: Json = copy.deepcopy(chosen)
    for _ in range(draw(st.integers(0, 3))):
        owner: Any = claim
        key: Any = draw(st.sampled_from(["spec", "status"]))
        while isinstance(owner.get(key) if isinstance(owner, dict) else owner[key], dict | list):
            inner = owner[key]
            if not inner or draw(st.integers(0, 3)) == 0:
                break
            owner = inner
            key = draw(
                st.sampled_from(sorted(inner)) if isinstance(inner, dict) else st.integers(0, len(inner) - 1)
            )
        if isinstance(owner, dict):
            owner.pop(key, None) if draw(st.booleans()) else owner.update({key: draw(plain)})
    return claim


@given(v1_objects())
def test_a_v1_object_survives_being_read_and_written_back_as_v1alpha2(obj: Json) -> None:
    before = copy.deepcopy(obj)
    assert to_v1(from_v1(obj)) == before
    assert obj == before, "nothing is changed in place"


def test_no_scheduler_of_v1_can_allocate_a_v1alpha2_claim() -> None:
    spec = to_v1(semantic_claim(PARAMETERS))["spec"]
    assert spec["devices"]["requests"] == [
        {"name": "claim", "exactly": {"deviceClassName": "gpus", "allocationMode": "ExactCount", "count": 1}}
    ]
    assert spec["devices"]["config"] == [
        {
            "opaque": {
                "driver": CARRIER,
                "parameters": {
                    "apiVersion": "resource.k8s.io/v1alpha2",
                    "kind": "ResourceClaimSpec",
                    "allocationMode": "WaitForFirstConsumer",
                    **PARAMETERS,
                },
            }
        }
    ]


def test_instances_are_devices_in_v1() -> None:
    stored = to_v1(semantic_claim(status={"allocation": allocation("gpu-0", "gpu-1/halves/half-0")}))
    results = stored["status"]["allocation"]["devices"]["results"]
    assert [(each["driver"], each["pool"]) for each in results] == [("gpu.example.com", "node-1")] * 2
    assert results[0]["device"] == "gpu-0"
    assert dns_label_problem(results[1]["device"]) is None
    assert decode(resource.ResourceClaim, stored).status.allocation is not None


@given(st.lists(st.text("aB0-/._", min_size=1, max_size=90), min_size=2, max_size=2, unique=True))
def test_names_of_instances_are_labels_and_differ(ids: list[str]) -> None:
    first, second = map(device_name, ids)
    assert first != second
    assert dns_label_problem(first) is None


def test_a_v1_claim_shows_what_v1alpha2_has_words_for() -> None:
    shown = from_v1({**CLAIM, "status": STATUS})
    assert shown["apiVersion"] == "resource.k8s.io/v1alpha2"
    assert shown["spec"] == {"resourceClassName": "gpu.example.com", "allocationMode": "WaitForFirstConsumer"}
    assert shown["status"]["reservedFor"] == STATUS["reservedFor"]
    typed = decode(semantic.ResourceClaim, shown)
    assert typed.status.allocation is not None
    assert [handle.driver_name for handle in typed.status.allocation.resource_handles] == [
        "gpu.example.com",
        "nic.example.com",
    ]


@pytest.mark.parametrize("change", ["reserve", "deallocate"])
def test_changes_of_what_is_shown_reach_the_v1_claim(change: str) -> None:
    shown = from_v1({**CLAIM, "status": copy.deepcopy(STATUS)})
    expected = copy.deepcopy(STATUS)
    if change == "reserve":
        shown["status"]["reservedFor"].append(POD)
        expected["reservedFor"].append(POD)
    else:
        del shown["status"]["allocation"], shown["status"]["reservedFor"]
        del expected["allocation"], expected["reservedFor"]
    stored = to_v1(shown)
    assert stored["spec"] == CLAIM["spec"]
    assert stored["status"] == expected


def test_a_changed_spec_does_not_hide_behind_the_annotation() -> None:
    shown = from_v1(CLAIM)
    shown["spec"]["resourceClassName"] = "other"
    assert to_v1(shown)["spec"] != CLAIM["spec"], "so that the server sees a change of what must not change"


def test_annotations_of_ours_are_seen_in_one_version_only() -> None:
    stored = to_v1(semantic_claim(status={"driverName": "d"}, annotations={"a": "b"}))
    assert LEFT_OVER in stored["metadata"]["annotations"]
    assert from_v1(stored)["metadata"]["annotations"] == {"a": "b"}
    assert WRAPPED not in to_v1(from_v1(CLAIM))["metadata"].get("annotations", {})


def test_the_typed_forms_read_both() -> None:
    claim = semantic_claim(PARAMETERS, {"allocation": allocation("a", shareable=True), "driverName": "d"})
    assert to_builtins(decode(semantic.ResourceClaim, from_v1(to_v1(claim)))) == claim
