"""JSON merge patch (RFC 7386): maps merge, null deletes, everything else replaces.

As Kubernetes' library does, nulls are also dropped from objects inside lists: null never means anything in an object
of the API, so it must not come in by this way either.
"""

from __future__ import annotations

from typing import Any

from allotment.api.status import BadRequest
from allotment.apiserver.patch.value import copied
from allotment.apiserver.store.record import Obj


def merge_patch(obj: Obj, patch: Any) -> Obj:
    """``obj`` after ``patch``; both stay as they are. Raises BadRequest for a patch that is no object."""
    if not isinstance(patch, dict):
        raise BadRequest("error decoding patch: a merge patch is an object")
    merged: Obj = copied(obj, "the object")
    _merge(merged, copied(patch, "the patch"))
    return merged


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(current := target.get(key), dict):
            _merge(current, value)
        else:
            target[key] = without_nulls(value)


def without_nulls(value: Any) -> Any:
    """``value`` without the nulls in its objects, at any depth; those that are elements of lists stay."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value
