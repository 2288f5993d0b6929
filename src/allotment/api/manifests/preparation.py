"""Defaults and checks for one object from a manifest: what an API server would do before storing it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from allotment.api import kinds
from allotment.api.core import Node, Pod
from allotment.api.defaults import with_defaults
from allotment.api.fields import FieldError, FieldPath
from allotment.api.manifests.manifest import Located, ManifestError
from allotment.api.meta import ApiStruct
from allotment.api.validation import ExpressionChecker, validate

_NEVER = "1970-01-01T00:00:00Z"
"""The time given to a taint without one. Nothing here depends on it; a constant keeps output reproducible."""


def prepared(located: Located, check: ExpressionChecker) -> tuple[ApiStruct | None, list[ManifestError]]:
    """The object with its defaults filled in, and its errors, each with its place in the text.

    Returns no object for kinds that we do not know. Namespaced objects without a namespace go into ``default``. If only
    ``generateName`` is given, the line number makes the name unique, as a server's random suffix would.
    """
    known = kinds.find(located.api_version, located.kind)
    if located.obj is None or known is None:
        return None, []
    obj: Any = with_defaults(located.obj, now=_NEVER)
    errors = [*validate(obj, check=check), *_errors(obj)]
    metadata = obj.metadata
    if known.namespaced and not metadata.namespace:
        metadata = replace(metadata, namespace="default")
    if not metadata.name and metadata.generate_name:
        metadata = replace(metadata, name=f"{metadata.generate_name}{located.line}")
    placed: ApiStruct = replace(obj, metadata=metadata)
    return placed, [located.error(str(error.path), error.message) for error in errors]


def _errors(obj: ApiStruct) -> Iterator[FieldError]:
    """Checks of kinds that others validate in full: they need a name, and unambiguous references to claims."""
    if not isinstance(obj, Node | Pod):
        return
    if not (obj.metadata.name or obj.metadata.generate_name):
        yield FieldPath("metadata", "name").required()
    if isinstance(obj, Pod):
        entries = FieldPath("spec", "resourceClaims")
        seen: set[str] = set()
        for index, entry in enumerate(obj.spec.resource_claims):
            at = entries.index(index)
            if not entry.name:
                yield at.child("name").required()
            elif entry.name in seen:
                yield at.child("name").duplicate(entry.name)
            seen.add(entry.name)
            if bool(entry.resource_claim_name) == bool(entry.resource_claim_template_name):
                yield at.invalid("needs exactly one of resourceClaimName and resourceClaimTemplateName")
