"""ConfigMaps: settings as text or bytes, which may be immutable."""

from __future__ import annotations

import re
from collections.abc import Iterator

from allotment.api.fields import FieldError, FieldPath
from allotment.api.text import byte_length
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.strategies import StrategyRules
from allotment.apiserver.store.record import Obj

MAX_DATA_BYTES = 1024 * 1024  # all values of one ConfigMap or Secret together

_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_LONGEST_KEY = 253


def key_problem(key: str) -> str | None:
    """What is wrong with a key of a ConfigMap or Secret, which must be usable as a file name."""
    if len(key) > _LONGEST_KEY:
        return f"must be no more than {_LONGEST_KEY} characters"
    if not _KEY.fullmatch(key):
        return (
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',"
            f"  or 'key-name', regex used for validation is '{_KEY.pattern}')"
        )
    if key in (".", ".."):
        return f"must not be '{key}'"
    return "must not start with '..'" if key.startswith("..") else None


def _check(config: Obj) -> Iterator[FieldError]:
    text, binary = config.get("data") or {}, config.get("binaryData") or {}
    for key in text:
        if problem := key_problem(key):
            yield FieldPath("data").key(key).invalid(problem, key)
        if key in binary:
            yield FieldPath("data").key(key).invalid("duplicate of key present in binaryData", key)
    for key in binary:
        if problem := key_problem(key):
            yield FieldPath("binaryData").key(key).invalid(problem, key)
    size = sum(map(byte_length, text.values())) + sum(len(value) * 3 // 4 for value in binary.values())
    if size > MAX_DATA_BYTES:
        yield FieldPath().too_long(MAX_DATA_BYTES)


def check_sealed(obj: Obj, old: Obj, *contents: str) -> Iterator[FieldError]:
    """Requires that an object marked immutable stays so and keeps its contents."""
    if not old.get("immutable"):
        return
    for name in ("immutable", *contents):
        if (obj.get(name) or None) != (old.get(name) or None):
            yield FieldPath(name).forbidden("field is immutable when `immutable` is set")


RESOURCES = (
    Resource(
        group="",
        version="v1",
        kind="ConfigMap",
        plural="configmaps",
        namespaced=True,
        short_names=("cm",),
        columns=(
            PrinterColumn(
                "Data",
                "string",
                lambda obj, now: len(obj.get("data") or ()) + len(obj.get("binaryData") or ()),
                "How many entries it holds.",
            ),
            AGE,
        ),
        strategy=StrategyRules(
            check=_check, check_change=lambda obj, old: check_sealed(obj, old, "data", "binaryData")
        ),
        doc="Settings that pods read as files or variables.",
    ),
)
