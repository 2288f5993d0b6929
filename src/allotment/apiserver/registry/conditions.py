"""Conditions in an object's status: observed facts, one entry for each type.

The writer of a status may omit any member of a condition, so this code relies on none of them.
"""

from __future__ import annotations

from allotment.apiserver.store.record import Obj


def condition(obj: Obj, type_: str) -> Obj | None:
    """An object's condition of this type, if it has one."""
    for each in (obj.get("status") or {}).get("conditions") or ():
        if each.get("type") == type_:
            found: Obj = each
            return found
    return None


def is_true(obj: Obj, type_: str) -> bool:
    found = condition(obj, type_)
    return found is not None and found.get("status") == "True"


def set_condition(obj: Obj, type_: str, status: str, reason: str, message: str, now: str) -> None:
    """Sets a condition, in a new list; the time of its last change stays as long as its status does."""
    told = {"type": type_, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}
    if obj.get("status") is None:
        obj["status"] = {}
    conditions = obj["status"]["conditions"] = list(obj["status"].get("conditions") or ())
    for number, each in enumerate(conditions):
        if each.get("type") == type_:
            if each.get("status") == status:
                told["lastTransitionTime"] = each.get("lastTransitionTime") or now
            conditions[number] = {**each, **told}
            return
    conditions.append(told)
