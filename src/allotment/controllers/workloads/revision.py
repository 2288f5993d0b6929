"""The replica set of one template of a deployment: its name, its marks, and how it differs from the sets of other templates.

A deployment numbers its templates (the annotation ``revision``), which is what ``kubectl rollout history`` and ``undo`` read. A
template that comes back gets its old set back, with a new number.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from allotment.client.form import Obj
from allotment.controllers.ownership import controller_reference
from allotment.controllers.workloads.made_pods import encoded
from allotment.controllers.workloads.rollout import bounds

GROUP, KIND = "apps/v1", "Deployment"
_HASH = "pod-template-hash"
_PREFIX = "deployment.kubernetes.io/"
REVISION, HISTORY = f"{_PREFIX}revision", f"{_PREFIX}revision-history"
DESIRED, _MOST = f"{_PREFIX}desired-replicas", f"{_PREFIX}max-replicas"
_OWN = (_PREFIX, "kubectl.kubernetes.io/last-applied-configuration", "deprecated.deployment.rollback.to")
"""The prefixes of annotations that a set does not inherit from its deployment."""
_NUMBER = re.compile(r"\+?0*[0-9]{1,19}", re.ASCII)
_HIGHEST = 2**63 - 1
_LONGEST_HISTORY = 100
_LONGEST_NAME = 253


def new_set(deployment: Obj, old: list[Obj], replicas: int) -> Obj:
    meta, spec = deployment["metadata"], deployment["spec"]
    mark = template_hash(spec["template"], (deployment.get("status") or {}).get("collisionCount") or 0)
    template_meta = spec["template"].get("metadata") or {}
    labels = {**(template_meta.get("labels") or {}), _HASH: mark}
    selector = spec["selector"]
    annotations = {**_inherited(deployment), **notes(deployment), REVISION: str(_next_revision(old))}
    return {
        "apiVersion": GROUP,
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta['name'][: _LONGEST_NAME - len(mark) - 1]}-{mark}",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [controller_reference(GROUP, KIND, meta["name"], meta["uid"])],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.get("minReadySeconds") or 0,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), _HASH: mark}},
            "template": {**spec["template"], "metadata": {**template_meta, "labels": labels}},
        },
    }


def outdated(deployment: Obj, new: Obj, old: list[Obj]) -> Obj:
    """The patch for everything in which the new set differs from the deployment, except for its size; empty if there is
    nothing."""
    annotations, present = _inherited(deployment), annotations_of(new)
    number = _next_revision(old)
    if revision_of(new) < number:  # an old set that has become the new one again
        annotations[REVISION] = str(number)
        if before := present.get(REVISION):
            history = [*filter(None, present.get(HISTORY, "").split(",")), before]
            annotations[HISTORY] = ",".join(history[-_LONGEST_HISTORY:])
    patch: Obj = {}
    if not annotations.items() <= present.items():
        patch["metadata"] = {"annotations": annotations}
    ready = deployment["spec"].get("minReadySeconds") or 0
    if (new["spec"].get("minReadySeconds") or 0) != ready:
        patch["spec"] = {"minReadySeconds": ready}
    return patch


def notes(deployment: Obj) -> dict[str, str]:
    allowed = bounds(deployment["spec"])
    return {DESIRED: str(allowed.replicas), _MOST: str(allowed.most)}


def _inherited(deployment: Obj) -> dict[str, str]:
    return {name: value for name, value in annotations_of(deployment).items() if not name.startswith(_OWN)}


def _next_revision(old: list[Obj]) -> int:
    """One more than the highest, unless that is the largest possible number: another attempt would find no room either."""
    return min(max((revision_of(each) for each in old), default=0) + 1, _HIGHEST)


def revision_of(replica_set: Obj) -> int:
    """The number in the annotation, which anyone may write: 0 if it is not a positive number of 64 bits."""
    text = annotations_of(replica_set).get(REVISION, "")
    number = int(text) if _NUMBER.fullmatch(text) else 0
    return number if number <= _HIGHEST else 0


def annotations_of(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def template_hash(template: Obj, collisions: int = 0) -> str:
    """A short hash of a template. It is not upstream's value, which depends on how Go prints a structure; sets are found by
    their templates and not by this hash."""
    data = msgspec.json.encode([essence(template), collisions], order="sorted")
    hashed = 0x811C9DC5  # FNV-1a, 32 bits
    for byte in data:
        hashed = (hashed ^ byte) * 0x01000193 & 0xFFFFFFFF
    return encoded(hashed)


def essence(template: Obj) -> Any:
    """A template without its hash label and without nulls, for comparison."""
    metadata = dict(template.get("metadata") or {})
    labels = {name: value for name, value in (metadata.pop("labels", None) or {}).items() if name != _HASH}
    kept = {name: value for name, value in metadata.items() if value}
    return _without_nulls({**template, "metadata": {**kept, "labels": labels}})


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def age(replica_set: Obj) -> tuple[str, str]:
    return replica_set["metadata"].get("creationTimestamp") or "", replica_set["metadata"]["name"]
