"""Decides which of its requested names a definition gets.

The first definition gets a name: a plural, singular or short name that another definition of the same group has cannot be
used again, nor can a kind or list kind. Refused names are tried again when names become free.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from allotment.apiserver.store.record import Obj


@dataclass(frozen=True, slots=True)
class Naming:
    """What a definition may call its kind, and the condition NamesAccepted."""

    accepted: Obj
    status: str
    reason: str
    message: str


def named(crd: Obj, others: Iterable[Obj]) -> Naming:
    """``others`` are the definitions of the same group, without this one."""
    wanted: dict[str, Any] = crd["spec"]["names"]
    have: dict[str, Any] = (crd.get("status") or {}).get("acceptedNames") or {}
    resources, kinds = _taken(others)
    accepted = dict(have)
    problem = ("NoConflicts", "no conflicts found")
    for field, taken in (("plural", resources), ("singular", resources)):
        if _free(wanted.get(field, ""), have.get(field, ""), taken):
            _set(accepted, field, wanted.get(field))
        else:
            problem = (f"{field.capitalize()}Conflict", _in_use(wanted[field]))
    short, had = wanted.get("shortNames") or [], set(have.get("shortNames") or ())
    clashes = [name for name in short if name not in had and name in resources]
    if clashes:
        told = [_in_use(name) for name in clashes]
        problem = ("ShortNamesConflict", told[0] if len(told) == 1 else f"[{', '.join(told)}]")
    else:
        _set(accepted, "shortNames", short)
    for field, reason in (("kind", "KindConflict"), ("listKind", "ListKindConflict")):
        if _free(wanted.get(field, ""), have.get(field, ""), kinds):
            _set(accepted, field, wanted.get(field))
        else:
            problem = (reason, _in_use(wanted[field]))
    _set(accepted, "categories", wanted.get("categories"))
    return Naming(accepted, "True" if problem[0] == "NoConflicts" else "False", *problem)


def _taken(others: Iterable[Obj]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        names = (other.get("status") or {}).get("acceptedNames") or {}
        resources.update(
            filter(None, (names.get("plural"), names.get("singular"), *(names.get("shortNames") or ())))
        )
        kinds.update(filter(None, (names.get("kind"), names.get("listKind"))))
    return resources, kinds


def _free(wanted: str, have: str, taken: set[str]) -> bool:
    return wanted == have or wanted not in taken


def _set(names: Obj, field: str, value: Any) -> None:
    if value:
        names[field] = value
    else:
        names.pop(field, None)


def _in_use(name: str) -> str:
    return f"{json.dumps(name)} is already in use"
