"""Pods: containers that run together on a node, from their creation until the node has ended them.

A scheduler assigns a pod to a node through /binding, permanently. A deleted pod on a node stays with a deletionTimestamp
until the node reports that its containers have ended; other pods go at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import dns_subdomain_problem, label_key_problem
from allotment.api.qos import qos_class
from allotment.api.quantity import QuantityError
from allotment.api.remembered import remembered
from allotment.api.status import BadRequest, StatusError, conflict, invalid, told_as_cause
from allotment.api.validation.pod import (
    check_ephemeral_change,
    validate_pod,
    validate_pod_update,
)
from allotment.apiserver.registry.eviction import evict, set_condition
from allotment.apiserver.registry.metadata import labelling_errors
from allotment.apiserver.registry.pod_table import COLUMNS, pod_ip, row_conditions
from allotment.apiserver.registry.podspec import (
    complete_container,
    complete_pod,
    complete_whole,
    spell_out_label_keys,
)
from allotment.apiserver.registry.resource import (
    ActionCall,
    ActionResult,
    Resource,
    SubresourceAction,
    SubresourceView,
)
from allotment.apiserver.registry.status_rules import address_problem, not_negative
from allotment.apiserver.registry.strategies import StrategyRules, at, keep, opened, unchanged
from allotment.apiserver.registry.strategy import Write
from allotment.apiserver.store.record import Obj

_CLAIM_STATUSES = (
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
)
_RESIZED = ("resources", "resizePolicy")

_class_of_service = remembered(qos_class)


class _PodRules(StrategyRules):
    """Adds the class of service, the condition of gated pods, and the time that a node has to end a pod."""

    status_apart = True

    def default_status(self, obj: Obj, write: Write) -> None:
        """Does nothing: all defaults are in the spec."""

    def prepare_create(self, obj: Obj, write: Write) -> None:
        super().prepare_create(obj, write)
        spell_out_label_keys(obj)
        if at(obj, "spec", "schedulingGates"):
            set_condition(
                obj,
                "PodScheduled",
                "False",
                write.now,
                reason="SchedulingGated",
                message="Scheduling is blocked due to non-empty scheduling gates",
            )
        complete_whole(obj["spec"])
        with suppress(QuantityError):  # validation will report which
            obj["status"]["qosClass"] = _class_of_service(obj["spec"])

    def prepare_status(self, obj: Obj, old: Obj, write: Write) -> None:
        """Keeps the scheduler's notes about claims, which clients that do not know them must not erase."""
        super().prepare_status(obj, old, write)
        new, before = obj.setdefault("status", {}), old.get("status") or {}
        for name in ("qosClass", "observedGeneration"):
            if not new.get(name):
                keep(new, before, name)
        for name in _CLAIM_STATUSES:
            if new.get(name) is None:
                keep(new, before, name)
        _agree_on_addresses(new)

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        return validate_pod_update(obj, old)

    def grace_seconds(self, obj: Obj, asked: int | None) -> int | None:
        spec = obj["spec"]
        if not spec.get("nodeName") or at(obj, "status", "phase") in ("Succeeded", "Failed"):
            return None
        wish = (spec.get("terminationGracePeriodSeconds") or 0) if asked is None else asked
        return (1 if wish < 0 else wish) or None


def _agree_on_addresses(status: Obj) -> None:
    """``podIP`` is the first of ``podIPs``; the former wins, as old nodes know only that."""
    one, many = status.get("podIP"), status.get("podIPs")
    if one and (not many or many[0].get("ip") != one):
        status["podIPs"] = [{"ip": one}]
    elif many and not one:
        status["podIP"] = many[0].get("ip", "")


def _check_status(pod: Obj, old: Obj) -> Iterator[FieldError]:
    path = FieldPath("status")
    status, before = pod.get("status") or {}, old.get("status") or {}
    yield from unchanged(pod, old, "status.qosClass")
    yield from _check_addresses(status, before)
    yield from _check_claims(pod)
    yield from not_negative(status, "observedGeneration")
    if status.get("conditions") != before.get("conditions"):
        for index, each in enumerate(status.get("conditions") or ()):
            here = path.child("conditions").index(index)
            if problem := label_key_problem(type_ := each.get("type") or ""):
                yield here.child("Type").invalid(problem, type_)
            if (generation := each.get("observedGeneration") or 0) < 0:
                yield here.child("observedGeneration").invalid("must be a non-negative integer", generation)
    nominated = status.get("nominatedNodeName") or ""
    if nominated and nominated != before.get("nominatedNodeName"):
        if problem := dns_subdomain_problem(nominated):
            yield path.child("nominatedNodeName").invalid(problem, nominated)
        if old["spec"].get("nodeName"):
            yield path.child("nominatedNodeName").forbidden(
                "may not be set on pods that are already bound to a node"
            )
    if old["spec"].get("restartPolicy") == "Always":
        return
    for list_name in ("containerStatuses", "initContainerStatuses"):
        yield from _check_transitions(status, before, list_name, old["spec"].get("restartPolicy"))


