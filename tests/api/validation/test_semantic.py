"""The v1alpha2 kinds: one row per rule."""

from typing import Any

import pytest

from allotment.api import semantic
from allotment.api.codec import decode
from allotment.api.validation import (
    validate,
    validate_node_resource_slice,
    validate_semantic_claim_status,
    validate_semantic_claim_update,
)
from allotment.api.validation.node_resource_slice import INSTANCE_DEPTH, SLICE_INSTANCES
from tests.api.validation.builders import Json, check, node_slice, shown, with_instances

TREE = "spec.partitionable"
INSTANCE = f"{TREE}.resourceInstances[0]"


def instance(name: str = "gpu-0", **fields: Any) -> Json:
    return {"name": name, **fields}


def with_attribute(**attribute: Any) -> semantic.NodeResourceSlice:
    return with_instances(instance(attributes=[{"name": "memory", "quantity": "1Gi"} | attribute]))


def nested(levels: int) -> Json:
    """A tower of instances, each the only part of the one around it."""
    made = instance("leaf")
    for _ in range(levels - 1):
        made = instance(partitions=[{"name": "whole", "resourceInstances": [made]}])
    return made


COSTLY = "costly"


def _nested_lists(levels: int) -> Any:
    made: Any = 1
    for _ in range(levels):
        made = [made]
    return made


SLICES: dict[str, tuple[semantic.NodeResourceSlice, list[str]]] = {
    "empty tree": (node_slice(), []),
    "attributes of every kind": (
        with_instances(
            instance(
                attributes=[
                    {"name": "memory", "quantity": "8Gi"},
                    {"name": "UUID", "string": "GPU-1"},
                    {"name": "runtimeVersion", "version": " v12.1"},
                    {"name": "ok", "bool": False},
                    {"name": "n", "int": 0},
                    {"name": "ns", "intSlice": []},
                    {"name": "ss", "stringSlice": ["a"]},
                ]
            )
        ),
        [],
    ),
    "references": (
        with_instances(
            instance(commonAttributesRefs=["common"]),
            commonAttributes=[{"name": "common", "attributes": [{"name": "a", "int": 1}]}],
        ),
        [],
    ),
    "equal names in different partitions": (
        with_instances(
            instance(
                partitions=[
                    {"name": "a", "resourceInstances": [instance()]},
                    {"name": "b", "resourceInstances": [instance()]},
                ]
            )
        ),
        [],
    ),
    "as deep as allowed": (with_instances(nested(INSTANCE_DEPTH)), []),
    "no node and driver": (
        node_slice(nodeName=None, driverName=None),
        ["spec.nodeName: required", "spec.driverName: required"],
    ),
    "no known model": (node_slice(partitionable=None), ["spec: required"]),
    "instance name with a slash": (with_instances(instance("a/b")), [f"{INSTANCE}.name: invalid"]),
    "instance name of Kubernetes": (with_instances(instance("gpu.k8s.io")), [f"{INSTANCE}.name: invalid"]),
    "instance twice": (
        with_instances(instance(), instance()),
        [f"{TREE}.resourceInstances[1]: duplicate"],
    ),
    "partition twice": (
        with_instances(instance(partitions=[{"name": "a", "resourceInstances": [instance()]}] * 2)),
        [f"{INSTANCE}.partitions[1]: duplicate"],
    ),
    "partition of nothing": (
        with_instances(instance(partitions=[{"name": "a"}])),
        [f"{INSTANCE}.partitions[0].resourceInstances: required"],
    ),
    "attribute without value": (
        with_attribute(quantity=None),
        [f"{INSTANCE}.attributes[0]: invalid"],
    ),
    "attribute with two values": (with_attribute(int=1), [f"{INSTANCE}.attributes[0]: invalid"]),
    "attribute name": (with_attribute(name="a b"), [f"{INSTANCE}.attributes[0].name: invalid"]),
    "attribute name of Kubernetes": (
        with_attribute(name="memory.k8s.io"),
        [f"{INSTANCE}.attributes[0].name: invalid"],
    ),
    "attribute twice": (
        with_instances(instance(attributes=[{"name": "a", "int": 1}, {"name": "a", "bool": True}])),
        [f"{INSTANCE}.attributes[1]: duplicate"],
    ),
    "65 attributes": (
        with_instances(instance(attributes=[{"name": f"a{n}", "int": 1} for n in range(65)])),
        [f"{INSTANCE}.attributes: too_many"],
    ),
    "version": (
        with_attribute(quantity=None, version="1.x"),
        [f"{INSTANCE}.attributes[0].version: invalid"],
    ),
    "long string": (
        with_attribute(quantity=None, string="x" * 257),
        [f"{INSTANCE}.attributes[0].string: too_long"],
    ),
    "long list": (
        with_attribute(quantity=None, intSlice=[1] * 65),
        [f"{INSTANCE}.attributes[0].intSlice: too_many"],
    ),
    "long string in a list": (
        with_attribute(quantity=None, stringSlice=["x" * 257]),
        [f"{INSTANCE}.attributes[0].stringSlice[0]: too_long"],
    ),
    "reference to nothing": (
        with_instances(instance(commonAttributesRefs=["common"])),
        [f"{INSTANCE}.commonAttributesRefs[0]: not_found"],
    ),
    "reference of a partition to nothing": (
        with_instances(
            instance(
                partitions=[{"name": "a", "commonAttributesRefs": ["x"], "resourceInstances": [instance()]}]
            )
        ),
        [f"{INSTANCE}.partitions[0].commonAttributesRefs[0]: not_found"],
    ),
    "reference twice": (
        with_instances(instance(commonAttributesRefs=["a", "a"]), commonAttributes=[{"name": "a"}]),
        [f"{INSTANCE}.commonAttributesRefs[1]: duplicate"],
    ),
    "common attributes twice": (
        with_instances(commonAttributes=[{"name": "a"}, {"name": "a"}]),
        [f"{TREE}.commonAttributes[1]: duplicate"],
    ),
    "common attributes without name": (
        with_instances(commonAttributes=[{}]),
        [f"{TREE}.commonAttributes[0].name: required"],
    ),
    "too deep": (
        with_instances(nested(INSTANCE_DEPTH + 1)),
        [
            INSTANCE
            + ".partitions[0].resourceInstances[0]" * (INSTANCE_DEPTH - 1)
            + ".partitions[0].resourceInstances: forbidden"
        ],
    ),
    "too many": (
        with_instances(*[instance(f"gpu-{n}") for n in range(SLICE_INSTANCES + 1)]),
        [f"{TREE}: forbidden"],
    ),
}


