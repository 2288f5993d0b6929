"""Server-side apply: a manager states the values of some fields of an object, and owns those fields from then on.

1. The configuration is merged into the live object (``merge.py``).
2. Fields that the same manager applied before and no longer mentions are removed, unless another manager owns them.
3. A change to a field that another manager owns is a conflict; with ``force`` the field changes its owner.
4. Fields that are mentioned with their present value are owned by both managers from then on.

The manager "kubectl" gets help in moving from client-side apply: fields that its last-applied annotation and the object
have in common cause no conflict, and the annotation is kept up to date.
"""

from __future__ import annotations

import json
from typing import Any, Final

from allotment.api.fields import FieldPath
from allotment.api.schema.schema import Schema
from allotment.api.status import BadRequest, Conflict, invalid
from allotment.apiserver.patch.comparison import compare, fields_of, with_named_fields
from allotment.apiserver.patch.element import BadElement
from allotment.apiserver.patch.fieldset import EMPTY, FieldSet, Path, told
from allotment.apiserver.patch.managed import (
    NEVER_OWNED,
    BadManagedFields,
    Convert,
    Entries,
    FieldVersion,
    ManagedEntry,
    ObjectDifference,
    Owner,
    parsed,
    released,
    updated,
    written,
)
from allotment.apiserver.patch.merge import faults, merged, settled, without
from allotment.apiserver.patch.value import copied
from allotment.apiserver.store.record import Obj

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
BEFORE_FIRST_APPLY: Final = "before-first-apply"


def apply(
    live: Obj | None,
    config: Obj,
    schema: Schema,
    manager: str,
    *,
    force: bool,
    api_version: str,
    now: str,
    subresource: str = "",
    reset: FieldSet = EMPTY,
    convert: Convert | None = None,
) -> Obj:
    """The object after ``config`` was applied to ``live`` (None: there is none yet), managedFields included.

    Both are in ``api_version``, which ``schema`` describes; both stay as they are. An object that comes back equal
    need not be stored; one that defaults make equal is for whoever stores it to notice. Raises Invalid without a manager,
    BadRequest for a configuration that makes no sense, and Conflict for fields that others own.
    """
    if not manager:
        required = FieldPath("fieldManager").required("is required for apply patch")
        raise invalid("PatchOptions", "", [required], "meta.k8s.io")
    kind = (live or {}).get("kind") or schema.name.rpartition(".")[2]
    config = _checked(config, schema, api_version, kind)
    live = copied(live, "the object") if live is not None else None
    version = FieldVersion(api_version, schema, reset, convert)
    me: Owner = (manager, "Apply", "", subresource)
    try:
        entries = _entries(live, version, now, subresource)
        applied = fields_of(config, schema).without(reset) - NEVER_OWNED
        mine = ManagedEntry(manager, "Apply", api_version, subresource, _time(entries, me), applied)
        change = _Change(_unmanaged(live or {}), config, version, entries, mine)
        taken = change.owners(force)
    except BadElement as exc:
        raise BadRequest(f"failed to apply to the object: {exc}") from exc
    if change.result != change.live:
        taken = {**taken, me: mine._replace(time=now)}
    if not applied:
        taken.pop(me, None)
    return _finished(change, taken, manager)


def _time(entries: Entries, me: Owner) -> str:
    return entries[me].time if me in entries else ""


def _unmanaged(obj: Obj) -> Obj:
    if "managedFields" in obj.get("metadata", {}):
        del obj["metadata"]["managedFields"]
    return obj


def _checked(config: Any, schema: Schema, api_version: str, kind: str) -> Obj:
    """A copy of the configuration, if it is valid."""
    if not isinstance(config, dict) or not isinstance(config.get("metadata"), dict | None):
        raise BadRequest("error decoding patch: an applied configuration is an object with metadata")
    result: Obj = copied(config, "the applied configuration")
    if result.get("apiVersion") != api_version or (kind and result.get("kind") != kind):
        raise BadRequest(f"invalid object type: {_kind(result)}")
    if (result.get("metadata") or {}).get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    if found := faults(result, schema):
        told_as = found[0] if len(found) == 1 else "\n  ".join(["errors:", *found])
        raise BadRequest(f"failed to create typed patch object ({_named(result)}): {told_as}")
    return result


def _kind(obj: Obj) -> str:
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind') or ''}"


def _named(obj: Obj) -> str:
    metadata = obj.get("metadata") or {}
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {_kind(obj)}"


def _entries(live: Obj | None, version: FieldVersion, now: str, subresource: str) -> Entries:
    """The previous owners. Untracked fields count as one manager's, so that applying to them cannot go unnoticed."""
    if live is None:
        return {}
    try:
        entries = parsed(live.get("metadata", {}).get("managedFields") or [])
    except BadManagedFields:
        entries = {}
    return entries or updated({}, None, live, version, BEFORE_FIRST_APPLY, now=now, subresource=subresource)


