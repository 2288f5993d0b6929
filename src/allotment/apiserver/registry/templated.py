"""Shared parts of kinds that make pods from a template: the selector that must match it, the number of replicas, /scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.api.fields import FieldError, FieldPath
from allotment.api.label_selector import check_label_selector, matches, told, told_labels
from allotment.api.status import invalid
from allotment.api.validation.pod import check_pod_spec
from allotment.apiserver.registry.podspec import complete_template
from allotment.apiserver.registry.resource import SubresourceView
from allotment.apiserver.registry.strategies import at
from allotment.apiserver.store.record import Obj

SPEC = FieldPath("spec")


def fill(obj: Obj, defaults: Obj) -> None:
    """Fills copies of the defaults into absent fields, and into existing objects recursively."""
    for name, value in defaults.items():
        if isinstance(value, dict):
            if obj.get(name) is None:
                obj[name] = {}
            fill(obj[name], value)
        elif obj.get(name) is None:
            obj[name] = value


def complete(spec: Obj, defaults: Obj) -> None:
    """The defaults of a kind, and those of the template in it."""
    fill(spec, defaults)
    complete_template(spec.setdefault("template", {}))


def check_counts(spec: Obj, *names: str, path: FieldPath = SPEC) -> Iterator[FieldError]:
    """Requires that numbers are not negative."""
    for name in names:
        value = spec.get(name)
        if value is not None and value < 0:
            yield path.child(name).invalid("must be greater than or equal to 0", value)


def check_template(
    spec: Obj, kind: str, restart: tuple[str, ...] = ("Always",), path: FieldPath = SPEC
) -> Iterator[FieldError]:
    """The selector, and a template whose labels it matches and whose pods are restarted as the kind needs it."""
    selector, template = spec.get("selector"), spec["template"]
    if selector is None:
        yield path.child("selector").required("")
    else:
        yield from check_label_selector(selector, path.child("selector"))
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            yield path.child("selector").invalid(f"empty selector is invalid for {kind}", selector)
    labels = at(template, "metadata", "labels")
    if not matches(selector, labels or {}):
        yield path.child("template", "metadata", "labels").invalid(
            "`selector` does not match template `labels`", labels
        )
    yield from check_pod_spec(template["spec"], path.child("template", "spec"))
    policy = template["spec"].get("restartPolicy")
    if policy not in restart:
        yield path.child("template", "spec", "restartPolicy").not_supported(policy, restart)
    if restart == ("Always",) and template["spec"].get("activeDeadlineSeconds") is not None:
        yield path.child("template", "spec", "activeDeadlineSeconds").forbidden(
            f"activeDeadlineSeconds in {kind} is not Supported"
        )


# --- /scale ---


def _scale(obj: Obj) -> Obj:
    metadata, selector = obj["metadata"], at(obj, "spec", "selector")
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": at(obj, "status", "replicas") or 0}
    is_map = selector is not None and "matchLabels" not in selector and "matchExpressions" not in selector
    line = (told_labels(selector) if is_map else told(selector)).replace("<none>", "")
    if line:
        status["selector"] = line
    spec: dict[str, Any] = {}
    if replicas := at(obj, "spec", "replicas"):
        spec["replicas"] = replicas
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": spec,
        "status": status,
    }


def _rescale(obj: Obj, scale: Obj) -> None:
    replicas = at(scale, "spec", "replicas") or 0
    if replicas < 0:
        error = SPEC.child("replicas").invalid("must be greater than or equal to 0", replicas)
        raise invalid("Scale", obj["metadata"]["name"], [error], "autoscaling")
    obj["spec"]["replicas"] = replicas


SCALE = SubresourceView("autoscaling/v1", "Scale", _scale, _rescale)
"""The number of replicas as a subresource, for clients that may change nothing else."""