@pytest.mark.parametrize(("given", "errors"), SLICES.values(), ids=SLICES.keys())
def test_node_resource_slice(given: semantic.NodeResourceSlice, errors: list[str]) -> None:
    assert shown(validate_node_resource_slice(given)) == errors


def test_a_slice_of_an_unknown_model_is_told_so() -> None:
    (error,) = validate_node_resource_slice(node_slice(partitionable=None))
    assert "no model that is known here" in str(error)


REFERENCE = {"kind": "CardParameters", "name": "p", "apiGroup": "dra.example.com"}
SELECTOR = 'quantities["memory"] >= "8Gi"'
OTHERS: dict[str, tuple[type[Any], Json, list[str]]] = {
    "class": (semantic.ResourceClass, {"driverName": "a.example.com", "parametersRef": REFERENCE}, []),
    "class without driver": (semantic.ResourceClass, {}, ["driverName: required"]),
    "class with an empty reference": (
        semantic.ResourceClass,
        {"driverName": "a", "parametersRef": {"apiGroup": "_", "namespace": "A"}},
        [
            "parametersRef.kind: required",
            "parametersRef.name: required",
            "parametersRef.apiGroup: invalid",
            "parametersRef.namespace: invalid",
        ],
    ),
    "class with empty nodes": (
        semantic.ResourceClass,
        {"driverName": "a", "suitableNodes": {}},
        ["suitableNodes.nodeSelectorTerms: required"],
    ),
    "class parameters": (
        semantic.ResourceClassParameters,
        {
            "generatedFrom": REFERENCE,
            "vendorParameters": {"a": 1},
            "filters": [{"driverName": "a", "partitionable": {"selector": SELECTOR}}],
        },
        [],
    ),
    "vendor parameters that are no object": (
        semantic.ResourceClassParameters,
        {"vendorParameters": [1]},
        ["vendorParameters: invalid"],
    ),
    "vendor parameters that are too long": (
        semantic.ResourceClassParameters,
        {"vendorParameters": {"a": "x" * 10_240}},
        ["vendorParameters: too_long"],
    ),
    "vendor parameters of a claim that are too deep": (
        semantic.ResourceClaimParameters,
        {
            "vendorParameters": {"a": _nested_lists(32)},
            "requests": [{"driverName": "a", "partitionable": {"required": [{"selector": "true"}]}}],
        },
        ["vendorParameters: forbidden"],
    ),
    "vendor parameters that are just so deep": (
        semantic.ResourceClassParameters,
        {"vendorParameters": {"a": _nested_lists(31)}},
        [],
    ),
    "a filter that may cost too much": (
        semantic.ResourceClassParameters,
        {"filters": [{"driverName": "a", "partitionable": {"selector": COSTLY}}]},
        ["filters[0].partitionable.selector: forbidden"],
    ),
    "a selector that may cost too much": (
        semantic.ResourceClaimParameters,
        {"requests": [{"driverName": "a", "partitionable": {"required": [{"selector": COSTLY}]}}]},
        ["requests[0].partitionable.required[0].selector: forbidden"],
    ),
    "33 filters": (
        semantic.ResourceClassParameters,
        {"filters": [{"driverName": "a", "partitionable": {"selector": SELECTOR}}] * 33},
        ["filters: too_many"],
    ),
    "filter without driver and model": (
        semantic.ResourceClassParameters,
        {"filters": [{}]},
        ["filters[0].driverName: required", "filters[0]: required"],
    ),
    "filter that does not compile": (
        semantic.ResourceClassParameters,
        {"filters": [{"driverName": "a", "partitionable": {"selector": "broken"}}]},
        ["filters[0].partitionable.selector: invalid"],
    ),
    "claim parameters": (
        semantic.ResourceClaimParameters,
        {
            "shareable": True,
            "requests": [
                {"driverName": "a", "partitionable": {"required": [{"selector": SELECTOR}] * 2}},
                {"driverName": "b", "partitionable": {"required": [{"name": "x", "selector": "true"}]}},
            ],
        },
        [],
    ),
    "33 requests": (
        semantic.ResourceClaimParameters,
        {"requests": [{"driverName": "a", "partitionable": {"required": [{"selector": "true"}]}}] * 33},
        ["requests: too_many"],
    ),
    "request without driver and model": (
        semantic.ResourceClaimParameters,
        {"requests": [{}]},
        ["requests[0].driverName: required", "requests[0]: required"],
    ),
    "request for nothing": (
        semantic.ResourceClaimParameters,
        {"requests": [{"driverName": "a", "partitionable": {}}]},
        ["requests[0].partitionable.required: required"],
    ),
    "request for 33 instances": (
        semantic.ResourceClaimParameters,
        {"requests": [{"driverName": "a", "partitionable": {"required": [{"selector": "true"}] * 33}}]},
        ["requests[0].partitionable.required: too_many"],
    ),
    "request without selector": (
        semantic.ResourceClaimParameters,
        {"requests": [{"driverName": "a", "partitionable": {"required": [{}]}}]},
        ["requests[0].partitionable.required[0].selector: invalid"],
    ),
    "name twice": (
        semantic.ResourceClaimParameters,
        {
            "requests": [
                {
                    "driverName": "a",
                    "partitionable": {"required": [{"name": "x", "selector": "true"}] * 2},
                }
            ]
        },
        ["requests[0].partitionable.required[1]: duplicate"],
    ),
    "claim": (
        semantic.ResourceClaim,
        {"spec": {"resourceClassName": "gpu", "parametersRef": REFERENCE, "allocationMode": "Immediate"}},
        [],
    ),
    "claim without class": (semantic.ResourceClaim, {}, ["spec.resourceClassName: required"]),
    "claim in an unknown mode": (
        semantic.ResourceClaim,
        {"spec": {"resourceClassName": "gpu", "allocationMode": "Later"}},
        ["spec.allocationMode: not_supported"],
    ),
    "template": (
        semantic.ResourceClaimTemplate,
        {"spec": {"spec": {"resourceClassName": "G"}}},
        ["spec.spec.resourceClassName: invalid"],
    ),
}