class _Change:
    """One application, from the merge to the search for conflicts."""

    def __init__(
        self, live: Obj, config: Obj, version: FieldVersion, entries: Entries, mine: ManagedEntry
    ) -> None:
        self.live, self.config, self.version = live, config, version
        self.entries, self.mine = {**entries, mine.owner: mine}, mine
        self._merged = merged(live, config, version.schema)
        self.result = self._pruned(self._merged, entries.get(mine.owner))
        self._difference = ObjectDifference(live, self.result, version)

    def settled_result(self) -> Obj:
        return settled(self.result, self._merged, self.config, self.version.schema)

    def owners(self, force: bool) -> Entries:
        """All entries after the change. Raises Conflict."""
        if not force:
            self._require_peace()
        return released(self.entries, self._difference, keep=self.mine.owner)

    def _require_peace(self) -> None:
        conflicts: list[tuple[ManagedEntry, Path]] = []
        for owner, entry in self.entries.items():
            change = self._difference.at(entry.api_version)
            if owner != self.mine.owner and change is not None:
                fields = entry.fields & change.gained
                conflicts += [(entry, path) for path in fields]
        if conflicts and self.mine.manager == "kubectl":
            allowed = self._allowed()
            conflicts = [conflict for conflict in conflicts if conflict[1] not in allowed]
        if conflicts:
            raise _conflict(conflicts)

    def _allowed(self) -> FieldSet:
        """Fields that kubectl's client-side apply set and that still have that value."""
        text = self.live.get("metadata", {}).get("annotations", {}).get(LAST_APPLIED)
        try:
            last = copied(json.loads(text), "last applied") if text else None
        except (ValueError, TypeError, RecursionError, BadRequest):
            last = None
        if not isinstance(last, dict) or last.get("apiVersion") != self.version.api_version:
            return EMPTY
        try:
            return fields_of(last, self.version.schema) - compare(last, self.live, self.version.schema).all
        except BadElement:
            return EMPTY

    def _pruned(self, result: Obj, last: ManagedEntry | None) -> Obj:
        """``result`` without fields that were applied last time, are not applied now, and have no other owner."""
        if last is None or not last.fields:
            return result
        there = self.version.at(result, last.api_version)
        if there is None:
            return result
        obj, schema = there
        dropped = with_named_fields(last.fields, schema)
        pruned = without(obj, dropped, schema)
        for api_version, owned in self._owned(last.api_version).items():
            pruned = self._with_owned(result, pruned, last.api_version, api_version, owned)
        gone = _fields(obj, schema) - _fields(pruned, schema)
        pruned = without(obj, gone & dropped, schema)
        if last.api_version == self.version.api_version or self.version.convert is None:
            return pruned
        back = self.version.convert(pruned, self.version.api_version)
        return back[0] if back is not None else result

    def _owned(self, first: str) -> dict[str, FieldSet]:
        """All owned fields by version, including the new configuration and the server's own fields."""
        owned = {first: NEVER_OWNED}
        for entry in self.entries.values():
            owned[entry.api_version] = owned.get(entry.api_version, EMPTY) | entry.fields
        return owned

    def _with_owned(self, result: Obj, pruned: Obj, last: str, api_version: str, owned: FieldSet) -> Obj:
        """``pruned`` (in version ``last``) with those fields of ``result`` restored that are owned in ``api_version``."""
        full = self.version.at(result, api_version)
        less = (pruned, self.version.schema) if api_version == last else self._converted(pruned, api_version)
        if full is None or less is None:
            return pruned
        obj, schema = full
        keep = _fields(less[0], schema) | with_named_fields(owned, schema)
        kept = without(obj, _fields(obj, schema) - keep, schema)
        if api_version == last:
            return kept
        back = self._converted(kept, last)
        return back[0] if back is not None else pruned

    def _converted(self, obj: Obj, api_version: str) -> tuple[Obj, Schema] | None:
        if self.version.convert is None:
            return obj, self.version.schema
        return self.version.convert(obj, api_version)


def _fields(obj: Obj, schema: Schema) -> FieldSet:
    return with_named_fields(fields_of(obj, schema), schema)


def _conflict(conflicts: list[tuple[ManagedEntry, Path]]) -> Conflict:
    conflicts.sort(key=lambda conflict: _rank(conflict[0]))
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_spoken(entry)}", "field": told(path)}
        for entry, path in conflicts
    ]
    if len(conflicts) == 1:
        entry, path = conflicts[0]
        message = f"Apply failed with 1 conflict: conflict with {_spoken(entry)}: {told(path)}"
    else:
        lines: list[str] = []
        for entry, path in conflicts:
            heading = f"conflicts with {_spoken(entry)}:"
            if heading not in lines:
                lines.append(heading)
            lines.append(f"- {told(path)}")
        message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return Conflict(message, {"causes": causes})


def _rank(entry: ManagedEntry) -> tuple[str, str, str, bool, str]:
    """The sort key of managers in messages: by what identifies them, those with a subresource first."""
    manager, operation, version, subresource = entry.owner
    return manager, operation, version, not subresource, subresource


def _spoken(entry: ManagedEntry) -> str:
    name = json.dumps(entry.manager, ensure_ascii=False)
    if entry.subresource:
        name += f' with subresource "{entry.subresource}"'
    return f"{name} using {entry.api_version}" if entry.operation == "Update" else name


def _finished(change: _Change, entries: Entries, manager: str) -> Obj:
    result = copied(change.settled_result(), "the applied object")
    metadata = result.setdefault("metadata", {})
    annotations = metadata.get("annotations") or {}
    if manager == "kubectl" and annotations.get(LAST_APPLIED):
        annotations[LAST_APPLIED] = _last_applied(change.config)
    if entries:
        metadata["managedFields"] = copied(written(entries), "managedFields")
    return dict(result)


def _last_applied(config: Obj) -> str:
    """A configuration in the annotation's form: without the annotation itself, keys sorted, and a line end."""
    config = copied(config, "the applied configuration")
    metadata = config.get("metadata") or {}
    if metadata.get("annotations"):
        metadata["annotations"].pop(LAST_APPLIED, None)
    return json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