def _check_addresses(status: Obj, before: Obj) -> Iterator[FieldError]:
    """Addresses of the pod and of its node: each is one, at most one of each family, the first is also told by itself."""
    for one, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        if (status.get(one), status.get(many)) == (before.get(one), before.get(many)):
            continue
        addresses = [each.get("ip") or "" for each in status.get(many) or ()]
        path = FieldPath("status", many)
        problems = [
            path.index(index).invalid(problem, address)
            for index, address in enumerate(addresses)
            if (problem := address_problem(address))
        ]
        yield from problems
        if not problems and len(addresses) > 1 and len(addresses) != len({":" in each for each in addresses}):
            yield path.invalid("may specify no more than one IP for each IP family", addresses)
        if many == "hostIPs" and addresses and addresses[0] != (status.get(one) or ""):
            yield path.index(0).child("ip").invalid("must be equal to `hostIP`", addresses[0])


def _check_claims(pod: Obj) -> Iterator[FieldError]:
    """Requires that the claims recorded for a pod are those that it requests."""
    names = {claim.get("name") for claim in pod["spec"].get("resourceClaims") or ()}
    for index, each in enumerate(at(pod, "status", "resourceClaimStatuses") or ()):
        here = FieldPath("status", "resourceClaimStatuses").index(index)
        if each.get("name") not in names:
            yield here.child("name").invalid(
                "must match the name of an entry in `spec.resourceClaims`", each.get("name") or ""
            )
        made = each.get("resourceClaimName")
        if made is not None and (problem := dns_subdomain_problem(made)):
            yield here.child("resourceClaimName").invalid(problem, made)


def _check_transitions(status: Obj, before: Obj, list_name: str, policy: str | None) -> Iterator[FieldError]:
    now = {each.get("name"): each for each in status.get(list_name) or ()}
    for index, container in enumerate(before.get(list_name) or ()):
        ended = at(container, "state", "terminated")
        if ended is None or (ended.get("exitCode") and policy == "OnFailure"):
            continue
        new = now.get(container.get("name"))
        if new is not None and at(new, "state", "terminated") is None:
            yield (
                FieldPath("status", list_name)
                .index(index)
                .child("state")
                .forbidden("may not be transitioned to non-terminated state")
            )


# --- /binding ---


def _bind(pod: Obj, body: Obj, call: ActionCall) -> ActionResult:
    wanted = body.get("metadata") or {}
    name = pod["metadata"]["name"]
    if wanted.get("name") != name:
        raise BadRequest("name in URL does not match name in Binding object")
    if errors := list(_check_target(body.get("target") or {})):
        raise StatusError(", ".join(f"{error.path}: {told_as_cause(error)}" for error in errors))
    if why := _unbindable(pod, wanted):
        raise why
    pod = opened(pod)
    metadata = pod["metadata"]
    pod["spec"]["nodeName"] = body["target"]["name"]
    pod.setdefault("status", {}).pop("nominatedNodeName", None)
    for part in ("annotations", "labels"):
        if wanted.get(part):
            metadata[part] = {**(metadata.get(part) or {}), **wanted[part]}
    if (wanted.get("annotations") or wanted.get("labels")) and (errors := list(labelling_errors(metadata))):
        raise invalid("Pod", name, errors)
    set_condition(pod, "PodScheduled", "True", call.now)
    return ActionResult(changed=pod, reply=None)


def _check_target(target: Obj) -> Iterator[FieldError]:
    path = FieldPath("target")
    kind, name = target.get("kind") or "", target.get("name") or ""
    if kind not in ("", "Node"):
        yield path.child("kind").not_supported(kind, ("Node", "<empty>"))
    if not name:
        yield path.child("name").required("")
    elif kind in ("", "Node") and (problem := dns_subdomain_problem(name)):
        yield path.child("name").invalid(problem, name)


def _unbindable(pod: Obj, wanted: Obj) -> StatusError | None:
    """Why the pod cannot be bound; ``wanted`` is the binding's metadata, with a uid or a resourceVersion to hold to."""
    metadata, spec = pod["metadata"], pod["spec"]
    name = metadata["name"]
    for field, told in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(field) and wanted[field] != metadata.get(field):
            return conflict(
                "pods",
                name,
                why=f"Precondition failed: {told} in precondition: {wanted[field]}, "
                f"{told} in object meta: {metadata.get(field)}",
            )
    if metadata.get("deletionTimestamp"):
        return conflict(
            "pods/binding", name, why=f"pod {name} is being deleted, cannot be assigned to a host"
        )
    if spec.get("nodeName"):
        return conflict(
            "pods/binding", name, why=f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        )
    if spec.get("schedulingGates"):
        return conflict("pods/binding", name, why=f"pod {name} has non-empty .spec.schedulingGates")
    return None


