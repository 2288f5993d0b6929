"""Field ownership: the registry's side of managedFields and server-side apply.

Ownership is tracked in the version of the request. Fields that a strategy will restore anyway (the status on a write to
the object, everything else on a write to its status) have no owner.
"""

from __future__ import annotations

from functools import lru_cache

from allotment.apiserver.patch.apply import apply
from allotment.apiserver.patch.fieldset import EMPTY, FieldSet
from allotment.apiserver.patch.managed import Convert, track
from allotment.apiserver.registry.call import WriteContext
from allotment.apiserver.registry.catalogue import ServedResource
from allotment.apiserver.store.record import Obj


def track_fields(
    served: ServedResource,
    new: Obj,
    old: Obj | None,
    call: WriteContext,
    subresource: str,
    reconciled: bool = False,
) -> bool:
    """Writes down in ``new`` (hub version, as ``old``) which fields this write sets.

    ``reconciled`` tells that the account in ``old`` is as the schema of the served version has it; the answer tells the
    same of ``new``.
    """
    seen = new if served.hub else served.from_hub(new)
    reconciled = track(
        seen,
        old if old is None or served.hub else served.from_hub(old),
        served.schema,
        call.manager,
        api_version=served.api_version,
        now=call.now,
        subresource=subresource,
        reset=put_back(served, subresource),
        convert=_converter(served),
        reconciled=reconciled,
    )
    if seen is not new:
        entries = seen["metadata"].get("managedFields")
        if entries:
            new["metadata"]["managedFields"] = entries
        else:
            new["metadata"].pop("managedFields", None)
    return reconciled


def applied(
    served: ServedResource, live: Obj | None, config: Obj, call: WriteContext, subresource: str
) -> Obj:
    """What an apply makes of the live object, both in the served version. Raises Conflict."""
    return apply(
        live,
        config,
        served.schema,
        call.manager,
        force=call.force,
        api_version=served.api_version,
        now=call.now,
        subresource=subresource,
        reset=put_back(served, subresource),
        convert=_converter(served),
    )


def put_back(served: ServedResource, subresource: str) -> FieldSet:
    """The fields that the strategy restores after every write."""
    if not served.resource.status:
        return EMPTY
    return _all_but_status(served) if subresource == "status" else _STATUS


_STATUS = FieldSet.of_names("status")


@lru_cache(maxsize=1024)
def _all_but_status(served: ServedResource) -> FieldSet:
    names = served.schema.properties.keys() - {"apiVersion", "kind", "metadata", "status"}
    return FieldSet.of_names(*sorted(names))


def _converter(served: ServedResource) -> Convert | None:
    return served.convert if served.resource.versions else None
