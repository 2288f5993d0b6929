"""Builders for tests of simulated nodes: small objects as plain JSON, and a clock that moves when it is told to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from allotment.api import codec
from allotment.api.core import Node, Pod
from allotment.api.resource import ResourceClaim, ResourceSlice
from tests.builders.plain import claim, node, pod

Obj = dict[str, Any]

GPU = "gpu.example.com"
CARDS = "cards.example.com"
"""A driver that publishes semantic trees."""


class Time:
    """Both kinds of clock that controllers take."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def clock(self) -> float:
        return self.seconds

    def pass_(self, seconds: float) -> None:
        self.seconds += seconds


def simulated_node(name: str = "ada", *, simulated: bool = True, ready: str = "True", **labels: str) -> Obj:
    marks = {"allotment.dev/simulated": "true"} if simulated else {}
    return node(name, {**marks, **labels}, conditions=[{"type": "Ready", "status": ready}] if ready else [])


def placed_pod(
    name: str = "p", *, on: str = "ada", claims: tuple[Obj, ...] = (), marks: Mapping[str, str] | None = None
) -> Obj:
    """A pod on a node. Marks are annotations, given by their last part: ``{"run-seconds": "0"}``."""
    meta = {"annotations": {f"allotment.dev/{key}": value for key, value in (marks or {}).items()}}
    spec: Obj = {"resourceClaims": list(claims)} if claims else {}
    if on:
        spec["nodeName"] = on
    return pod(name, namespace="default", image="busybox", meta=meta, restartPolicy="Never", **spec)


def slice_(*devices: str, pool: str = "ada", generation: int = 1, **spec: Any) -> Obj:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{pool}-{generation}"},
        "spec": {
            "driver": GPU,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
            "devices": [{"name": device} for device in devices],
            **(spec or {"nodeName": "ada"}),
        },
    }


def gpu_claim(name: str = "c") -> Obj:
    return claim(name, "gpu", namespace="default")


def allocation(*devices: str, pool: str = "ada", **result: Any) -> Obj:
    return {
        "devices": {
            "results": [
                {"request": "gpu", "driver": GPU, "pool": pool, "device": device, **result}
                for device in devices
            ]
        }
    }


def tree(*quarters: str) -> Obj:
    parts = {"name": "quarters", "resourceInstances": [{"name": each} for each in quarters]}
    return {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "NodeResourceSlice",
        "metadata": {"name": "ada-cards"},
        "spec": {
            "nodeName": "ada",
            "driverName": CARDS,
            "partitionable": {"resourceInstances": [{"name": "card-0", "partitions": [parts]}]},
        },
    }


def semantic_allocation(*ids: str) -> Obj:
    data = {"nodeName": "ada", "partitionable": {"instances": [{"id": id} for id in ids]}}
    return {"resourceHandles": [{"driverName": CARDS, "semanticData": data}]}


def user(pod: Obj) -> Obj:
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def typed_pod(obj: Obj) -> Pod:
    return codec.decode(Pod, msgspec.json.encode(obj))


def typed_node(obj: Obj) -> Node:
    return codec.decode(Node, msgspec.json.encode(obj))


def typed_claim(obj: Obj) -> ResourceClaim:
    return codec.decode(ResourceClaim, msgspec.json.encode(obj))


def typed_slice(obj: Obj) -> ResourceSlice:
    return codec.decode(ResourceSlice, msgspec.json.encode(obj))