# --- /ephemeralcontainers and /resize ---


def _add_ephemeral(pod: Obj, body: Obj) -> None:
    containers = at(body, "spec", "ephemeralContainers") or []
    for container in containers:
        complete_container(container)
    pod["spec"]["ephemeralContainers"] = containers


def _check_ephemeral(pod: Obj, old: Obj) -> Iterator[FieldError]:
    yield from validate_pod(pod)
    yield from check_ephemeral_change(pod, old)


def _resize(pod: Obj, body: Obj) -> None:
    """Takes over the resource requests of containers; a body with other containers is kept, and refused later."""
    for list_name in ("containers", "initContainers"):
        now, wanted = pod["spec"].get(list_name) or [], at(body, "spec", list_name) or []
        if [each.get("name") for each in now] != [each.get("name") for each in wanted]:
            pod["spec"][list_name] = wanted
            continue
        for container, other in zip(now, wanted, strict=True):
            for field in _RESIZED:
                keep(container, other, field)


def _check_resize(pod: Obj, old: Obj) -> Iterator[FieldError]:
    errors = validate_pod(pod)
    yield from errors
    path = FieldPath("spec")
    if not errors and qos_class(pod["spec"]) != at(old, "status", "qosClass"):
        yield path.invalid(
            "Pod QOS Class may not change as a result of resizing", at(old, "status", "qosClass")
        )
    for list_name in ("containers", "initContainers"):
        now, before = pod["spec"].get(list_name) or [], old["spec"].get(list_name) or []
        if [each.get("name") for each in now] != [each.get("name") for each in before]:
            yield path.forbidden("containers may not be added, removed, renamed or reordered on resize")
            continue
        for index, (container, was) in enumerate(zip(now, before, strict=True)):
            yield from _check_removal(container, was, path.child(list_name).index(index).child("resources"))
        if [_rest(each) for each in now] != [_rest(each) for each in before]:
            yield path.forbidden("only cpu and memory resources are mutable")


def _check_removal(container: Obj, old: Obj, path: FieldPath) -> Iterator[FieldError]:
    for part in ("requests", "limits"):
        now, before = at(container, "resources", part) or {}, at(old, "resources", part) or {}
        if before.keys() - now.keys():
            yield path.child(part).forbidden(f"resource {part} cannot be removed")


def _rest(container: Obj) -> Obj:
    """The parts that a resize may not change."""
    resources = container.get("resources") or {}
    fixed = {
        part: {
            name: amount
            for name, amount in (resources.get(part) or {}).items()
            if name not in ("cpu", "memory")
        }
        for part in ("requests", "limits")
    }
    others = {name: value for name, value in resources.items() if name not in fixed}
    return {**container, "resources": {**others, **fixed}}


RESOURCES = (
    Resource(
        group="",
        version="v1",
        kind="Pod",
        plural="pods",
        namespaced=True,
        short_names=("po",),
        categories=("all",),
        columns=COLUMNS,
        row_conditions=row_conditions,
        fields={
            "spec.nodeName": lambda obj: at(obj, "spec", "nodeName") or "",
            "spec.restartPolicy": lambda obj: at(obj, "spec", "restartPolicy") or "",
            "spec.schedulerName": lambda obj: at(obj, "spec", "schedulerName") or "",
            "spec.serviceAccountName": lambda obj: at(obj, "spec", "serviceAccountName") or "",
            "spec.hostNetwork": lambda obj: "true" if at(obj, "spec", "hostNetwork") else "false",
            "status.phase": lambda obj: at(obj, "status", "phase") or "",
            "status.podIP": pod_ip,
            "status.nominatedNodeName": lambda obj: at(obj, "status", "nominatedNodeName") or "",
        },
        status=True,
        actions={
            "binding": SubresourceAction("v1", "Binding", _bind),
            "eviction": SubresourceAction("policy/v1", "Eviction", evict),
        },
        views={
            "ephemeralcontainers": SubresourceView(
                "v1", "Pod", lambda obj: obj, _add_ephemeral, check=_check_ephemeral
            ),
            "resize": SubresourceView("v1", "Pod", lambda obj: obj, _resize, check=_check_resize),
        },
        strategy=_PodRules(
            complete=complete_pod,
            status={"phase": "Pending"},
            status_metadata=frozenset({"ownerReferences", "deletionTimestamp"}),
            generation=True,
            check=validate_pod,
            check_status=_check_status,
        ),
        doc="Containers that run together on one node.",
    ),
)
