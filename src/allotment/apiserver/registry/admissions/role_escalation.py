"""Keeps users from granting rights that they do not have.

To write a role, a user needs all rights in its rules, or the verb ``escalate`` on it. To write a binding, a user needs all
rights in the rules of its role, or the verb ``bind`` on the role. An aggregation rule can collect anything, so it needs
all rights. ``system:masters`` are exempt, and so is an update that only changes owners and finalizers.
"""

from __future__ import annotations

from allotment.api.status import forbidden, not_found
from allotment.apiserver.auth.authorization import MASTERS, Authorization
from allotment.apiserver.auth.identity import Attributes, Identity
from allotment.apiserver.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, GROUP, ROLE_BINDINGS, ROLES
from allotment.apiserver.auth.rule import Rule, compact, quoted_list, uncovered
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Obj

_EVERYTHING = (Rule(("*",), ("*",), ("*",)), Rule(("*",), paths=("*",)))
_COLLECTED = ("finalizers", "managedFields", "ownerReferences", "resourceVersion")


class RoleEscalation:
    """The admission check for the four kinds of RBAC."""

    judged = frozenset({ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS})

    def __init__(self, authorization: Authorization) -> None:
        self._authorization = authorization

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        if write.operation is Operation.DELETE or MASTERS in write.identity.groups:
            return
        if old is not None and _without_collected(obj) == _without_collected(old):
            return
        if resource.id in (ROLES, CLUSTER_ROLES):
            self._admit_role(resource, obj, old, write.identity)
        else:
            self._admit_binding(resource, obj, write.identity)

    def _admit_role(self, resource: Resource, role: Obj, old: Obj | None, identity: Identity) -> None:
        metadata = role["metadata"]
        name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
        escalate = Attributes(
            identity,
            "escalate",
            GROUP,
            "*",
            resource.plural,
            namespace=namespace,
            name=name if old is not None else "",  # for a create, authorization does not know the name
        )
        if self._authorization.decide(escalate).allowed:
            return
        rules = [Rule.from_json(rule) for rule in role.get("rules") or ()]
        self._confirm(resource, name, namespace, identity, rules)
        if _aggregates(role) or (old is not None and _aggregates(old)):
            owned = (granted.rule for granted in self._authorization.rbac.rules_for(identity, namespace))
            if uncovered(owned, _EVERYTHING):
                why = "must have cluster-admin privileges to use the aggregationRule"
                raise forbidden(resource.plural, name, resource.group, why)

    def _admit_binding(self, resource: Resource, binding: Obj, identity: Identity) -> None:
        metadata, reference = binding["metadata"], binding["roleRef"]
        namespace, kind, role = metadata.get("namespace", ""), reference["kind"], reference["name"]
        plural = "clusterroles" if kind == "ClusterRole" else "roles"
        group = reference.get("apiGroup", GROUP)
        bind = Attributes(identity, "bind", group, "*", plural, namespace=namespace, name=role)
        if self._authorization.decide(bind).allowed:
            return
        rules = self._authorization.rbac.role_rules(kind, role, namespace)
        if rules is None:
            raise not_found(plural, role, GROUP)
        self._confirm(resource, metadata.get("name", ""), namespace, identity, rules)

    def _confirm(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        identity: Identity,
        rules: list[Rule] | tuple[Rule, ...],
    ) -> None:
        owned = (granted.rule for granted in self._authorization.rbac.rules_for(identity, namespace))
        missing = uncovered(owned, rules)
        if not missing:
            return
        told = "\n".join(sorted({str(rule) for rule in compact(missing)}))
        who = f'user "{identity.name}" (groups={quoted_list(identity.groups)})'
        why = f"{who} is attempting to grant RBAC permissions not currently held:\n{told}"
        raise forbidden(resource.plural, name, resource.group, why)


def _aggregates(role: Obj) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _without_collected(obj: Obj) -> Obj:
    """The object without the fields that garbage collection writes."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _COLLECTED}
    return {**obj, "metadata": metadata}
