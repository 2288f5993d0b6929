"""JSON merge patch (RFC 7386): maps merge, null deletes, everything else replaces.

As Kubernetes' library does, nulls are also dropped from objects inside lists: null never means anything in an object
of the API, so it must not come in by this way either.
"""

from __future__ import annotations

from typing import Any

import msgspec

from allotment.api.status import BadRequest
from allotment.apiserver.patch.value import encoded
from allotment.apiserver.store.record import Obj

_decode = msgspec.json.Decoder().decode


def merge_patch(obj: Obj, patch: Any) -> Obj:
    """``obj`` after ``patch``, as a new object that shares what the patch leaves alone; both stay as they are.

    Raises BadRequest for a patch that is no object, or nests too deeply.
    """
    if not isinstance(patch, dict):
        raise BadRequest("error decoding patch: a merge patch is an object")
    text = encoded(patch, "the patch")
    return _merged(obj, _decode(text), with_nulls=b"null" in text)


def _merged(obj: Obj, patch: Obj, with_nulls: bool) -> Obj:
    """``patch`` is nobody else's, so what it brings is taken as it is where there are no nulls to leave out."""
    merged = obj.copy()
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(current := obj.get(key), dict):
            merged[key] = _merged(current, value, with_nulls)
        else:
            merged[key] = without_nulls(value) if with_nulls else value
    return merged


def without_nulls(value: Any) -> Any:
    """``value`` without the nulls in its objects, at any depth; those that are elements of lists stay."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value
