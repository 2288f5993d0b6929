"""Brings an object that a client sent into the right kind and shape for the registry.

Unknown and duplicate fields are dropped, reported in a warning, or refused, as ``fieldValidation`` requests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from allotment.api.fields import FieldPath
from allotment.api.schema.conform import Conformed, conform
from allotment.api.schema.schema import Schema
from allotment.api.status import BadRequest, invalid
from allotment.apiserver.registry.call import FieldValidation, WriteContext
from allotment.apiserver.registry.catalogue import ServedResource
from allotment.apiserver.store.record import Obj


def accepted(served: ServedResource, sent: Any, duplicates: list[str], call: WriteContext) -> Obj:
    """The body as an object of the served kind. ``duplicates`` are those of ``conform.duplicate_fields``."""
    kind, said = served.resource.kind, sent.get("kind") if isinstance(sent, dict) else None
    if served.resource.readers and isinstance(said, str) and said not in ("", kind):
        metadata = sent.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        wrong = FieldPath("kind").invalid(f"must be {kind}", said)
        raise invalid(kind, name if isinstance(name, str) else "", [wrong], served.group)
    return _accepted(served.api_version, kind, served.conform, sent, duplicates, call)


def accepted_as(
    api_version: str, kind: str, schema: Schema, sent: Any, duplicates: list[str], call: WriteContext
) -> Obj:
    """The same for bodies of any kind."""
    return _accepted(api_version, kind, partial(conform, schema), sent, duplicates, call)


def _accepted(
    api_version: str,
    kind: str,
    read: Callable[[Obj], Conformed],
    sent: Any,
    duplicates: list[str],
    call: WriteContext,
) -> Obj:
    if not isinstance(sent, dict):
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {kind}): the body is no JSON object"
        )
    sent = of_kind(api_version, kind, sent)
    conformed = read(sent)
    problems = duplicates + [each for each in conformed.unknown if each not in duplicates]
    if problems:
        context = f'{kind} in version "{api_version.rpartition("/")[2]}" cannot be handled as a {kind}: '
        report(problems, call, context)
    return conformed.obj


def of_kind(api_version: str, kind: str, sent: Obj) -> Obj:
    """Requires that kind and apiVersion of a body match its path, and fills in missing ones."""
    said_version, said_kind = sent.get("apiVersion"), sent.get("kind")
    if said_version == api_version and said_kind == kind:
        return sent
    for field, value in (("apiVersion", said_version), ("kind", said_kind)):
        if value is not None and not isinstance(value, str):
            raise BadRequest(
                f"the object provided is unrecognized (must be of type {kind}): {field} must be a string"
            )
    if said_kind and said_kind != kind:
        version = (said_version or api_version).rpartition("/")[2]
        raise BadRequest(
            f'{said_kind} in version "{version}" cannot be handled as a {kind}: converting ({version}.{said_kind}) to '
            f"({kind}): unknown conversion"
        )
    if said_version and said_version != api_version:
        raise BadRequest(
            f"the API version in the data ({said_version}) does not match the expected API version ({api_version})"
        )
    return {**sent, "apiVersion": api_version, "kind": kind}


def report(problems: list[str], call: WriteContext, context: str = "") -> None:
    """Reports fields that do not belong in a body, in the way that the caller requested."""
    if call.field_validation is FieldValidation.STRICT:
        raise BadRequest(f"{context}strict decoding error: {', '.join(problems)}")
    if call.field_validation is FieldValidation.WARN:
        for problem in problems:
            call.warn(problem)
