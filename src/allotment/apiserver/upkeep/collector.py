"""The garbage collector: carries out the steps that ``ownership`` decides.

A thread prepares the change of a large object. The next turn asks ``ownership`` again, and makes the change if it is still
required for the same state of the object.
"""

from __future__ import annotations

from collections.abc import Callable

from allotment.api.status import StatusError
from allotment.apiserver.registry.catalogue import ResourceCatalogue, ServedResource
from allotment.apiserver.registry.deletion import DeleteOptions, Deletion, Preconditions
from allotment.apiserver.registry.writes import Prepared, Writes
from allotment.apiserver.store.record import Obj, Record
from allotment.apiserver.upkeep.ownership import (
    DeleteObject,
    DropOwners,
    Member,
    Owner,
    Ownership,
    RemoveFinalizer,
    Step,
    StopBlocking,
)
from allotment.apiserver.upkeep.task import LARGE_UPKEEP, Clock, Upkeep, utc_now


class Collector(Upkeep[str]):
    """Follows every object. Call :meth:`kinds_changed` when a kind is added, so that references to it are checked again."""

    name = "generic-garbage-collector"

    def __init__(self, writes: Writes, catalogue: ResourceCatalogue, clock: Clock = utc_now) -> None:
        super().__init__(writes, clock)
        self._deletion = Deletion(writes)
        self._catalogue = catalogue
        self.ownership = Ownership(self._resolvable)
        self._prepared: tuple[Step, Prepared | StatusError] | None = None
        self._store.follow("", self._changed)

    def kinds_changed(self) -> None:
        self.ownership.look_again()
        self.wake()

    def take(self) -> str | None:
        return self.ownership.due()

    def do(self, due: str) -> None:
        for step in list(self.ownership.steps(due)):
            if not self._carry_out(step):
                self.put_back(due)
                break

    def put_back(self, due: str) -> None:
        self.ownership.look_again([due])

    def _changed(self, previous: Record | None, current: Record | None) -> None:
        self.ownership.changed(previous, current)
        if self.ownership.any_due:
            self.wake()

    def _resolvable(self, member: Member, owner: Owner) -> bool:
        served = self._catalogue.of_kind(owner.api_version, owner.kind)
        return served is not None and (bool(member.key.namespace) or not served.resource.namespaced)

    def _carry_out(self, step: Step) -> bool:
        """Carries out a step; False if a thread is still preparing it."""
        member = step.member
        resource = self._catalogue.resource(member.key.resource)
        # the kind is no longer served: nobody can write the object, so nobody waits for it
        if resource is None:
            return True
        served = self._catalogue.hub(resource)
        match step:
            case DeleteObject(policy=policy):
                options = DeleteOptions(
                    propagation_policy=policy.value, preconditions=Preconditions(uid=member.uid)
                )
                self._deletion.delete(served, member.key.namespace, member.key.name, options, self.call())
            case DropOwners(owners=owners):
                return self._edit(served, step, lambda metadata: _drop(metadata, owners))
            case StopBlocking():
                return self._edit(served, step, _stop_blocking)
            case RemoveFinalizer(finalizer=finalizer):
                return self._edit(served, step, lambda metadata: _remove(metadata, finalizer))
        return True

    def _edit(self, served: ServedResource, step: Step, edit: Callable[[Obj], None]) -> bool:
        record = self._store.head(step.member.key)
        if record is None:
            return True
        if len(record.data) <= LARGE_UPKEEP:
            prepared = self._edited(served, record, step.member, edit)
            if prepared is not None:
                self._writes.commit(prepared)
            return True
        ready, self._prepared = self._prepared, None
        if ready is not None and ready[0] == step:
            if isinstance(ready[1], StatusError):
                raise ready[1]
            if self._writes.stands(ready[1]):
                self._writes.commit(ready[1])
                return True
        self.leave(lambda: self._prepare(served, record, step, edit))
        return False

    def _prepare(
        self, served: ServedResource, record: Record, step: Step, edit: Callable[[Obj], None]
    ) -> None:
        try:
            prepared = self._edited(served, record, step.member, edit)
        except StatusError as exc:
            self._prepared = step, exc
            return
        if prepared is not None:
            self._prepared = step, prepared

    def _edited(
        self, served: ServedResource, record: Record, member: Member, edit: Callable[[Obj], None]
    ) -> Prepared | None:
        """The change of an object; None if a new object has taken its name."""
        old = record.load()
        if old["metadata"]["uid"] != member.uid:
            return None
        new = record.load()
        edit(new["metadata"])
        return self._writes.prepare_replace(served, record, old, new, self.call())


def _drop(metadata: Obj, owners: frozenset[str]) -> None:
    left = [
        reference for reference in metadata.get("ownerReferences") or () if reference["uid"] not in owners
    ]
    _set(metadata, "ownerReferences", left)


def _stop_blocking(metadata: Obj) -> None:
    for reference in metadata.get("ownerReferences") or ():
        reference["blockOwnerDeletion"] = False


def _remove(metadata: Obj, finalizer: str) -> None:
    _set(metadata, "finalizers", [each for each in metadata.get("finalizers") or () if each != finalizer])


def _set(metadata: Obj, field: str, values: list[object]) -> None:
    if values:
        metadata[field] = values
    else:
        metadata.pop(field, None)
