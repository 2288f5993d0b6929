"""Empties namespaces that are being deleted, then releases them; and gives each new namespace its service account.

Pods are deleted first, and the rest only when the last pod is gone: a pod that is still ending must not lose the policies,
secrets and claims that it depends on.

As in Kubernetes, the conditions of a namespace say what still holds it, for people who wait for its deletion.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from allotment.api.status import StatusError
from allotment.apiserver.registry.catalogue import ResourceCatalogue, ServedResource
from allotment.apiserver.registry.conditions import set_condition
from allotment.apiserver.registry.deletion import DeleteOptions, Deletion
from allotment.apiserver.registry.strategies import opened
from allotment.apiserver.registry.writes import Writes
from allotment.apiserver.store.record import Key, Obj, Record
from allotment.apiserver.upkeep.task import Clock, Upkeep, utc_now

NAMESPACES, PODS = "namespaces", "pods"
FINALIZER = "kubernetes"
PER_TURN = 100
"""The most objects deleted before requests get their turn."""

_MOST_TOLD = 5
_NEVER = datetime.min.replace(tzinfo=UTC)
_TELL_EVERY = timedelta(seconds=1)


class NamespaceEmptier(Upkeep[str]):
    """Follows namespaces, and the content of those that are being deleted.

    While content waits for others (finalizers, pods that are ending), it checks a namespace at most once a second, or at
    once when the last object has gone.
    """

    name = "namespace-controller"

    def __init__(self, writes: Writes, catalogue: ResourceCatalogue, clock: Clock = utc_now) -> None:
        super().__init__(writes, clock)
        self._deletion = Deletion(writes)
        self._catalogue = catalogue
        self._going: dict[str, datetime] = {}  # with the time of the last update of its conditions
        self._due: dict[str, datetime] = {}  # with the earliest time of the next check
        self._content_count: Counter[str] = Counter()  # the number of objects in each namespace
        self._pod_count: Counter[str] = Counter()  # the number of pods among them
        self._store.follow(NAMESPACES, self._namespace_changed)
        self._store.follow("", self._content_changed)

    @property
    def pause(self) -> float | None:
        return _TELL_EVERY.total_seconds() if self._due else None

    def take(self) -> str | None:
        now = self._clock()
        due = next((namespace for namespace, when in self._due.items() if when <= now), None)
        if due is not None:
            del self._due[due]
        return due

    def do(self, due: str) -> None:
        self._empty(due)

    def put_back(self, due: str) -> None:
        self._mark(due, _NEVER)

    def _namespace_changed(self, previous: Record | None, current: Record | None) -> None:
        record = current or previous
        assert record is not None  # at least one of the two exists
        going = current is not None and b'"deletionTimestamp"' in current.data
        if going and _terminating(record.peek()):
            if record.key.name not in self._going:
                self._going[record.key.name] = _NEVER
                self._mark(record.key.name, _NEVER)
        else:
            self._going.pop(record.key.name, None)

    def _content_changed(self, previous: Record | None, current: Record | None) -> None:
        record = current or previous
        if record is None or not record.key.namespace:
            return
        namespace = record.key.namespace
        if current is not None and previous is not None and namespace not in self._going:
            return  # the usual case: nothing was added or removed
        of_its_sort = self._content_count
        if record.key.resource == PODS:
            of_its_sort = self._pod_count
            _count(self._pod_count, namespace, previous, current)
        _count(self._content_count, namespace, previous, current)
        if namespace in self._going:
            soon = namespace not in of_its_sort  # the rest waited for these
            self._mark(namespace, _NEVER if soon else self._going[namespace] + _TELL_EVERY)

    def _mark(self, namespace: str, when: datetime) -> None:
        self._due[namespace] = min(when, self._due.get(namespace, when))
        self.wake()

    def _content(self, namespace: str) -> Iterator[Record]:
        for resource in self._catalogue.resources:
            if resource.namespaced:
                yield from self._store.heads(resource.id, namespace)

    def _empty(self, namespace: str) -> None:
        record = self._store.head(Key(NAMESPACES, "", namespace))
        if record is None or namespace not in self._going:
            return
        pods = list(self._store.heads(PODS, namespace))
        staying = [each for each in pods or self._content(namespace) if not _is_going(each)]
        failed = [message for each in staying[:PER_TURN] if (message := self._delete(each))]
        pods_left = list(self._store.heads(PODS, namespace))
        if len(staying) > PER_TURN or (pods and not pods_left):
            self._mark(namespace, _NEVER)
        elif left := pods_left or list(self._content(namespace)):
            self._going[namespace] = self._clock()
            self._tell(record, left, failed)
        else:
            self._finalize(record)

    def _delete(self, record: Record) -> str | None:
        """Deletes an object; returns the refusal, if there was one."""
        resource = self._catalogue.resource(record.key.resource)
        assert resource is not None  # the record was found under this kind
        try:
            options = DeleteOptions(propagation_policy="Background")
            self._deletion.delete_record(self._catalogue.hub(resource), record, options, self.call())
        except StatusError as exc:
            return exc.message
        return None

    def _tell(self, record: Record, left: Iterable[Record], failed: list[str]) -> None:
        """Writes into the namespace's conditions what holds it, unless they say so already."""
        record = self._store.head(record.key) or record
        old, new = record.load(), record.load()
        _tell_state(new, list(left), failed, self.call().now)
        if new != old:
            self._writes.replace(self._served(), record, old, new, self.call(), "status")

    def _finalize(self, record: Record) -> None:
        record = self._store.head(record.key) or record
        old = record.load()
        new = opened(old)
        new["spec"]["finalizers"] = [
            each for each in new["spec"].get("finalizers") or () if each != FINALIZER
        ]
        self._writes.replace(self._served(), record, old, new, self.call(), "finalize")

    def _served(self) -> ServedResource:
        resource = self._catalogue.resource(NAMESPACES)
        assert resource is not None  # built in
        return self._catalogue.hub(resource)


