"""The kinds that say which machines may be launched: NodePool, NodeClaim, NodeGroup and, in files, InstanceType.

Of Karpenter's kinds, only the fields that affect planning are checked; settings of other components (node classes) pass.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from allotment.api.autoscaling import (
    Disruption,
    DisruptionBudget,
    InstanceType,
    NodeClaim,
    NodeGroup,
    NodePool,
    Offering,
)
from allotment.api.core import Taint
from allotment.api.cron import CronError, Schedule, seconds
from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import label_key_problem, label_value_problem
from allotment.api.quantity import Quantity
from allotment.api.validation.dynamic_resources import check_dynamic_resources
from allotment.api.validation.lists import each, each_once
from allotment.api.validation.metadata import check_conditions, check_metadata
from allotment.api.validation.naming import formed
from allotment.api.validation.node_overlay import check_price
from allotment.api.validation.requirements import check_requirements

POOL_WEIGHTS: Final = (1, 100)
NODES: Final = 100_000
OFFERINGS: Final = 256
MACHINE_TAINTS: Final = 100
CAPACITY_TYPES: Final = ("on-demand", "spot", "reserved")
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

POLICIES: Final = ("WhenEmpty", "WhenEmptyOrUnderutilized")
REASONS: Final = ("Underutilized", "Empty", "Drifted")
BUDGETS: Final = 50

_SPEC: Final = FieldPath("spec")
_NODES: Final = re.compile(r"(?:100|[0-9]{1,2})%|[0-9]{1,9}")


def validate_node_pool(pool: NodePool) -> list[FieldError]:
    """Everything wrong with a pool that could affect a plan."""
    spec = pool.spec
    template, at = spec.template, _SPEC.child("template")
    errors = [
        *check_metadata(pool.metadata, namespaced=False),
        *_check_labels(template.metadata.labels, at.child("metadata", "labels")),
        *check_requirements(template.spec.requirements, at.child("spec", "requirements")),
        *_check_taints(template.spec.taints, at.child("spec", "taints")),
        *_check_taints(template.spec.startup_taints, at.child("spec", "startupTaints")),
        *_check_amounts(spec.limits, _SPEC.child("limits")),
        *check_conditions(pool.status.conditions, FieldPath("status", "conditions"), limit=32),
    ]
    least, most = POOL_WEIGHTS
    if spec.weight is not None and not least <= spec.weight <= most:
        errors.append(
            _SPEC.child("weight").invalid(f"must be {least} to {most}, or be left out for 0", spec.weight)
        )
    if (spec.replicas or 0) < 0:
        errors.append(_SPEC.child("replicas").invalid("must not be negative", spec.replicas))
    if spec.disruption is not None:
        errors += _check_disruption(spec.disruption, _SPEC.child("disruption"))
    return errors


def _check_disruption(disruption: Disruption, path: FieldPath) -> Iterator[FieldError]:
    policy, after = disruption.consolidation_policy, disruption.consolidate_after
    if policy is not None and policy not in POLICIES:
        yield path.child("consolidationPolicy").not_supported(policy, POLICIES)
    if after is not None and after != "Never" and seconds(after) is None:
        yield path.child("consolidateAfter").invalid(
            "must be a duration such as 1h30m or 30s, or Never", after
        )
    yield from each(disruption.budgets, path.child("budgets"), BUDGETS, _check_budget)


def _check_budget(budget: DisruptionBudget, path: FieldPath) -> Iterator[FieldError]:
    if _NODES.fullmatch(budget.nodes) is None:
        yield path.child("nodes").invalid("must be a number, or 0% to 100%", budget.nodes)
    for index, reason in enumerate(budget.reasons):
        if reason not in REASONS:
            yield path.child("reasons").index(index).not_supported(reason, REASONS)
    if (budget.schedule is None) != (budget.duration is None):
        yield path.invalid("schedule and duration must be given together")
    if budget.duration is not None and seconds(budget.duration) is None:
        yield path.child("duration").invalid("must be a duration such as 8h or 1h30m", budget.duration)
    if budget.schedule is not None:
        try:
            Schedule.parse(budget.schedule)
        except CronError as exc:
            yield path.child("schedule").invalid(str(exc), budget.schedule)


def validate_node_claim(claim: NodeClaim) -> list[FieldError]:
    spec = claim.spec
    return [
        *check_metadata(claim.metadata, namespaced=False),
        *check_requirements(spec.requirements, _SPEC.child("requirements")),
        *_check_amounts(spec.resources.requests, _SPEC.child("resources", "requests")),
        *_check_taints(spec.taints, _SPEC.child("taints")),
        *_check_taints(spec.startup_taints, _SPEC.child("startupTaints")),
        *check_conditions(claim.status.conditions, FieldPath("status", "conditions"), limit=32),
    ]


def validate_node_group(group: NodeGroup) -> list[FieldError]:
    spec = group.spec
    at = _SPEC.child("template")
    errors = [
        *check_metadata(group.metadata, namespaced=False),
        *_check_labels(spec.template.metadata.labels, at.child("metadata", "labels")),
        *_check_taints(spec.template.spec.taints, at.child("spec", "taints")),
        *_check_amounts(spec.template.status.capacity, at.child("status", "capacity")),
        *_check_amounts(spec.template.status.allocatable, at.child("status", "allocatable")),
        *check_conditions(group.status.conditions, FieldPath("status", "conditions")),
    ]
    if not spec.template.status.capacity:
        errors.append(at.child("status", "capacity").required("is required: what each node of the group has"))
    if not 0 <= spec.min <= NODES:
        errors.append(_SPEC.child("min").invalid(f"must be 0 to {NODES}", spec.min))
    if not max(spec.min, 1) <= spec.max <= NODES:
        errors.append(
            _SPEC.child("max").invalid(f"must be at least 1, at least min, and at most {NODES}", spec.max)
        )
    if spec.price is not None:
        errors += check_price(spec.price, _SPEC.child("price"))
    if spec.dynamic_resources is not None:
        errors += check_dynamic_resources(spec.dynamic_resources, _SPEC.child("dynamicResources"))
    return errors


def validate_instance_type(type_: InstanceType) -> list[FieldError]:
    spec = type_.spec
    errors = [
        *check_metadata(type_.metadata, namespaced=False),
        *_check_labels(spec.labels, _SPEC.child("labels")),
        *check_requirements(spec.requirements, _SPEC.child("requirements")),
        *_check_amounts(spec.capacity, _SPEC.child("capacity")),
        *_check_amounts(spec.overhead, _SPEC.child("overhead")),
        *each_once(
            spec.offerings,
            _SPEC.child("offerings"),
            OFFERINGS,
            _check_offering,
            lambda offering: (offering.zone, offering.capacity_type),
        ),
    ]
    missing = [name for name in ("cpu", "memory", "pods") if name not in spec.capacity]
    errors += [_SPEC.child("capacity").key(name).required() for name in missing]
    for name, amount in spec.overhead.items():
        if name not in spec.capacity or amount > spec.capacity[name]:
            errors.append(
                _SPEC.child("overhead").key(name).invalid("must not be more than the capacity", str(amount))
            )
    if not spec.offerings:
        errors.append(
            _SPEC.child("offerings").required("is required: where the machine is sold, and its price")
        )
    if spec.dynamic_resources is not None:
        errors += check_dynamic_resources(spec.dynamic_resources, _SPEC.child("dynamicResources"))
    return errors


def _check_offering(offering: Offering, path: FieldPath) -> Iterator[FieldError]:
    if not offering.zone:
        yield path.child("zone").required()
    elif problem := label_value_problem(offering.zone):
        yield path.child("zone").invalid(problem, offering.zone)
    if offering.capacity_type not in CAPACITY_TYPES:
        yield path.child("capacityType").not_supported(offering.capacity_type, CAPACITY_TYPES)
    if offering.price:
        yield from check_price(offering.price, path.child("price"))
    else:
        yield path.child("price").required("is required: an amount per hour, in quotation marks")


def _check_labels(labels: Mapping[str, str], path: FieldPath) -> Iterator[FieldError]:
    for key, value in labels.items():
        yield from formed(key, path, label_key_problem)
        if problem := label_value_problem(value):
            yield path.key(key).invalid(problem, value)


def _check_taints(taints: tuple[Taint, ...], path: FieldPath) -> Iterator[FieldError]:
    return each(taints, path, MACHINE_TAINTS, _check_taint)


def _check_taint(taint: Taint, path: FieldPath) -> Iterator[FieldError]:
    yield from formed(taint.key, path.child("key"), label_key_problem)
    if taint.effect not in EFFECTS:
        yield path.child("effect").not_supported(taint.effect, EFFECTS)


def _check_amounts(amounts: Mapping[str, Quantity], path: FieldPath) -> Iterator[FieldError]:
    for name, amount in amounts.items():
        yield from formed(name, path, label_key_problem)
        if amount.sign < 0:
            yield path.key(name).invalid("must not be negative", str(amount))
