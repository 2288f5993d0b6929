"""Metadata and conditions, by the rules that all kinds share.

An absent namespace is not an error: clients fill it in, and a manifest may leave it to them.
"""

import re
from collections.abc import Iterator
from typing import Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.meta import Condition, ObjectMeta
from allotment.api.names import (
    dns_label_problem,
    dns_subdomain_problem,
    label_key_problem,
    label_value_problem,
)
from allotment.api.text import byte_length
from allotment.api.validation.lists import named, repeated
from allotment.api.validation.naming import formed

ANNOTATIONS_SIZE: Final = 256 * 1024
CONDITIONS: Final = 8
REASON_LENGTH: Final = 1024
MESSAGE_LENGTH: Final = 32 * 1024

_REASON: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_METADATA: Final = FieldPath("metadata")


def check_metadata(metadata: ObjectMeta, *, namespaced: bool) -> Iterator[FieldError]:
    """Checks name or generateName, namespace if the kind has one, labels, annotations and finalizers."""
    if metadata.generate_name:
        # The server will append at most ten characters, all of them valid, so check with one character.
        yield from named(f"{metadata.generate_name}x", _METADATA.child("generateName"), dns_subdomain_problem)
    if metadata.name:
        yield from named(metadata.name, _METADATA.child("name"), dns_subdomain_problem)
    elif not metadata.generate_name:
        yield _METADATA.child("name").required("is required: set name or generateName")
    if metadata.namespace:
        if namespaced:
            yield from named(metadata.namespace, _METADATA.child("namespace"), dns_label_problem)
        else:
            yield _METADATA.child("namespace").forbidden("must not be set: this kind has no namespace")
    yield from check_labels(metadata, _METADATA)
    for index, finalizer in enumerate(metadata.finalizers):
        yield from named(finalizer, _METADATA.child("finalizers").index(index), label_key_problem)


def check_labels(metadata: ObjectMeta, path: FieldPath) -> Iterator[FieldError]:
    """Checks labels and annotations, which templates have too."""
    for key, value in metadata.labels.items():
        yield from formed(key, path.child("labels"), label_key_problem)
        if problem := label_value_problem(value):
            yield path.child("labels").invalid(problem, value)
    for key in metadata.annotations:
        yield from formed(key.lower(), path.child("annotations"), label_key_problem)
    size = sum(byte_length(key) + byte_length(value) for key, value in metadata.annotations.items())
    if size > ANNOTATIONS_SIZE:
        yield path.child("annotations").too_long(ANNOTATIONS_SIZE)


def check_conditions(
    conditions: tuple[Condition, ...], path: FieldPath, limit: int = CONDITIONS
) -> Iterator[FieldError]:
    """Allows at most ``limit`` conditions, one per type, each with status, time and reason."""
    if len(conditions) > limit:
        yield path.too_many(len(conditions), limit)
        return
    yield from repeated((condition.type for condition in conditions), path)
    for index, condition in enumerate(conditions):
        yield from _check_condition(condition, path.index(index))


def _check_condition(condition: Condition, path: FieldPath) -> Iterator[FieldError]:
    yield from named(condition.type, path.child("type"), label_key_problem)
    if not condition.status:
        yield path.child("status").required()
    elif condition.status not in ("True", "False", "Unknown"):
        yield path.child("status").not_supported(condition.status, ("True", "False", "Unknown"))
    if (condition.observed_generation or 0) < 0:
        yield path.child("observedGeneration").invalid("must not be negative", condition.observed_generation)
    if not condition.last_transition_time:
        yield path.child("lastTransitionTime").required()
    if not condition.reason:
        yield path.child("reason").required()
    elif len(condition.reason) > REASON_LENGTH:
        yield path.child("reason").too_long(REASON_LENGTH)
    elif not _REASON.fullmatch(condition.reason):
        yield path.child("reason").invalid("must be one word in CamelCase", condition.reason)
    if byte_length(condition.message) > MESSAGE_LENGTH:
        yield path.child("message").too_long(MESSAGE_LENGTH)
