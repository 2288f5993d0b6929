"""Keeps indispensable namespaces from being deleted. The pipeline checks that new objects have a namespace."""

from __future__ import annotations

from allotment.api.status import forbidden
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Obj

ESSENTIAL = frozenset({"default", "kube-system", "kube-public"})


class NamespaceLifecycle:
    judged = frozenset({"namespaces"})

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        name = obj["metadata"].get("name") or ""
        if write.operation is Operation.DELETE and name in ESSENTIAL:
            raise forbidden("namespaces", name, why="this namespace may not be deleted")
