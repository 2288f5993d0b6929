"""Deployments, Jobs and similar workloads as the pods that their controllers would create.

Nothing here rolls out or restarts: a workload is a pattern and a number. Created pods carry the owner that the cluster's
controllers would set, so that a workload's pods are found in one way, whoever created them. A Deployment's pods are found by
their ReplicaSet, whose name ends in the hash that its pods have as a label. A CronJob stands for the pods of one run, and
counts as their owner itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from allotment.api.codec import DecodeError, decode, unknown_fields
from allotment.api.core import Pod, PodStatus
from allotment.api.meta import ObjectMeta, OwnerReference

if TYPE_CHECKING:
    from allotment.api.manifests.manifest import Located, ManifestError

HASH = "pod-template-hash"
"""The label of a Deployment's pods that identifies their ReplicaSet."""
SIMULATED = "simulated"
VERSIONS = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "ReplicationController": "v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
}
"""Kinds that stand for pods, with the version in which they are written."""


@dataclass(frozen=True, slots=True)
class WorkloadID:
    """The identity of a workload."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods like ``pattern``, which has everything but a name."""

    id: WorkloadID
    pattern: Pod
    replicas: int

    def pod(self, number: int) -> Pod:
        """The pod with this number."""
        name = f"{self.id.name}-{number}"
        metadata = replace(self.pattern.metadata, name=name, uid=f"pod {self.id.namespace}/{name}")
        return replace(self.pattern, metadata=metadata)


def owners_of(pod: Pod) -> Iterator[WorkloadID]:
    """The workloads to which a pod belongs: its controller, and the Deployment behind that."""
    for owner in pod.metadata.owner_references:
        if owner.controller and owner.kind in VERSIONS:
            yield WorkloadID(owner.kind, pod.metadata.namespace, owner.name)
            mark = pod.metadata.labels.get(HASH)
            if owner.kind == "ReplicaSet" and mark and owner.name.endswith(f"-{mark}"):
                yield WorkloadID("Deployment", pod.metadata.namespace, owner.name.removesuffix(f"-{mark}"))


def like(id: WorkloadID, pod: Pod) -> Workload:
    """The workload that has a pod like this one, without any pods yet."""
    meta = pod.metadata
    pattern = Pod(
        metadata=ObjectMeta(
            namespace=meta.namespace,
            labels=meta.labels,
            annotations=meta.annotations,
            owner_references=meta.owner_references,
        ),
        spec=replace(pod.spec, node_name=None),
        status=PodStatus(phase="Pending"),
    )
    return Workload(id, pattern, 0)


def is_workload(located: Located) -> bool:
    return VERSIONS.get(located.kind) == located.api_version


def is_unread_owner(located: Located) -> bool:
    """Whether an object of an unknown kind contains templates of pods."""
    return located.obj is None and not is_workload(located) and _has_pattern(located.raw)


def unread_owners(found: Iterable[Located]) -> list[str]:
    """A sentence about objects of unknown kinds that contain templates of pods, such as JobSets: only their own controllers
    know which pods they create, so an answer leaves them out. Empty if there are none."""
    kinds = Counter(f"{each.kind} of {each.api_version}" for each in found if is_unread_owner(each))
    if not kinds:
        return []
    named = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return [f"the pods of {named} are not counted: give the pods themselves"]


def _has_pattern(raw: dict[str, Any]) -> bool:
    """Whether any part of an object looks like the template of a pod. Parts that occur several times are examined once."""
    seen, left = set[int](), [raw.get("spec")]
    while left:
        value = left.pop()
        if id(value) in seen or not isinstance(value, dict | list):
            continue
        seen.add(id(value))
        if isinstance(value, dict) and isinstance(_map(value.get("spec")).get("containers"), list):
            return True
        left += value.values() if isinstance(value, dict) else value
    return False


@dataclass(slots=True)
class ReadWorkload:
    """The content of a manifest: no workload if there are errors. ``unknown`` are errors about fields that the API does not
    have."""

    workload: Workload | None = None
    errors: list[ManifestError] = field(default_factory=list)
    unknown: list[ManifestError] = field(default_factory=list)


def workload_of(located: Located) -> ReadWorkload:
    """The workload in a manifest, or the errors in it."""
    raw, read, path = located.raw, ReadWorkload(), "spec"
    metadata, spec = _map(raw.get("metadata")), _map(raw.get("spec"))
    ended = metadata.get("deletionTimestamp") or _has_ended(_map(raw.get("status")))
    suspended = spec.get("suspend") is True or bool(ended)
    if located.kind == "CronJob":
        path, spec = "spec.jobTemplate.spec", _map(_map(spec.get("jobTemplate")).get("spec"))
    template, errors = _map(spec.get("template")), read.errors
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        errors.append(located.error("metadata.name", "a workload needs a name"))
    if not isinstance(template.get("spec"), dict):
        errors.append(located.error(f"{path}.template", "must have the spec of a pod"))
    written = {"metadata": template.get("metadata"), "spec": template.get("spec")}
    pod = Pod()
    try:
        pod = decode(Pod, written)
        for entry in unknown_fields(Pod, written):
            where, _, guess = entry.partition(" (")
            complaint = f"unknown field ({guess}" if guess else "unknown field"
            read.unknown.append(located.error(f"{path}.template.{where}", complaint))
    except DecodeError as exc:
        errors.append(located.error(f"{path}.template.{exc.path}", exc.message))
    for number in ("replicas", "parallelism", "completions"):
        value = spec.get(number)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            errors.append(located.error(f"{path}.{number}", "must be a whole number, zero or more"))
    if not errors:
        id = WorkloadID(located.kind, str(metadata.get("namespace") or "default"), str(name))
        done = _map(raw.get("status")).get("succeeded") if id.kind == "Job" else None
        replicas = 0 if suspended else _replicas(id.kind, spec, done if isinstance(done, int) else 0)
        read.workload = Workload(id, _pattern(id, pod), replicas)
    return read


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _has_ended(status: dict[str, Any]) -> bool:
    """Whether a Job has ended, with success or not, and starts no more pods."""
    conditions = status.get("conditions")
    return any(
        each.get("type") in ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
        and each.get("status") == "True"
        for each in map(_map, conditions if isinstance(conditions, list) else ())
    )


def _replicas(kind: str, spec: dict[str, Any], done: int) -> int:
    """How many pods there are at a time; ``done`` are those of a Job that succeeded."""
    if kind not in ("Job", "CronJob"):
        found: int | None = spec.get("replicas")
        return 1 if found is None else found
    parallel, completions = spec.get("parallelism"), spec.get("completions")
    most: int = 1 if parallel is None else parallel
    return most if completions is None else max(min(most, completions - done), 0)


def _pattern(id: WorkloadID, pod: Pod) -> Pod:
    """A pod from a template, with the owner that it would have."""
    labels, kind, name = pod.metadata.labels, id.kind, id.name
    if kind == "Deployment":
        labels, kind, name = {**labels, HASH: SIMULATED}, "ReplicaSet", f"{name}-{SIMULATED}"
    owner = OwnerReference(
        api_version=VERSIONS[kind], kind=kind, name=name, uid=f"{kind} {id.namespace}/{name}", controller=True
    )
    metadata = ObjectMeta(
        namespace=id.namespace,
        labels=labels,
        annotations=pod.metadata.annotations,
        owner_references=(owner,),
    )
    return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=None))
