"""Applies the label and field selectors of a request to stored records.

Labels are read without decoding the whole object; field values are computed once for each record and kept with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allotment.api.selection import EVERYTHING, Selector
from allotment.api.status import BadRequest
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.store.record import Record

_ALWAYS = ("metadata.name", "metadata.namespace")


class Selection:
    """A test of records. Raises BadRequest for a field by which the kind cannot be selected."""

    def __init__(
        self, resource: Resource, labels: Selector = EVERYTHING, fields: Selector = EVERYTHING
    ) -> None:
        for requirement in fields.requirements:
            if requirement.key not in _ALWAYS and requirement.key not in resource.fields:
                raise BadRequest(_unknown(resource, requirement.key))
        self.resource = resource
        self.labels = labels
        self.fields = fields
        self._of_key = all(requirement.key in _ALWAYS for requirement in fields.requirements)

    def __bool__(self) -> bool:
        """Whether the selection leaves anything out."""
        return bool(self.labels or self.fields)

    @property
    def name(self) -> str:
        """The one name that can match, or empty."""
        return self.fields.exactly("metadata.name") or ""

    def reads(self, record: Record) -> bool:
        """Whether the record must be decoded to decide if it matches."""
        return (bool(self.labels) and not record.labels_known) or (not self._of_key and record.fields is None)

    def matches(self, record: Record) -> bool:
        if self.labels and not self.labels.matches(record.labels):
            return False
        if not self.fields:
            return True
        key = record.key
        values: dict[str, str] = {"metadata.name": key.name, "metadata.namespace": key.namespace}
        if not self._of_key:
            values.update(field_values(self.resource, record))
        return self.fields.matches(values)


def field_values(resource: Resource, record: Record) -> Mapping[str, str]:
    """The record's selectable fields."""
    if record.fields is None:
        obj = record.load()
        record.fields = {name: _text(read(obj)) for name, read in resource.fields.items()}
    return record.fields


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _unknown(resource: Resource, field: str) -> str:
    if resource.fields:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
