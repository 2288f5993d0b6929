"""ResourceQuota: limits on what a namespace may use, enforced when objects are created.

Usage is counted on the head of the store. A new or changed quota counts its namespace once, on first use; from then on
each write adds its difference. So a decision takes every earlier write into account, acknowledged or not.

``status.used`` is for people and clients; no decision reads it. It is written just before the object whose creation
changes it, so a client that knows of an object finds it counted. Other changes (deletions, pods that end, a failed create)
are written right afterwards, in the next turn of the event loop: many changes in one write.

Scopes apply to pods; a quota with scopes counts nothing else. Must be the last check, as it writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from allotment.api.quantity import Quantity, QuantityError
from allotment.api.quota_usage import (
    CLAIMS,
    PODS,
    SERVICES,
    Usage,
    counted_in,
    in_scope,
    missing_of,
    usage_of,
)
from allotment.api.status import Forbidden, forbidden
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategies import at
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.errors import StoreError
from allotment.apiserver.store.record import Key, Obj, Record
from allotment.apiserver.store.store import Store

QUOTAS = "resourcequotas"
_NOTHING = Quantity.of(0)


@dataclass
class _Quota:
    """A quota and how much of it is used."""

    key: Key
    hard: Mapping[str, Quantity]
    scopes: tuple[tuple[str, str, tuple[str, ...]], ...] = ()  # name, operator, values
    used: dict[str, Quantity] = field(default_factory=dict)
    counted: bool = False  # if not, ``used`` is not valid yet
    _covered: dict[str, bool] = field(default_factory=dict)  # resources with known answers

    def covers(self, resource: str) -> bool:
        if self.scopes and resource != PODS:
            return False
        if f"count/{resource}" in self.hard:
            return True
        covered = self._covered.get(resource)
        if covered is None:
            covered = self._covered[resource] = any(counted_in(name, resource) for name in self.hard)
        return covered

    def usage(self, resource: str, obj: Obj) -> Usage:
        """How much of this quota an object uses; nothing if it is not in scope."""
        if not self.covers(resource) or not all(in_scope(obj, *scope) for scope in self.scopes):
            return {}
        return {name: amount for name, amount in usage_of(resource, obj).items() if name in self.hard}

    def add(self, usage: Usage, sign: int) -> None:
        for name, amount in usage.items():
            used = self.used.get(name, _NOTHING)
            self.used[name] = used + amount if sign > 0 else used - amount

    def status(self, more: Usage | None = None) -> Obj:
        """The status that the quota should have once ``more`` is used."""
        used = {name: self.used.get(name, _NOTHING) + (more or {}).get(name, _NOTHING) for name in self.hard}
        return {
            "hard": {name: str(amount) for name, amount in self.hard.items()},
            "used": {name: str(amount) for name, amount in used.items()},
        }


class Quotas:
    """The admission check, with the usage of every quota."""

    judged = None

    def __init__(self, store: Store) -> None:
        self._store = store
        self._quotas: dict[str, dict[str, _Quota]] = {}  # by namespace and name
        self._unsettled: set[Key] = set()
        self._scheduled = False
        store.follow(QUOTAS, self._follow_quota)
        store.follow("", self._follow)

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        """Raises Forbidden if a quota of the namespace would be exceeded."""
        namespace = obj["metadata"].get("namespace", "") if resource.namespaced else ""
        quotas = self._quotas.get(namespace)
        if not quotas or not _asked(resource, write):
            return
        for quota in quotas.values():
            self._count(quota)
        wanted = [(quota, self._wanted(resource, quota, obj, old)) for _, quota in sorted(quotas.items())]
        for quota, usage in wanted:
            _check(resource, obj, quota, usage)
        if write.dry_run:
            return
        for quota, usage in wanted:
            if usage:
                self._write_status(quota, usage)
                self._unsettled.add(quota.key)  # the write may still fail
        self._schedule()

    def _wanted(self, resource: Resource, quota: _Quota, obj: Obj, old: Obj | None) -> Usage:
        """How much the write adds to the usage; never negative."""
        before = quota.usage(resource.id, old) if old is not None else {}
        usage = {
            name: amount - before.get(name, _NOTHING)
            for name, amount in quota.usage(resource.id, obj).items()
        }
        return {name: amount for name, amount in usage.items() if amount.sign > 0}

    # --- following ---

    def _follow_quota(self, previous: Record | None, current: Record | None) -> None:
        record = current or previous
        if record is None:
            return
        in_namespace = self._quotas.setdefault(record.key.namespace, {})
        before = in_namespace.pop(record.key.name, None)
        if current is not None:
            quota = in_namespace[record.key.name] = _read(current)
            if before is not None and (before.hard, before.scopes) == (quota.hard, quota.scopes):
                quota.used, quota.counted = before.used, before.counted
            self._unsettled.add(quota.key)
            self._schedule()
        elif not in_namespace:
            del self._quotas[record.key.namespace]

    def _count(self, quota: _Quota) -> None:
        """Counts the namespace, unless that was done. Never called by a follower, which may lag behind the head."""
        if quota.counted:
            return
        quota.counted = True
        for resource in _resources(quota):
            for record in self._store.heads(resource, quota.key.namespace):
                quota.add(quota.usage(resource, record.load()), 1)

    def _follow(self, previous: Record | None, current: Record | None) -> None:
        record = current or previous
        quotas = self._quotas.get(record.key.namespace) if record is not None else None
        if record is None or not quotas:
            return
        resource = record.key.resource
        concerned = [quota for quota in quotas.values() if quota.counted and quota.covers(resource)]
        if not concerned:
            return
        for state, sign in ((previous, -1), (current, 1)):
            if state is not None:
                obj = state.peek()
                for quota in concerned:
                    quota.add(quota.usage(resource, obj), sign)
        self._unsettled.update(quota.key for quota in concerned)
        self._schedule()

    # --- status ---

    def settle(self) -> None:
        """Writes the status of every quota whose status differs from the counted usage."""
        self._scheduled = False
        unsettled, self._unsettled = self._unsettled, set()
        try:
            for key in sorted(unsettled):
                quota = self._quotas.get(key.namespace, {}).get(key.name)
                if quota is not None:
                    self._count(quota)
                    self._write_status(quota)
                unsettled.discard(key)
        finally:
            self._unsettled |= unsettled  # writes that the store could not take

    def _write_status(self, quota: _Quota, more: Usage | None = None) -> None:
        record = self._store.head(quota.key)
        if record is None:
            return
        obj, status = record.load(), quota.status(more)
        if obj.get("status") != status:
            obj["status"] = status
            self._store.put(quota.key, obj)

    def _schedule(self) -> None:
        if self._scheduled:
            return
        try:
            asyncio.get_running_loop().call_soon(self._settle_quietly)
        except RuntimeError:  # no event loop runs yet: the next write settles it
            return
        self._scheduled = True

    def _settle_quietly(self) -> None:
        try:
            self.settle()
        except StoreError:  # the store is full or closed; the next write gets the error, and settles
            return

    def validate(self) -> None:
        """Recounts everything. Raises AssertionError if the usage differs."""
        for quotas in self._quotas.values():
            for quota in filter(lambda each: each.counted, quotas.values()):
                fresh = _Quota(quota.key, quota.hard, quota.scopes)
                self._count(fresh)
                assert _nonzero(fresh.used) == _nonzero(quota.used), quota.key


def _asked(resource: Resource, write: Write) -> bool:
    if write.operation is Operation.CREATE:
        return not write.subresource
    if write.operation is Operation.UPDATE:
        return (resource.id, write.subresource) in ((SERVICES, ""), (PODS, "resize"), (CLAIMS, "status"))
    return False


def _check(resource: Resource, obj: Obj, quota: _Quota, usage: Usage) -> None:
    if not usage:
        return
    if resource.id == PODS and (missing := missing_of(obj, quota.hard)):
        raise _refused(resource, obj, f"failed quota: {quota.key.name}: {missing}")
    exceeded = sorted(
        name for name, amount in usage.items() if quota.used.get(name, _NOTHING) + amount > quota.hard[name]
    )
    if exceeded:
        parts = [
            ",".join(f"{name}={amounts.get(name, _NOTHING)}" for name in exceeded)
            for amounts in (usage, quota.used, quota.hard)
        ]
        told = f"requested: {parts[0]}, used: {parts[1]}, limited: {parts[2]}"
        raise _refused(resource, obj, f"exceeded quota: {quota.key.name}, {told}")


def _refused(resource: Resource, obj: Obj, why: str) -> Forbidden:
    name = obj["metadata"].get("name") or ""
    return forbidden(resource.plural, name, resource.group, why)


def _read(record: Record) -> _Quota:
    obj = record.load()
    scopes = [(name, "Exists", ()) for name in at(obj, "spec", "scopes") or ()]
    for test in at(obj, "spec", "scopeSelector", "matchExpressions") or ():
        values = tuple(test.get("values") or ())
        scopes.append((test.get("scopeName", ""), test.get("operator", "Exists"), values))
    hard: dict[str, Quantity] = {}
    for name, amount in (at(obj, "spec", "hard") or {}).items():
        try:
            hard[name] = Quantity.from_json(amount)
        except QuantityError:
            continue
    return _Quota(record.key, hard, tuple(scopes))


def _resources(quota: _Quota) -> Iterator[str]:
    """The resources that a quota may count: the few that it names, each once."""
    known: Iterable[str] = (PODS, SERVICES, QUOTAS, "configmaps", "secrets", "persistentvolumeclaims")
    named = [name.removeprefix("count/") for name in quota.hard if name.startswith("count/")]
    others = ("replicationcontrollers", "resourceclaims.resource.k8s.io")
    for resource in dict.fromkeys((*known, *others, *named)):
        if quota.covers(resource):
            yield resource


def _nonzero(usage: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {name: amount for name, amount in usage.items() if amount.sign}
