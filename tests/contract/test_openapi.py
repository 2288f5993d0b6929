"""The schemas that kubectl explain, create and apply read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api

CLAIM = {"group": "resource.k8s.io", "version": "v1", "kind": "ResourceClaim"}


def document(api: Api, name: str) -> Any:
    return api.get(api.get("/openapi/v3").must()["paths"][name]["serverRelativeURL"]).must()


def of_kind(document: Any, kind: dict[str, str]) -> Any:
    (schema,) = [
        each
        for each in document["components"]["schemas"].values()
        if each.get("x-kubernetes-group-version-kind") == [kind]
    ]
    return schema


def resolved(document: Any, schema: Any) -> Any:
    """The schema that a property refers to, directly or by allOf."""
    reference = schema.get("$ref") or (schema.get("allOf") or [{}])[0].get("$ref")
    if reference is None:
        return schema
    return document["components"]["schemas"][reference.rpartition("/")[2]]


@pytest.mark.parametrize(
    "name", ["api/v1", "apis/apps/v1", "apis/resource.k8s.io/v1", "apis/resource.k8s.io/v1beta1"]
)
def test_every_group_version_is_listed(api: Api, name: str) -> None:
    url = api.get("/openapi/v3").must()["paths"][name]["serverRelativeURL"]
    assert url.startswith(f"/openapi/v3/{name}?hash=")
    reply = api.get(url)
    assert "immutable" in reply.header("cache-control")  # the hash names the content
    assert reply.must()["openapi"].startswith("3.0")


def test_kinds_are_found_by_their_extension(api: Api) -> None:
    schema = of_kind(document(api, "apis/resource.k8s.io/v1"), CLAIM)
    assert schema["type"] == "object"
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert schema["description"]


def test_fields_can_be_walked_and_have_descriptions(api: Api) -> None:
    doc = document(api, "apis/resource.k8s.io/v1")
    schema = of_kind(doc, CLAIM)
    for name in ("spec", "devices", "requests"):
        assert (
            schema["properties"][name]["description"]
            or resolved(doc, schema["properties"][name])["description"]
        )
        schema = resolved(doc, schema["properties"][name])
    assert schema["type"] == "array"
    request = resolved(doc, schema["items"])
    assert set(request["properties"]) == {"name", "exactly", "firstAvailable"}


def test_paths_tell_their_kind_and_action(api: Api) -> None:
    paths = document(api, "apis/resource.k8s.io/v1")["paths"]
    collection = paths["/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"]
    one = paths["/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"]
    for operation, action in (
        (collection["post"], "post"),
        (collection["get"], "list"),
        (one["patch"], "patch"),
    ):
        assert operation["x-kubernetes-group-version-kind"] == CLAIM
        assert operation["x-kubernetes-action"] == action
    assert "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}/status" in paths


def test_kubectl_knows_from_it_which_parameters_there_are(api: Api) -> None:
    """kubectl looks for fieldValidation and dryRun among the parameters before it relies on them."""
    paths = document(api, "apis/resource.k8s.io/v1")["paths"]
    patch = paths["/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"]["patch"]
    names = {each["name"] for each in patch["parameters"] if "name" in each}
    assert names >= {"fieldValidation", "dryRun", "fieldManager", "force"}


def test_merge_keys_are_told(api: Api) -> None:
    doc = document(api, "api/v1")
    spec = doc["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]
    containers = spec["properties"]["containers"]
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"


def test_a_document_that_is_not(api: Api) -> None:
    assert api.get("/openapi/v3/apis/nope.example.com/v1").status == 404
