"""Role-based access: roles and bindings followed from the store, compiled so that a decision is a few look-ups.

There are three steps; the results of each are cached until the next change of any role or binding:

1. who and where: the roles that bindings give this user and these groups in this namespace, with the binding each
   comes from (cluster-wide bindings first, then the namespace's, each by name, so that reasons do not vary);
2. what: of their rules, those that hold for this verb, group and resource (``role_rules.py``), folded into "any name, by
   that binding" and "these names, by those bindings";
3. the name: one look-up.

The caches are bounded: each is dropped as a whole when it exceeds a limit, and the keys of step 2 contain nothing that a
caller can invent without end (names, paths).

A cluster role with an aggregation rule has the rules of the cluster roles that its selectors match, whatever it stores
itself; those may aggregate in turn. A binding to a role that does not exist grants nothing, and a refusal says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from allotment.apiserver.auth.follow import Follows
from allotment.apiserver.auth.identity import AccessDecision, Attributes, Identity
from allotment.apiserver.auth.role_rules import Question, RoleRules
from allotment.apiserver.auth.rule import Rule
from allotment.apiserver.auth.selector import selects
from allotment.apiserver.store.record import Key, Obj, Record

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"

_GRANTS_REMEMBERED = 4096  # limits on cached subjects with a namespace, and on questions for each
_NO = AccessDecision(False)


class Granted(NamedTuple):
    """A rule that a user has, and a description of its origin."""

    rule: Rule
    source: str


class _Subject(NamedTuple):
    kind: str  # User or Group; a service account is a User
    name: str


@dataclass(frozen=True, slots=True)
class _Binding:
    """The role that one binding gives to one subject."""

    role: Key
    source: str


@dataclass(slots=True)
class _ClusterRole:
    rules: RoleRules
    labels: Mapping[str, str]
    selectors: tuple[Mapping[str, Any], ...]  # of the aggregation rule


@dataclass(slots=True)
class _Answer:
    """The bindings that grant a verb on a resource: for any name, and for single names that an earlier binding grants."""

    any: AccessDecision  # a refusal if no binding grants it
    names: dict[str, AccessDecision] = field(default_factory=dict)


@dataclass(slots=True)
class _Grants:
    """Everything that one subject may do in one namespace, and the answers computed so far."""

    roles: tuple[tuple[RoleRules, str], ...]  # with the words for where each comes from
    refusal: AccessDecision
    answers: dict[Question, _Answer] = field(default_factory=dict)

    @property
    def rules(self) -> Iterator[Granted]:
        return (Granted(rule, source) for role, source in self.roles for rule in role.rules)


class Rbac:
    """The authorizer over the stored roles and bindings. It grants or has no opinion; it never denies."""

    def __init__(self, store: Follows) -> None:
        self._roles: dict[Key, RoleRules] = {}
        self._cluster_roles: dict[str, _ClusterRole] = {}
        self._bindings: dict[_Subject, dict[Key, _Binding]] = {}
        self._grants: dict[tuple[str, tuple[str, ...], str], _Grants] = {}
        self._aggregated: dict[str, RoleRules] = {}
        store.follow(ROLES, self._role_changed)
        store.follow(CLUSTER_ROLES, self._cluster_role_changed)
        store.follow(ROLE_BINDINGS, self._binding_changed)
        store.follow(CLUSTER_ROLE_BINDINGS, self._binding_changed)

    # --- decisions

    def decide(self, attributes: Attributes) -> AccessDecision:
        identity = attributes.identity
        grants = self._grants_of(identity, attributes.namespace)
        if not attributes.resource:
            return _by_path(grants, attributes.verb, attributes.path)
        question = (attributes.verb, attributes.group, attributes.resource, attributes.subresource)
        answer = grants.answers.get(question)
        if answer is None:
            if len(grants.answers) >= _GRANTS_REMEMBERED:
                grants.answers.clear()
            answer = grants.answers[question] = _answer(grants, question)
        return answer.names.get(attributes.name, answer.any)

    def rules_for(self, identity: Identity, namespace: str) -> Iterator[Granted]:
        """Every rule that someone has in a namespace, the cluster-wide ones included; "" for those alone. They may be very many."""
        return self._grants_of(identity, namespace).rules

    def count_of_rules(self, identity: Identity, namespace: str) -> int:
        return sum(len(role.rules) for role, _ in self._grants_of(identity, namespace).roles)

    def role_rules(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...] | None:
        """What a role grants whoever is bound to it; None if there is no such role."""
        role = self._role(kind, name, namespace)
        return role.rules if role is not None else None

    def _role(self, kind: str, name: str, namespace: str) -> RoleRules | None:
        if kind == "Role":
            return self._roles.get(Key(ROLES, namespace, name))
        return (
            self._cluster_role_rules(name) if kind == "ClusterRole" and name in self._cluster_roles else None
        )

    def _grants_of(self, identity: Identity, namespace: str) -> _Grants:
        who = (identity.name, identity.groups, namespace)
        grants = self._grants.get(who)
        if grants is None:
            if len(self._grants) >= _GRANTS_REMEMBERED:
                self._grants.clear()
            grants = self._grants[who] = self._collect(identity, namespace)
        return grants

    def _collect(self, identity: Identity, namespace: str) -> _Grants:
        subjects = [_Subject("User", identity.name), *(_Subject("Group", group) for group in identity.groups)]
        found: dict[Key, _Binding] = {}
        for subject in subjects:
            for key, binding in self._bindings.get(subject, {}).items():
                if not key.namespace or key.namespace == namespace:
                    found.setdefault(key, binding)
        granted: list[tuple[RoleRules, str]] = []
        missing: dict[str, None] = {}
        for key in sorted(found, key=lambda key: (key.namespace, key.name)):
            role = found[key].role
            kind = "Role" if role.resource == ROLES else "ClusterRole"
            rules = self._role(kind, role.name, role.namespace)
            if rules is None:
                missing[f'{kind.lower()}.{GROUP} "{role.name}" not found'] = None
            else:
                granted.append((rules, found[key].source))
        return _Grants(tuple(granted), _refusal(list(missing)))

    def _cluster_role_rules(self, name: str) -> RoleRules:
        """The rules of a cluster role, aggregated ones once each, in the order of the roles' names."""
        role = self._cluster_roles[name]
        if not role.selectors:
            return role.rules
        known = self._aggregated.get(name)
        if known is None:
            rules = dict.fromkeys(
                rule for part in sorted(self._parts(name)) for rule in self._cluster_roles[part].rules.rules
            )
            known = self._aggregated[name] = RoleRules(tuple(rules))
        return known

    def _parts(self, name: str) -> set[str]:
        """The roles without aggregation that make up an aggregated role, through any levels in between."""
        seen, parts, open_roles = {name}, set[str](), [name]
        while open_roles:
            selectors = self._cluster_roles[open_roles.pop()].selectors
            for other, role in self._cluster_roles.items():
                if other in seen or not any(selects(selector, role.labels) for selector in selectors):
                    continue
                seen.add(other)
                if role.selectors:
                    open_roles.append(other)
                else:
                    parts.add(other)
        return parts

    # --- following the store

    def _role_changed(self, previous: Record | None, current: Record | None) -> None:
        self._grants.clear()
        if current is not None:
            self._roles[current.key] = _rules(current.load())
        elif previous is not None:
            self._roles.pop(previous.key, None)

    def _cluster_role_changed(self, previous: Record | None, current: Record | None) -> None:
        self._grants.clear()
        self._aggregated.clear()
        if current is not None:
            role = current.load()
            selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
            self._cluster_roles[current.key.name] = _ClusterRole(
                _rules(role), current.labels, tuple(selectors)
            )
        elif previous is not None:
            self._cluster_roles.pop(previous.key.name, None)

    def _binding_changed(self, previous: Record | None, current: Record | None) -> None:
        self._grants.clear()
        if previous is not None:
            for subject, _ in _bound(previous):
                held = self._bindings.get(subject, {})
                held.pop(previous.key, None)
                if not held:
                    self._bindings.pop(subject, None)
        if current is not None:
            for subject, binding in _bound(current):
                self._bindings.setdefault(subject, {}).setdefault(current.key, binding)


