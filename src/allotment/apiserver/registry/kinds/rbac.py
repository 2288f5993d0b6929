"""Roles and their bindings: who may do what. ``admissions/role_escalation.py`` checks the writer's own rights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.api.fields import FieldError, FieldPath
from allotment.api.label_selector import check_label_selector
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.columns import CREATED_AT
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.strategies import StrategyRules, at
from allotment.apiserver.store.record import Obj

GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("Group", "ServiceAccount", "User")


def path_segment_problem(name: str) -> str | None:
    """Roles have looser names than others: all that can stand in a path, ``system:node`` for one."""
    if not name:
        return "is required"
    if name in (".", ".."):
        return f"may not be '{name}'"
    if wrong := next((sign for sign in "/%" if sign in name), None):
        return f"may not contain '{wrong}'"
    return None


def _complete_role(role: Obj) -> None:
    role.setdefault("rules", None)


def _complete_binding(binding: Obj) -> None:
    reference = binding.setdefault("roleRef", {})
    if not reference.get("apiGroup"):
        reference["apiGroup"] = GROUP
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = GROUP


def _check_rules(role: Obj, namespaced: bool) -> Iterator[FieldError]:
    for index, rule in enumerate(role.get("rules") or ()):
        path = FieldPath("rules").index(index)
        yield from (
            _check_paths(rule, path, namespaced)
            if rule.get("nonResourceURLs")
            else _check_resources(rule, path)
        )
        if not rule.get("verbs"):
            yield path.child("verbs").required("")


def _check_paths(rule: Obj, path: FieldPath, namespaced: bool) -> Iterator[FieldError]:
    if namespaced:
        yield path.child("nonResourceURLs").invalid(
            "namespaced rules cannot apply to non-resource URLs", rule["nonResourceURLs"]
        )
    if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
        yield path.child("nonResourceURLs").invalid(
            "rules cannot apply to both regular resources and non-resource URLs", rule["nonResourceURLs"]
        )


def _check_resources(rule: Obj, path: FieldPath) -> Iterator[FieldError]:
    if not rule.get("apiGroups"):
        yield path.child("apiGroups").required("resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield path.child("resources").required("resource rules must supply at least one resource")


def _check_role(role: Obj) -> Iterator[FieldError]:
    yield from _check_rules(role, namespaced=True)


def _check_cluster_role(role: Obj) -> Iterator[FieldError]:
    yield from _check_rules(role, namespaced=False)
    selectors = at(role, "aggregationRule", "clusterRoleSelectors") or ()
    if role.get("aggregationRule") is not None and not selectors:
        yield FieldPath("aggregationRule", "clusterRoleSelectors").required(
            "at least one clusterRoleSelector required if aggregationRule is non-nil"
        )
    for index, selector in enumerate(selectors):
        path = FieldPath("aggregationRule", "clusterRoleSelectors").index(index)
        yield from check_label_selector(selector, path)


def _check_binding(binding: Obj, kinds: tuple[str, ...], namespaced: bool) -> Iterator[FieldError]:
    reference, path = binding["roleRef"], FieldPath("roleRef")
    if reference["apiGroup"] != GROUP:
        yield path.child("apiGroup").not_supported(reference["apiGroup"], (GROUP,))
    if (kind := reference.get("kind") or "") not in kinds:
        yield path.child("kind").not_supported(kind, kinds)
    name = reference.get("name") or ""
    if not name:
        yield path.child("name").required("")
    elif problem := path_segment_problem(name):
        yield path.child("name").invalid(problem, name)
    for index, subject in enumerate(binding.get("subjects") or ()):
        yield from _check_subject(subject, FieldPath("subjects").index(index), namespaced)


def _check_subject(subject: Obj, path: FieldPath, namespaced: bool) -> Iterator[FieldError]:
    """A service account without a namespace is, in a namespaced binding, one of the same namespace."""
    kind, group = subject.get("kind") or "", subject.get("apiGroup") or ""
    if not subject.get("name"):
        yield path.child("name").required("")
    if kind not in _SUBJECTS:
        yield path.child("kind").not_supported(kind, _SUBJECTS)
    elif kind == "ServiceAccount":
        if not subject.get("namespace") and not namespaced:
            yield path.child("namespace").required("")
        if group:
            yield path.child("apiGroup").not_supported(group, ("",))
    elif group != GROUP:
        yield path.child("apiGroup").not_supported(group, (GROUP,))


def _check_rebinding(binding: Obj, old: Obj) -> Iterator[FieldError]:
    if binding["roleRef"] != old["roleRef"]:
        yield FieldPath("roleRef").invalid("field is immutable", binding["roleRef"])


def _subjects(kind: str) -> Any:
    def read(binding: Obj, now: str) -> str:
        named = [each for each in binding.get("subjects") or () if each.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{each.get('namespace') or ''}/{each.get('name')}" for each in named)
        return ", ".join(each.get("name") or "" for each in named)

    return read


_BINDING_COLUMNS = (
    PrinterColumn(
        "Role",
        "string",
        lambda obj, now: f"{at(obj, 'roleRef', 'kind')}/{at(obj, 'roleRef', 'name')}",
        "The role that is given.",
    ),
    AGE,
    PrinterColumn("Users", "string", _subjects("User"), "Users who have it.", priority=1),
    PrinterColumn("Groups", "string", _subjects("Group"), "Groups who have it.", priority=1),
    PrinterColumn(
        "ServiceAccounts", "string", _subjects("ServiceAccount"), "Programs that have it.", priority=1
    ),
)


def _kind(
    kind: str, namespaced: bool, columns: tuple[PrinterColumn, ...], strategy: StrategyRules, doc: str
) -> Resource:
    return Resource(
        group=GROUP,
        version="v1",
        kind=kind,
        plural=f"{kind.lower()}s",
        namespaced=namespaced,
        columns=columns,
        name_problem=path_segment_problem,
        create_on_update=True,
        strategy=strategy,
        doc=doc,
    )


def _binding_rules(*kinds: str, namespaced: bool) -> StrategyRules:
    return StrategyRules(
        complete=_complete_binding,
        check=lambda binding: _check_binding(binding, kinds, namespaced),
        check_change=_check_rebinding,
    )


RESOURCES = (
    _kind(
        "Role",
        True,
        (CREATED_AT,),
        StrategyRules(complete=_complete_role, check=_check_role),
        "What may be done with the objects of a namespace.",
    ),
    _kind(
        "ClusterRole",
        False,
        (CREATED_AT,),
        StrategyRules(complete=_complete_role, check=_check_cluster_role),
        "What may be done with objects anywhere, and with paths that are no objects.",
    ),
    _kind(
        "RoleBinding",
        True,
        _BINDING_COLUMNS,
        _binding_rules("ClusterRole", "Role", namespaced=True),
        "Who has a role in a namespace.",
    ),
    _kind(
        "ClusterRoleBinding",
        False,
        _BINDING_COLUMNS,
        _binding_rules("ClusterRole", namespaced=False),
        "Who has a role everywhere.",
    ),
)