def _count(counter: Counter[str], namespace: str, previous: Record | None, current: Record | None) -> None:
    counter[namespace] += (current is not None) - (previous is not None)
    if not counter[namespace]:
        del counter[namespace]


def _is_going(record: Record) -> bool:
    return b'"deletionTimestamp"' in record.data and bool(record.load()["metadata"].get("deletionTimestamp"))


def _terminating(namespace: Obj) -> bool:
    finalizers = (namespace.get("spec") or {}).get("finalizers") or ()
    return bool(namespace["metadata"].get("deletionTimestamp")) and FINALIZER in finalizers


def _tell_state(namespace: Obj, left: list[Record], failed: list[str], now: str) -> None:
    """Sets the five conditions of a namespace that is being deleted; conditions of others stay."""
    kinds = Counter(
        f"{kind}.{group}" for kind, _, group in (each.key.resource.partition(".") for each in left)
    )
    finalizers = Counter(
        finalizer for record in left for finalizer in record.load()["metadata"].get("finalizers") or ()
    )
    remaining = ", ".join(f"{kind} has {count} resource instances" for kind, count in sorted(kinds.items()))
    waiting = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
    failures = ", ".join(sorted(failed)[:_MOST_TOLD])
    facts = [
        ("NamespaceDeletionDiscoveryFailure", False, "ResourcesDiscovered", "All resources successfully discovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", False, "ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ("NamespaceDeletionContentFailure", bool(failed), "ContentDeletionFailed" if failed else "ContentDeleted",
         f"Failed to delete all resource types, {len(failed)} remaining: {failures}" if failed
         else "All content successfully deleted, may be waiting on finalization"),
        ("NamespaceContentRemaining", True, "SomeResourcesRemain", f"Some resources are remaining: {remaining}"),
        ("NamespaceFinalizersRemaining", bool(finalizers), "SomeFinalizersRemain" if finalizers else "ContentHasNoFinalizers",
         f"Some content in the namespace has finalizers remaining: {waiting}" if finalizers else "All content-preserving finalizers finished"),
    ]  # fmt: skip
    for type_, true, reason, message in facts:
        set_condition(namespace, type_, "True" if true else "False", reason, message, now)


class ServiceAccountGiver(Upkeep[str]):
    """Ensures that every namespace that is not being deleted has a service account ``default``."""

    name = "service-account-controller"

    def __init__(self, writes: Writes, catalogue: ResourceCatalogue, clock: Clock = utc_now) -> None:
        super().__init__(writes, clock)
        self._catalogue = catalogue
        self._due: OrderedDict[str, None] = OrderedDict()
        self._store.follow(
            NAMESPACES, lambda previous, current: self._look(current.key.name if current else None)
        )
        self._store.follow(
            "serviceaccounts", lambda previous, current: self._look(_gone_from(previous, current))
        )

    def take(self) -> str | None:
        return self._due.popitem(last=False)[0] if self._due else None

    def do(self, due: str) -> None:
        self._give(due)

    def put_back(self, due: str) -> None:
        self._look(due)

    def _look(self, namespace: str | None) -> None:
        if namespace:
            self._due[namespace] = None
            self.wake()

    def _give(self, namespace: str) -> None:
        record = self._store.head(Key(NAMESPACES, "", namespace))
        if record is None or record.load()["metadata"].get("deletionTimestamp"):
            return
        if self._store.head(Key("serviceaccounts", namespace, "default")) is None:
            resource = self._catalogue.resource("serviceaccounts")
            assert resource is not None  # built in
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            self._writes.create(self._catalogue.hub(resource), namespace, account, self.call())


def _gone_from(previous: Record | None, current: Record | None) -> str | None:
    """The namespace that has just lost a service account."""
    return previous.key.namespace if previous is not None and current is None else None
