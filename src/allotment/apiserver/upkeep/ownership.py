"""Decides by ownership what should happen to objects. Pure: it follows records and returns steps.

The rules are Kubernetes'. The uid identifies an owner. An object whose owners are all gone is deleted too; an object with
a remaining owner only loses the references to the others. An owner deleted in the foreground (``foregroundDeletion``)
waits for the dependents that block it; an owner deleted with ``orphan`` first releases its dependents. A reference to a
kind that is not served, or from a cluster-scoped object to a namespaced kind, can never be resolved: such an object is
left alone.

Invariants, re-derived by ``validate``: ``dependents[u]`` is the set of objects that name ``u`` as an owner; the objects
by key are the same as the objects by uid.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import msgspec

from allotment.apiserver.store.record import Key, Obj, Record

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Owner(NamedTuple):
    """A reference to an owner."""

    uid: str
    api_version: str
    kind: str
    blocks: bool  # whether the owner's deletion waits for this object


class Member(NamedTuple):
    """The part of an object that ownership needs."""

    key: Key
    uid: str
    owners: tuple[Owner, ...]
    finalizers: frozenset[str]
    deleting: bool

    @property
    def waits_for_dependents(self) -> bool:
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def lets_go(self) -> bool:
        return self.deleting and ORPHAN in self.finalizers


class Policy(Enum):
    """How a dependent is deleted; the values are those of DeleteOptions."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Step: delete this very object."""

    member: Member
    policy: Policy


@dataclass(frozen=True, slots=True)
class DropOwners:
    """Step: remove references to these owners from the object."""

    member: Member
    owners: frozenset[str]


