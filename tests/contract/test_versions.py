"""One object in several versions: what is written in one is read in another, and nothing is lost."""

from __future__ import annotations

import pytest

from tests.builders.plain import claim, device_class, resource_slice
from tests.contract.api import Api
from tests.contract.conftest import Allocated

GROUP = "/apis/resource.k8s.io"
OLD = {
    "apiVersion": "resource.k8s.io/v1beta1",
    "kind": "ResourceClaim",
    "metadata": {"name": "a"},
    "spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu.example.com", "count": 2}]}},
}


def claims(version: str, namespace: str) -> str:
    return f"{GROUP}/{version}/namespaces/{namespace}/resourceclaims"


def test_v1beta1_requests_become_exact_ones(api: Api, namespace: str) -> None:
    made = api.post(claims("v1beta1", namespace), OLD).must(201)
    assert made["apiVersion"] == "resource.k8s.io/v1beta1"
    request = {
        "name": "gpu",
        "deviceClassName": "gpu.example.com",
        "allocationMode": "ExactCount",
        "count": 2,
    }
    assert made["spec"]["devices"]["requests"] == [request]
    new = api.get(f"{claims('v1', namespace)}/a").must()
    assert new["apiVersion"] == "resource.k8s.io/v1"
    exactly = {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 2}
    assert new["spec"]["devices"]["requests"] == [{"name": "gpu", "exactly": exactly}]
    assert new["metadata"]["uid"] == made["metadata"]["uid"]
    assert new["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_there_and_back_loses_nothing(api: Api, namespace: str, version: str, allocated: Allocated) -> None:
    made = api.post(claims("v1", namespace), claim("a")).must(201)
    held = api.patch(f"{claims('v1', namespace)}/a/status", {"status": allocated()}).must()
    old = api.get(f"{claims(version, namespace)}/a").must()
    old["metadata"]["labels"] = {"touched": "yes"}
    api.put(f"{claims(version, namespace)}/a", old).must(200)
    again = api.get(f"{claims('v1', namespace)}/a").must()
    assert again["spec"] == made["spec"]
    assert again["status"] == held["status"]


def test_lists_and_watches_speak_the_version_that_is_asked(api: Api, namespace: str) -> None:
    api.post(claims("v1", namespace), claim("a")).must(201)
    listed = api.get(claims("v1beta1", namespace)).must()
    assert listed["apiVersion"] == "resource.k8s.io/v1beta1"
    assert "deviceClassName" in listed["items"][0]["spec"]["devices"]["requests"][0]
    with api.watch(claims("v1beta1", namespace)) as events:
        event = next(events)
    assert event["object"]["apiVersion"] == "resource.k8s.io/v1beta1"
    assert "deviceClassName" in event["object"]["spec"]["devices"]["requests"][0]


def test_slices_lose_the_basic_level(api: Api, fresh: str) -> None:
    sent = resource_slice(fresh)
    sent["spec"]["devices"] = [{"name": "gpu-0", "attributes": {"model": {"string": "a100"}}}]
    api.post(f"{GROUP}/v1/resourceslices", sent).must(201)
    old = api.get(f"{GROUP}/v1beta1/resourceslices/{fresh}").must()
    assert old["spec"]["devices"] == [
        {"name": "gpu-0", "basic": {"attributes": {"model": {"string": "a100"}}}}
    ]


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1beta2"])
def test_classes_are_the_same_everywhere(api: Api, fresh: str, version: str) -> None:
    api.post(f"{GROUP}/v1/deviceclasses", device_class(fresh)).must(201)
    assert api.get(f"{GROUP}/{version}/deviceclasses/{fresh}").must()["spec"] == device_class(fresh)["spec"]


def test_a_patch_speaks_its_version(api: Api, namespace: str) -> None:
    api.post(claims("v1", namespace), claim("a")).must(201)
    patch = {"metadata": {"labels": {"x": "y"}}}
    changed = api.patch(f"{claims('v1beta1', namespace)}/a", patch).must(200)
    assert changed["apiVersion"] == "resource.k8s.io/v1beta1"
    assert api.get(f"{claims('v1', namespace)}/a").must()["metadata"]["labels"] == {"x": "y"}


def test_managed_fields_remember_the_version(api: Api, namespace: str) -> None:
    made = api.apply(f"{claims('v1beta1', namespace)}/a", OLD, "old").must(201)
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["apiVersion"]) == ("old", "resource.k8s.io/v1beta1")


def test_old_versions_are_warned_of(api: Api, namespace: str) -> None:
    assert api.get(claims("v1", namespace)).warnings == []
    assert api.get(claims("v1beta1", namespace)).warnings == [
        "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"
    ]
