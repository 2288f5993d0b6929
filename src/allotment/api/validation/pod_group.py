"""Pod groups and workloads (scheduling.k8s.io), as plain JSON: gangs of pods, and the templates for gangs.

A group's policy is either basic or gang. After creation only a gang's size may change.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import dns_label_problem, dns_subdomain_problem, label_key_problem
from allotment.api.validation.lists import each_once, named

Plain = Mapping[str, Any]

HIGHEST_PRIORITY: Final = 1_000_000_000
CLAIMS: Final = 4
GROUP_TEMPLATES: Final = 8
TOPOLOGIES: Final = 1
TEMPLATE_DEPTH: Final = 4
PREEMPTION: Final = ("Never", "PreemptLowerPriority")

_SPEC: Final = FieldPath("spec")


def validate_pod_group(group: Plain) -> list[FieldError]:
    """Everything that is wrong with a pod group, except metadata and status."""
    return list(_check_group(group["spec"], _SPEC)) + list(_check_reference(group["spec"]))


def validate_pod_group_update(group: Plain, old: Plain) -> list[FieldError]:
    """Everything that is wrong with a changed pod group."""
    return validate_pod_group(group) + list(_check_unchanged(group["spec"], old["spec"], _SPEC))


def validate_workload(workload: Plain) -> list[FieldError]:
    """Everything that is wrong with a workload, except metadata."""
    return list(_check_workload(workload["spec"]))


def validate_workload_update(workload: Plain, old: Plain) -> list[FieldError]:
    """Everything that is wrong with a changed workload. As in groups, only the gang sizes of templates may change."""
    spec, before = workload["spec"], old["spec"]
    errors = validate_workload(workload)
    if before.get("controllerRef") and spec.get("controllerRef") != before["controllerRef"]:
        errors.append(_SPEC.child("controllerRef").invalid("field is immutable", spec.get("controllerRef")))
    return errors + list(_check_templates_unchanged(spec, before, _SPEC))


def _check_group(spec: Plain, path: FieldPath) -> Iterator[FieldError]:
    """Checks the fields that groups and group templates share."""
    policy = spec.get("schedulingPolicy") or {}
    yield from _one(policy, ("basic", "gang"), path.child("schedulingPolicy"))
    gang = policy.get("gang")
    if gang is not None:
        yield from _positive(gang, "minCount", path.child("schedulingPolicy", "gang"))
    yield from _check_shared(spec, path)
    yield from each_once(
        spec.get("resourceClaims") or (),
        path.child("resourceClaims"),
        CLAIMS,
        _check_claim,
        lambda claim: claim.get("name"),
    )


def _check_shared(spec: Plain, path: FieldPath) -> Iterator[FieldError]:
    """Checks the fields that groups and composite groups share."""
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    here = path.child("schedulingConstraints", "topology")
    if len(topology) > TOPOLOGIES:
        yield here.too_many(len(topology), TOPOLOGIES)
    for index, constraint in enumerate(topology):
        yield from named(constraint.get("key") or "", here.index(index).child("key"), label_key_problem)
    if spec.get("disruptionMode") is not None:
        yield from _one(spec["disruptionMode"], ("single", "all"), path.child("disruptionMode"))
    if name := spec.get("priorityClassName"):
        yield from named(name, path.child("priorityClassName"), dns_subdomain_problem)
    if (priority := spec.get("priority")) is not None and priority > HIGHEST_PRIORITY:
        yield path.child("priority").invalid(f"must be less than or equal to {HIGHEST_PRIORITY}", priority)
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy not in PREEMPTION:
        yield path.child("preemptionPolicy").not_supported(policy, PREEMPTION)


def _check_claim(claim: Plain, path: FieldPath) -> Iterator[FieldError]:
    yield from named(claim.get("name") or "", path.child("name"), dns_label_problem)
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    yield from _one(claim, sources, path)
    for source in sources:
        if claim.get(source) is not None and (problem := dns_subdomain_problem(claim[source])):
            yield path.child(source).invalid(problem, claim[source])


def _check_reference(spec: Plain) -> Iterator[FieldError]:
    reference = spec.get("workloadRef")
    if reference is not None:
        path = _SPEC.child("workloadRef")
        yield from named(
            reference.get("workloadName") or "", path.child("workloadName"), dns_subdomain_problem
        )
        yield from named(reference.get("templateName") or "", path.child("templateName"), dns_label_problem)
    elif spec.get("parentCompositePodGroupName") is not None:
        yield _SPEC.child("workloadRef").required("must be set when parentCompositePodGroupName is set")


def _check_workload(spec: Plain) -> Iterator[FieldError]:
    reference = spec.get("controllerRef")
    if reference is not None:
        for name in ("kind", "name"):
            if not reference.get(name):
                yield _SPEC.child("controllerRef", name).required("")
    if not spec.get("podGroupTemplates") and not spec.get("compositePodGroupTemplates"):
        yield _SPEC.invalid("must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`", "")
    names: set[str] = set()
    yield from _check_templates(spec, _SPEC, names, 1)
    if len(set(_priorities(spec))) > 1:
        yield _SPEC.invalid(
            "all priority and priorityClassName values must be identical, detected multiple values"
        )


def _check_templates(owner: Plain, path: FieldPath, names: set[str], depth: int) -> Iterator[FieldError]:
    """Checks templates and the templates nested in them. ``names`` must be unique in the whole workload."""
    for list_name in ("podGroupTemplates", "compositePodGroupTemplates"):
        templates, here = owner.get(list_name) or (), path.child(list_name)
        if len(templates) > GROUP_TEMPLATES:
            yield here.too_many(len(templates), GROUP_TEMPLATES)
            continue
        for index, template in enumerate(templates):
            name = template.get("name") or ""
            yield from named(name, here.index(index).child("name"), dns_label_problem)
            if name in names:
                yield here.index(index).duplicate(name)
            names.add(name)
            if list_name == "podGroupTemplates":
                yield from _check_group(template, here.index(index))
            else:
                yield from _check_composite(template, here.index(index), names, depth)


def _check_composite(template: Plain, path: FieldPath, names: set[str], depth: int) -> Iterator[FieldError]:
    if depth >= TEMPLATE_DEPTH:
        yield path.invalid(f"maximum template hierarchy depth is {TEMPLATE_DEPTH}", template.get("name"))
        return
    policy = template.get("schedulingPolicy") or {}
    yield from _one(policy, ("basic", "gang"), path.child("schedulingPolicy"))
    if policy.get("gang") is not None:
        yield from _positive(policy["gang"], "minGroupCount", path.child("schedulingPolicy", "gang"))
    yield from _check_shared(template, path)
    if not template.get("podGroupTemplates") and not template.get("compositePodGroupTemplates"):
        yield path.invalid(
            "must have at least one child PodGroupTemplate or CompositePodGroupTemplate", template.get("name")
        )
    yield from _check_templates(template, path, names, depth + 1)


def _priorities(owner: Plain, depth: int = 1) -> Iterator[tuple[Any, Any]]:
    for template in owner.get("podGroupTemplates") or ():
        yield template.get("priorityClassName") or "", template.get("priority")
    for template in owner.get("compositePodGroupTemplates") or ():
        yield template.get("priorityClassName") or "", template.get("priority")
        if depth < TEMPLATE_DEPTH:
            yield from _priorities(template, depth + 1)


# --- updates ---


def _check_unchanged(spec: Plain, old: Plain, path: FieldPath) -> Iterator[FieldError]:
    """Requires that nothing but the size of a gang differs."""
    for name in sorted(spec.keys() | old.keys()):
        if name in ("podGroupTemplates", "compositePodGroupTemplates"):
            continue
        now, before = spec.get(name), old.get(name)
        if name == "schedulingPolicy":
            yield from _check_policy_unchanged(now or {}, before or {}, path.child(name))
        elif (now or None) != (before or None):
            yield path.child(name).invalid("field is immutable", now)


def _check_policy_unchanged(policy: Plain, old: Plain, path: FieldPath) -> Iterator[FieldError]:
    if policy.get("basic") != old.get("basic"):
        yield path.child("basic").invalid("field is immutable", policy.get("basic"))
    if (policy.get("gang") is None) != (old.get("gang") is None):
        yield path.child("gang").invalid(
            "field cannot be set once created"
            if old.get("gang") is None
            else "field cannot be cleared once set",
            policy.get("gang"),
        )


def _check_templates_unchanged(owner: Plain, old: Plain, path: FieldPath) -> Iterator[FieldError]:
    for list_name in ("podGroupTemplates", "compositePodGroupTemplates"):
        now: Sequence[Plain] = owner.get(list_name) or ()
        before = {template.get("name"): template for template in old.get(list_name) or ()}
        here = path.child(list_name)
        for index, template in enumerate(now):
            if template.get("name") not in before:
                yield here.index(index).forbidden("items may not be added")
                continue
            was = before.pop(template.get("name"))
            yield from _check_unchanged(template, was, here.index(index))
            yield from _check_templates_unchanged(template, was, here.index(index))
        for name in before:
            yield here.forbidden(f"items may not be removed: {name}")


# --- parts ---


def _one(union: Plain, members: Sequence[str], path: FieldPath) -> Iterator[FieldError]:
    given = [name for name in members if union.get(name) is not None]
    choices = ", ".join(f"`{name}`" for name in members)
    if not given:
        yield path.invalid(f"must specify one of: {choices}", "")
    elif len(given) > 1:
        yield path.invalid(f"must specify exactly one of: {choices}", "{" + ", ".join(given) + "}")


def _positive(owner: Plain, name: str, path: FieldPath) -> Iterator[FieldError]:
    value = owner.get(name) or 0
    if not value:
        yield path.child(name).required("")
    elif value < 1:
        yield path.child(name).invalid("must be greater than or equal to 1", value)
