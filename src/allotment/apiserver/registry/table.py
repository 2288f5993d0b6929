"""Objects as rows of ``kubectl get``: a Table with the columns of their kind."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.store.record import Obj

_NAME = "Name must be unique within a namespace. It is chosen by whoever creates the object, or made from generateName."


class IncludeObject(Enum):
    """What a row contains besides its cells."""

    NONE = "None"
    METADATA = "Metadata"
    OBJECT = "Object"


def column_definitions(resource: Resource) -> list[Obj]:
    name = {"name": "Name", "type": "string", "format": "name", "description": _NAME, "priority": 0}
    columns = [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in _columns(resource)
    ]
    return [name, *columns] if resource.name_first else columns


def row(resource: Resource, obj: Obj, shown: Obj, include: IncludeObject, now: str) -> Obj:
    """One object's row. ``shown`` is the object in the version that the client asked for."""
    cells = [column.read(obj, now) for column in _columns(resource)]
    if resource.name_first:
        cells.insert(0, obj["metadata"]["name"])
    made: Obj = {"cells": cells}
    if resource.row_conditions is not None and (conditions := resource.row_conditions(obj)):
        made["conditions"] = conditions
    if include is IncludeObject.METADATA:
        made["object"] = partial(obj["metadata"])
    elif include is IncludeObject.OBJECT:
        made["object"] = shown
    return made


def partial(metadata: Obj, version: str = "v1") -> Obj:
    """An object reduced to its metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
    }


def table(version: str, columns: list[Obj] | None, rows: Iterable[Obj], metadata: Obj) -> Obj:
    """A Table. ``columns`` is None in all but the first event of a watch, as the client already has them."""
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": list(rows),
    }


def _columns(resource: Resource) -> tuple[PrinterColumn, ...]:
    return resource.columns or (AGE,)
