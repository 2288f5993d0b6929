"""Conditions of an object as plain JSON: observations about it, one entry per type.

Other writers of a status may leave out any member of a condition, so this code takes none for granted.
"""

from __future__ import annotations

from collections.abc import Iterable

from allotment.client.form import Obj


def found(conditions: Iterable[Obj] | None, type_: str) -> Obj | None:
    return next((each for each in conditions or () if each.get("type") == type_), None)


def true(conditions: Iterable[Obj] | None, type_: str) -> Obj | None:
    """The condition of this type, if it exists and is true."""
    condition = found(conditions, type_)
    return condition if condition is not None and condition.get("status") == "True" else None


def holds(conditions: Iterable[Obj] | None, type_: str) -> bool:
    return true(conditions, type_) is not None


def without(conditions: Iterable[Obj], type_: str) -> list[Obj]:
    return [each for each in conditions if each.get("type") != type_]


def put(conditions: list[Obj], condition: Obj, now: str) -> list[Obj]:
    """The conditions with this one instead of the one of its type, at the same position. It keeps the old time of transition
    unless the status changed."""
    old = found(conditions, condition["type"])
    if old is None:
        return [*conditions, {"lastTransitionTime": now, **condition}]
    same = old.get("status") == condition["status"]
    since = old.get("lastTransitionTime", now) if same else now
    return [{"lastTransitionTime": since, **condition} if each is old else each for each in conditions]
