"""v1beta1 documents read as v1, without a change to what was handed in."""

import copy
from typing import Any

import pytest

from allotment.api.conversion.v1beta1 import to_v1

SLICE = {
    "apiVersion": "resource.k8s.io/v1beta1",
    "kind": "ResourceSlice",
    "spec": {
        "driver": "gpu.example.com",
        "devices": [
            {"name": "gpu-0", "basic": {"attributes": {"model": {"string": "a100"}}}},
            {"name": "gpu-1"},
        ],
    },
}
REQUESTS = [
    {"name": "one", "deviceClassName": "gpu", "count": 2, "selectors": [], "tolerations": [], "cuont": 1},
    {"name": "any", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]},
    {"name": "none"},
]
V1_REQUESTS = [
    # What v1beta1 does not know either is left where it stood, to be reported there.
    {
        "name": "one",
        "cuont": 1,
        "exactly": {"deviceClassName": "gpu", "count": 2, "selectors": [], "tolerations": []},
    },
    {"name": "any", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]},
    {"name": "none"},
]


def document(kind: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1beta1", "kind": kind, **content}


def test_a_device_is_no_longer_under_basic() -> None:
    assert to_v1(SLICE) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "spec": {
            "driver": "gpu.example.com",
            "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "a100"}}}, {"name": "gpu-1"}],
        },
    }


def test_a_claims_requests_move_under_exactly() -> None:
    claim = document("ResourceClaim", spec={"devices": {"requests": REQUESTS, "constraints": []}})
    assert to_v1(claim)["spec"] == {"devices": {"requests": V1_REQUESTS, "constraints": []}}


def test_a_templates_requests_move_under_exactly() -> None:
    template = document("ResourceClaimTemplate", spec={"spec": {"devices": {"requests": REQUESTS}}})
    assert to_v1(template)["spec"] == {"spec": {"devices": {"requests": V1_REQUESTS}}}


def test_a_class_only_changes_its_version() -> None:
    content = {"spec": {"selectors": [{"cel": {"expression": "true"}}]}}
    assert to_v1(document("DeviceClass", **content)) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        **content,
    }


def test_what_was_handed_in_is_not_changed() -> None:
    before = copy.deepcopy(SLICE)
    to_v1(SLICE)
    assert before == SLICE


@pytest.mark.parametrize(
    "spec", [None, 5, [], {"devices": 5}, {"devices": [5, {"basic": 7}]}, {"devices": None}]
)
@pytest.mark.parametrize("kind", ["ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"])
def test_wrong_content_is_left_for_the_decoder_to_refuse(kind: str, spec: Any) -> None:
    assert to_v1(document(kind, spec=spec))["spec"] == spec
