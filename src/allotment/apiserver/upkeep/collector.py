"""The garbage collector: carries out what ownership asks for."""

from __future__ import annotations

from collections.abc import Callable

from allotment.apiserver.registry.catalogue import Catalogue, Served
from allotment.apiserver.registry.deletion import DeleteOptions, Deletion, Preconditions
from allotment.apiserver.registry.writes import Writes
from allotment.apiserver.store.record import Obj, Record
from allotment.apiserver.upkeep.ownership import (
    Delete,
    DropOwners,
    Member,
    Owner,
    Ownership,
    RemoveFinalizer,
    Step,
    StopBlocking,
)
from allotment.apiserver.upkeep.task import Clock, Upkeep, utc_now


class Collector(Upkeep[str]):
    """Follows every object. Call :meth:`kinds_changed` when a kind comes, so that references to it are looked at again."""

    name = "generic-garbage-collector"

    def __init__(self, writes: Writes, catalogue: Catalogue, clock: Clock = utc_now) -> None:
        super().__init__(writes, clock)
        self._deletion = Deletion(writes)
        self._catalogue = catalogue
        self.ownership = Ownership(self._resolvable)
        self._store.follow("", self._changed)

    def kinds_changed(self) -> None:
        self.ownership.look_again()
        self.wake()

    def take(self) -> str | None:
        return self.ownership.due()

    def do(self, due: str) -> None:
        for step in list(self.ownership.steps(due)):
            self._carry_out(step)

    def put_back(self, due: str) -> None:
        self.ownership.look_again([due])

    def _changed(self, previous: Record | None, current: Record | None) -> None:
        self.ownership.changed(previous, current)
        if self.ownership.any_due:
            self.wake()

    def _resolvable(self, member: Member, owner: Owner) -> bool:
        served = self._catalogue.of_kind(owner.api_version, owner.kind)
        return served is not None and (bool(member.key.namespace) or not served.resource.namespaced)

    def _carry_out(self, step: Step) -> None:
        member = step.member
        resource = self._catalogue.resource(member.key.resource)
        if resource is None:  # no longer served: nobody can write it, so nobody waits for it
            return
        served = self._catalogue.hub(resource)
        match step:
            case Delete(policy=policy):
                options = DeleteOptions(
                    propagation_policy=policy.value, preconditions=Preconditions(uid=member.uid)
                )
                self._deletion.delete(served, member.key.namespace, member.key.name, options, self.call())
            case DropOwners(owners=owners):
                self._edit(served, member, lambda metadata: _drop(metadata, owners))
            case StopBlocking():
                self._edit(served, member, _stop_blocking)
            case RemoveFinalizer(finalizer=finalizer):
                self._edit(served, member, lambda metadata: _remove(metadata, finalizer))

    def _edit(self, served: Served, member: Member, edit: Callable[[Obj], None]) -> None:
        record = self._store.head(member.key)
        if record is None:
            return
        old = record.load()
        if old["metadata"]["uid"] != member.uid:
            return
        new = record.load()
        edit(new["metadata"])
        self._writes.replace(served, record, old, new, self.call())


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
