"""Pods and pod templates, as plain JSON: the rules of Kubernetes' API server that concern scheduling and devices.

The finer rules for volumes, probes and security contexts concern the kubelet and are not checked: mistakes there cannot
mislead a scheduler. An update may change little; see :func:`validate_pod_update`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from allotment.api.codec import decode
from allotment.api.core import NodeSelector
from allotment.api.fields import FieldError, FieldPath, collected
from allotment.api.label_selector import check_label_map, check_label_selector
from allotment.api.names import (
    dns_label_problem,
    dns_subdomain_problem,
    label_key_problem,
    label_value_problem,
)
from allotment.api.remembered import remembered
from allotment.api.validation.container import ClaimNames, check_containers, check_requirements, one_of
from allotment.api.validation.lists import named, repeated
from allotment.api.validation.node_selector import check_node_selector

Plain = Mapping[str, Any]

MAX_INT32: Final = 2**31 - 1
RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
DNS_POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
PREEMPTION_POLICIES: Final = ("Never", "PreemptLowerPriority")
TAINT_EFFECTS: Final = ("NoExecute", "NoSchedule", "PreferNoSchedule")
UPDATABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)

_SPEC: Final = FieldPath("spec")
_OPERATORS: Final = ("Equal", "Exists", "Gt", "Lt")


def validate_pod(pod: Plain) -> list[FieldError]:
    """Everything that is wrong with a new pod, except its metadata. Defaults must be filled in."""
    return list(_spec_errors(pod.get("spec") or {}))


@remembered
def _spec_errors(spec: Plain) -> tuple[FieldError, ...]:
    return tuple(collected(check_pod_spec(spec, _SPEC)))


def validate_pod_update(pod: Plain, old: Plain) -> list[FieldError]:
    """Everything that is wrong with a changed pod, including forbidden changes."""
    return [*validate_pod(pod), *_check_changes(pod["spec"], old["spec"])]


def check_pod_spec(spec: Plain, path: FieldPath) -> Iterator[FieldError]:
    """Checks the spec of a pod or of a template."""
    volumes = spec.get("volumes") or ()
    yield from _check_volumes(volumes, path.child("volumes"))
    claims = spec.get("resourceClaims") or ()
    yield from _check_claims(claims, path.child("resourceClaims"))
    yield from check_containers(
        spec,
        path,
        frozenset(volume.get("name") for volume in volumes),
        ClaimNames(claim["name"] for claim in claims if claim.get("name")),
    )
    if resources := spec.get("resources"):
        if resources.get("claims"):
            yield path.child("resources", "claims").forbidden(
                "claims may not be set for Resources at pod-level"
            )
        yield from check_requirements({**resources, "claims": ()}, path.child("resources"))
    yield from one_of(spec, "restartPolicy", RESTART_POLICIES, path)
    yield from one_of(spec, "dnsPolicy", DNS_POLICIES, path)
    yield from check_label_map(spec.get("nodeSelector") or {}, path.child("nodeSelector"))
    yield from _check_affinity(spec.get("affinity") or {}, path.child("affinity"))
    yield from _check_gates(spec, path)
    yield from _check_spreading(
        spec.get("topologySpreadConstraints") or (), path.child("topologySpreadConstraints")
    )
    yield from _check_names(spec, path)
    yield from check_tolerations(spec.get("tolerations") or (), path.child("tolerations"))


def _check_names(spec: Plain, path: FieldPath) -> Iterator[FieldError]:
    for name in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        if value := spec.get(name):
            yield from named(value, path.child(name), dns_subdomain_problem)
    for name in ("hostname", "subdomain"):
        if value := spec.get(name):
            yield from named(value, path.child(name), dns_label_problem)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAX_INT32:
        yield path.child("activeDeadlineSeconds").invalid(
            f"must be between 1 and {MAX_INT32}, inclusive", deadline
        )
    if spec.get("preemptionPolicy") is not None:
        yield from one_of(spec, "preemptionPolicy", PREEMPTION_POLICIES, path)
    group = spec.get("schedulingGroup")
    if group is not None:
        here = path.child("schedulingGroup", "podGroupName")
        if group.get("podGroupName") is None:
            yield here.invalid("must specify one of: `podGroupName`")
        elif problem := dns_subdomain_problem(group["podGroupName"]):
            yield here.invalid(problem, group["podGroupName"])


def _check_volumes(volumes: Sequence[Plain], path: FieldPath) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        name = volume.get("name") or ""
        here = path.index(index)
        yield from named(name, here.child("name"), dns_label_problem)
        if name in seen:
            yield here.child("name").duplicate(name)
        seen.add(name)
        sources = [source for source, value in volume.items() if source != "name" and value is not None]
        if not sources:
            yield here.required("must specify a volume type")
        for source in sources[1:]:
            yield here.child(source).forbidden("may not specify more than 1 volume type")


def _check_claims(claims: Sequence[Plain], path: FieldPath) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        here, name = path.index(index), claim.get("name") or ""
        if name in seen:
            yield here.child("name").duplicate(name)
        else:
            yield from named(name, here.child("name"), dns_label_problem)
        seen.add(name)
        sources = [
            source
            for source in ("resourceClaimName", "resourceClaimTemplateName")
            if claim.get(source) is not None
        ]
        if len(sources) > 1:
            yield here.invalid(
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
                dict(claim),
            )
        if not sources:
            yield here.invalid(
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`", dict(claim)
            )
        for source in sources:
            if problem := dns_subdomain_problem(claim[source]):
                yield here.child(source).invalid(problem, claim[source])


def _check_affinity(affinity: Plain, path: FieldPath) -> Iterator[FieldError]:
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    node = affinity.get("nodeAffinity") or {}
    if selector := node.get(required):
        yield from check_node_selector(decode(NodeSelector, selector), path.child("nodeAffinity", required))
    for index, term in enumerate(node.get(preferred) or ()):
        yield from _check_weight(term, path.child("nodeAffinity", preferred).index(index))
    for name in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(name) or {}
        for index, term in enumerate(pods.get(required) or ()):
            yield from _check_pod_term(term, path.child(name, required).index(index))
        for index, weighted in enumerate(pods.get(preferred) or ()):
            here = path.child(name, preferred).index(index)
            yield from _check_weight(weighted, here)
            yield from _check_pod_term(weighted.get("podAffinityTerm") or {}, here.child("podAffinityTerm"))


def _check_weight(term: Plain, path: FieldPath) -> Iterator[FieldError]:
    weight = term.get("weight") or 0
    if not 1 <= weight <= 100:
        yield path.child("weight").invalid("must be in the range 1-100", weight)


def _check_pod_term(term: Plain, path: FieldPath) -> Iterator[FieldError]:
    yield from check_label_selector(term.get("labelSelector"), path.child("labelSelector"))
    yield from check_label_selector(term.get("namespaceSelector"), path.child("namespaceSelector"))
    key = term.get("topologyKey") or ""
    if not key:
        yield path.child("topologyKey").required("can not be empty")
    elif problem := label_key_problem(key):
        yield path.child("topologyKey").invalid(problem, key)


def _check_gates(spec: Plain, path: FieldPath) -> Iterator[FieldError]:
    gates = spec.get("schedulingGates") or ()
    for index, gate in enumerate(gates):
        if problem := label_key_problem(gate.get("name") or ""):
            yield path.child("schedulingGates").index(index).invalid(problem, gate.get("name") or "")
    yield from repeated((gate.get("name") for gate in gates), path.child("schedulingGates"))
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        condition = gate.get("conditionType") or ""
        if problem := label_key_problem(condition):
            yield path.child("readinessGates").index(index).child("conditionType").invalid(problem, condition)


def _check_spreading(constraints: Sequence[Plain], path: FieldPath) -> Iterator[FieldError]:
    for index, constraint in enumerate(constraints):
        here = path.index(index)
        skew = constraint.get("maxSkew") or 0
        if skew <= 0:
            yield here.child("maxSkew").invalid("must be greater than zero", skew)
        key = constraint.get("topologyKey") or ""
        if not key:
            yield here.child("topologyKey").required("can not be empty")
        elif problem := label_key_problem(key):
            yield here.child("topologyKey").invalid(problem, key)
        choices = ("DoNotSchedule", "ScheduleAnyway")
        if (action := constraint.get("whenUnsatisfiable") or "") not in choices:
            yield here.child("whenUnsatisfiable").not_supported(action, choices)
        yield from check_label_selector(constraint.get("labelSelector"), here.child("labelSelector"))


def check_tolerations(tolerations: Sequence[Plain], path: FieldPath) -> Iterator[FieldError]:
    """Checks tolerations of node taints."""
    for index, toleration in enumerate(tolerations):
        here = path.index(index)
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        value, effect = toleration.get("value") or "", toleration.get("effect") or ""
        if key and (problem := label_key_problem(key)):
            yield here.child("key").invalid(problem, key)
        if not key and operator != "Exists":
            yield here.child("operator").invalid("operator must be Exists when `key` is empty", operator)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield here.child("effect").invalid(
                "effect must be 'NoExecute' when `tolerationSeconds` is set", effect
            )
        if operator in ("", "Equal") and (problem := label_value_problem(value)):
            yield here.child("operator").invalid(problem, value)
        elif operator == "Exists" and value:
            yield here.child("operator").invalid("value must be empty when `operator` is 'Exists'", value)
        elif operator not in ("", *_OPERATORS):
            yield here.child("operator").not_supported(operator, _OPERATORS[:2])
        if effect and effect not in TAINT_EFFECTS:
            yield here.child("effect").not_supported(effect, TAINT_EFFECTS)


# --- updates ---


def _check_changes(spec: Plain, old: Plain) -> Iterator[FieldError]:
    for name in ("containers", "initContainers"):
        if len(spec.get(name) or ()) != len(old.get(name) or ()):
            yield _SPEC.child(name).forbidden("pod updates may not add or remove containers")
            return
    yield from _check_deadline(spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    yield from _check_added_tolerations(spec.get("tolerations") or (), old.get("tolerations") or ())
    known = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            yield (
                _SPEC.child("schedulingGates")
                .index(index)
                .child("name")
                .forbidden(f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'")
            )
    if spec == old:
        return
    after, before = _fixed(spec), _fixed(old)
    if known:  # a gated pod may still get narrower node constraints
        yield from _check_direction(after, before)
    if old.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        after["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    if after != before:
        changed = sorted(name for name in after.keys() | before.keys() if after.get(name) != before.get(name))
        yield _SPEC.forbidden(
            f"pod updates may not change fields other than {UPDATABLE}\n"
            f"changed: {', '.join(f'spec.{name}' for name in changed)}"
        )


def _check_deadline(deadline: int | None, before: int | None) -> Iterator[FieldError]:
    path = _SPEC.child("activeDeadlineSeconds")
    if deadline is None:
        if before is not None:
            yield path.invalid("must not update from a positive integer to nil value")
    elif before is not None and before < deadline:
        yield path.invalid("must be less than or equal to previous value", deadline)


def _check_added_tolerations(tolerations: Sequence[Plain], before: Sequence[Plain]) -> Iterator[FieldError]:
    def apart_from_seconds(toleration: Plain) -> frozenset[tuple[str, Any]]:
        return frozenset(item for item in toleration.items() if item[0] != "tolerationSeconds")

    kept = {apart_from_seconds(toleration) for toleration in tolerations}
    if not all(apart_from_seconds(toleration) in kept for toleration in before):
        yield _SPEC.child("tolerations").forbidden(
            "existing toleration can not be modified except its tolerationSeconds"
        )


def _fixed(spec: Plain) -> dict[str, Any]:
    """The spec without the fields that updates may change, which are checked separately."""
    loose = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
    fixed = {name: value for name, value in spec.items() if name not in loose and value not in (None, [], "")}
    for name in ("containers", "initContainers"):
        if name in fixed:
            fixed[name] = [{**container, "image": ""} for container in fixed[name]]
    return fixed


def _check_direction(after: dict[str, Any], before: dict[str, Any]) -> Iterator[FieldError]:
    """Allows gated pods to narrow down their nodes. Removes the fields checked here from both specs."""
    labels, old_labels = after.pop("nodeSelector", {}), before.pop("nodeSelector", {})
    if any(labels.get(key) != value for key, value in old_labels.items()):
        yield _SPEC.child("nodeSelector").invalid(
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)", labels
        )
    affinity, old_affinity = dict(after.pop("affinity", {})), dict(before.pop("affinity", {}))
    nodes, old_nodes = affinity.pop("nodeAffinity", None), old_affinity.pop("nodeAffinity", None)
    if nodes != old_nodes:
        yield from _check_narrowed(nodes or {}, old_nodes or {})
    if affinity or old_affinity:
        after["affinity"], before["affinity"] = affinity, old_affinity


def _check_narrowed(nodes: Plain, old: Plain) -> Iterator[FieldError]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    before = (old.get(required) or {}).get("nodeSelectorTerms")
    if not before:
        return
    path = _SPEC.child("affinity", "nodeAffinity", required, "nodeSelectorTerms")
    terms = (nodes.get(required) or {}).get("nodeSelectorTerms") or ()
    if len(terms) != len(before):
        yield path.invalid("no additions/deletions to non-empty NodeSelectorTerms list are allowed", terms)
        return
    for index, (term, was) in enumerate(zip(terms, before, strict=True)):
        for name in ("matchExpressions", "matchFields"):
            tests, old_tests = term.get(name) or [], was.get(name) or []
            if (not old_tests and not (was.get("matchExpressions") or was.get("matchFields"))) and tests:
                yield path.index(index).invalid("empty terms may not gain tests", term)
            elif tests[: len(old_tests)] != old_tests:
                yield path.index(index).invalid(
                    "only additions are allowed (no mutations or deletions)", term
                )


def check_ephemeral_change(pod: Plain, old: Plain) -> Iterator[FieldError]:
    """Allows new ephemeral containers, but no changed or removed ones."""
    path = _SPEC.child("ephemeralContainers")
    now = {each.get("name"): each for each in pod["spec"].get("ephemeralContainers") or ()}
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container.get("name")
        if name not in now:
            yield path.forbidden(f'existing ephemeral containers "{name}" may not be removed\n')
        elif now[name] != container:
            yield path.forbidden(f'existing ephemeral containers "{name}" may not be changed\n')
