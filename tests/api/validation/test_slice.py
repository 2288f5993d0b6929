"""Slices and their devices: one row per rule."""

from typing import Any

import pytest

from allotment.api.codec import decode
from allotment.api.resource import ResourceSlice
from allotment.api.validation import validate_slice, validate_slice_update
from tests.api.validation.builders import device, shown, slice_, with_device

DEVICE = "spec.devices[0]"
SELECTOR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}


def selector(**test: Any) -> ResourceSlice:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]} | test]}
    return slice_(nodeName=None, nodeSelector={"nodeSelectorTerms": [term]})


def field_selector(**test: Any) -> ResourceSlice:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]} | test]}
    return slice_(nodeName=None, nodeSelector={"nodeSelectorTerms": [term]})


def many(count: int, **fields: Any) -> ResourceSlice:
    return slice_(devices=[device(f"gpu-{index}", **fields) for index in range(count)])


def shared(policy: Any, value: str = "10") -> ResourceSlice:
    return with_device(
        allowMultipleAllocations=True, capacity={"memory": {"value": value, "requestPolicy": policy}}
    )


def mapped(**mapping: Any) -> ResourceSlice:
    return with_device(
        capacity={"cores": {"value": "8"}}, nodeAllocatableResources={"cpu": {"mapping": mapping}}
    )


COUNTERS = {"counterSet": "set", "counters": {"memory": {"value": "1"}}}

SOUND = {
    "one device": slice_(),
    "no device": slice_(devices=None),
    "counters alone": slice_(devices=None, sharedCounters=[{"name": "a", "counters": {"m": {"value": "1"}}}]),
    "all nodes": slice_(nodeName=None, allNodes=True),
    "node selector": slice_(nodeName=None, nodeSelector=SELECTOR),
    "node selector by name": field_selector(),
    "each device says": slice_(
        nodeName=None, perDeviceNodeSelection=True, devices=[device(nodeSelector=SELECTOR)]
    ),
    "pool with slashes": slice_(pool={"name": "a.b/c", "generation": 0, "resourceSliceCount": 3}),
    "driver in capitals": slice_(driver="GPU.example.com"),
    "128 plain devices": many(128),
    "64 tainted devices": many(64, taints=[{"key": "a", "effect": "NoExecute"}]),
    "every kind of value": with_device(
        attributes={
            "a": {"int": 1},
            "b": {"bool": False},
            "c": {"string": ""},
            "d": {"version": "1.2.3-rc.1"},
            "x.example.com/e": {"ints": [1]},
            "f": {"bools": [True]},
            "g": {"strings": ["x"]},
            "h": {"versions": ["1.0.0"]},
        }
    ),
    "version beyond 64 bits": with_device(attributes={"v": {"version": "99999999999999999999.0.0"}}),
    "policy of values": shared({"default": "2", "validValues": ["1", "2", "10"]}),
    "policy of a range": shared({"default": "2", "validRange": {"min": "1", "max": "9", "step": "1"}}),
    "fractional range": shared({"default": "1500m", "validRange": {"min": "500m", "step": "500m"}}),
    "default alone": shared({"default": "2"}),
    "negative counters are Kubernetes' business": with_device(
        consumesCounters=[{"counterSet": "s", "counters": {"m": {"value": "-1"}}}]
    ),
    "mapping by device": mapped(deviceMultiplier="2"),
    "mapping by capacity": mapped(capacityKey="cores", capacityMultiplier="2"),
    "binding conditions": with_device(bindingConditions=["a"], bindingFailureConditions=["b.com/c"]),
    "partition type by bare name": slice_(
        partitionTypeAttribute="gpu.example.com/profile",
        devices=[
            device(consumesCounters=[COUNTERS], attributes={"profile": {"string": "half"}}),
            device("b"),
        ],
    ),
    "all node operations skipped": slice_(skipNodeOperations=["*", "NodePrepareResources"]),
}


@pytest.mark.parametrize("given", SOUND.values(), ids=SOUND.keys())
def test_sound(given: ResourceSlice) -> None:
    assert shown(validate_slice(given)) == []


