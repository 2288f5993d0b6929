"""The rules of metadata, which all kinds share: what it may contain, and what may not change.

Messages are Kubernetes'. The schema has already checked the types of the fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from allotment.api.fields import ErrorKind, FieldError, FieldPath, collected
from allotment.api.names import (
    LABEL_LENGTH,
    SUBDOMAIN_LENGTH,
    dns_label_problem,
    dns_subdomain_problem,
    label_key_problem,
    label_value_problem,
)
from allotment.api.selection import key_messages, value_messages
from allotment.api.text import shortened, some_of
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.store.record import Obj

ANNOTATIONS_SIZE = 256 * 1024
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS = frozenset({"kubernetes", ORPHAN, FOREGROUND})
_CONTENT = ("labels", "annotations", "ownerReferences", "finalizers")
_NAMING = ("apiVersion", "kind", "name", "uid")  # what a reference to an owner needs
_IMMUTABLE = "field is immutable"
_META = FieldPath("metadata")
_LABELS, _ANNOTATIONS, _OWNERS, _FINALIZERS = (_META.child(name) for name in _CONTENT)
_FIXED: tuple[tuple[str, Any], ...] = (
    ("name", ""),
    ("namespace", ""),
    ("uid", ""),
    ("creationTimestamp", None),
    ("deletionTimestamp", None),
    ("deletionGracePeriodSeconds", None),
)
"""What never changes once an object is there, with what an absent field counts as."""
_COMPARED = (*(field for field, _ in _FIXED), *_CONTENT)
_DNS_RULES = (dns_subdomain_problem, dns_label_problem)

_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def metadata_errors(resource: Resource, metadata: Obj) -> list[FieldError]:
    """Everything that is wrong with the metadata of an object, new or changed."""
    return [*_name_errors(resource, metadata), *collected(_content_errors(resource, metadata))]


def metadata_change_errors(resource: Resource, new: Obj, old: Obj) -> list[FieldError]:
    """Everything that is wrong with changed metadata. Content that is as it was stored was looked at then."""
    if [*map(new.get, _COMPARED)] == [*map(old.get, _COMPARED)]:  # as in most writes of a status
        return []
    errors = list(_finalizer_additions(new, old)) if old.get("deletionTimestamp") else []
    for field, absent in _FIXED:
        value = new.get(field, absent)
        if value != old.get(field, absent):
            errors.append(_META.child(field).invalid(_IMMUTABLE, value))
    for name in _CONTENT:
        if new.get(name) != old.get(name):
            return [*errors, *collected(_content_errors(resource, new))]
    return errors


def _name_errors(resource: Resource, metadata: Obj) -> Iterator[FieldError]:
    name = metadata.get("name") or ""
    prefix = metadata.get("generateName")
    if prefix:
        # what is appended ends with a letter or digit, so a prefix may end with a dash or a dot
        stem = prefix[:-1] + "a" if prefix[-1] in "-." else prefix
        for message in name_problems(resource.name_problem, stem):
            yield _META.child("generateName").invalid(message, prefix)
    if not name:
        yield _META.child("name").required("name or generateName is required")
    else:
        for message in name_problems(resource.name_problem, name):
            yield _META.child("name").invalid(message, name)
    if resource.namespaced:
        namespace = metadata.get("namespace") or ""
        for message in name_problems(dns_label_problem, namespace):
            yield _META.child("namespace").invalid(message, namespace)


def name_problems(problem: Callable[[str], str | None], name: str) -> list[str]:
    """What is wrong with a name, in Kubernetes' words where the rule is one of its own."""
    found = problem(name)
    if found is None and problem in _DNS_RULES:
        return []  # which can be part of a path
    if segment := _segment_problem(name):
        return [segment]
    if found is None:
        return []
    if problem is dns_subdomain_problem:
        return _told(name, SUBDOMAIN_LENGTH, _SUBDOMAIN_RULE, problem)
    if problem is dns_label_problem:
        return _told(name, LABEL_LENGTH, _LABEL_RULE, problem)
    return [found]