@pytest.mark.parametrize(("kind", "fields", "errors"), OTHERS.values(), ids=OTHERS.keys())
def test_other_kinds(kind: type[Any], fields: Json, errors: list[str]) -> None:
    given = decode(kind, {"metadata": {"name": "x"}, **fields})
    assert shown(validate(given, check=check)) == errors


def semantic_claim(**status: Any) -> semantic.ResourceClaim:
    data = {"metadata": {"name": "c"}, "spec": {"resourceClassName": "gpu"}, "status": status}
    return decode(semantic.ResourceClaim, data)


def handle(*ids: str, **fields: Any) -> Json:
    semantic = {"nodeName": "n", "partitionable": {"instances": [{"id": name} for name in ids]}}
    return {"driverName": "a", "semanticData": semantic, **fields}


POD = {"resource": "pods", "name": "p", "uid": "u"}
HANDLE = "status.allocation.resourceHandles[0]"
STATUSES: dict[str, tuple[semantic.ResourceClaim, list[str]]] = {
    "allocated": (semantic_claim(allocation={"resourceHandles": [handle("gpu-1/half/first")]}), []),
    "shared": (
        semantic_claim(allocation={"shareable": True}, reservedFor=[POD, POD | {"uid": "v"}]),
        [],
    ),
    "reserved but not allocated": (semantic_claim(reservedFor=[POD]), ["status.reservedFor: forbidden"]),
    "reserved twice but not shareable": (
        semantic_claim(allocation={}, reservedFor=[POD, POD | {"uid": "v"}]),
        ["status.reservedFor: forbidden"],
    ),
    "deallocation of nothing": (
        semantic_claim(deallocationRequested=True),
        ["status.deallocationRequested: forbidden"],
    ),
    "both kinds of data": (
        semantic_claim(allocation={"resourceHandles": [handle("a", data="x")]}),
        [f"{HANDLE}: invalid"],
    ),
    "data too long": (
        semantic_claim(allocation={"resourceHandles": [{"driverName": "a", "data": "x" * 16385}]}),
        [f"{HANDLE}.data: too_long"],
    ),
    "no model": (
        semantic_claim(allocation={"resourceHandles": [{"semanticData": {"nodeName": "n"}}]}),
        [f"{HANDLE}.semanticData: required"],
    ),
    "instance twice": (
        semantic_claim(allocation={"resourceHandles": [handle("a", "a")]}),
        [f"{HANDLE}.semanticData.partitionable.instances[1]: duplicate"],
    ),
    "id with an empty name": (
        semantic_claim(allocation={"resourceHandles": [handle("a//b")]}),
        [f"{HANDLE}.semanticData.partitionable.instances[0].id: invalid"],
    ),
}


@pytest.mark.parametrize(("given", "errors"), STATUSES.values(), ids=STATUSES.keys())
def test_claim_status(given: semantic.ResourceClaim, errors: list[str]) -> None:
    assert shown(validate_semantic_claim_status(given)) == errors


def test_what_may_not_change() -> None:
    old = semantic_claim(allocation={"resourceHandles": [handle("a")]})
    other = semantic_claim(allocation={"resourceHandles": [handle("b")]})
    assert validate_semantic_claim_status(old, old) == []
    assert validate_semantic_claim_status(semantic_claim(), old) == []
    assert shown(validate_semantic_claim_status(other, old)) == ["status.allocation: invalid"]
    renamed = decode(
        semantic.ResourceClaim, {"metadata": {"name": "c"}, "spec": {"resourceClassName": "other"}}
    )
    assert shown(validate_semantic_claim_update(renamed, old)) == ["spec: invalid"]
