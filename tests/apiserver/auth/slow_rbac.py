"""RBAC as its documentation says it, over the stored objects, without indexes or caches: the judge of the fast one."""

from __future__ import annotations

from typing import Any

from allotment.apiserver.auth.identity import Attributes, Identity
from allotment.apiserver.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from allotment.apiserver.store.record import Key
from tests.apiserver.auth.memory import MemoryStore

Objects = list[tuple[Key, dict[str, Any]]]


class Judge:
    """Judges by the objects as they are when it is made."""

    def __init__(self, store: MemoryStore) -> None:
        self._objects = [(key, record.load()) for key, record in store._records.items()]

        self._held: dict[tuple[str, tuple[str, ...], str], list[dict[str, list[str]]]] = {}

    def allows(self, asked: Attributes) -> bool:
        return any(_allows(rule, asked) for rule in self._rules(asked.identity, asked.namespace))

    def _rules(self, identity: Identity, namespace: str) -> list[dict[str, list[str]]]:
        who = (identity.name, identity.groups, namespace)
        if who not in self._held:
            self._held[who] = [
                rule
                for key, binding in self._objects
                if key.resource == CLUSTER_ROLE_BINDINGS
                or (key.resource == ROLE_BINDINGS and key.namespace == namespace)
                if any(_is(one, identity, key.namespace) for one in binding.get("subjects", []))
                for rule in _rules(self._objects, binding["roleRef"], key.namespace)
            ]
        return self._held[who]


def _is(subject: dict[str, Any], identity: Identity, namespace: str) -> bool:
    if subject["kind"] == "User":
        return bool(identity.name == subject["name"])
    if subject["kind"] == "Group":
        return subject["name"] in identity.groups
    home = subject.get("namespace", namespace)
    return bool(home) and identity.name == f"system:serviceaccount:{home}:{subject['name']}"


def _rules(objects: Objects, reference: dict[str, str], namespace: str) -> list[dict[str, list[str]]]:
    for key, role in objects:
        if key.name != reference["name"]:
            continue
        if reference["kind"] == "ClusterRole" and key.resource == CLUSTER_ROLES:
            return _cluster_rules(objects, role, frozenset())
        if reference["kind"] == "Role" and key.resource == ROLES and key.namespace == namespace:
            rules: list[dict[str, list[str]]] = role["rules"]
            return rules
    return []


def _cluster_rules(
    objects: Objects, role: dict[str, Any], above: frozenset[str]
) -> list[dict[str, list[str]]]:
    if "aggregationRule" not in role:
        plain: list[dict[str, list[str]]] = role["rules"]
        return plain
    name = role["metadata"]["name"]
    found: list[dict[str, list[str]]] = []
    for key, other in objects:
        if key.resource != CLUSTER_ROLES or key.name == name or key.name in above:
            continue
        labels = other["metadata"].get("labels", {})
        for selector in role["aggregationRule"]["clusterRoleSelectors"]:
            if all(labels.get(label) == value for label, value in selector["matchLabels"].items()):
                found += _cluster_rules(objects, other, above | {name})
    return found


def _allows(rule: dict[str, list[str]], asked: Attributes) -> bool:
    if not {asked.verb, "*"} & set(rule["verbs"]):
        return False
    if not asked.resource:
        for url in rule.get("nonResourceURLs", []):
            if url == asked.path or (url.endswith("*") and asked.path.startswith(url[:-1])):
                return True
        return False
    whole = asked.resource + ("/" + asked.subresource if asked.subresource else "")
    accepted = {whole, "*"} | ({"*/" + asked.subresource} if asked.subresource else set())
    names = rule.get("resourceNames", [])
    return (
        bool({asked.group, "*"} & set(rule.get("apiGroups", [])))
        and bool(accepted & set(rule.get("resources", [])))
        and (not names or asked.name in names)
    )