def _told(name: str, limit: int, rule: str, problem: Callable[[str], str | None]) -> list[str]:
    too_long = [f"must be no more than {limit} bytes"] if len(name.encode()) > limit else []
    parts = name.split(".") if problem is dns_subdomain_problem else [name]
    shaped = all(part and dns_label_problem(part[:1] + part[-1:]) is None for part in parts) and all(
        char.isascii() and (char.islower() or char.isdigit() or char in "-.") for char in name
    )
    return too_long if too_long and shaped else [*too_long, rule]


def _segment_problem(name: str) -> str | None:
    if name in (".", ".."):
        return f"may not be '{name}'"
    for char in "/%":
        if char in name:
            return f"may not contain '{char}'"
    return None


def _key_problem(key: str) -> str | None:
    """That of a key of a label, an annotation or a finalizer, which are the same few in all objects."""
    return _known_key_problem(key) if len(key) <= _LONGEST_KEY else label_key_problem(key)


_LONGEST_KEY = SUBDOMAIN_LENGTH + 1 + LABEL_LENGTH
_known_key_problem = lru_cache(1024)(label_key_problem)


def _content_errors(resource: Resource, metadata: Obj) -> Iterator[FieldError]:
    if metadata.get("labels") or metadata.get("annotations"):
        yield from labelling_errors(metadata)
    if owners := metadata.get("ownerReferences"):
        yield from _owner_errors(owners)
    if finalizers := metadata.get("finalizers"):
        yield from _finalizer_errors(finalizers, resource.finalizers_qualified)


def labelling_errors(metadata: Obj) -> Iterator[FieldError]:
    """Everything that is wrong with labels and annotations."""
    for key, value in (metadata.get("labels") or {}).items():
        if _key_problem(key):
            yield from (_LABELS.invalid(message, key) for message in key_messages(key))
        if label_value_problem(value):
            yield from (_LABELS.invalid(message, value) for message in value_messages(value))
    yield from _annotation_errors(metadata.get("annotations") or {})


def _annotation_errors(annotations: dict[str, str]) -> Iterator[FieldError]:
    size = 0
    for key, value in annotations.items():
        if _key_problem(key.lower()):
            yield from (_ANNOTATIONS.invalid(message, key) for message in key_messages(key.lower()))
        size += len(key.encode()) + (len(value) if value.isascii() else len(value.encode()))
    if size > ANNOTATIONS_SIZE:
        yield FieldError(_ANNOTATIONS, ErrorKind.TOO_LONG, f"may not be more than {ANNOTATIONS_SIZE} bytes")


def _owner_errors(owners: list[Obj]) -> Iterator[FieldError]:
    controller = ""
    for number, owner in enumerate(owners):
        at = _OWNERS.index(number)
        version = owner.get("apiVersion") or ""
        for field in _NAMING:
            if not owner.get(field):
                yield at.child(field).required("must not be empty")
        if version and (version.count("/") > 1 or not version.rpartition("/")[2]):
            yield at.child("apiVersion").invalid("must be <group>/<version> or <version>", version)
        if version == "v1" and owner.get("kind") == "Event":
            yield at.invalid("/v1, Kind=Event is disallowed from being an owner", owner)
        if owner.get("controller"):
            named = shortened(f"{owner.get('kind')}/{owner.get('name')}")
            if controller:
                yield _OWNERS.invalid(
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {named}",
                    owners,
                )
            controller = controller or named


def _finalizer_errors(finalizers: list[str], qualified: bool) -> Iterator[FieldError]:
    for number, finalizer in enumerate(finalizers):
        if _key_problem(finalizer):
            yield from (_FINALIZERS.invalid(message, finalizer) for message in key_messages(finalizer))
        elif qualified and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            yield _FINALIZERS.index(number).invalid(
                "name is neither a standard finalizer name nor is it fully qualified", finalizer
            )
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        yield _FINALIZERS.invalid(f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set", finalizers)


def _finalizer_additions(new: Obj, old: Obj) -> Iterator[FieldError]:
    """That an object which is being deleted gets no more of them."""
    added = set(new.get("finalizers") or ()) - set(old.get("finalizers") or ())
    if added:
        listed = some_of([json.dumps(shortened(finalizer)) for finalizer in added])
        yield _META.child("finalizers").forbidden(
            "no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{listed}}}"
        )
