"""adminAccess gives access to devices in use by others, so only namespaces that an administrator labelled may request it.

Checked for new claims and templates, and for an allocation that grants it for the first time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.api.fields import FieldPath
from allotment.api.status import invalid
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategies import at
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Key, Obj
from allotment.apiserver.store.store import Store

LABEL = "resource.kubernetes.io/admin-access"
CLAIMS = "resourceclaims.resource.k8s.io"
TEMPLATES = "resourceclaimtemplates.resource.k8s.io"


class AdminAccess:
    judged = frozenset({CLAIMS, TEMPLATES})

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        if write.operation is Operation.DELETE:
            return
        path = next(_asked(resource, obj, old, write), None)
        if path is None or self._labelled(obj["metadata"]["namespace"]):
            return
        why = f"admin access to devices requires the `{LABEL}: true` label on the containing namespace"
        raise invalid(resource.kind, obj["metadata"]["name"], [path.forbidden(why)], resource.group)

    def _labelled(self, namespace: str) -> bool:
        record = self._store.head(Key("namespaces", "", namespace))
        return record is not None and record.labels.get(LABEL) == "true"


def _asked(resource: Resource, obj: Obj, old: Obj | None, write: Write) -> Iterator[FieldPath]:
    """The paths at which admin access is newly requested."""
    if write.subresource == "status":
        results = ("status", "allocation", "devices", "results")
        granted = [index for index, each in enumerate(_entries(obj, *results)) if each.get("adminAccess")]
        if granted and not any(each.get("adminAccess") for each in _entries(old or {}, *results)):
            for index in granted:
                yield FieldPath(*results).index(index).child("adminAccess")
    elif old is None:
        inner = ("spec", "spec") if resource.id == TEMPLATES else ("spec",)
        for index, request in enumerate(_entries(obj, *inner, "devices", "requests")):
            if at(request, "exactly", "adminAccess"):
                # like upstream, without "exactly" and without the template's inner spec
                yield FieldPath("spec", "devices", "requests").index(index).child("adminAccess")


def _entries(obj: Obj, *path: str) -> list[Any]:
    entries = at(obj, *path)
    return entries if isinstance(entries, list) else []
