"""Deployments, replica sets, stateful sets, daemon sets and their revisions: kinds that keep pods running.

Their controllers are not part of the server: without them, for example kube-controller-manager, objects are only stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from allotment.api.fields import FieldError, FieldPath
from allotment.api.label_selector import check_label_map, told_labels
from allotment.api.validation.pod import check_pod_spec
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.columns import number, of_template, selector
from allotment.apiserver.registry.kinds.disruption_budget import check_int_or_percent
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.status_rules import counts
from allotment.apiserver.registry.strategies import StrategyRules, at, unchanged
from allotment.apiserver.registry.strategy import Write
from allotment.apiserver.registry.templated import (
    SCALE,
    SPEC,
    check_counts,
    check_template,
    complete,
)
from allotment.apiserver.store.record import Obj

GROUP = "apps"
_ROLLING = "RollingUpdate"
_ZERO = re.compile(r"0+%?")
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class _DeploymentRules(StrategyRules):
    """Deployments count changes of their annotations too."""

    def prepare_update(self, obj: Obj, old: Obj, write: Write) -> None:
        super().prepare_update(obj, old, write)
        metadata, before = obj["metadata"], old["metadata"]
        if (metadata.get("annotations") or {}) != (before.get("annotations") or {}):
            metadata["generation"] = before.get("generation", 0) + 1


class _DaemonSetRules(StrategyRules):
    """Daemon sets count changes of their template in an annotation, as old controllers want it."""

    def prepare_create(self, obj: Obj, write: Write) -> None:
        super().prepare_create(obj, write)
        _count_templates(obj, 1)

    def prepare_update(self, obj: Obj, old: Obj, write: Write) -> None:
        super().prepare_update(obj, old, write)
        counted = str(at(old, "metadata", "annotations", _TEMPLATE_GENERATION) or "0")
        changed = obj["spec"]["template"] != old["spec"]["template"]
        _count_templates(obj, (int(counted) if counted.isdecimal() else 0) + changed)


def _count_templates(obj: Obj, count: int) -> None:
    metadata = obj["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _TEMPLATE_GENERATION: str(count)}


# --- defaults ---


def _complete_deployment(obj: Obj) -> None:
    complete(
        obj["spec"],
        {
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "strategy": {"type": _ROLLING},
        },
    )
    strategy = obj["spec"]["strategy"]
    if strategy["type"] == _ROLLING:
        strategy["rollingUpdate"] = {
            "maxUnavailable": "25%",
            "maxSurge": "25%",
            **(strategy.get("rollingUpdate") or {}),
        }


def _complete_replica_set(obj: Obj) -> None:
    complete(obj["spec"], {"replicas": 1})


def _label_from_template(obj: Obj) -> None:
    labels = at(obj, "spec", "template", "metadata", "labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _complete_stateful_set(obj: Obj) -> None:
    complete(
        obj["spec"],
        {
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": _ROLLING},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
    )
    obj["spec"].setdefault("serviceName", "")
    strategy = obj["spec"]["updateStrategy"]
    if strategy["type"] == _ROLLING:
        strategy["rollingUpdate"] = {
            "partition": 0,
            "maxUnavailable": 1,
            **(strategy.get("rollingUpdate") or {}),
        }
    for claim in obj["spec"].get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def _complete_daemon_set(obj: Obj) -> None:
    complete(obj["spec"], {"revisionHistoryLimit": 10, "updateStrategy": {"type": _ROLLING}})
    strategy = obj["spec"]["updateStrategy"]
    if strategy["type"] == _ROLLING:
        strategy["rollingUpdate"] = {
            "maxUnavailable": 1,
            "maxSurge": 0,
            **(strategy.get("rollingUpdate") or {}),
        }


def _complete_controller(obj: Obj) -> None:
    """Replication controllers take their selector from the template's labels."""
    complete(obj["spec"], {"replicas": 1})
    labels = at(obj, "spec", "template", "metadata", "labels")
    if labels and not obj["spec"].get("selector"):
        obj["spec"]["selector"] = dict(labels)
    _label_from_template(obj)


# --- checks ---


def _check_deployment(obj: Obj) -> Iterator[FieldError]:
    spec = obj["spec"]
    yield from check_counts(spec, "replicas", "minReadySeconds", "revisionHistoryLimit")
    yield from check_template(spec, "deployment")
    strategy, path = spec["strategy"], SPEC.child("strategy")
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "Recreate":
        if rolling is not None:
            yield path.child("rollingUpdate").forbidden(
                "may not be specified when strategy `type` is 'Recreate'"
            )
    elif strategy["type"] != _ROLLING:
        yield path.not_supported(strategy["type"], ("Recreate", _ROLLING))
    else:
        yield from _check_rolling(rolling, path.child("rollingUpdate"))
    deadline = spec["progressDeadlineSeconds"]
    yield from check_counts(spec, "progressDeadlineSeconds")
    if deadline <= (spec.get("minReadySeconds") or 0):
        yield SPEC.child("progressDeadlineSeconds").invalid("must be greater than minReadySeconds", deadline)


