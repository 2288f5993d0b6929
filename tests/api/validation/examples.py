"""One object of each device kind that uses every field of the API at least once, and is valid."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_OPAQUE = {
    "opaque": {"driver": "gpu.example.com", "parameters": {"apiVersion": "example.com/v1", "kind": "Config"}}
}
_SELECTOR = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
_NODES = {
    "nodeSelectorTerms": [
        {
            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}],
        }
    ]
}
_TOLERATIONS = [
    {
        "key": "example.com/broken",
        "operator": "Equal",
        "value": "yes",
        "effect": "NoExecute",
        "tolerationSeconds": 60,
    },
    {"operator": "Exists", "effect": "NoSchedule"},
]


def _object(kind: str, **content: Any) -> Json:
    namespace = {"namespace": "default"} if kind.startswith("ResourceClaim") else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "example", **namespace},
        **content,
    }


_DEVICES: Json = {
    "requests": [
        {
            "name": "gpu",
            "exactly": {
                "deviceClassName": "gpu.example.com",
                "selectors": [_SELECTOR],
                "allocationMode": "ExactCount",
                "count": 2,
                "tolerations": _TOLERATIONS,
                "capacity": {"requests": {"memory": "10Gi", "a.example.com/b": "1"}},
                "derivedAttributes": [{"name": "example.com/half", "expression": "1"}],
            },
        },
        {
            "name": "nic",
            "firstAvailable": [
                {"name": "fast", "deviceClassName": "fast.example.com", "selectors": [_SELECTOR], "count": 1},
                {"name": "any", "deviceClassName": "nic.example.com", "allocationMode": "All"},
            ],
        },
    ],
    "constraints": [
        {"requests": ["gpu", "nic/fast"], "matchAttribute": "example.com/numa"},
        {"distinctAttribute": "example.com/half"},
    ],
    "config": [{"requests": ["gpu"], **_OPAQUE}, _OPAQUE],
}

CLAIM = _object("ResourceClaim", spec={"devices": _DEVICES})
TEMPLATE = _object(
    "ResourceClaimTemplate",
    spec={"metadata": {"labels": {"app": "x"}, "annotations": {"a": "b"}}, "spec": {"devices": _DEVICES}},
)
CLASS = _object(
    "DeviceClass",
    spec={"selectors": [_SELECTOR], "config": [_OPAQUE], "extendedResourceName": "example.com/gpu"},
)
TAINT_RULE = _object(
    "DeviceTaintRule",
    spec={
        "deviceSelector": {"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"},
        "taint": {
            "key": "example.com/broken",
            "value": "yes",
            "effect": "NoExecute",
            "timeAdded": "2026-01-02T03:04:05Z",
        },
    },
)

_POOL = {"name": "pool-1", "generation": 1, "resourceSliceCount": 2}
SLICE = _object(
    "ResourceSlice",
    spec={
        "driver": "gpu.example.com",
        "pool": _POOL,
        "nodeName": "node-1",
        "skipNodeOperations": ["NodePrepareResources", "NodeUnprepareResources"],
        "partitionTypeAttribute": "gpu.example.com/model",
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {
                    "model": {"string": "a100"},
                    "index": {"int": 3},
                    "ok": {"bool": True},
                    "example.com/driver": {"version": "1.2.3"},
                    "numa": {"ints": [1, 2]},
                    "flags": {"bools": [True]},
                    "names": {"strings": ["a", "b"]},
                    "versions": {"versions": ["1.0.0"]},
                },
                "capacity": {
                    "memory": {
                        "value": "80Gi",
                        "requestPolicy": {
                            "default": "1Gi",
                            "validRange": {"min": "1Gi", "max": "80Gi", "step": "1Gi"},
                        },
                    },
                    "cores": {
                        "value": "8",
                        "requestPolicy": {"default": "1", "validValues": ["1", "2", "4"]},
                    },
                    "example.com/plain": {"value": "5"},
                },
                "consumesCounters": [
                    {
                        "counterSet": "card",
                        "counters": {"memory": {"value": "10Gi"}},
                        "compatibilityGroups": ["a"],
                    }
                ],
                "taints": [{"key": "example.com/t", "value": "v", "effect": "NoSchedule"}],
                "bindsToNode": True,
                "bindingConditions": ["example.com/attached"],
                "bindingFailureConditions": ["example.com/failed"],
                "allowMultipleAllocations": True,
                "nodeAllocatableResources": {
                    "memory": {
                        "mapping": {"capacityKey": "memory", "capacityMultiplier": "2"},
                        "overhead": {"perPod": "1Mi", "perContainer": "1Mi"},
                    },
                    "cpu": {"mapping": {"deviceMultiplier": "1"}},
                },
            }
        ],
    },
)
PLAIN_SLICE = _object(
    "ResourceSlice",
    spec={
        "driver": "gpu.example.com",
        "pool": _POOL,
        "nodeSelector": {"nodeSelectorTerms": [_NODES["nodeSelectorTerms"][0]]},
        "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "a100"}}}, {"name": "gpu-1"}],
    },
)
PER_DEVICE_SLICE = _object(
    "ResourceSlice",
    spec={
        "driver": "gpu.example.com",
        "pool": _POOL,
        "perDeviceNodeSelection": True,
        "devices": [
            {"name": "gpu-0", "nodeName": "node-1"},
            {"name": "gpu-1", "allNodes": True},
            {"name": "gpu-2", "nodeSelector": _NODES},
        ],
    },
)
COUNTERS_SLICE = _object(
    "ResourceSlice",
    spec={
        "driver": "gpu.example.com",
        "pool": _POOL,
        "allNodes": True,
        "sharedCounters": [
            {"name": "card", "counters": {"memory": {"value": "80Gi"}, "cores": {"value": "8"}}}
        ],
    },
)

EXAMPLES = (CLAIM, TEMPLATE, CLASS, TAINT_RULE, SLICE, PLAIN_SLICE, PER_DEVICE_SLICE, COUNTERS_SLICE)

STATUS: Json = {
    "allocation": {
        "devices": {
            "results": [
                {
                    "request": "gpu",
                    "driver": "gpu.example.com",
                    "pool": "node-1",
                    "device": "gpu-0",
                    "tolerations": _TOLERATIONS,
                    "bindingConditions": ["example.com/attached"],
                    "bindingFailureConditions": ["example.com/failed"],
                    "shareID": "0f8fad5b-d9cb-469f-a165-70867728950e",
                    "consumedCapacity": {"memory": "1Gi"},
                    "skipNodeOperations": ["NodePrepareResources", "NodeUnprepareResources"],
                },
                {"request": "nic/fast", "driver": "nic.example.com", "pool": "node-1", "device": "nic-0"},
            ],
            "config": [
                {"source": "FromClass", "requests": ["gpu"], **_OPAQUE},
                {"source": "FromClaim", **_OPAQUE},
            ],
        },
        "nodeSelector": _NODES,
        "allocationTimestamp": "2026-01-02T03:04:05Z",
    },
    "reservedFor": [
        {"resource": "pods", "name": "pod-1", "uid": "u1"},
        {"apiGroup": "example.com", "resource": "things", "name": "t", "uid": "u2"},
    ],
    "devices": [
        {
            "driver": "nic.example.com",
            "pool": "node-1",
            "device": "nic-0",
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "observedGeneration": 1,
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                    "reason": "Up",
                    "message": "fine",
                }
            ],
            "data": {"vendor": {"speed": 1}},
            "networkData": {
                "interfaceName": "eth0",
                "ips": ["192.0.2.5/24", "2001:db8::5/64"],
                "hardwareAddress": "00:11:22:33:44:55",
            },
        }
    ],
}
"""A status of ``CLAIM`` with everything in it."""

POOL_STATUS_REQUEST: Json = {
    "apiVersion": "resource.k8s.io/v1alpha3",
    "kind": "ResourcePoolStatusRequest",
    "metadata": {"name": "example"},
    "spec": {
        "driver": "gpu.example.com",
        "poolName": "rack/node-1",
        "limit": 5,
        "defaultPartitionTypeAttribute": "gpu.example.com/profile",
    },
}

POOL_STATUS_ANSWER: Json = {
    "poolCount": 1,
    "pools": [
        {
            "driver": "gpu.example.com",
            "poolName": "node-1",
            "generation": 1,
            "resourceSliceCount": 1,
            "totalDevices": 4,
            "allocatedDevices": 1,
            "availableDevices": 2,
            "unavailableDevices": 1,
            "nodeName": "node-1",
            "validationError": "PoolIncomplete",
            "partitionSummary": [
                {"attribute": "gpu.example.com/profile", "type": "Half", "total": 2, "allocatable": 1}
            ],
            "shareableSummary": {
                "fullyAvailableDevices": 1,
                "partiallyAvailableDevices": 0,
                "capacity": [{"name": "memory", "total": "10Gi", "consumed": "0", "available": "10Gi"}],
            },
        }
    ],
    "conditions": [
        {
            "type": "Complete",
            "status": "True",
            "reason": "CalculationComplete",
            "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }
    ],
}