def _answer(grants: _Grants, question: Question) -> _Answer:
    answer = _Answer(grants.refusal)
    asked: set[int] = set()  # a role that is bound once more grants no more
    for role, source in grants.roles:
        if id(role) in asked:
            continue
        asked.add(id(role))
        granting = role.granting(question)
        if not (granting.any or granting.names):
            continue
        decision = AccessDecision(True, f"RBAC: allowed by {source}")
        for name in granting.names:
            answer.names.setdefault(name, decision)
        if granting.any:
            answer.any = decision
            break
    return answer


def _by_path(grants: _Grants, verb: str, path: str) -> AccessDecision:
    for rule, source in grants.rules:
        if rule.paths and rule.holds_for_path(verb, path):
            return AccessDecision(True, f"RBAC: allowed by {source}")
    return grants.refusal


def _refusal(missing: list[str]) -> AccessDecision:
    if not missing:
        return _NO
    return AccessDecision(False, "RBAC: " + (missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]"))


def _rules(role: Obj) -> RoleRules:
    return RoleRules(
        tuple(Rule.from_json(rule) for rule in role.get("rules") or () if isinstance(rule, dict))
    )


def _bound(record: Record) -> Iterator[tuple[_Subject, _Binding]]:
    """The subjects of a binding. Subjects and roles of kinds that RBAC does not know are skipped."""
    binding = record.load()
    reference = binding.get("roleRef") or {}
    namespace, name = record.key.namespace, record.key.name
    kind, role = reference.get("kind"), reference.get("name", "")
    if kind == "ClusterRole":
        key = Key(CLUSTER_ROLES, "", role)
    elif kind == "Role" and namespace:
        key = Key(ROLES, namespace, role)
    else:
        return
    where = f'RoleBinding "{name}/{namespace}"' if namespace else f'ClusterRoleBinding "{name}"'
    for subject in binding.get("subjects") or ():
        who, told = _subject(subject, namespace)
        if who is not None:
            yield who, _Binding(key, f'{where} of {kind} "{role}" to {told}')


def _subject(subject: Mapping[str, Any], namespace: str) -> tuple[_Subject | None, str]:
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind in ("User", "Group"):
        return _Subject(kind, name), f'{kind} "{name}"'
    home = subject.get("namespace") or namespace
    if kind == "ServiceAccount" and home:
        return _Subject("User", f"system:serviceaccount:{home}:{name}"), f'ServiceAccount "{name}/{home}"'
    return None, ""
