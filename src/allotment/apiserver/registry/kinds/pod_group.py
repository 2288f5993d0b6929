"""Pod groups and workloads: pods that a scheduler places together, and the templates for such groups."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.api.fields import FieldError, FieldPath
from allotment.api.validation.pod_group import (
    validate_pod_group,
    validate_pod_group_update,
    validate_workload,
    validate_workload_update,
)
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.columns import text
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.status_rules import strict_conditions
from allotment.apiserver.registry.strategies import ALL_METADATA, StrategyRules, at
from allotment.apiserver.store.record import Obj


def _complete(group: Obj) -> None:
    group["spec"].setdefault("preemptionPolicy", "PreemptLowerPriority")
    group["spec"].setdefault("disruptionMode", {"single": {}})


def _check_status(group: Obj, old: Obj) -> Iterator[FieldError]:
    yield from strict_conditions(group)
    names = {claim.get("name") for claim in at(group, "spec", "resourceClaims") or ()}
    for index, status in enumerate(at(group, "status", "resourceClaimStatuses") or ()):
        if status.get("name") not in names:
            yield (
                FieldPath("status", "resourceClaimStatuses")
                .index(index)
                .child("name")
                .invalid("must match the name of an entry in `spec.resourceClaims`", status.get("name"))
            )


def _policy(group: Obj, now: str) -> str:
    return "Gang" if at(group, "spec", "schedulingPolicy", "gang") is not None else "Basic"


def _status(group: Obj, now: str) -> str:
    conditions = {each.get("type"): each for each in at(group, "status", "conditions") or ()}
    if target := conditions.get("DisruptionTarget"):
        return str(target.get("reason") or "")
    scheduled = conditions.get("PodGroupInitiallyScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


class _GroupRules(StrategyRules):
    """A changed group is validated as a whole, since its gang's size may change."""

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        return validate_pod_group_update(obj, old)


class _WorkloadRules(StrategyRules):
    """The same rules as for groups."""

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        return validate_workload_update(obj, old)


RESOURCES = (
    Resource(
        group="scheduling.k8s.io",
        version="v1beta1",
        kind="PodGroup",
        plural="podgroups",
        namespaced=True,
        columns=(
            PrinterColumn("Policy", "string", _policy, "How its pods are placed: Gang is all or none."),
            text("Workload", "spec.workloadRef.workloadName", "The plan it was made from.", absent="<none>"),
            PrinterColumn("Status", "string", _status, "Whether it has been placed."),
            AGE,
        ),
        status=True,
        unconditional_update=False,
        strategy=_GroupRules(
            stated=("spec", "status"),
            complete=_complete,
            status={},
            status_metadata=ALL_METADATA,
            check=validate_pod_group,
            check_status=_check_status,
        ),
        doc="Pods that a scheduler places together.",
    ),
    Resource(
        group="scheduling.k8s.io",
        version="v1beta1",
        kind="Workload",
        plural="workloads",
        namespaced=True,
        columns=(AGE,),
        unconditional_update=False,
        strategy=_WorkloadRules(stated=("spec",), check=validate_workload),
        doc="A plan for groups of pods that make up one piece of work.",
    ),
)
