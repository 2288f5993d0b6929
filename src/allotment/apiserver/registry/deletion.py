"""Deletes objects: at once, after a grace period, or when the last finalizer is gone.

The caller's propagation policy becomes a finalizer (``orphan``, ``foregroundDeletion``), which the garbage collector
removes later. If something holds the object (finalizers, a grace period, its strategy), it gets a ``deletionTimestamp``
and stays; the update that ends the last hold removes it (``Writes.replace``).

Decoding a large object takes longest, so it is done once, or not at all if a thread has done it (``Record.decoded``).
Changes are made to a copy of its outermost parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from allotment.api.fields import FieldError, FieldPath
from allotment.api.status import BadRequest, conflict, invalid, not_found
from allotment.api.timestamps import timestamp
from allotment.apiserver.registry.call import WriteContext, Written
from allotment.apiserver.registry.catalogue import ServedResource
from allotment.apiserver.registry.metadata import FOREGROUND, ORPHAN
from allotment.apiserver.registry.strategies import opened
from allotment.apiserver.registry.strategy import Operation
from allotment.apiserver.registry.writes import Writes, may_go
from allotment.apiserver.store.record import Obj, Record

_REPLIES_WITH_OBJECT = frozenset(
    {
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "deviceclasses.resource.k8s.io",
        "namespaces",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "resourceclaims.resource.k8s.io",
        "resourceclaimtemplates.resource.k8s.io",
        "resourcequotas",
        "resourceslices.resource.k8s.io",
        "serviceaccounts",
        "services",
        "storageclasses.storage.k8s.io",
        "volumeattachments.storage.k8s.io",
        "volumeattributesclasses.storage.k8s.io",
    }
)
_POLICIES = ("Foreground", "Background", "Orphan")


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The body of a DELETE."""

    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: list[str] | None = None


def delete_options(obj: Obj) -> DeleteOptions:
    """The options in a body or in a query, checked. Raises StatusError."""
    try:
        options = msgspec.convert(obj, DeleteOptions)
    except msgspec.ValidationError as exc:
        raise BadRequest(f"DeleteOptions cannot be handled: {exc}") from exc
    errors = list(_option_errors(options))
    if errors:
        raise invalid("DeleteOptions", "", errors, "meta.k8s.io")
    return options


def _option_errors(options: DeleteOptions) -> Iterable[FieldError]:
    policy = FieldPath("propagationPolicy")
    if options.orphan_dependents is not None and options.propagation_policy is not None:
        yield policy.invalid(
            "orphanDependents and deletionPropagation cannot be both set", options.propagation_policy
        )
    if options.propagation_policy is not None and options.propagation_policy not in _POLICIES:
        yield policy.not_supported(options.propagation_policy, (*_POLICIES, "nil"))
    if options.dry_run and any(each != "All" for each in options.dry_run):
        yield FieldPath("dryRun").not_supported(options.dry_run, ("All",))


