"""Reads as schemas those parts of a schema that the schema of definitions leaves open.

``items``, ``additionalProperties`` and the like may be a schema or something else (a list, a bool), so nothing has checked
them when a definition arrives. Here each is read like the rest: unknown fields are dropped silently, as upstream does,
and values of the wrong type are refused.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.api.schema.conform import conform
from allotment.api.schema.schema import definition
from allotment.api.status import BadRequest

_SCHEMA: Final = definition("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")


def read_open_parts(raw: dict[str, Any]) -> None:
    """Reads them in place, all the way down. Raises BadRequest."""
    pending = [raw]
    while pending:
        here = pending.pop()
        for name in ("additionalProperties", "additionalItems", "items"):
            if here.get(name) is not None:
                here[name] = _read(name, here[name])
        for name in ("allOf", "anyOf", "oneOf"):
            pending += here.get(name) or ()
        for name in ("properties", "patternProperties", "definitions"):
            pending += (here.get(name) or {}).values()
        if here.get("not") is not None:
            pending.append(here["not"])
        for name in ("additionalProperties", "additionalItems", "items"):
            part = here.get(name)
            pending += part if isinstance(part, list) else [part] if isinstance(part, dict) else []


def _read(name: str, part: Any) -> Any:
    if isinstance(part, dict):
        return conform(_SCHEMA, part).obj
    if name == "items" and isinstance(part, list):
        return [_read("", each) for each in part]
    if name.startswith("additional") and isinstance(part, bool):
        return part
    kinds = {"items": "a schema or a list of schemas", "": "a schema"}
    raise BadRequest(
        f'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: '
        f"{name or 'items'} must be {kinds.get(name, 'a schema, true or false')}"
    )
