"""Declarative strategies: which parts of a kind the server owns, what its generation counts, which functions check it.

Most kinds differ in the same few points. A status is written through /status alone: new objects get a given one,
updates keep the stored one. A generation counts changes of what users request: everything but metadata and status.
A kind that needs more supplies a function, and the declared facts do the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from allotment.api.fields import FieldError, FieldPath, collected
from allotment.api.plain import at as at  # rules are written with it
from allotment.apiserver.registry.strategy import Strategy, Write
from allotment.apiserver.store.record import Obj

Complete = Callable[[Obj], None]
Check = Callable[[Obj], Iterable[FieldError]]
Comparison = Callable[[Obj, Obj], Iterable[FieldError]]  # the new object, the old one

IMMUTABLE = "field is immutable"
_NOT_ASKED = frozenset({"apiVersion", "kind", "metadata", "status"})


@dataclass(frozen=True, kw_only=True)
class StrategyRules(Strategy):
    """A strategy described by facts, all of them optional."""

    stated: tuple[str, ...] = ()  # objects that are always written, if need be empty: spec, status
    complete: Complete | None = None  # fills in what the user left out
    status: Obj | None = None  # the status of new objects, for kinds that have a /status
    status_kept_on_create: bool = False  # nodes register with one
    status_metadata: frozenset[str] = frozenset()  # metadata that a write to /status does not change
    generation: bool = False  # counts what users ask for, from 1 on
    check: Check | None = None
    check_change: Comparison | None = None  # on updates, besides ``check``
    check_status: Comparison | None = None
    immutable: tuple[str, ...] = ()  # paths with dots, reported as upstream's "field is immutable"

    def default(self, obj: Obj, write: Write) -> None:
        for name in self.stated:
            if obj.get(name) is None:
                obj[name] = {}
        if self.complete is not None:
            self.complete(obj)

    def prepare_create(self, obj: Obj, write: Write) -> None:
        if self.status is not None and not (self.status_kept_on_create and obj.get("status")):
            obj["status"] = msgspec.json.decode(msgspec.json.encode(self.status))
        if self.generation:
            obj["metadata"]["generation"] = 1

    def prepare_update(self, obj: Obj, old: Obj, write: Write) -> None:
        if self.status is not None:
            keep(obj, old, "status")
        keep(obj["metadata"], old["metadata"], "generation")
        if self.generation and asked_differently(obj, old):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_status(self, obj: Obj, old: Obj, write: Write) -> None:
        for name in (obj.keys() | old.keys()) - _NOT_ASKED:
            keep(obj, old, name)
        for name in self.status_metadata | {"generation"}:
            keep(obj["metadata"], old["metadata"], name)

    def validate(self, obj: Obj) -> list[FieldError]:
        return collected(self.check(obj)) if self.check is not None else []

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        errors = self.validate(obj)
        errors += [error for path in self.immutable for error in unchanged(obj, old, path)]
        if self.check_change is not None:
            errors += collected(self.check_change(obj, old))
        return errors

    def validate_status(self, obj: Obj, old: Obj) -> list[FieldError]:
        return collected(self.check_status(obj, old)) if self.check_status is not None else []


def keep(new: Obj, old: Obj, name: str) -> None:
    """Makes a member of the new object what it was in the old one, absence included."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def opened(obj: Obj) -> Obj:
    """A copy in which each part can be set anew, as ``status.phase``; what is deeper is shared, and not to be changed."""
    return {name: part.copy() if isinstance(part, dict) else part for name, part in obj.items()}


def asked_differently(obj: Obj, old: Obj) -> bool:
    """Whether anything but metadata and status differs, as the generation counts it."""
    return any(obj.get(name) != old.get(name) for name in (obj.keys() | old.keys()) - _NOT_ASKED)


def unchanged(obj: Obj, old: Obj, path: str, message: str = IMMUTABLE) -> Iterable[FieldError]:
    """That a field is as it was; an absent one and an empty one are the same."""
    names = path.split(".")
    value = at(obj, *names)
    if (value or None) != (at(old, *names) or None):
        yield FieldPath(*names).invalid(message, value)


ALL_METADATA = frozenset({"labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp"})
"""For ``status_metadata``: of kinds whose /status changes no metadata at all."""
