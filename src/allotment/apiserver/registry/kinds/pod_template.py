"""Pod templates: descriptions of pods for controllers that store them separately. Nothing here makes pods from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from allotment.api.fields import FieldError, FieldPath
from allotment.api.label_selector import check_label_map, told_labels
from allotment.api.validation.pod import check_pod_spec
from allotment.apiserver.registry.columns import of_template
from allotment.apiserver.registry.podspec import complete_template
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.strategies import StrategyRules, at
from allotment.apiserver.store.record import Obj

_TEMPLATE = FieldPath("template")


def _complete(obj: Obj) -> None:
    if obj.get("template") is None:
        obj["template"] = {}
    if obj["template"].get("metadata") is None:
        obj["template"]["metadata"] = {}
    complete_template(obj["template"])


def _check(obj: Obj) -> Iterator[FieldError]:
    template = obj["template"]
    labels = at(template, "metadata", "labels") or {}
    yield from check_label_map(labels, _TEMPLATE.child("labels"))
    yield from check_pod_spec(template["spec"], _TEMPLATE.child("spec"))


def _labels(obj: Obj, now: str) -> str:
    return told_labels(at(obj, "template", "metadata", "labels"))


RESOURCES = (
    Resource(
        group="",
        version="v1",
        kind="PodTemplate",
        plural="podtemplates",
        namespaced=True,
        columns=(
            *(replace(column, priority=0) for column in of_template("template")),
            PrinterColumn("Pod Labels", "string", _labels, "The labels of its pods."),
        ),
        strategy=StrategyRules(complete=_complete, generation=True, check=_check),
        doc="What pods should be like; kept.",
    ),
)
