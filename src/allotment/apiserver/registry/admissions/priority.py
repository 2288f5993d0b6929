"""Pods and pod groups get the priority of their class: users name a class, schedulers read a number.

The check follows the store, so a class counts from the moment it is written. At most one class is the default for pods
that name none; if there are two nevertheless, the lower one counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from allotment.api.status import Forbidden, forbidden
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategies import keep
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Obj, Record
from allotment.apiserver.store.store import Store

CLASSES = "priorityclasses.scheduling.k8s.io"
PODS = "pods"
GROUPS = "podgroups.scheduling.k8s.io"


@dataclass(frozen=True, slots=True)
class _Class:
    name: str
    value: int
    policy: str
    default: bool


_NO_CLASS = _Class("", 0, "PreemptLowerPriority", default=False)


class Priorities:
    """Resolves ``priorityClassName`` when pods and groups are created, and keeps what was resolved afterwards."""

    mutated = frozenset({PODS, GROUPS})
    judged = frozenset({CLASSES})

    def __init__(self, store: Store) -> None:
        self._classes: dict[str, _Class] = {}
        self._default: _Class | None = None
        store.follow(CLASSES, self._note)

    def mutate(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        if write.subresource:
            return
        spec = obj.setdefault("spec", {})
        if old is None:
            self._resolve(resource, obj, spec)
        elif resource.id == PODS:
            for name in ("priority", "preemptionPolicy"):
                if spec.get(name) is None:
                    keep(spec, old["spec"], name)

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        if write.operation is Operation.DELETE or not obj.get("globalDefault"):
            return
        default = self._default
        name = obj["metadata"]["name"]
        if default is not None and (old is None or default.name != name):
            why = f"PriorityClass {default.name} is already marked as default. Only one default can exist"
            raise forbidden(resource.plural, name, resource.group, why)

    def _resolve(self, resource: Resource, obj: Obj, spec: Obj) -> None:
        wanted = spec.get("priorityClassName") or ""
        known = self._classes.get(wanted) if wanted else self._default or _NO_CLASS
        if known is None:
            raise _refused(resource, obj, f"no PriorityClass with name {wanted} was found")
        given = spec.get("priority")
        if given is not None and given != known.value:
            raise _refused(resource, obj, _differs(resource, given, known.value))
        policy = spec.get("preemptionPolicy")
        if policy is not None and policy != known.policy:
            raise _refused(
                resource,
                obj,
                f"the string value of PreemptionPolicy ({policy}) must not be provided in {_spoken(resource)} spec; "
                f"priority admission controller computed {known.policy} from the given PriorityClass name",
            )
        spec["priority"], spec["preemptionPolicy"] = known.value, known.policy
        if known.name:
            spec["priorityClassName"] = known.name

    def _note(self, previous: Record | None, current: Record | None) -> None:
        if previous is not None:
            self._classes.pop(previous.key.name, None)
        if current is not None:
            self._classes[current.key.name] = _read(current)
        defaults = [known for known in self._classes.values() if known.default]
        self._default = min(defaults, key=lambda known: known.value, default=None)


def _read(record: Record) -> _Class:
    obj = record.load()
    return _Class(
        record.key.name,
        obj.get("value") or 0,
        obj.get("preemptionPolicy") or _NO_CLASS.policy,
        bool(obj.get("globalDefault")),
    )


def _spoken(resource: Resource) -> str:
    return "pod" if resource.id == PODS else "pod group"


def _differs(resource: Resource, given: int, computed: int) -> str:
    if resource.id == PODS:
        return (
            f"the integer value of priority ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {computed} from the given PriorityClass name"
        )
    return (
        f"priority set in the pod group ({given}) must match the priority computed ({computed}) "
        "based on the priority class set in the spec"
    )


def _refused(resource: Resource, obj: Obj, why: str) -> Forbidden:
    return forbidden(resource.plural, obj["metadata"].get("name") or "", resource.group, why)
