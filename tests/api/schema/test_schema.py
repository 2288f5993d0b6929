"""Schemas against Kubernetes' own OpenAPI documents and against our structs."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from allotment.api import kinds
from allotment.api.schema.schema import Schema, builtin_kinds, definition, schema_of
from allotment.api.schema.shape import ListShape, MapShape, Shape, StructShape, shape_of
from tests.corpus import FOLDER, unavailable

DOCUMENTS = (
    *(
        "apiextensions.k8s.io_v1",
        "authentication.k8s.io_v1",
        "authorization.k8s.io_v1",
        "coordination.k8s.io_v1",
    ),
    *("core_v1", "events.k8s.io_v1", "rbac.authorization.k8s.io_v1", "resource.k8s.io_v1"),
    *("scheduling.k8s.io_v1", "scheduling.k8s.io_v1beta1"),
)
SERVED = {
    "v1": "Binding ConfigMap Event Namespace Node PersistentVolume PersistentVolumeClaim Pod ReplicationController"
    " ResourceQuota Secret Service ServiceAccount Status DeleteOptions APIGroup APIResourceList",
    "apps/v1": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling/v1": "Scale",
    "batch/v1": "Job",
    "networking.k8s.io/v1": "Ingress",
    "policy/v1": "Eviction PodDisruptionBudget",
    "storage.k8s.io/v1": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment",
    "scheduling.k8s.io/v1": "PriorityClass",
    "scheduling.k8s.io/v1beta1": "PodGroup Workload",
    "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "authentication.k8s.io/v1": "SelfSubjectReview TokenRequest TokenReview",
    "authorization.k8s.io/v1": "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    "coordination.k8s.io/v1": "Lease",
    "events.k8s.io/v1": "Event",
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "resource.k8s.io/v1": "DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice",
    "resource.k8s.io/v1beta2": "DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourcePool ResourceSlice",
    "resource.k8s.io/v1alpha3": "ResourcePoolStatusRequest",
    "resource.k8s.io/v1beta1": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
    "resource.k8s.io/v1alpha2": "NodeResourceSlice ResourceClass ResourceClaim ResourceClaimTemplate"
    " ResourceClassParameters ResourceClaimParameters",
}
ONE_VALUE = {"Quantity": "quantity", "IntOrString": "int-or-string", "Time": "time", "MicroTime": "time"}


@cache
def document(name: str) -> dict[str, Any]:
    path = FOLDER.parent / "openapi" / f"{name}.json"
    if not path.exists():
        unavailable(f"../shared/openapi/{name}.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def everything(schema: Schema, seen: set[int]) -> Iterator[Schema]:
    """A schema and all that it reaches, each once."""
    if id(schema) in seen:
        return
    seen.add(id(schema))
    yield schema
    for inner in (*schema.properties.values(), schema.items, schema.additional):
        if inner is not None:
            yield from everything(inner, seen)


def reference(theirs: dict[str, Any]) -> str:
    inner = theirs["allOf"][0] if "allOf" in theirs else theirs
    return str(inner.get("$ref", "")).removeprefix("#/components/schemas/")


def differences(ours: Schema, theirs: dict[str, Any], path: str) -> Iterator[str]:
    """What a property of a document says that our schema does not."""
    name = reference(theirs)
    own = name.rpartition(".")[2]
    if name and ours.name != name:
        yield f"{path} is {ours.name}, should be {name}"
    elif own in ONE_VALUE and ours.type != ONE_VALUE[own]:
        yield f"{path} is of type {ours.type}, should be {ONE_VALUE[own]}"
    elif not name and theirs.get("type", "any") != ours.type:
        yield f"{path} is of type {ours.type}, should be {theirs.get('type', 'any')}"
    told = {
        "format": (ours.format, "" if name else theirs.get("format", "")),
        "list type": (ours.list_type, theirs.get("x-kubernetes-list-type", "atomic")),
        "list keys": (list(ours.list_keys), theirs.get("x-kubernetes-list-map-keys", [])),
        "patch key": (ours.patch_key, theirs.get("x-kubernetes-patch-merge-key", "")),
        "patch strategy": (
            ",".join(sorted(ours.patch_strategies)),
            ",".join(sorted(filter(None, theirs.get("x-kubernetes-patch-strategy", "").split(",")))),
        ),
        "default": (ours.default, theirs.get("default")),
    }
    if name:
        del told["format"]
    for what, (mine, wanted) in told.items():
        if mine != wanted:
            yield f"{path} has {what} {mine!r}, should have {wanted!r}"
    for inner, wanted in (
        (ours.items, theirs.get("items")),
        (ours.additional, theirs.get("additionalProperties")),
    ):
        if wanted is not None:
            assert inner is not None, path
            yield from differences(inner, {k: v for k, v in wanted.items() if k != "default"}, f"{path}[]")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_definition_that_a_kind_reaches_agrees_with_the_document(name: str) -> None:
    theirs = document(name)["components"]["schemas"]
    compared = 0
    faults: list[str] = []
    for full, wanted in theirs.items():
        served = {kind["kind"] for kind in wanted.get("x-kubernetes-group-version-kind", ())}
        own = full.rpartition(".")[2]
        if own not in served or own.endswith("List") or own in ("DeleteOptions", "WatchEvent", "Status"):
            continue
        for schema in everything(definition(full), set()):
            if schema.name not in theirs or schema.type != "object":
                continue
            expected = theirs[schema.name]
            compared += 1
            assert schema.properties.keys() == expected.get("properties", {}).keys(), schema.name
            assert schema.required == frozenset(expected.get("required", ())), schema.name
            for field, value in schema.properties.items():
                faults += differences(value, expected["properties"][field], f"{schema.name}.{field}")
    assert faults == []
    assert compared


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_kind_that_a_path_of_the_documents_serves_is_known(name: str) -> None:
    for path, operations in document(name)["paths"].items():
        for operation in operations.values():
            kind = operation.get("x-kubernetes-group-version-kind") if isinstance(operation, dict) else None
            # What a proxy or a shell is asked for are options in the URL, never a body.
            if kind and not kind["kind"].endswith("Options"):
                api_version = f"{kind['group']}/{kind['version']}" if kind["group"] else kind["version"]
                assert schema_of(api_version, kind["kind"]).type == "object", path


@pytest.mark.parametrize(
    ("api_version", "kind"), [(version, kind) for version, told in SERVED.items() for kind in told.split()]
)
def test_every_kind_that_we_serve_has_a_schema_with_metadata_and_type(api_version: str, kind: str) -> None:
    schema = schema_of(api_version, kind)
    assert {"apiVersion", "kind"} <= schema.properties.keys()
    if kind not in ("Status", "DeleteOptions", "APIGroup", "APIResourceList"):
        metadata = schema.properties["metadata"]
        assert metadata.name == "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
        assert metadata.properties["finalizers"].list_type == "set"


def uncovered(shape: Shape, schema: Schema | None, path: str, seen: set[tuple[int, int]]) -> Iterator[str]:
    if schema is None:
        yield f"{path} is not in the schema"
        return
    if schema.type == "any" or (id(shape), id(schema)) in seen:
        return
    seen.add((id(shape), id(schema)))
    match shape:
        case StructShape():
            for name, inner in shape.fields.items():
                yield from uncovered(inner, schema.properties.get(name), f"{path}.{name}", seen)
        case ListShape():
            yield from uncovered(shape.item, schema.items, f"{path}[]", seen)
        case MapShape():
            yield from uncovered(shape.value, schema.additional, f"{path}{{}}", seen)


@pytest.mark.parametrize("known", kinds.KINDS.values(), ids=lambda known: f"{known.api_version}/{known.kind}")
def test_the_typed_structs_are_covered_by_the_schemas(known: kinds.Kind) -> None:
    if known.to_type is None:
        assert (
            list(uncovered(shape_of(known.type), schema_of(known.api_version, known.kind), known.kind, set()))
            == []
        )


def test_a_pods_containers_merge_by_name_and_its_ports_by_two_keys() -> None:
    containers = schema_of("v1", "Pod").properties["spec"].properties["containers"]
    assert (containers.list_type, containers.list_keys) == ("map", ("name",))
    assert (containers.patch_strategies, containers.patch_key) == (frozenset({"merge"}), "name")
    assert containers.items is not None
    ports = containers.items.properties["ports"]
    assert (ports.list_keys, ports.patch_key) == (("containerPort", "protocol"), "containerPort")
    assert ports.items is not None
    assert ports.items.properties["protocol"].default == "TCP"


def test_a_strategy_of_a_field_does_not_leak_into_the_definition_it_uses() -> None:
    selector = schema_of("policy/v1", "PodDisruptionBudget").properties["spec"].properties["selector"]
    assert selector.patch_strategies == {"replace"}
    assert selector.map_type == "atomic"
    plain = schema_of("apps/v1", "Deployment").properties["spec"].properties["selector"]
    assert plain.patch_strategies == frozenset()
    assert plain.properties is selector.properties


def test_a_schema_may_contain_itself() -> None:
    versions = (
        schema_of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        .properties["spec"]
        .properties["versions"]
    )
    assert versions.items is not None
    props = versions.items.properties["schema"].properties["openAPIV3Schema"]
    assert props.properties["not"] is props
    assert props.properties["items"].type == "any"


def test_reservations_of_an_early_claim_merge_by_uid() -> None:
    claim = schema_of("resource.k8s.io/v1alpha2", "ResourceClaim")
    reserved = claim.properties["status"].properties["reservedFor"]
    assert (reserved.list_type, reserved.list_keys, reserved.patch_key) == ("map", ("uid",), "uid")


def test_options_of_a_deletion_are_known_in_every_group() -> None:
    assert schema_of("resource.k8s.io/v1", "DeleteOptions") is schema_of("v1", "DeleteOptions")


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "Deployment"),
        ("apps/v2", "Deployment"),
        ("apps.example.com/v1", "Deployment"),  # the package's name alone does not make it the group
        ("v1", "PodSpec"),  # a definition, no kind
        ("../schemas/core/v1", "Pod"),
        ("", ""),
        ("meta/v1", "Status"),
    ],
)
def test_anything_else_is_a_key_error(api_version: str, kind: str) -> None:
    with pytest.raises(KeyError):
        schema_of(api_version, kind)


def test_kinds_can_be_listed_by_version() -> None:
    assert "ResourceClaim" in builtin_kinds("resource.k8s.io/v1")
    assert builtin_kinds("nobody.example.com/v1") == []


def test_a_pool_and_the_pool_of_a_slice_have_schemas_of_their_own() -> None:
    pool = schema_of("resource.k8s.io/v1beta2", "ResourcePool")
    inner = schema_of("resource.k8s.io/v1beta2", "ResourceSlice").properties["spec"].properties["pool"]
    assert (pool.name, inner.name) == (
        "dev.allotment.api.pools.ResourcePool",
        "io.k8s.api.resource.v1beta2.ResourcePool",
    )
    status = pool.properties["status"].properties
    assert status["lastUpdateTime"].type == "time"
    assert status["summary"].properties["totalDevices"].format == "int32"
    assert (status["conditions"].list_type, status["conditions"].list_keys) == ("map", ("type",))
