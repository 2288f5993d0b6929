"""NodeResourceSlices belong to their Node: each names it as its owner, so it goes away with the node.

A slice without the reference gets it. A slice that refers to another node, or to a node that does not exist (any more),
is refused. After a node returns under the same name, its slices must be created again.
"""

from __future__ import annotations

from typing import Any

from allotment.api.fields import FieldPath
from allotment.api.status import invalid
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategies import at
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Key, Obj
from allotment.apiserver.store.store import Store

RESOURCE = "noderesourceslices.resource.k8s.io"


class NodeSlices:
    mutated = judged = frozenset({RESOURCE})

    def __init__(self, store: Store) -> None:
        self._store = store

    def mutate(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        name = at(obj, "spec", "nodeName")
        if not isinstance(name, str) or not name:
            return  # validation reports an absent name
        node = self._store.head(Key("nodes", "", name))
        if node is None:
            if old is None:
                path = FieldPath("spec", "nodeName")
                raise _refused(obj, path.not_found("must be a node of the cluster", name))
            return  # the garbage collector will come soon; others may finish their writes
        reference = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.load()["metadata"]["uid"]}
        owners = obj["metadata"].get("ownerReferences") or []
        if not any(_means(owner, reference) for owner in owners):
            obj["metadata"]["ownerReferences"] = [*owners, reference]

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        if write.operation is Operation.DELETE:
            return
        name = at(obj, "spec", "nodeName")
        for index, owner in enumerate(obj["metadata"].get("ownerReferences") or ()):
            if owner.get("kind") == "Node" and owner.get("name") != name:
                path = FieldPath("metadata", "ownerReferences").index(index).child("name")
                raise _refused(obj, path.invalid("must be the node of the slice", owner.get("name")))


def _means(owner: Any, reference: Obj) -> bool:
    return isinstance(owner, dict) and all(owner.get(name) == value for name, value in reference.items())


def _refused(obj: Obj, error: Any) -> Exception:
    return invalid("NodeResourceSlice", obj["metadata"].get("name") or "", [error], "resource.k8s.io")
