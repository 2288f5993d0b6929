"""The documents under /openapi/v3: what kubectl looks for in them is there, and every reference leads somewhere."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from allotment.api.schema.schema import SCALARS, Schema
from allotment.apiserver.http.openapi import Documents, build
from allotment.apiserver.registry.resource import ActionResult, Resource, ServedVersion, SubresourceAction
from allotment.apiserver.registry.review import Review

CLAIM = Resource(
    *("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims"),
    namespaced=True,
    status=True,
    versions=(ServedVersion("v1beta1"), ServedVersion("v1alpha2")),
)
POD = Resource(
    *("", "v1", "Pod", "pods"),
    namespaced=True,
    actions={"binding": SubresourceAction("v1", "Binding", lambda *_: ActionResult(None, None))},
)
NODE = Resource("", "v1", "Node", "nodes", namespaced=False, status=True)
SECRET = Resource("", "v1", "Secret", "secrets", namespaced=True, doc="Text that is not shown.")
READ_ONLY = Resource(
    *("storage.k8s.io", "v1", "StorageClass", "storageclasses"),
    namespaced=False,
    verbs=frozenset({"get", "list", "watch"}),
)


def custom(*fields: str) -> Resource:
    schema = Schema("object")
    schema.description = "Something of somebody's."
    schema.properties = {"spec": (spec := Schema("object")), "port": (port := Schema("int-or-string"))}
    port.enum = ("a", "b")
    spec.properties = dict.fromkeys(fields, SCALARS["string"])
    spec.required = frozenset(fields)
    spec.preserve_unknown = True
    return Resource("example.com", "v1", "Foo", "foos", namespaced=True, schemas={"v1": schema})


def everything() -> list[Resource]:
    return [CLAIM, POD, NODE, SECRET, READ_ONLY, custom("a")]


@cache
def documents() -> Documents:
    return build(everything())


@cache
def document(api_version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(documents().document(api_version))
    return found


def definition(api_version: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = document(api_version)["components"]["schemas"][name]
    return found


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


API_VERSIONS = (
    *("v1", "resource.k8s.io/v1", "resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha2"),
    *("storage.k8s.io/v1", "example.com/v1"),
)


def test_the_index_names_each_document_with_its_hash() -> None:
    paths = json.loads(documents().index())["paths"]
    assert sorted(paths) == sorted(f"apis/{v}" if "/" in v else f"api/{v}" for v in API_VERSIONS)
    for path, told in paths.items():
        assert told["serverRelativeURL"] == f"/openapi/v3/{path}?hash={documents().etag(path)}"


def test_a_document_is_found_by_version_or_by_path() -> None:
    assert documents().document("resource.k8s.io/v1") is documents().document("apis/resource.k8s.io/v1")
    assert documents().document("v1") is documents().document("api/v1")


@pytest.mark.parametrize("name", ["", "v2", "apis", "apis/nobody/v1", "../v1"])
def test_other_documents_are_key_errors(name: str) -> None:
    with pytest.raises(KeyError):
        documents().document(name)
    with pytest.raises(KeyError):
        documents().etag(name)


@pytest.mark.parametrize("api_version", API_VERSIONS)
def test_every_reference_leads_to_a_definition(api_version: str) -> None:
    made = document(api_version)
    known = {f"#/components/schemas/{name}" for name in made["components"]["schemas"]}
    assert set(references(made)) <= known


@pytest.mark.parametrize("resource", everything(), ids=lambda resource: resource.kind)
def test_explain_finds_the_kind_by_path_and_the_definition_by_kind(resource: Resource) -> None:
    made = document(resource.api_version)
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    assert made["paths"][f"{root}/{resource.plural}"]["get"]["x-kubernetes-group-version-kind"] == kind
    marked = [
        name
        for name, schema in made["components"]["schemas"].items()
        if kind in schema.get("x-kubernetes-group-version-kind", ())
    ]
    assert len(marked) == 1


def test_kubectl_sees_that_patches_are_validated_and_can_be_dry() -> None:
    patch = document("v1")["paths"]["/api/v1/nodes/{name}"]["patch"]
    queries = {parameter["name"] for parameter in patch["parameters"] if parameter["in"] == "query"}
    assert {"fieldValidation", "dryRun", "fieldManager", "force"} <= queries


def test_strategic_merge_is_offered_for_the_kinds_of_kubernetes_only() -> None:
    strategic = "application/strategic-merge-patch+json"
    paths = {
        "v1": "/api/v1/nodes/{name}",
        "resource.k8s.io/v1": "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}",
    }
    for version, path in paths.items():
        assert strategic in document(version)["paths"][path]["patch"]["requestBody"]["content"]
    own = document("example.com/v1")["paths"]["/apis/example.com/v1/namespaces/{namespace}/foos/{name}"]
    assert strategic not in own["patch"]["requestBody"]["content"]


def test_only_what_can_be_done_is_listed() -> None:
    paths = document("storage.k8s.io/v1")["paths"]
    assert {path: sorted(operations) for path, operations in paths.items()} == {
        "/apis/storage.k8s.io/v1/storageclasses": ["get"],
        "/apis/storage.k8s.io/v1/storageclasses/{name}": ["get"],
    }


def test_subresources_have_paths_with_the_kind_that_they_take() -> None:
    paths = document("v1")["paths"]
    assert sorted(paths["/api/v1/nodes/{name}/status"]) == ["get", "patch", "put"]
    binding = paths["/api/v1/namespaces/{namespace}/pods/{name}/binding"]["post"]
    assert binding["x-kubernetes-group-version-kind"]["kind"] == "Binding"
    assert "io.k8s.api.core.v1.Binding" in document("v1")["components"]["schemas"]


def test_lists_and_merge_keys_are_told() -> None:
    containers = definition("v1", "io.k8s.api.core.v1.PodSpec")["properties"]["containers"]
    assert containers["x-kubernetes-list-type"] == "map"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    selector = definition("v1", "io.k8s.api.core.v1.NodeSelector")
    assert selector["x-kubernetes-map-type"] == "atomic"


@pytest.mark.parametrize(
    ("name", "field", "words"),
    [
        ("DeviceClaim", "requests", "The devices that are wanted; a claim gets all of them or none."),
        ("ExactDeviceRequest", "count", "For ExactCount; 1 when absent."),
        ("ExactDeviceRequest", "adminAccess", "True: for monitoring"),  # a comment above its field
        ("DeviceRequestAllocationResult", "shareID", "Distinguishes the shares of a device."),
        ("ResourceClaim", "metadata", "The object's name, labels, owners and bookkeeping."),
    ],
)
def test_fields_are_described_by_the_comments_beside_them(name: str, field: str, words: str) -> None:
    told = definition("resource.k8s.io/v1", f"io.k8s.api.resource.v1.{name}")["properties"][field]
    assert told["description"].startswith(words)


def test_every_field_of_a_claim_is_described() -> None:
    schemas = document("resource.k8s.io/v1")["components"]["schemas"]
    silent = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, told in schema.get("properties", {}).items()
        if name.startswith("io.k8s.api.resource.v1.") and not told.get("description")
    ]
    assert silent == []


def test_definitions_are_described_by_docstrings_without_mark_up() -> None:
    told = definition("resource.k8s.io/v1", "io.k8s.api.resource.v1.DeviceRequest")["description"]
    assert told == (
        "A named part of a claim: either one exact request, or alternatives of which the first available one is given."
    )
    for name, schema in document("resource.k8s.io/v1")["components"]["schemas"].items():
        assert "``" not in schema.get("description", ""), name


def test_an_older_version_is_described_like_the_newest() -> None:
    told = definition("resource.k8s.io/v1beta1", "io.k8s.api.resource.v1beta1.DeviceClaim")
    assert told["properties"]["constraints"]["description"]


def test_a_kind_without_a_struct_is_described_by_its_resource() -> None:
    assert definition("v1", "io.k8s.api.core.v1.Secret")["description"] == "Text that is not shown."


def test_a_custom_kind_has_its_own_schema_and_words() -> None:
    made = definition("example.com/v1", "com.example.v1.Foo")
    assert made["description"] == "Something of somebody's."
    assert made["properties"]["spec"] == {
        "description": "The content of the object, as its author wants it.",
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "x-kubernetes-preserve-unknown-fields": True,
    }
    assert made["properties"]["port"] == {"x-kubernetes-int-or-string": True, "enum": ["a", "b"]}


def test_the_hash_changes_with_the_schema_and_with_the_resources_and_else_not() -> None:
    assert build([custom("a")]).etag("example.com/v1") == build([custom("a")]).etag("example.com/v1")
    assert build([custom("a")]).etag("example.com/v1") != build([custom("b")]).etag("example.com/v1")
    assert build([POD]).etag("v1") == build([POD, CLAIM]).etag("v1")
    assert build([POD]).etag("v1") != build([POD, NODE]).etag("v1")


def test_reviews_are_described_and_say_that_the_server_validates_them() -> None:
    review = Review(
        *("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
        namespaced=False,
        run=lambda body, call: body,
        doc="Asks what one may do.",
    )
    made = json.loads(build([], [review]).document("authorization.k8s.io/v1"))
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert {name: sorted(operations) for name, operations in made["paths"].items()} == {
        path: ["post"],
        f"{path}/{{name}}": ["patch"],  # only for kubectl to find fieldValidation there
    }
    name = "io.k8s.api.authorization.v1.SelfSubjectAccessReview"
    assert made["components"]["schemas"][name]["description"] == "Asks what one may do."
