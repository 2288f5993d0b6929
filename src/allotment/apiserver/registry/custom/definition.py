"""Validates a CustomResourceDefinition, with Kubernetes' messages and paths.

Upstream keeps parts that all versions share in one place, and reports errors there: the schema of a definition with one
version is at ``spec.validation``, its columns at ``spec.additionalPrinterColumns``.

The server refuses features that it does not support, instead of ignoring them: conversion by webhook.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from allotment.api.fields import FieldError, FieldPath
from allotment.apiserver.registry.conditions import is_true
from allotment.apiserver.registry.custom.columns import MOST_COLUMNS
from allotment.apiserver.registry.custom.field_path import BadPath, field_path
from allotment.apiserver.registry.custom.formats import supported
from allotment.apiserver.registry.custom.labels import dns_1035_problems, subdomain_problems
from allotment.apiserver.registry.custom.patterns import DEFINITION_INSTRUCTIONS, too_many_instructions
from allotment.apiserver.registry.custom.schema_rules import schema_errors, schemas_in
from allotment.apiserver.registry.custom.structural import Structural
from allotment.apiserver.registry.strategies import IMMUTABLE, at
from allotment.apiserver.store.record import Obj

Part = Mapping[str, Any]

MOST_SELECTABLE: Final = 8
APPROVED: Final = "api-approved.kubernetes.io"
_SCOPES: Final = ("Cluster", "Namespaced")
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_ROOT_FIELDS: Final = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength",
    "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties",
    "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
_SPEC: Final = FieldPath("spec")


def definition_errors(crd: Obj) -> Iterator[FieldError]:
    """Everything that is wrong with a definition."""
    spec = crd["spec"]
    names, name = spec.get("names") or {}, crd["metadata"].get("name") or ""
    if name != f"{names.get('plural') or ''}.{spec.get('group') or ''}":
        yield FieldPath("metadata", "name").invalid('must be spec.names.plural+"."+spec.group', name)
    yield from _content_errors(crd)


def _content_errors(crd: Obj) -> Iterator[FieldError]:
    spec = crd["spec"]
    if too_many_instructions(_patterns(spec)):
        yield _SPEC.child("versions").forbidden(
            f"the patterns of all versions compile to more than {DEFINITION_INSTRUCTIONS} instructions: counts such as "
            "{0,500} repeat what they count"
        )
        return
    yield from _spec_errors(spec)
    yield from status_errors(crd)
    yield from _stored_errors(crd)
    yield from _approval_errors(crd)
    if spec.get("preserveUnknownFields"):
        yield _SPEC.child("preserveUnknownFields").invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
            True,
        )


def _patterns(spec: Part) -> Iterator[str]:
    for version in spec.get("versions") or ():
        raw = at(version, "schema", "openAPIV3Schema")
        for schema in schemas_in(raw) if raw is not None else ():
            if schema.get("pattern"):
                yield schema["pattern"]


def change_errors(crd: Obj, old: Obj) -> Iterator[FieldError]:
    """Everything that is wrong with a changed definition."""
    approved = at(crd, "metadata", "annotations", APPROVED) == at(old, "metadata", "annotations", APPROVED)
    for error in _content_errors(crd):
        if not (approved and APPROVED in str(error.path)):
            yield error
    fixed = [("scope",), ("names", "kind")] if is_true(old, "Established") else []
    for path in [*fixed, ("group",), ("names", "plural")]:
        value = at(crd, "spec", *path)
        if value != at(old, "spec", *path):
            yield _SPEC.child(*path).invalid(IMMUTABLE, value)


def status_errors(crd: Obj) -> Iterator[FieldError]:
    """What is wrong with a status."""
    return _name_errors(at(crd, "status", "acceptedNames") or {}, FieldPath("status", "acceptedNames"))


def definition_warnings(crd: Obj) -> list[str]:
    """Warnings for the author about the schemas."""
    formats, sets = [], set()
    for version in crd["spec"].get("versions") or ():
        pending = [at(version, "schema", "openAPIV3Schema")]
        while pending:
            raw = pending.pop()
            if not isinstance(raw, dict):
                continue
            format_, items = raw.get("format") or "", raw.get("items")
            if format_ and not supported(raw.get("type") or "", format_):
                formats.append(f'unrecognized format "{format_}"')
            kind = items.get("type") if isinstance(items, dict) else None
            if raw.get("x-kubernetes-list-type") == "set" and kind in ("object", "array"):
                sets.add(
                    f'x-kubernetes-list-type: set for items of type "{kind}" is not supported by server-side apply or CEL '
                    "validation rules"
                )
            pending += [items, raw.get("additionalProperties"), raw.get("not")]
            for name in ("allOf", "anyOf", "oneOf"):
                pending += raw.get(name) or ()
            pending += (raw.get("properties") or {}).values()
    return [*formats, *sorted(sets)]


# --- the spec ---


def _spec_errors(spec: Part) -> Iterator[FieldError]:
    versions: list[Part] = spec.get("versions") or []
    group = spec.get("group") or ""
    if not group:
        yield _SPEC.child("group").required()
    elif problems := subdomain_problems(group):
        yield _SPEC.child("group").invalid(",".join(problems), group)
    elif "." not in group:
        yield _SPEC.child("group").invalid("should be a domain with at least one dot", group)
    yield from _choice_errors(spec.get("scope") or "", _SCOPES, _SPEC.child("scope"))
    for number, version in enumerate(versions):
        if at(version, "schema", "openAPIV3Schema") is None:
            yield _SPEC.child("versions").index(number).child("schema", "openAPIV3Schema").required()
    shared = {
        name: _shared(versions, name)
        for name in ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
    }
    for number, version in enumerate(versions):
        yield from _version_errors(version, _SPEC.child("versions").index(number), shared)
    known = [version.get("name") for version in versions]
    if len(set(known)) < len(known):
        yield _SPEC.child("versions").invalid("must contain unique version names", versions)
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield _SPEC.child("versions").invalid(
            "must have exactly one version marked as storage version", versions
        )
    if known and known[0] and (problems := dns_1035_problems(known[0])):
        yield _SPEC.child("version").invalid(",".join(problems), known[0])  # upstream has the first twice
    names = spec.get("names") or {}
    for name in ("plural", "singular", "kind", "listKind"):
        if not names.get(name):
            yield _SPEC.child("names", name).required()
    yield from _name_errors(names, _SPEC.child("names"))
    if versions:
        yield from _shared_errors(versions, shared)
    yield from _conversion_errors(spec.get("conversion") or {})


def _shared(versions: list[Part], name: str) -> bool:
    """Whether all versions share a part, so that upstream keeps a single copy of it."""
    return bool(versions) and all(
        (each.get(name) or None) == (versions[0].get(name) or None) for each in versions
    )


def _version_errors(version: Part, path: FieldPath, shared: Mapping[str, bool]) -> Iterator[FieldError]:
    name = version.get("name") or ""
    if problems := dns_1035_problems(name):
        yield path.child("name").invalid(",".join(problems), name)
    warning = version.get("deprecationWarning")
    for message in _warning_problems(bool(version.get("deprecated")), warning):
        yield path.child("deprecationWarning").invalid(message, warning)
    if not shared["schema"]:
        yield from _schema_errors(version, path.child("schema"))
    if not shared["subresources"]:
        yield from _subresource_errors(version, path.child("subresources"))
    if not shared["additionalPrinterColumns"]:
        yield from _column_errors(version, path.child("additionalPrinterColumns"))
    if not shared["selectableFields"]:
        yield from _selectable_errors(version, path.child("selectableFields"))


def _shared_errors(versions: list[Part], shared: Mapping[str, bool]) -> Iterator[FieldError]:
    first = versions[0]
    if shared["schema"]:
        yield from _schema_errors(first, _SPEC.child("validation"))
    if shared["subresources"]:
        yield from _subresource_errors(first, _SPEC.child("subresources"))
    if shared["additionalPrinterColumns"]:
        yield from _column_errors(first, _SPEC.child("additionalPrinterColumns"))
    if shared["selectableFields"]:
        yield from _selectable_errors(first, _SPEC.child("selectableFields"))


def _schema_errors(version: Part, path: FieldPath) -> Iterator[FieldError]:
    raw = at(version, "schema", "openAPIV3Schema")
    if raw is None:
        return
    if at(version, "subresources", "status") is not None:
        yield from _root_errors(raw, path)
    yield from schema_errors(raw, path.child("openAPIV3Schema"))


def _root_errors(raw: Part, path: FieldPath) -> Iterator[FieldError]:
    """Errors about parts that would be lost if the schema of a status were separated from the whole."""
    if (kind := raw.get("type") or "") and kind != "object":
        yield path.child("openAPIV3Schema.type").invalid(
            'only "object" is allowed as the type at the root of the schema if the status subresource is enabled',
            kind,
        )
        return
    allowed = {_go_name(name) for name in _ROOT_FIELDS}
    for name, value in raw.items():
        if value not in (None, False, "", [], {}) and _go_name(name) not in allowed:
            yield path.child("openAPIV3Schema").invalid(
                f"only [{' '.join(_ROOT_FIELDS)}] fields are allowed at the root of the schema if the status subresource is "
                "enabled",
                raw,
            )
            return


def _go_name(name: str) -> str:
    return name.replace("x-kubernetes-", "x").replace("-", "").lower()


def _warning_problems(deprecated: bool, warning: str | None) -> Iterator[str]:
    if warning is None:
        return
    if not deprecated:
        yield "can only be set for deprecated versions"
        return
    if len(warning.encode()) > 256:
        yield "must be <= 256 characters long"
    if not warning:
        yield "must not be an empty string"
    for index, char in enumerate(warning):
        if not char.isprintable():
            yield f"must only contain printable UTF-8 characters; non-printable character found at index {index}"
            return


def _choice_errors(value: str, choices: tuple[str, ...], path: FieldPath) -> Iterator[FieldError]:
    if not value:
        yield path.required()
    elif value not in choices:
        yield path.not_supported(value, choices)


def _name_errors(names: Part, path: FieldPath) -> Iterator[FieldError]:
    for field in ("plural", "singular"):
        if (name := names.get(field) or "") and (problems := dns_1035_problems(name)):
            yield path.child(field).invalid(",".join(problems), name)
    for field in ("kind", "listKind"):
        if (name := names.get(field) or "") and (problems := dns_1035_problems(name.lower())):
            told = f"may have mixed case, but should otherwise match: {','.join(problems)}"
            yield path.child(field).invalid(told, name)
    yield from _labels_errors(names.get("shortNames") or (), path.child("shortNames"))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield path.child("listKind").invalid("kind and listKind may not be the same", names["listKind"])
    yield from _labels_errors(names.get("categories") or (), path.child("categories"))


def _labels_errors(labels: Iterable[str], path: FieldPath) -> Iterator[FieldError]:
    for number, label in enumerate(labels):
        if problems := dns_1035_problems(label):
            yield path.index(number).invalid(",".join(problems), label)


def _subresource_errors(version: Part, path: FieldPath) -> Iterator[FieldError]:
    scale = at(version, "subresources", "scale")
    if scale is None:
        return
    for field, roots in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        text, where = scale.get(field) or "", path.child(f"scale.{field}")
        if not text:
            if field != "labelSelectorPath":
                yield where.required()
        elif found := list(_simple_path_errors(text, where)):
            yield from found
        elif not text.startswith(roots):
            under = "either .spec or .status" if len(roots) > 1 else roots[0].rstrip(".")
            yield where.invalid(f"should be a json path under {under}", text)


def _simple_path_errors(text: str, path: FieldPath) -> Iterator[FieldError]:
    if text[0] != ".":
        yield path.invalid("must be a simple json path starting with .", text)


def _column_errors(version: Part, path: FieldPath) -> Iterator[FieldError]:
    if (count := len(version.get("additionalPrinterColumns") or ())) > MOST_COLUMNS:
        yield path.too_many(count, MOST_COLUMNS)
        return
    for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
        here = path.index(number)
        if not column.get("name"):
            yield here.child("name").required()
        kind, format_, text = (
            column.get("type") or "",
            column.get("format") or "",
            column.get("jsonPath") or "",
        )
        told = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not kind:
            yield here.child("type").required(told)
        elif kind not in _COLUMN_TYPES:
            yield here.child("type").invalid(told, kind)
        if format_ and format_ not in _COLUMN_FORMATS:
            yield here.child("format").invalid(f"must be one of {','.join(_COLUMN_FORMATS)}", format_)
        if not text:
            yield here.child("JSONPath").required()
        else:
            yield from _simple_path_errors(text, here.child("JSONPath"))


def _selectable_errors(version: Part, path: FieldPath) -> Iterator[FieldError]:
    selectable = version.get("selectableFields") or ()
    raw = at(version, "schema", "openAPIV3Schema")
    if not selectable or not isinstance(raw, dict):
        return
    structural, seen = Structural(raw), set()
    for number, each in enumerate(selectable):
        where, text = path.index(number).child("jsonPath"), each.get("jsonPath") or ""
        if not text:
            yield where.required()
            continue
        try:
            found, field = field_path(text, structural, brackets=False)
        except BadPath as exc:
            yield where.invalid(f"is an invalid path: {exc}", text)
            continue
        if str(found).partition(".")[0] == "metadata":
            yield where.invalid("must not point to fields in metadata", text)
        if field.type not in ("string", "boolean", "integer"):
            yield where.invalid(
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are "
                "allowed.",
                text,
            )
        if str(found) in seen:
            yield where.duplicate(text)
        seen.add(str(found))
    if len(seen) > MOST_SELECTABLE:
        yield path.too_many(len(seen), MOST_SELECTABLE)


def _conversion_errors(conversion: Part) -> Iterator[FieldError]:
    path, strategy = _SPEC.child("conversion"), conversion.get("strategy") or ""
    yield from _choice_errors(strategy, ("None", "Webhook"), path.child("strategy"))
    if strategy == "Webhook":
        yield path.child("strategy").invalid(
            "this server does not call conversion webhooks; use None, with versions that differ in nothing that needs "
            "converting",
            strategy,
        )
        return
    webhook = conversion.get("webhook") or {}
    for name, told_at in (("clientConfig", "webhookClientConfig"), ("conversionReviewVersions",) * 2):
        if webhook.get(name):
            yield path.child(told_at).forbidden("should not be set when strategy is not set to Webhook")


def _stored_errors(crd: Obj) -> Iterator[FieldError]:
    path = FieldPath("status", "storedVersions")
    stored: list[str] = at(crd, "status", "storedVersions") or []
    versions = crd["spec"].get("versions") or ()
    if not stored:
        yield path.invalid("must have at least one stored version", stored)
        return
    known = {version.get("name") for version in versions}
    for number, name in enumerate(stored):
        if name not in known:
            yield path.index(number).invalid(
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
                f"until a storage migration ensures no data remains persisted in {name} and removes {name} from "
                "status.storedVersions",
                name,
            )


def _approval_errors(crd: Obj) -> Iterator[FieldError]:
    """Groups of the Kubernetes community need an annotation with its approval, or a statement that there is none."""
    group = crd["spec"].get("group") or ""
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return
    path = FieldPath("metadata", "annotations").key(APPROVED)
    approval = at(crd, "metadata", "annotations", APPROVED) or ""
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not approval:
        yield path.required(f'protected groups must have approval annotation "{APPROVED}", {see}')
    elif not approval.startswith("unapproved"):
        try:
            url = urlsplit(approval)
        except ValueError:
            url = urlsplit("")
        if not url.scheme or not url.netloc:
            yield path.invalid(
                f'protected groups must have approval annotation "{APPROVED}" with either a URL or a reason starting with '
                f'"unapproved", {see}',
                approval,
            )
