"""Restores the default roles and bindings of ``roles.py`` in the store at every start.

It creates missing objects. Existing ones get back the rules, subjects, labels and aggregation that somebody removed, and
keep what was added, unless they have ``rbac.authorization.kubernetes.io/autoupdate: "false"``: those are left alone. A
binding to a different role is created anew, as a binding's role cannot change. Upstream does the same.

An aggregated role is stored with its rules according to the table, for people to read; decisions never use them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, Protocol

from allotment.apiserver.auth.follow import Heads
from allotment.apiserver.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, GROUP, ROLE_BINDINGS
from allotment.apiserver.auth.rbac import ROLES as ROLES_RESOURCE
from allotment.apiserver.auth.roles import BINDINGS, ROLES, DefaultBinding, DefaultRole, rule
from allotment.apiserver.auth.rule import Rule, uncovered
from allotment.apiserver.store.record import Key, Obj

_AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


class Stores(Heads, Protocol):
    """The parts of the store that bootstrapping needs; awaiting the result of ``put`` waits until the write is durable."""

    def put(self, key: Key, obj: Obj) -> Any: ...


def bring_defaults(store: Stores, now: str, client_ca: bytes = b"") -> list[Any]:
    """Writes what differs from the table; ``now`` is RFC 3339. Await the results to know that they are durable.

    ``client_ca`` (PEM) is published where servers that delegate authentication to this one expect it.
    """
    pending = _publish(store, now, client_ca) if client_ca else []
    for key, wanted in defaults():
        record = store.head(key)
        if record is None:
            changed: Obj | None = _new(wanted, now)
        else:
            changed = _reconciled(record.load(), wanted, now)
        if changed is not None:
            pending.append(store.put(key, changed))
    return pending


def _publish(store: Stores, now: str, client_ca: bytes) -> list[Any]:
    """kube-scheduler and kube-controller-manager read this ConfigMap to learn which client certificates to trust."""
    key = Key("configmaps", "kube-system", "extension-apiserver-authentication")
    data = {"client-ca-file": client_ca.decode()}
    record = store.head(key)
    metadata = {"name": key.name, "namespace": key.namespace}
    obj = (
        record.load()
        if record
        else _new({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, now)
    )
    if obj.get("data") == data:
        return []
    return [store.put(key, {**obj, "data": data})]


def defaults() -> Iterator[tuple[Key, Obj]]:
    """The objects of the table, without uid and times."""
    for role in ROLES:
        resource = ROLES_RESOURCE if role.namespace else CLUSTER_ROLES
        yield Key(resource, role.namespace, role.name), _role(role)
    for binding in BINDINGS:
        resource = ROLE_BINDINGS if binding.namespace else CLUSTER_ROLE_BINDINGS
        yield Key(resource, binding.namespace, binding.name or binding.role), _binding(binding)


def _metadata(name: str, namespace: str, aggregated_to: tuple[str, ...] = ()) -> Obj:
    metadata: Obj = {
        "name": name,
        "labels": {
            "kubernetes.io/bootstrapping": "rbac-defaults",
            **{_AGGREGATE + role: "true" for role in aggregated_to},
        },
        "annotations": {_AUTOUPDATE: "true"},
    }
    return {**metadata, "namespace": namespace} if namespace else metadata


def _role(role: DefaultRole) -> Obj:
    obj: Obj = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Role" if role.namespace else "ClusterRole",
        "metadata": _metadata(role.name, role.namespace, role.labels),
        "rules": [one.to_json() for one in rules_of(role)],
    }
    if role.aggregates:
        obj["aggregationRule"] = {
            "clusterRoleSelectors": [{"matchLabels": {_AGGREGATE + role.aggregates: "true"}}]
        }
    return obj


def rules_of(role: DefaultRole) -> list[Rule]:
    """The rules of a role of the table; for an aggregated role, those of the roles that it collects."""
    if not role.aggregates:
        return [rule(line) for line in role.rules]
    parts = (part for part in ROLES if role.aggregates in part.labels)
    return list(dict.fromkeys(one for part in parts for one in rules_of(part)))


def _binding(binding: DefaultBinding) -> Obj:
    name = binding.name or binding.role
    obj: Obj = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding" if binding.namespace else "ClusterRoleBinding",
        "metadata": _metadata(name, binding.namespace),
        "roleRef": {
            "apiGroup": GROUP,
            "kind": "Role" if binding.namespace else "ClusterRole",
            "name": binding.role,
        },
    }
    if binding.subjects:
        obj["subjects"] = [_subject(subject) for subject in binding.subjects]
    return obj


def _subject(subject: str) -> Obj:
    kind, _, name = subject.partition(":")
    if kind == "account":
        namespace, _, account = name.partition("/")
        return {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return {"kind": {"user": "User", "group": "Group"}[kind], "apiGroup": GROUP, "name": name}


def _new(wanted: Obj, now: str) -> Obj:
    metadata = {**wanted["metadata"], "uid": str(uuid.uuid4()), "creationTimestamp": now}
    return {**wanted, "metadata": metadata}


def _reconciled(stored: Obj, wanted: Obj, now: str) -> Obj | None:
    """The stored object with its missing parts, or None if nothing is missing or it opted out."""
    metadata = stored["metadata"]
    annotations = metadata.get("annotations") or {}
    if annotations.get(_AUTOUPDATE) == "false" or metadata.get("deletionTimestamp"):
        return None
    if "roleRef" in wanted and stored.get("roleRef") != wanted["roleRef"]:
        return _new(wanted, now)
    changed = {**stored, "metadata": {**metadata}}
    for part in ("labels", "annotations"):
        changed["metadata"][part] = {**wanted["metadata"][part], **(metadata.get(part) or {})}
    if "roleRef" in wanted:
        _add_missing(changed, wanted, "subjects")
    else:
        _restore_role(changed, wanted)
    return changed if changed != stored else None


def _restore_role(changed: Obj, wanted: Obj) -> None:
    there = changed.get("rules") or ()
    lacking = [one for one in wanted["rules"] if one not in there]  # only these need decoding
    missing = uncovered(map(Rule.from_json, there), map(Rule.from_json, lacking)) if lacking else ()
    if missing:
        changed["rules"] = [*there, *(one.to_json() for one in missing)]
    if "aggregationRule" not in wanted:
        changed.pop("aggregationRule", None)
    else:
        changed["aggregationRule"] = dict(changed.get("aggregationRule") or {})
        _add_missing(changed["aggregationRule"], wanted["aggregationRule"], "clusterRoleSelectors")


def _add_missing(changed: Obj, wanted: Obj, part: str) -> None:
    there = list(changed.get(part) or ())
    lacking = [one for one in wanted.get(part) or () if one not in there]
    if lacking:
        changed[part] = there + lacking