@dataclass(frozen=True, slots=True)
class StopBlocking:
    """Step: make the object's references block nothing, because it waits for its own dependents and could form a cycle."""

    member: Member


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Step: remove the finalizer for which the object waits."""

    member: Member
    finalizer: str


Step = DeleteObject | DropOwners | StopBlocking | RemoveFinalizer

Resolvable = Callable[[Member, Owner], bool]
"""Whether a reference names a served kind to which the object may belong."""


class Ownership:
    """The ownership graph. ``changed`` follows the store; ``steps`` says what to do about one object."""

    def __init__(self, resolvable: Resolvable) -> None:
        self._resolvable = resolvable
        self._members: dict[str, Member] = {}
        self._by_key: dict[Key, Member] = {}
        self._dependents: dict[str, set[str]] = {}
        # in the order in which they became due; taking the first from a dict would be slow
        self._due: OrderedDict[str, None] = OrderedDict()

    def changed(self, previous: Record | None, current: Record | None) -> None:
        """Takes in one object that was added, changed or removed."""
        before = self._by_key.get(previous.key) if previous is not None else None
        after = read(current) if current is not None else None
        if after is not None and after == before and self._at_rest(after):
            return
        if before is not None:
            self._remove(before)
        if after is not None:
            self._add(after)
            if self._at_rest(after) and (before is None or before.owners == after.owners):
                return
        if before is not None:  # a former owner may have waited for this object
            self._mark(owner.uid for owner in before.owners)
        if after is None and before is not None:
            self._mark(self._dependents.get(before.uid, ()))
        if after is not None and (after.owners or after.waits_for_dependents or after.lets_go):
            self._mark([after.uid])
            self._mark(owner.uid for owner in after.owners)
            if after.waits_for_dependents:
                self._mark(self._dependents.get(after.uid, ()))

    def _at_rest(self, member: Member) -> bool:
        """Whether an object and all its owners stay, so that nothing needs to be done about them."""
        if member.deleting:
            return False
        for reference in member.owners:
            owner = self._members.get(reference.uid)
            if owner is None or owner.deleting:
                return False
        return True

    @property
    def any_due(self) -> bool:
        return bool(self._due)

    def due(self) -> str | None:
        """The next object to check, if any; it is then no longer due."""
        return self._due.popitem(last=False)[0] if self._due else None

    def look_again(self, uids: Iterable[str] = ()) -> None:
        """Makes objects due again, or all of them if none is named, after kinds were added or removed."""
        self._mark(uids or list(self._members))

    def steps(self, uid: str) -> Iterator[Step]:
        """What should be done about an object now. Nothing for objects that are gone."""
        member = self._members.get(uid)
        if member is None:
            return
        if member.lets_go:
            yield from self._orphan(member)
        elif member.waits_for_dependents:
            yield from self._await_dependents(member)
        elif member.owners and not member.deleting:
            yield from self._judge(member)

    def _orphan(self, owner: Member) -> Iterator[Step]:
        for uid in sorted(self._dependents.get(owner.uid, ())):
            yield DropOwners(self._members[uid], frozenset({owner.uid}))
        yield RemoveFinalizer(owner, ORPHAN)

    def _await_dependents(self, owner: Member) -> Iterator[Step]:
        if not any(self._blocks(uid, owner.uid) for uid in self._dependents.get(owner.uid, ())):
            yield RemoveFinalizer(owner, FOREGROUND)

    def _judge(self, member: Member) -> Iterator[Step]:
        if not all(self._resolvable(member, owner) for owner in member.owners):
            return
        present = {owner.uid: self._members.get(owner.uid) for owner in member.owners}
        waiting = {uid for uid, owner in present.items() if owner is not None and owner.waits_for_dependents}
        absent = {uid for uid, owner in present.items() if owner is None}
        if present.keys() - waiting - absent:
            if absent or waiting:
                yield DropOwners(member, frozenset(absent | waiting))
        elif waiting and self._dependents.get(member.uid):
            if any(self._members[uid].waits_for_dependents for uid in self._dependents[member.uid]):
                yield StopBlocking(member)  # its dependents wait as well: a cycle
            yield DeleteObject(member, Policy.FOREGROUND)
        else:
            yield DeleteObject(member, _asked_for(member))

    def _blocks(self, dependent: str, owner: str) -> bool:
        return any(known.blocks and known.uid == owner for known in self._members[dependent].owners)

    def _add(self, member: Member) -> None:
        self._members[member.uid] = self._by_key[member.key] = member
        for owner in member.owners:
            self._dependents.setdefault(owner.uid, set()).add(member.uid)

    def _remove(self, member: Member) -> None:
        self._members.pop(member.uid, None)
        self._by_key.pop(member.key, None)
        for owner in member.owners:
            dependents = self._dependents.get(owner.uid)
            if dependents is not None:
                dependents.discard(member.uid)
                if not dependents:
                    del self._dependents[owner.uid]

    def _mark(self, uids: Iterable[str]) -> None:
        for uid in uids:
            self._due[uid] = None

    def validate(self) -> None:
        """Raises AssertionError if the graph does not match its members."""
        expected: dict[str, set[str]] = {}
        for member in self._members.values():
            for owner in member.owners:
                expected.setdefault(owner.uid, set()).add(member.uid)
        assert self._dependents == expected, "dependents do not follow from the owner references"
        assert self._by_key == {member.key: member for member in self._members.values()}


def _asked_for(member: Member) -> Policy:
    """The policy for a dependent: an object that already has a finalizer for deletion is deleted accordingly."""
    if ORPHAN in member.finalizers:
        return Policy.ORPHAN
    return Policy.FOREGROUND if FOREGROUND in member.finalizers else Policy.BACKGROUND


class _Reference(msgspec.Struct, rename="camel", gc=False):
    uid: str = ""
    api_version: str = ""
    kind: str = ""
    block_owner_deletion: bool | None = None


class _Meta(msgspec.Struct, rename="camel", gc=False):
    uid: str = ""
    owner_references: list[_Reference] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class _OwnedObject(msgspec.Struct, gc=False):
    metadata: _Meta


_OBJECTS = msgspec.json.Decoder(_OwnedObject)
_NO_FINALIZERS: frozenset[str] = frozenset()


def read(record: Record) -> Member:
    """The part of a record that ownership needs, without decoding the rest."""
    if record.at_hand is not None:
        return _read_at_hand(record.key, record.at_hand["metadata"])
    meta = _OBJECTS.decode(record.data).metadata
    owners = tuple(
        [
            Owner(reference.uid, reference.api_version, reference.kind, bool(reference.block_owner_deletion))
            for reference in meta.owner_references or ()
        ]
    )
    finalizers = frozenset(meta.finalizers) if meta.finalizers else _NO_FINALIZERS
    return Member(record.key, meta.uid, owners, finalizers, meta.deletion_timestamp is not None)


def _read_at_hand(key: Key, meta: Obj) -> Member:
    """The same from metadata that are already decoded, as they are during a write."""
    owners: tuple[Owner, ...] = ()
    if references := meta.get("ownerReferences"):
        owners = tuple(
            [
                Owner(
                    reference.get("uid", ""),
                    reference.get("apiVersion", ""),
                    reference.get("kind", ""),
                    bool(reference.get("blockOwnerDeletion")),
                )
                for reference in references
            ]
        )
    finalizers = meta.get("finalizers")
    return Member(
        key,
        meta.get("uid", ""),
        owners,
        frozenset(finalizers) if finalizers else _NO_FINALIZERS,
        meta.get("deletionTimestamp") is not None,
    )
