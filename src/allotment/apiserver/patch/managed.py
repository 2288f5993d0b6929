"""Field ownership: how a write changes ``metadata.managedFields``.

A write makes its manager the owner of the fields that it added or changed, in addition to those that the manager owned
before, and takes them from all other managers; removed fields have no owner any more. Name, operation, apiVersion and
subresource identify a manager. An entry's time is that of the last write that added to it.

Entries keep fields in the apiVersion in which their manager wrote. They are compared with both objects converted to that
version, so converters are an argument; entries of a version that is no longer known are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, NamedTuple

from allotment.api.schema.schema import Schema
from allotment.apiserver.patch.comparison import Comparison, blank, brought, compare, reconciled
from allotment.apiserver.patch.element import BadElement
from allotment.apiserver.patch.fieldset import EMPTY, FieldSet
from allotment.apiserver.store.record import Obj

MAX_UPDATERS: Final = 10
"""The most entries of updates that are kept; older ones are merged into one."""
ANCIENT: Final = "ancient-changes"
UNKNOWN: Final = "unknown"

NEVER_OWNED: Final = FieldSet.of_names(
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.selfLink",
    "metadata.uid",
    "metadata.clusterName",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
)
"""Fields that the server fills in or that identify an object: they have no owner."""
_NEVER_OWNED: Final = frozenset(step[2:] for step in NEVER_OWNED.fields if step != "f:metadata")
_NEVER_OWNED_METADATA: Final = frozenset(step[2:] for step in NEVER_OWNED.fields["f:metadata"])

Convert = Callable[[Obj, str], tuple[Obj, Schema] | None]
"""An object in another apiVersion, with the schema it has there; None if there is no such version."""

Owner = tuple[str, str, str, str]
"""The manager of an entry: name, operation, apiVersion (empty for Apply), subresource."""


class BadManagedFields(ValueError):
    """The managedFields are invalid; the message says why."""


class ManagedEntry(NamedTuple):
    """One element of managedFields."""

    manager: str
    operation: str  # Update or Apply
    api_version: str
    subresource: str
    time: str  # RFC 3339; empty if unknown
    fields: FieldSet

    @property
    def owner(self) -> Owner:
        # An applier is the same manager in every version, so that applying in a newer one takes over what it applied before.
        version = "" if self.operation == "Apply" else self.api_version
        return self.manager, self.operation, version, self.subresource

    def to_json(self) -> Obj:
        entry: Obj = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version}
        if self.time:
            entry["time"] = self.time
        entry["fieldsType"] = "FieldsV1"
        entry["fieldsV1"] = self.fields.to_json()
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


Entries = dict[Owner, ManagedEntry]


def track(
    new: Obj,
    old: Obj | None,
    schema: Schema,
    manager: str,
    *,
    api_version: str,
    now: str,
    subresource: str = "",
    reset: FieldSet = EMPTY,
    convert: Convert | None = None,
    reconciled: bool = False,
) -> bool:
    """Sets ``new.metadata.managedFields`` for a create (``old`` is None), an update or a patch by ``manager``.

    Both objects are in ``api_version``, which ``schema`` describes; ``new`` is complete with defaults but not yet
    settled by the kind's strategy. ``reset`` names what the strategy will put back, which nobody owns thereby.
    ``reconciled`` tells that the entries of ``old`` in this version are as the schema has them; the answer tells
    the same of those of ``new``.
    """
    metadata = new.setdefault("metadata", {})
    sent = metadata.pop("managedFields", None)
    before = (old or {}).get("metadata", {}).get("managedFields") or []
    if old is not None and not before and not sent:
        return False  # ownership of this object is not tracked
    try:
        start = _sent_entries(sent) if sent is not None and sent != before and not subresource else None
        if start is None:
            start = parsed(before, trusted=True)
        else:
            reconciled = False
        entries = start
        if entries or old is None:
            version = FieldVersion(api_version, schema, reset, convert, reconciled)
            entries = updated(start, old, new, version, manager, now=now, subresource=subresource)
        result = written(capped(entries)) if entries is not start or sent is not None else before
        reconciled = reconciled or entries is not start
    except BadElement:  # a list lacks its keys: an outdated account is better than none
        result = before
    if result:
        metadata["managedFields"] = result
    return reconciled


def _sent_entries(sent: Any) -> Entries | None:
    """The entries that a client sent as the starting point of a write; None if it sent none that can be read."""
    if is_reset(sent):
        return {}
    try:
        return parsed(sent) or None
    except BadManagedFields:
        return None


def is_reset(sent: Any) -> bool:
    """Whether a client asks to reset ownership, by sending no entry or an empty one."""
    return isinstance(sent, list) and sent in ([], [{}])


class FieldVersion(NamedTuple):
    """The version of a request, and the conversion to others. ``reset`` applies to all of them."""

    api_version: str
    schema: Schema
    reset: FieldSet
    convert: Convert | None
    reconciled: bool = False  # whether entries of this version are as its schema has them

    def at(self, obj: Obj, api_version: str) -> tuple[Obj, Schema] | None:
        if api_version == self.api_version or self.convert is None:
            return obj, self.schema
        return self.convert(obj, api_version)


class ObjectDifference:
    """How a new object differs from an old one in each requested version, except for fields that are reset."""

    def __init__(self, old: Obj, new: Obj, version: FieldVersion) -> None:
        self._old, self._new, self._version = old, new, version
        self._known: dict[str, Comparison | None] = {}
        self._changed: dict[str, FieldSet] = {}

    def at(self, api_version: str) -> Comparison | None:
        """The comparison in a version; None if there is no such version."""
        if api_version in self._known:
            return self._known[api_version]
        before, after = self._version.at(self._old, api_version), self._version.at(self._new, api_version)
        comparison = None
        if before is not None and after is not None:
            comparison = compare(before[0], after[0], after[1]).without(self._version.reset)
        self._known[api_version] = comparison
        return comparison

    def leaves(self, entry: ManagedEntry) -> FieldSet:
        """The fields that an owner keeps after the change."""
        comparison = self.at(entry.api_version)
        if comparison is None:
            return EMPTY
        if entry.api_version not in self._changed:
            self._changed[entry.api_version] = comparison.all
        fields = entry.fields
        if entry.api_version == self._version.api_version and not self._version.reconciled:
            fields = reconciled(fields, self._version.schema)
        return fields - self._changed[entry.api_version]


def updated(
    entries: Entries,
    old: Obj | None,
    new: Obj,
    version: FieldVersion,
    manager: str,
    *,
    now: str,
    subresource: str = "",
) -> Entries:
    """The entries after a write. Neither object has managedFields that matter."""
    if old is None and not entries:
        gained = brought(_ownable(new), version.schema).without(version.reset)
    else:
        before = blank(version.schema) if old is None else _unmanaged(old)
        difference = ObjectDifference(before, _unmanaged(new), version)
        comparison = difference.at(version.api_version)
        if not comparison:
            return entries
        entries = released(entries, difference)
        gained = comparison.gained - NEVER_OWNED
    if gained:
        mine = ManagedEntry(manager or UNKNOWN, "Update", version.api_version, subresource, now, gained)
        if (previous := entries.get(mine.owner)) is not None:
            mine = mine._replace(fields=gained | previous.fields)
        entries = {**entries, mine.owner: mine}
    return entries


def released(entries: Entries, difference: ObjectDifference, keep: Owner | None = None) -> Entries:
    """The entries of all managers but ``keep`` without the fields that a write takes. Empty entries are dropped."""
    left: Entries = {}
    for owner, entry in entries.items():
        fields = entry.fields if owner == keep else difference.leaves(entry)
        if fields:
            left[owner] = entry if fields is entry.fields else entry._replace(fields=fields)
    return left


def _ownable(obj: Obj) -> Obj:
    """``obj`` without the fields that have no owner."""
    fields = {name: value for name, value in obj.items() if name not in _NEVER_OWNED}
    metadata = obj.get("metadata") or {}
    fields["metadata"] = {
        name: value for name, value in metadata.items() if name not in _NEVER_OWNED_METADATA
    }
    return fields


def _unmanaged(obj: Obj) -> Obj:
    """``obj`` without its managedFields, which must not be compared."""
    metadata = obj.get("metadata") or {}
    if "managedFields" not in metadata:
        return obj
    metadata = metadata.copy()
    del metadata["managedFields"]
    return {**obj, "metadata": metadata}


def capped(entries: Entries) -> Entries:
    """The entries after merging those of the oldest updates, version by version, until few enough are left."""
    if len(entries) <= MAX_UPDATERS:
        return entries
    updaters = sorted(
        (entry for entry in entries.values() if entry.operation == "Update"),
        key=lambda entry: (entry.time, entry.manager, entry.api_version, entry.subresource),
    )
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return entries
    entries = dict(entries)
    first_of: dict[str, ManagedEntry] = {}
    for entry in updaters:
        if excess <= 0:
            break
        first = first_of.setdefault(entry.api_version, entry)
        if first is entry:
            continue
        bucket = entry._replace(manager=ANCIENT, subresource="")
        if bucket.owner not in entries:
            bucket = bucket._replace(fields=bucket.fields | entries.pop(first.owner).fields)
        else:
            bucket = bucket._replace(fields=bucket.fields | entries[bucket.owner].fields)
        entries.pop(entry.owner, None)
        entries[bucket.owner] = bucket
        excess -= 1
    return entries


# --- to and from JSON ---


def parsed(managed: Any, trusted: bool = False) -> Entries:
    """The entries of ``metadata.managedFields``. Raises BadManagedFields.

    Those of a stored object are ``trusted``: we wrote them, so they need no validation.
    """
    if not isinstance(managed, list):
        raise BadManagedFields("managedFields must be a list")
    entries: Entries = {}
    for index, given in enumerate(managed):
        entry = _stored_entry(given) if trusted else _entry(given, index)
        entries[entry.owner] = entry
    return entries


def _stored_entry(given: Obj) -> ManagedEntry:
    return ManagedEntry(
        given["manager"],
        given["operation"],
        given["apiVersion"],
        given.get("subresource", ""),
        given.get("time", ""),
        FieldSet(given["fieldsV1"], stored=True),
    )


def _entry(given: Any, index: int) -> ManagedEntry:
    if not isinstance(given, dict):
        raise BadManagedFields(f"managed fields entry {index} must be an object")
    texts = [given.get(name) or "" for name in ("manager", "operation", "apiVersion", "subresource", "time")]
    if not all(isinstance(text, str) for text in texts):
        raise BadManagedFields(f"managed fields entry {index}: expected texts")
    manager, operation, api_version, subresource, time = texts
    if operation not in ("Apply", "Update"):
        raise BadManagedFields("operation must be `Apply` or `Update`")
    if not api_version:
        raise BadManagedFields("apiVersion must not be empty")
    fields_type = given.get("fieldsType")
    if not fields_type:
        raise BadManagedFields(f"missing fieldsType in managed fields entry {index}")
    if fields_type != "FieldsV1":
        raise BadManagedFields(f'invalid fieldsType "{fields_type}" in managed fields entry {index}')
    try:
        fields = FieldSet.parse(given.get("fieldsV1") or {})
    except BadElement as exc:
        raise BadManagedFields(f"error decoding set of managed fields entry {index}: {exc}") from exc
    return ManagedEntry(manager, operation, api_version, subresource, time, fields)


def written(entries: Entries) -> list[Obj]:
    """The entries as ``metadata.managedFields``, in Kubernetes' order."""
    return [entry.to_json() for entry in sorted(entries.values(), key=_PLACE)]


_PLACE: Final = attrgetter("operation", "time", "manager", "api_version", "subresource")