BROKEN: dict[str, tuple[ResourceSlice, list[str]]] = {
    "no driver": (slice_(driver=None), ["spec.driver: required"]),
    "driver with underscore": (slice_(driver="a_b"), ["spec.driver: invalid"]),
    "driver too long": (slice_(driver="a" * 64), ["spec.driver: too_long"]),
    "no pool": (slice_(pool=None), ["spec.pool.name: required", "spec.pool.resourceSliceCount: invalid"]),
    "pool name with an empty part": (
        slice_(pool={"name": "a//b", "generation": 1, "resourceSliceCount": 1}),
        ["spec.pool.name: invalid"],
    ),
    "negative generation": (
        slice_(pool={"name": "a", "generation": -1, "resourceSliceCount": 1}),
        ["spec.pool.generation: invalid"],
    ),
    "no slice in the pool": (
        slice_(pool={"name": "a", "generation": 1, "resourceSliceCount": 0}),
        ["spec.pool.resourceSliceCount: invalid"],
    ),
    "no nodes": (slice_(nodeName=None), ["spec: required"]),
    "nodes twice": (slice_(allNodes=True), ["spec: invalid"]),
    "empty node name": (slice_(nodeName="", allNodes=True), ["spec.nodeName: invalid"]),
    "node name": (slice_(nodeName="Node"), ["spec.nodeName: invalid"]),
    "allNodes false": (slice_(allNodes=False), ["spec.allNodes: invalid"]),
    "perDeviceNodeSelection false": (
        slice_(perDeviceNodeSelection=False),
        ["spec.perDeviceNodeSelection: invalid"],
    ),
    "two terms": (
        slice_(nodeName=None, nodeSelector={"nodeSelectorTerms": [{}, {}]}),
        ["spec.nodeSelector.nodeSelectorTerms: invalid"],
    ),
    "In without values": (
        selector(values=[]),
        ["spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values: required"],
    ),
    "Exists with values": (
        selector(operator="Exists"),
        ["spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values: forbidden"],
    ),
    "Gt with two values": (
        selector(operator="Gt", values=["1", "2"]),
        ["spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values: required"],
    ),
    "unknown operator": (
        selector(operator="Near"),
        ["spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator: invalid"],
    ),
    "label key": (
        selector(key="-"),
        ["spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].key: invalid"],
    ),
    "label value": (
        selector(values=["a b"]),
        ["spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values[0]: invalid"],
    ),
    "node field": (
        field_selector(key="spec.x"),
        ["spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].key: invalid"],
    ),
    "node field operator": (
        field_selector(operator="Exists"),
        ["spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].operator: invalid"],
    ),
    "two node names": (
        field_selector(values=["a", "b"]),
        ["spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].values: required"],
    ),
    "devices and counters": (
        slice_(sharedCounters=[{"name": "a", "counters": {"m": {"value": "1"}}}]),
        ["spec: invalid"],
    ),
    "129 devices": (many(129), ["spec.devices: too_many"]),
    "65 tainted devices": (
        many(65, taints=[{"key": "a", "effect": "None"}]),
        ["spec.devices: too_many"],
    ),
    "65 devices with counters": (many(65, consumesCounters=[COUNTERS]), ["spec.devices: too_many"]),
    "65 devices with lists": (many(65, attributes={"a": {"ints": [1]}}), ["spec.devices: too_many"]),
    "device twice": (slice_(devices=[device(), device()]), ["spec.devices[1]: duplicate"]),
    "nine counter sets": (
        slice_(devices=None, sharedCounters=[{"name": f"a{n}", "counters": {"m": {}}} for n in range(9)]),
        ["spec.sharedCounters: too_many"],
    ),
    "counter set twice": (
        slice_(devices=None, sharedCounters=[{"name": "a", "counters": {"m": {}}}] * 2),
        ["spec.sharedCounters[1]: duplicate"],
    ),
    "counter set without name or counters": (
        slice_(devices=None, sharedCounters=[{}]),
        ["spec.sharedCounters[0].name: required", "spec.sharedCounters[0].counters: required"],
    ),
    "33 counters": (
        slice_(devices=None, sharedCounters=[{"name": "a", "counters": {f"m{n}": {} for n in range(33)}}]),
        ["spec.sharedCounters[0].counters: too_many"],
    ),
    "counter name": (
        slice_(devices=None, sharedCounters=[{"name": "a", "counters": {"M": {}}}]),
        ["spec.sharedCounters[0].counters: invalid"],
    ),
    "partition type without partitions": (
        slice_(partitionTypeAttribute="gpu.example.com/profile"),
        ["spec.partitionTypeAttribute: invalid"],
    ),
    "partition type without domain": (
        slice_(partitionTypeAttribute="profile"),
        ["spec.partitionTypeAttribute: invalid"],
    ),
    "partition without its type": (
        slice_(
            partitionTypeAttribute="gpu.example.com/profile", devices=[device(consumesCounters=[COUNTERS])]
        ),
        [f"{DEVICE}.attributes[gpu.example.com/profile]: required"],
    ),
    "partition type that is no string": (
        slice_(
            partitionTypeAttribute="gpu.example.com/profile",
            devices=[device(consumesCounters=[COUNTERS], attributes={"profile": {"int": 1}})],
        ),
        [f"{DEVICE}.attributes[gpu.example.com/profile]: invalid"],
    ),
    "prepared but not unprepared": (
        slice_(skipNodeOperations=["NodePrepareResources"]),
        ["spec.skipNodeOperations: invalid"],
    ),
    "unknown node operation": (
        slice_(skipNodeOperations=["Sing"]),
        ["spec.skipNodeOperations[0]: not_supported"],
    ),
    "node operation twice": (
        slice_(skipNodeOperations=["*", "*"]),
        ["spec.skipNodeOperations[1]: duplicate"],
    ),
    "device name": (with_device(name="GPU_0"), [f"{DEVICE}.name: invalid"]),
    "no device name": (with_device(name=""), [f"{DEVICE}.name: invalid"]),
    "33 attributes and capacities": (
        with_device(attributes={f"a{n}": {"int": 1} for n in range(32)}, capacity={"memory": {"value": "1"}}),
        [f"{DEVICE}: invalid"],
    ),
    "49 values": (with_device(attributes={"a": {"ints": list(range(49))}}), [f"{DEVICE}: invalid"]),
    "attribute without value": (with_device(attributes={"a": {}}), [f"{DEVICE}.attributes[a]: invalid"]),
    "attribute with two values": (
        with_device(attributes={"a": {"int": 1, "bool": True}}),
        [f"{DEVICE}.attributes[a]: invalid"],
    ),
    "attribute with an empty list": (
        with_device(attributes={"a": {"strings": []}}),
        [f"{DEVICE}.attributes[a]: invalid", f"{DEVICE}.attributes[a].strings: invalid"],
    ),
    "long string": (
        with_device(attributes={"a": {"string": "ä" * 33}}),  # bytes count, not characters
        [f"{DEVICE}.attributes[a].string: too_long"],
    ),
    "long string in a list": (
        with_device(attributes={"a": {"strings": ["x", "x" * 65]}}),
        [f"{DEVICE}.attributes[a].strings[1]: too_long"],
    ),
    "version with two numbers": (
        with_device(attributes={"a": {"version": "1.2"}}),
        [f"{DEVICE}.attributes[a].version: invalid"],
    ),
    "version with a leading zero": (
        with_device(attributes={"a": {"versions": ["1.2.3-01"]}}),
        [f"{DEVICE}.attributes[a].versions[0]: invalid"],
    ),
    "attribute name with a dash": (
        with_device(attributes={"a-b": {"int": 1}}),
        [f"{DEVICE}.attributes: invalid"],
    ),
    "attribute name too long": (
        with_device(attributes={"a" * 33: {"int": 1}}),
        [f"{DEVICE}.attributes: too_long"],
    ),
    "attribute without domain": (
        with_device(attributes={"/a": {"int": 1}}),
        [f"{DEVICE}.attributes: invalid"],
    ),
    "attribute with two slashes": (
        with_device(attributes={"a/b/c": {"int": 1}}),
        [],  # as in Kubernetes, by oversight
    ),
    "capacity name": (
        with_device(capacity={"1a": {"value": "1"}}),
        [f"{DEVICE}.capacity: invalid"],
    ),
    "policy on an exclusive device": (
        with_device(capacity={"memory": {"value": "10", "requestPolicy": {"default": "1"}}}),
        [f"{DEVICE}.capacity[memory].requestPolicy: forbidden"],
    ),
    "17 taints": (
        with_device(taints=[{"key": "a", "effect": "None"}] * 17),
        [f"{DEVICE}.taints: too_many"],
    ),
    "taint without key and effect": (
        with_device(taints=[{}]),
        [f"{DEVICE}.taints[0].key: invalid", f"{DEVICE}.taints[0].effect: required"],
    ),
    "taint effect": (
        with_device(taints=[{"key": "a", "effect": "PreferNoSchedule"}]),
        [f"{DEVICE}.taints[0].effect: not_supported"],
    ),
    "taint value": (
        with_device(taints=[{"key": "a", "value": "b c", "effect": "None"}]),
        [f"{DEVICE}.taints[0].value: invalid"],
    ),
    "three counter sets": (
        with_device(consumesCounters=[{**COUNTERS, "counterSet": f"s{n}"} for n in range(3)]),
        [f"{DEVICE}.consumesCounters: too_many"],
    ),
    "counter set consumed twice": (
        with_device(consumesCounters=[COUNTERS, COUNTERS]),
        [f"{DEVICE}.consumesCounters[1]: duplicate"],
    ),
    "no counter set": (
        with_device(consumesCounters=[{}]),
        [
            f"{DEVICE}.consumesCounters[0].counterSet: required",
            f"{DEVICE}.consumesCounters[0].counters: required",
        ],
    ),
    "three groups": (
        with_device(consumesCounters=[{**COUNTERS, "compatibilityGroups": ["a", "b", "c"]}]),
        [f"{DEVICE}.consumesCounters[0].compatibilityGroups: too_many"],
    ),
    "group twice": (
        with_device(consumesCounters=[{**COUNTERS, "compatibilityGroups": ["a", "a"]}]),
        [f"{DEVICE}.consumesCounters[0].compatibilityGroups[1]: duplicate"],
    ),
    "group name": (
        with_device(consumesCounters=[{**COUNTERS, "compatibilityGroups": ["A"]}]),
        [f"{DEVICE}.consumesCounters[0].compatibilityGroups[0]: invalid"],
    ),
    "device with nodes, slice with nodes": (with_device(nodeName="n"), [f"{DEVICE}: invalid"]),
    "device without nodes where each says": (
        slice_(nodeName=None, perDeviceNodeSelection=True),
        [f"{DEVICE}: required"],
    ),
    "device with nodes twice": (
        slice_(
            nodeName=None, perDeviceNodeSelection=True, devices=[device(nodeName="n", nodeSelector=SELECTOR)]
        ),
        [f"{DEVICE}: invalid"],
    ),
    "device with allNodes false": (
        slice_(nodeName=None, perDeviceNodeSelection=True, devices=[device(allNodes=False)]),
        [f"{DEVICE}: required", f"{DEVICE}.allNodes: invalid"],
    ),
    "conditions without failures": (
        with_device(bindingConditions=["a"]),
        [f"{DEVICE}.bindingFailureConditions: invalid"],
    ),
    "failures without conditions": (
        with_device(bindingFailureConditions=["a"]),
        [f"{DEVICE}.bindingConditions: invalid"],
    ),
    "five conditions": (
        with_device(bindingConditions=list("abcde"), bindingFailureConditions=["x"]),
        [f"{DEVICE}.bindingConditions: too_many"],
    ),
    "condition twice": (
        with_device(bindingConditions=["a", "a"], bindingFailureConditions=["x"]),
        [f"{DEVICE}.bindingConditions[1]: duplicate"],
    ),
    "condition and failure": (
        with_device(bindingConditions=["a"], bindingFailureConditions=["a"]),
        [f"{DEVICE}.bindingFailureConditions[0]: invalid"],
    ),
    "condition type": (
        with_device(bindingConditions=["a b"], bindingFailureConditions=["x"]),
        [f"{DEVICE}.bindingConditions[0]: invalid"],
    ),
    "extended resource mapped": (
        with_device(nodeAllocatableResources={"example.com/x": {"overhead": {"perPod": "1"}}}),
        [f"{DEVICE}.nodeAllocatableResources[example.com/x]: invalid"],
    ),
    "neither mapping nor overhead": (
        with_device(nodeAllocatableResources={"cpu": {}}),
        [f"{DEVICE}.nodeAllocatableResources[cpu]: required"],
    ),
    "empty overhead": (
        with_device(nodeAllocatableResources={"memory": {"overhead": {}}}),
        [f"{DEVICE}.nodeAllocatableResources[memory].overhead: invalid"],
    ),
    "negative overhead": (
        with_device(nodeAllocatableResources={"hugepages-2Mi": {"overhead": {"perContainer": "-1"}}}),
        [f"{DEVICE}.nodeAllocatableResources[hugepages-2Mi].overhead.perContainer: invalid"],
    ),
    "empty mapping": (mapped(), [f"{DEVICE}.nodeAllocatableResources[cpu].mapping: invalid"]),
    "mapping both ways": (
        mapped(capacityKey="cores", capacityMultiplier="1", deviceMultiplier="1"),
        [f"{DEVICE}.nodeAllocatableResources[cpu].mapping: invalid"],
    ),
    "mapping without multiplier": (
        mapped(capacityKey="cores"),
        [f"{DEVICE}.nodeAllocatableResources[cpu].mapping.capacityMultiplier: required"],
    ),
    "mapping of an unknown capacity": (
        mapped(capacityKey="threads", capacityMultiplier="1"),
        [f"{DEVICE}.nodeAllocatableResources[cpu].mapping.capacityKey: not_found"],
    ),
    "multiplier of zero": (
        mapped(deviceMultiplier="0"),
        [f"{DEVICE}.nodeAllocatableResources[cpu].mapping.deviceMultiplier: invalid"],
    ),
}


