"""JSON merge patch (RFC 7386): maps merge, null deletes, everything else replaces.

As Kubernetes' library does, nulls are also dropped from objects inside lists: null never means anything in an object
of the API, so it must not come in by this way either.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.api.nesting import MAX_DEPTH
from allotment.api.status import BadRequest
from allotment.apiserver.store.record import Obj

_OPEN: Final = (dict, list)


def merge_patch(obj: Obj, patch: Any) -> Obj:
    """``obj`` after ``patch``, as a new object that shares what the patch leaves alone; both stay as they are.

    Raises BadRequest for a patch that is no object, or nests too deeply.
    """
    if not isinstance(patch, dict):
        raise BadRequest("error decoding patch: a merge patch is an object")
    return _merged(obj, patch, MAX_DEPTH - 1)


def _merged(obj: Obj, patch: Obj, depth: int) -> Obj:
    """``depth`` is how many levels more a patch may have; what it brings is copied level by level anyway."""
    merged = obj.copy()
    for key, value in patch.items():
        kind = value.__class__
        if value is None:
            merged.pop(key, None)
        elif kind is dict and isinstance(current := obj.get(key), dict):
            if not depth:
                raise _too_deep()
            merged[key] = _merged(current, value, depth - 1)
        elif kind is dict or kind is list:
            merged[key] = without_nulls(value, depth - 1)
        else:
            merged[key] = value
    return merged


def without_nulls(value: Any, depth: int = MAX_DEPTH - 1) -> Any:
    """A copy of ``value`` without the nulls in its objects; those that are elements of lists stay.

    Raises BadRequest if there are more than ``depth`` levels in it.
    """
    if depth < 0:
        raise _too_deep()
    if value.__class__ is dict:
        return {
            key: without_nulls(inner, depth - 1) if inner.__class__ in _OPEN else inner
            for key, inner in value.items()
            if inner is not None
        }
    if value.__class__ is list:
        return [without_nulls(inner, depth - 1) if inner.__class__ in _OPEN else inner for inner in value]
    return value


def _too_deep() -> BadRequest:
    return BadRequest(f"the patch nests deeper than {MAX_DEPTH} levels")
