"""Who owns which fields of an object: the registry's side of managedFields and server-side apply."""

from __future__ import annotations

from allotment.api.status import InternalError
from allotment.apiserver.registry.call import Call
from allotment.apiserver.registry.catalogue import Served
from allotment.apiserver.store.record import Obj


def track_fields(served: Served, new: Obj, old: Obj | None, call: Call, subresource: str) -> None:
    """Writes down in ``new`` (hub version, as ``old``) which fields this write sets."""


def applied(served: Served, live: Obj | None, config: Obj, call: Call, subresource: str) -> Obj:
    """What an apply makes of the live object, both in the served version. Raises Conflict."""
    raise InternalError("server-side apply is not there yet")
