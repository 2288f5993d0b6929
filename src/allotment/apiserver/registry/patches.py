"""The four kinds of patches, each applied to the object in the version of the request.

JSON patch, merge patch and strategic merge patch give a new object, which is then handled like any update. Apply
(server-side) tracks ownership itself, and creates the object if it does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from allotment.api.fields import FieldPath
from allotment.api.patch_type import PatchType
from allotment.api.schema.conform import MAX_REPORTED, duplicate_fields
from allotment.api.status import BadRequest, conflict, invalid, not_found
from allotment.apiserver.patch.json_patch import json_patch
from allotment.apiserver.patch.merge_patch import merge_patch
from allotment.apiserver.patch.strategic import strategic_merge
from allotment.apiserver.registry.body import report
from allotment.apiserver.registry.call import WriteContext, Written
from allotment.apiserver.registry.catalogue import ServedResource
from allotment.apiserver.registry.ownership import applied
from allotment.apiserver.registry.writes import Prepared, Writes, check_name, match_namespace, own_metadata
from allotment.apiserver.store.record import Obj

_OPERATION = frozenset(("op", "path", "from", "value"))


def faults_of(type_: PatchType, raw: bytes, patch: Any) -> list[str]:
    """Duplicate keys in the text of a patch, and unknown members in the operations of a JSON patch."""
    found = duplicate_fields(raw, patch)
    if type_ is not PatchType.JSON or not isinstance(patch, list):
        return found
    for index, operation in enumerate(patch):
        unknown = operation.keys() - _OPERATION if isinstance(operation, dict) else ()
        found += [f'unknown field "[{index}].{name}"' for name in sorted(unknown)]
    return [f"json patch {each}" for each in found[:MAX_REPORTED]]


def _by_name(value: Any) -> Any:
    """The same with the fields of all objects sorted."""
    if isinstance(value, dict):
        return {name: _by_name(value[name]) for name in sorted(value)}
    return [_by_name(each) for each in value] if isinstance(value, list) else value


class Patches:
    """Patches objects of any kind."""

    def __init__(self, writes: Writes) -> None:
        self._writes = writes

    def patch(
        self,
        served: ServedResource,
        namespace: str,
        name: str,
        type_: PatchType,
        patch: Any,
        call: WriteContext,
        subresource: str = "",
    ) -> Written:
        """Stores what the patch makes of the object. Raises StatusError."""
        return self._writes.commit(self.prepare(served, namespace, name, type_, patch, call, subresource))

    def prepare(
        self,
        served: ServedResource,
        namespace: str,
        name: str,
        type_: PatchType,
        patch: Any,
        call: WriteContext,
        subresource: str = "",
        faults: Sequence[str] = (),
    ) -> Prepared:
        """What the patch makes of the object. ``faults`` are those of its text (``faults_of``). Raises StatusError."""
        if type_ is PatchType.APPLY:
            return self._apply(served, namespace, name, patch, call, subresource)

        def change(hub: Obj) -> Obj:
            made = self.patched(served, served.from_hub(hub), type_, patch, call, name, faults)
            match_namespace(served.resource, own_metadata(made), namespace)
            check_name(made, namespace, name)
            return served.to_hub(made)

        return self._writes.prepare_change(served, namespace, name, change, call, subresource)

    def patched(
        self,
        served: ServedResource,
        obj: Obj,
        type_: PatchType,
        patch: Any,
        call: WriteContext,
        name: str,
        faults: Sequence[str] = (),
    ) -> Obj:
        """The object (in the served version) after a patch that is no apply."""
        _check_patch(type_, patch)
        if type_ is PatchType.JSON:
            made = json_patch(obj, patch)
        elif type_ is PatchType.STRATEGIC:
            made = strategic_merge(obj, patch, served.schema)
        else:
            made = merge_patch(obj, patch)
        if not isinstance(made, dict):
            raise BadRequest("a patch must leave an object")
        for field in ("apiVersion", "kind"):
            if made.get(field) != obj[field]:
                raise BadRequest(f"the {field} of an object cannot be patched")
        try:
            conformed = served.conform(made, obj)
        except BadRequest as exc:  # the patch is valid, its result is not
            error = FieldPath("patch").invalid(exc.message, _shown(patch))
            raise invalid(served.resource.kind, name, [error], served.group) from exc
        unknown = conformed.unknown
        if len(unknown) > 1 and type_ is not PatchType.JSON:  # after merging, only the order of names is left
            unknown = served.conform(_by_name(made), obj).unknown
        if problems := [*faults, *unknown]:
            try:
                report(problems, call)
            except BadRequest as exc:
                error = FieldPath("patch").invalid(exc.message, _shown(patch))
                raise invalid(served.resource.kind, name, [error], served.group) from exc
        return conformed.obj

    def _apply(
        self,
        served: ServedResource,
        namespace: str,
        name: str,
        config: Any,
        call: WriteContext,
        subresource: str,
    ) -> Prepared:
        if not isinstance(config, dict):
            raise BadRequest("error decoding patch: an applied configuration is an object")
        wanted: Obj = config
        metadata = own_metadata(wanted)
        metadata.setdefault("name", name)
        check_name(wanted, namespace, name)
        match_namespace(served.resource, metadata, namespace)
        if metadata.get("managedFields"):
            raise BadRequest("metadata.managedFields must be nil")
        record = self._writes.store.head(served.key(namespace, name))
        if record is None:
            if subresource:
                raise not_found(served.resource.plural, name, served.group)
            if uid := metadata.get("uid"):
                why = (
                    f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                )
                raise conflict(served.resource.plural, name, served.group, why)
            metadata.pop("resourceVersion", None)
            return self._writes.prepare_create(
                served,
                namespace,
                served.conform(applied(served, None, wanted, call, "")).obj,
                call,
                True,
            )
        old = record.load()
        live = served.from_hub(record.load())
        merged = served.conform(applied(served, live, wanted, call, subresource)).obj
        merged_metadata = own_metadata(merged)
        if version := metadata.get("resourceVersion"):
            merged_metadata["resourceVersion"] = version
        if uid := metadata.get("uid"):
            merged_metadata["uid"] = uid
        return self._writes.prepare_replace(
            served, record, old, served.to_hub(merged), call, subresource, tracked=True
        )


def _shown(patch: Any) -> str:
    return msgspec.json.encode(patch)[:1000].decode("utf-8", "replace")


def _check_patch(type_: PatchType, patch: Any) -> None:
    wanted, named = (
        (list, "[]handlers.jsonPatchOp") if type_ is PatchType.JSON else (dict, "map[string]interface {}")
    )
    if not isinstance(patch, wanted):
        found = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
        raise BadRequest(
            f"error decoding patch: json: cannot unmarshal {found.get(type(patch), 'null')} into Go value of type {named}"
        )
