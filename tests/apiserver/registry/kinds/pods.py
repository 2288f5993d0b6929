"""Pods and what surrounds them, for tests of their actions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry.resource import ActionCall
from allotment.apiserver.store.record import Key, Obj, Record
from tests.builders.plain import pod

NOW = "2026-11-16T05:00:00Z"


def running_pod(*, phase: str = "Running", ready: bool = True, **spec: Any) -> Obj:
    meta = {"uid": "u", "resourceVersion": "7"}
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}] if ready else []}
    return pod("p", {"app": "x"}, namespace="n", image="i", meta=meta, status=status, **spec)


def budget(name: str = "b", *, generation: int = 1, app: str = "x", **status: Any) -> Obj:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "n", "generation": generation},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"observedGeneration": 1, **status},
    }


class Server:
    """What actions may ask of the server, over given objects."""

    def __init__(self, *objects: Obj) -> None:
        self._objects = objects

    def head(self, key: Key) -> Record | None:
        return None

    def heads(self, resource: str, namespace: str = "") -> Iterable[Record]:
        for obj in self._objects:
            if resource == "poddisruptionbudgets.policy" and obj["metadata"]["namespace"] == namespace:
                yield Record(Key(resource, namespace, obj["metadata"]["name"]), 1, msgspec.json.encode(obj))

    def issue_token(self, namespace: str, name: str, uid: str, request: Obj) -> Obj:
        return {**request, "status": {"token": f"{namespace}/{name}/{uid}"}}


def call(*objects: Obj) -> ActionCall:
    return ActionCall(ADMINISTRATOR, NOW, dry_run=False, server=Server(*objects))
