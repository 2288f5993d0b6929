"""A store that remembers and tells, for tests of what follows one; and objects to put into it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from allotment.apiserver.auth.follow import Follower
from allotment.apiserver.auth.rbac import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    GROUP,
    ROLE_BINDINGS,
    ROLES,
)
from allotment.apiserver.store.record import Key, Obj, Record


class MemoryStore:
    """Follows the promises of the real one that auth relies on: at once what there is, then every change in order."""

    def __init__(self) -> None:
        self._records: dict[Key, Record] = {}
        self._followers: dict[str, list[Follower]] = {}
        self.revision = 0

    def follow(self, resource: str, follower: Follower) -> None:
        for key, record in self._records.items():
            if key.resource == resource:
                follower(None, record)
        self._followers.setdefault(resource, []).append(follower)

    def head(self, key: Key) -> Record | None:
        return self._records.get(key)

    def put(self, key: Key, obj: Obj) -> Record:
        self.revision += 1
        obj.setdefault("metadata", {})["resourceVersion"] = str(self.revision)
        record = Record(key, self.revision, msgspec.json.encode(obj))
        previous = self._records.get(key)
        self._records[key] = record
        self._tell(key, previous, record)
        return record

    def delete(self, key: Key) -> None:
        self._tell(key, self._records.pop(key), None)

    def undo(self, record: Record, previous: Record | None) -> None:
        """As on a failed commit: the last write is told backwards."""
        if previous is None:
            del self._records[record.key]
        else:
            self._records[record.key] = previous
        self._tell(record.key, record, previous)

    def _tell(self, key: Key, previous: Record | None, current: Record | None) -> None:
        for follower in self._followers.get(key.resource, ()):
            follower(previous, current)

    # --- objects

    def add(self, resource: str, name: str, namespace: str = "", **parts: Any) -> Record:
        metadata = {"name": name, "uid": f"uid-of-{name}", **parts.pop("metadata", {})}
        if namespace:
            metadata["namespace"] = namespace
        return self.put(Key(resource, namespace, name), {"metadata": metadata, **parts})

    def role(
        self,
        name: str,
        *rules: Mapping[str, list[str]],
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
        aggregates: Mapping[str, Any] | None = None,
    ) -> Record:
        parts: Obj = {"rules": list(rules), "metadata": {"labels": dict(labels or {})}}
        if aggregates is not None:
            parts["aggregationRule"] = {"clusterRoleSelectors": [aggregates]}
        return self.add(ROLES if namespace else CLUSTER_ROLES, name, namespace, **parts)

    def bind(
        self, role: str, *subjects: str, namespace: str = "", cluster_role: bool = True, name: str = ""
    ) -> Record:
        """Subjects are ``user:…``, ``group:…`` or ``account:NAMESPACE/NAME``."""
        kind = "ClusterRole" if cluster_role else "Role"
        return self.add(
            ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS,
            name or f"{role}-binding",
            namespace,
            roleRef={"apiGroup": GROUP, "kind": kind, "name": role},
            subjects=[subject(one) for one in subjects],
        )


def subject(text: str) -> Obj:
    kind, _, name = text.partition(":")
    if kind == "account":
        namespace, _, account = name.partition("/")
        return {"kind": "ServiceAccount", "name": account, **({"namespace": namespace} if namespace else {})}
    return {"kind": kind.capitalize(), "apiGroup": GROUP, "name": name}


def rule(
    verbs: Iterable[str],
    resources: Iterable[str] = (),
    groups: Iterable[str] = ("",),
    names: Iterable[str] = (),
) -> dict[str, list[str]]:
    return {
        "verbs": list(verbs),
        "apiGroups": list(groups),
        "resources": list(resources),
        **({"resourceNames": list(names)} if names else {}),
    }


def paths(verbs: Iterable[str], *urls: str) -> dict[str, list[str]]:
    return {"verbs": list(verbs), "nonResourceURLs": list(urls)}