@pytest.mark.parametrize(("given", "errors"), BROKEN.values(), ids=BROKEN.keys())
def test_broken(given: ResourceSlice, errors: list[str]) -> None:
    assert shown(validate_slice(given)) == errors


POLICY = f"{DEVICE}.capacity[memory].requestPolicy"
RANGE = f"{POLICY}.validRange"
POLICIES: dict[str, tuple[Any, list[str]]] = {
    "values and range": (
        {"default": "1", "validValues": ["1"], "validRange": {"min": "1"}},
        [f"{POLICY}: forbidden"],
    ),
    "values without default": ({"validValues": ["1"]}, [f"{POLICY}.default: required"]),
    "eleven values": (
        {"default": "1", "validValues": [f"{n}00m" for n in range(1, 12)]},
        [f"{POLICY}.validValues: too_many"],
    ),
    "values out of order": (
        {"default": "1", "validValues": ["2", "1"]},
        [f"{POLICY}.validValues[1]: invalid"],
    ),
    "value twice": (
        {"default": "1", "validValues": ["1", "1000m"]},
        [f"{POLICY}.validValues[1]: duplicate"],
    ),
    "value beyond the capacity": (
        {"default": "1", "validValues": ["1", "11"]},
        [f"{POLICY}.validValues[1]: invalid"],
    ),
    "default that is no value": (
        {"default": "3", "validValues": ["1", "2"]},
        [f"{POLICY}.validValues: invalid"],
    ),
    "range without default": ({"validRange": {"min": "1"}}, [f"{POLICY}.default: required"]),
    "range without min": ({"default": "1", "validRange": {}}, [f"{RANGE}.min: required"]),
    "min beyond the capacity": ({"default": "11", "validRange": {"min": "11"}}, [f"{RANGE}.min: invalid"]),
    "default below min": ({"default": "1", "validRange": {"min": "2"}}, [f"{RANGE}.default: invalid"]),
    "max below min": (
        {"default": "3", "validRange": {"min": "3", "max": "2"}},
        [f"{RANGE}.max: invalid", f"{RANGE}.default: invalid"],
    ),
    "max beyond the capacity": (
        {"default": "1", "validRange": {"min": "1", "max": "11"}},
        [f"{RANGE}.max: invalid"],
    ),
    "step of zero": ({"default": "1", "validRange": {"min": "1", "step": "0"}}, [f"{RANGE}.step: invalid"]),
    "step beyond the capacity": (
        {"default": "1", "validRange": {"min": "1", "step": "10"}},
        [f"{RANGE}.step: invalid"],
    ),
    "default off the steps": (
        {"default": "2", "validRange": {"min": "1", "step": "2"}},
        [f"{RANGE}.step: invalid"],
    ),
    "max off the steps": (
        {"default": "1", "validRange": {"min": "1", "max": "4", "step": "2"}},
        [f"{RANGE}.step: invalid"],
    ),
    "micro units": (
        {"default": "1", "validRange": {"min": "1u", "step": "1"}},
        [f"{RANGE}.min: invalid"],
    ),
    "negative min with a step": (
        {"default": "1", "validRange": {"min": "-1", "step": "1"}},
        [f"{RANGE}.min: invalid"],
    ),
}