def _check_rolling(rolling: Obj, path: FieldPath) -> Iterator[FieldError]:
    for name in ("maxUnavailable", "maxSurge"):
        yield from check_int_or_percent(rolling[name], path.child(name))
    if all(_ZERO.fullmatch(str(rolling[name])) for name in ("maxUnavailable", "maxSurge")):
        yield path.child("maxUnavailable").invalid(
            "may not be 0 when `maxSurge` is 0", rolling["maxUnavailable"]
        )


def _check_replica_set(obj: Obj) -> Iterator[FieldError]:
    yield from check_counts(obj["spec"], "replicas", "minReadySeconds")
    yield from check_template(obj["spec"], "replicaset")


def _check_stateful_set(obj: Obj) -> Iterator[FieldError]:
    spec = obj["spec"]
    yield from check_counts(spec, "replicas", "minReadySeconds")
    yield from check_template(spec, "statefulset")
    policy = spec["podManagementPolicy"]
    if policy not in ("OrderedReady", "Parallel"):
        yield SPEC.child("podManagementPolicy").invalid("must be 'OrderedReady' or 'Parallel'", policy)
    if spec["updateStrategy"]["type"] not in (_ROLLING, "OnDelete"):
        yield SPEC.child("updateStrategy").invalid(
            "must be 'RollingUpdate' or 'OnDelete'", spec["updateStrategy"]
        )


def _check_daemon_set(obj: Obj) -> Iterator[FieldError]:
    yield from check_counts(obj["spec"], "minReadySeconds", "revisionHistoryLimit")
    yield from check_template(obj["spec"], "daemonset")
    type_ = obj["spec"]["updateStrategy"]["type"]
    if type_ not in (_ROLLING, "OnDelete"):
        yield SPEC.child("updateStrategy").not_supported(type_, (_ROLLING, "OnDelete"))


def _check_controller(obj: Obj) -> Iterator[FieldError]:
    spec = obj["spec"]
    yield from check_counts(spec, "replicas", "minReadySeconds")
    wanted = spec.get("selector") or {}
    labels = at(spec, "template", "metadata", "labels") or {}
    if not wanted:
        yield SPEC.child("selector").required("")
    elif not wanted.items() <= labels.items():
        yield SPEC.child("template", "metadata", "labels").invalid(
            "`selector` does not match template `labels`", labels
        )
    yield from check_label_map(wanted, SPEC.child("selector"))
    yield from check_pod_spec(spec["template"]["spec"], SPEC.child("template", "spec"))


def _check_revision(obj: Obj) -> Iterator[FieldError]:
    if obj.get("data") is None:
        yield FieldPath("data").required("data is mandatory")
    if (obj.get("revision") or 0) < 0:
        yield FieldPath("revision").invalid("must be greater than or equal to 0", obj["revision"])


# --- tables ---


def _ready(obj: Obj, now: str) -> str:
    return f"{at(obj, 'status', 'readyReplicas') or 0}/{at(obj, 'spec', 'replicas') or 0}"


def _owner(obj: Obj, now: str) -> str:
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = str(owner.get("apiVersion") or "").rpartition("/")[0]
            kind = str(owner.get("kind") or "").lower()
            return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return "<none>"


_TEMPLATE = of_template("spec", "template")
_READY = PrinterColumn("Ready", "string", _ready, "How many pods are ready, of how many wanted.")
_REPLICAS = (
    number("Desired", "spec.replicas", "How many pods are wanted."),
    number("Current", "status.replicas", "How many there are."),
    number("Ready", "status.readyReplicas", "How many are ready."),
    AGE,
    *_TEMPLATE,
)


def _count(name: str, path: str, description: str) -> PrinterColumn:
    """As ``number``, but of the type that upstream says, which is text."""
    steps = path.split(".")
    return PrinterColumn(name, "string", lambda obj, now: at(obj, *steps) or 0, description)


def _replicas_field(obj: Obj) -> str:
    return str(at(obj, "status", "replicas") or 0)


