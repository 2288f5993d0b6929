"""Typed views of plain objects, for strategies whose rules are written on the types of ``api``.

The object itself stays plain JSON; a view is decoded, read and discarded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from allotment.api.codec import DecodeError, decode
from allotment.api.fields import FieldError
from allotment.api.meta import ApiStruct
from allotment.api.status import BadRequest
from allotment.apiserver.registry.strategies import keep
from allotment.apiserver.store.record import Obj

T = TypeVar("T", bound=ApiStruct)

_KEPT_OF_A_STATUS_WRITE = ("managedFields", "resourceVersion")
_NOT_PUT_BACK = frozenset({"apiVersion", "kind", "metadata", "status"})


def view(kind: type[T], obj: Obj) -> T:
    """The object as its type. Raises BadRequest where a field has a wrong JSON type."""
    try:
        return decode(kind, obj)
    except DecodeError as exc:
        raise BadRequest(
            f"{kind.__name__} in version {_quoted(obj)} cannot be handled as a {kind.__name__}: {exc}"
        ) from exc


def differs(kind: type[ApiStruct], obj: Obj, old: Obj, field: str) -> bool:
    """Whether a top-level field means something else than before: an empty list is as good as none, and ``1`` as ``1000m``."""
    if obj.get(field) == old.get(field):
        return False
    before, after = (view(kind, {field: side[field]} if field in side else {}) for side in (old, obj))
    return bool(getattr(before, field) != getattr(after, field))


def content_errors(errors: Iterable[FieldError]) -> list[FieldError]:
    """Those of the content: the pipeline checks ``metadata`` itself, alike for all kinds."""
    return [error for error in errors if not str(error.path).startswith("metadata")]


def first_generation(obj: Obj) -> None:
    obj.setdefault("metadata", {})["generation"] = 1


def next_generation(kind: type[ApiStruct], obj: Obj, old: Obj) -> None:
    """One more than before if the spec changed, whatever the client sent."""
    generation = old.get("metadata", {}).get("generation", 0)
    obj["metadata"]["generation"] = generation + differs(kind, obj, old, "spec")


def keep_all_but_status(obj: Obj, old: Obj) -> None:
    """A write to /status leaves everything else alone; of the metadata only the bookkeeping of the write is new."""
    sent = obj.get("metadata", {})
    metadata = obj["metadata"] = old["metadata"].copy()
    for name in _KEPT_OF_A_STATUS_WRITE:
        keep(metadata, sent, name)
    for field in (obj.keys() | old.keys()) - _NOT_PUT_BACK:
        keep(obj, old, field)


def _quoted(obj: Obj) -> str:
    return f'"{str(obj.get("apiVersion", "")).rpartition("/")[2]}"'