class Deletion:
    """Deletes objects, one or many."""

    def __init__(self, writes: Writes) -> None:
        self._writes = writes
        self._store = writes.store

    def delete(
        self, served: ServedResource, namespace: str, name: str, options: DeleteOptions, call: WriteContext
    ) -> Written:
        """Deletes an object, or begins to; ``Written.gone`` is set if it is gone. Raises StatusError."""
        record = self._store.head(served.key(namespace, name))
        if record is None:
            raise not_found(served.resource.plural, name, served.group)
        return self.delete_record(served, record, options, call)

    def delete_record(
        self, served: ServedResource, record: Record, options: DeleteOptions, call: WriteContext
    ) -> Written:
        resource, key = served.resource, record.key
        before = record.peek()
        obj = opened(before)
        _check(served, obj, options.preconditions)
        self._writes.admit_delete(resource, obj, call)
        metadata = obj["metadata"]
        begun = bool(metadata.get("deletionTimestamp"))
        if begun and metadata.get("deletionGracePeriodSeconds"):
            if not _shorten(metadata, options.grace_period_seconds, call.now):
                return self._writes.unchanged(record)
        elif not begun:
            asked = options.grace_period_seconds
            grace = resource.strategy.grace_seconds(obj, 1 if asked is not None and asked < 0 else asked)
            if grace is not None and grace > 0:
                _mark(metadata, call.now, grace)
        if not begun:
            resource.strategy.hold(obj)
        _set_finalizers(metadata, options)
        if not metadata.get("deletionGracePeriodSeconds"):
            if not metadata.get("finalizers") and not resource.strategy.held(obj):
                return self._writes.remove(key, _as_it_was(before, obj), call)
            if not begun:
                _mark(metadata, call.now, 0)
        if may_go(resource, obj):  # its grace period has just been reduced to zero
            return self._writes.remove(key, obj, call)
        resource.strategy.prepare_delete(obj, call.write(Operation.DELETE))
        if obj == before:
            return self._writes.unchanged(record)
        return Written(self._writes.put(key, obj, call))

    def delete_all(
        self, served: ServedResource, records: Iterable[Record], options: DeleteOptions, call: WriteContext
    ) -> list[Written]:
        """Deletes each of these objects that still exists."""
        written = []
        for record in records:
            head = self._store.head(record.key)
            if head is not None:
                written.append(self.delete_record(served, head, options, call))
        return written


def replies_with_object(served: ServedResource) -> bool:
    """Whether DELETE answers with the deleted object instead of a Status."""
    return served.resource.id in _REPLIES_WITH_OBJECT


def success(served: ServedResource, obj: Obj) -> Obj:
    """The Status that answers a deletion."""
    details = {"name": obj["metadata"]["name"], "group": served.group, "kind": served.resource.plural}
    details["uid"] = obj["metadata"]["uid"]
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {field: value for field, value in details.items() if value},
    }


def _as_it_was(before: Obj, obj: Obj) -> Obj:
    """The object in the event of a deletion: the last stored state, unless the deletion had to write another."""
    same = before["metadata"].get("finalizers") == obj["metadata"].get("finalizers")
    return opened(before) if same else obj


def _check(served: ServedResource, obj: Obj, wanted: Preconditions | None) -> None:
    if wanted is None:
        return
    metadata = obj["metadata"]
    for asked, there, what, guess in (
        (wanted.uid, metadata["uid"], "UID", "deleted and then recreated"),
        (wanted.resource_version, metadata["resourceVersion"], "ResourceVersion", "modified"),
    ):
        if asked is not None and asked != there:
            why = (
                f"the {what} in the precondition ({asked}) does not match the {what} in record ({there}). "
                f"The object might have been {guess}"
            )
            raise conflict(served.resource.kind, metadata["name"], served.group, why)


def _mark(metadata: Obj, now: str, grace: int) -> None:
    metadata["deletionTimestamp"] = _later(now, grace)
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1


def _shorten(metadata: Obj, asked: int | None, now: str) -> bool:
    """Shortens the grace period of a deletion in progress, which cannot be extended. Returns whether it did."""
    if asked is None:
        return False
    period = 1 if asked < 0 else asked
    current = metadata["deletionGracePeriodSeconds"]
    if period >= current:
        return False
    when = _later(metadata["deletionTimestamp"], period - current)
    if when < now:
        when, period = now, min(period, 1)
    metadata["deletionTimestamp"] = when
    metadata["deletionGracePeriodSeconds"] = period
    return True


def _set_finalizers(metadata: Obj, options: DeleteOptions) -> None:
    """Turns the propagation policy into a finalizer; without a policy, existing finalizers stay."""
    policy = options.propagation_policy
    if policy is None and options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if policy is None:
        return
    finalizers = [each for each in metadata.get("finalizers") or () if each not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        finalizers.append(ORPHAN)
    elif policy == "Foreground":
        finalizers.append(FOREGROUND)
    if set(finalizers) == set(metadata.get("finalizers") or ()):
        return
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _later(time: str, seconds: int) -> str:
    moment = datetime.fromisoformat(time).astimezone(UTC) + timedelta(seconds=seconds)
    return timestamp(moment)