@pytest.mark.parametrize(("policy", "errors"), POLICIES.values(), ids=POLICIES.keys())
def test_broken_request_policy(policy: Any, errors: list[str]) -> None:
    assert shown(validate_slice(shared(policy))) == errors


def test_bounds_beyond_64_bits() -> None:
    policy = {"default": "1", "validRange": {"min": "1", "max": "18446744073709551616", "step": "1"}}
    assert shown(validate_slice(shared(policy, value="1e30"))) == [f"{RANGE}.max: invalid"]


METADATA: dict[str, tuple[Any, list[str]]] = {
    "no name": ({}, ["metadata.name: required"]),
    "generated name": ({"generateName": "gpu-"}, []),
    "broken generated name": ({"generateName": "GPU-"}, ["metadata.generateName: invalid"]),
    "name": ({"name": "a_b"}, ["metadata.name: invalid"]),
    "namespace": ({"name": "a", "namespace": "b"}, ["metadata.namespace: forbidden"]),
    "label key": ({"name": "a", "labels": {"a b": ""}}, ["metadata.labels: invalid"]),
    "label prefix": ({"name": "a", "labels": {"A_/b": ""}}, ["metadata.labels: invalid"]),
    "label value": ({"name": "a", "labels": {"a": "b c"}}, ["metadata.labels: invalid"]),
    "annotation key": ({"name": "a", "annotations": {"": "x"}}, ["metadata.annotations: invalid"]),
    "annotations too large": (
        {"name": "a", "annotations": {"a": "x" * (256 * 1024)}},
        ["metadata.annotations: too_long"],
    ),
    "finalizer": ({"name": "a", "finalizers": ["a b"]}, ["metadata.finalizers[0]: invalid"]),
}


@pytest.mark.parametrize(("metadata", "errors"), METADATA.values(), ids=METADATA.keys())
def test_metadata(metadata: Any, errors: list[str]) -> None:
    spec = {
        "driver": "a",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "allNodes": True,
    }
    given = decode(ResourceSlice, {"metadata": metadata, "spec": spec})
    assert shown(validate_slice(given)) == errors


def test_what_may_not_change() -> None:
    old = slice_()
    assert validate_slice_update(slice_(devices=[device("other")]), old) == []
    moved = slice_(
        driver="other.example.com",
        nodeName="node-2",
        pool={"name": "x", "generation": 2, "resourceSliceCount": 1},
    )
    assert shown(validate_slice_update(moved, old)) == [
        "spec.driver: invalid",
        "spec.pool.name: invalid",
        "spec.nodeName: invalid",
    ]