def _rules(
    complete: Callable[[Obj], None],
    check: Callable[[Obj], Iterator[FieldError]],
    status: Obj,
    *,
    immutable: tuple[str, ...] = ("spec.selector",),
) -> StrategyRules:
    return StrategyRules(
        stated=("spec", "status"),
        complete=complete,
        status=status,
        generation=True,
        check=check,
        check_status=counts(
            "terminatingReplicas", replicas=("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        ),
        immutable=immutable,
    )


RESOURCES = (
    Resource(
        group=GROUP,
        version="v1",
        kind="Deployment",
        plural="deployments",
        namespaced=True,
        short_names=("deploy",),
        categories=("all",),
        columns=(
            _READY,
            _count("Up-to-date", "status.updatedReplicas", "How many have the newest template."),
            _count("Available", "status.availableReplicas", "How many have been ready for long enough."),
            AGE,
            *_TEMPLATE,
            selector("spec", "selector"),
        ),
        status=True,
        views={"scale": SCALE},
        strategy=_DeploymentRules(
            stated=("spec", "status"),
            complete=_complete_deployment,
            status={},
            status_metadata=frozenset({"labels"}),
            generation=True,
            check=_check_deployment,
            check_status=counts(
                "unavailableReplicas",
                "terminatingReplicas",
                replicas=("updatedReplicas", "readyReplicas", "availableReplicas"),
            ),
            immutable=("spec.selector",),
        ),
        doc="Pods of one template, replaced bit by bit when the template changes.",
    ),
    Resource(
        group=GROUP,
        version="v1",
        kind="ReplicaSet",
        plural="replicasets",
        namespaced=True,
        short_names=("rs",),
        categories=("all",),
        columns=(*_REPLICAS, selector("spec", "selector")),
        fields={"status.replicas": _replicas_field},
        status=True,
        views={"scale": SCALE},
        strategy=_rules(_complete_replica_set, _check_replica_set, {"replicas": 0}),
        doc="A number of pods of one template.",
    ),
    Resource(
        group=GROUP,
        version="v1",
        kind="StatefulSet",
        plural="statefulsets",
        namespaced=True,
        short_names=("sts",),
        categories=("all",),
        columns=(_READY, AGE, *_TEMPLATE),
        status=True,
        views={"scale": SCALE},
        strategy=StrategyRules(
            stated=("spec", "status"),
            complete=_complete_stateful_set,
            status={"replicas": 0, "availableReplicas": 0},
            generation=True,
            check=_check_stateful_set,
            check_status=counts(
                replicas=("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
            ),
            immutable=(
                "spec.selector",
                "spec.volumeClaimTemplates",
                "spec.serviceName",
                "spec.podManagementPolicy",
            ),
        ),
        doc="Pods of one template that keep their names and volumes.",
    ),
    Resource(
        group=GROUP,
        version="v1",
        kind="DaemonSet",
        plural="daemonsets",
        namespaced=True,
        short_names=("ds",),
        categories=("all",),
        columns=(
            number("Desired", "status.desiredNumberScheduled", "How many nodes should run it."),
            number("Current", "status.currentNumberScheduled", "How many do."),
            number("Ready", "status.numberReady", "On how many it is ready."),
            number("Up-to-date", "status.updatedNumberScheduled", "How many have the newest template."),
            number("Available", "status.numberAvailable", "How many have been ready for long enough."),
            PrinterColumn(
                "Node Selector",
                "string",
                lambda obj, now: told_labels(at(obj, "spec", "template", "spec", "nodeSelector")),
                "Which nodes it is for.",
            ),
            AGE,
            *_TEMPLATE,
            selector("spec", "selector"),
        ),
        status=True,
        strategy=_DaemonSetRules(
            stated=("spec", "status"),
            complete=_complete_daemon_set,
            status={
                "currentNumberScheduled": 0,
                "desiredNumberScheduled": 0,
                "numberMisscheduled": 0,
                "numberReady": 0,
            },
            generation=True,
            check=_check_daemon_set,
            check_status=counts(
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
            ),
            immutable=("spec.selector",),
        ),
        doc="One pod of a template on each node.",
    ),
    Resource(
        group=GROUP,
        version="v1",
        kind="ControllerRevision",
        plural="controllerrevisions",
        namespaced=True,
        columns=(
            PrinterColumn("Controller", "string", _owner, "Whose revision it is."),
            _count("Revision", "revision", "Its number."),
            AGE,
        ),
        strategy=StrategyRules(
            complete=lambda obj: obj.setdefault("revision", 0),
            check=_check_revision,
            check_change=lambda obj, old: unchanged(obj, old, "data"),
        ),
        doc="How a set of pods was configured once.",
    ),
    Resource(
        group="",
        version="v1",
        kind="ReplicationController",
        plural="replicationcontrollers",
        namespaced=True,
        short_names=("rc",),
        categories=("all",),
        columns=(
            *_REPLICAS,
            PrinterColumn(
                "Selector",
                "string",
                lambda obj, now: told_labels(at(obj, "spec", "selector")),
                "Which pods are meant.",
                priority=1,
            ),
        ),
        fields={"status.replicas": _replicas_field},
        status=True,
        views={"scale": SCALE},
        strategy=_rules(_complete_controller, _check_controller, {"replicas": 0}, immutable=()),
        doc="A number of pods of one template; replica sets have taken its place.",
    ),
)
