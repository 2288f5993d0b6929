"""Secrets: like ConfigMaps, but with contents that need protection, and a type that never changes."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator

from allotment.api.fields import FieldError, FieldPath
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.kinds.configmap import MAX_DATA_BYTES, check_sealed, key_problem
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.strategies import StrategyRules, at, unchanged
from allotment.apiserver.store.record import Obj

SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"

# What a Secret of a type must hold. Basic authentication needs one of its two, and is checked apart.
_NEEDED = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_BASIC = ("username", "password")


def _complete(secret: Obj) -> None:
    """``stringData`` is for writing only: it goes into ``data`` in base64."""
    secret.setdefault("type", "Opaque")
    text = secret.pop("stringData", None)
    if text:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _check(secret: Obj) -> Iterator[FieldError]:
    data = secret.get("data") or {}
    path = FieldPath("data")
    for key in data:
        if problem := key_problem(key):
            yield path.key(key).invalid(problem, key)
    if sum(len(value) * 3 // 4 for value in data.values()) > MAX_DATA_BYTES:
        yield path.too_long(MAX_DATA_BYTES)
    yield from _check_contents(secret.get("type", ""), data, path)
    if secret.get("type") == "kubernetes.io/service-account-token" and not at(
        secret, "metadata", "annotations", SERVICE_ACCOUNT_NAME
    ):
        yield FieldPath("metadata", "annotations").key(SERVICE_ACCOUNT_NAME).required()


def _check_contents(type_: str, data: Obj, path: FieldPath) -> Iterator[FieldError]:
    for key in _NEEDED.get(type_, ()):
        if key not in data:
            yield path.key(key).required()
        elif key.startswith(".docker") and not _is_json(data[key]):
            yield path.key(key).invalid("must hold JSON", "<secret contents redacted>")
    if type_ == "kubernetes.io/basic-auth" and not any(key in data for key in _BASIC):
        for key in _BASIC:
            yield path.key(key).required()


def _is_json(encoded: str) -> bool:
    try:
        json.loads(base64.b64decode(encoded))
    except (ValueError, binascii.Error, RecursionError):
        return False
    return True


def _check_change(obj: Obj, old: Obj) -> Iterator[FieldError]:
    yield from unchanged(obj, old, "type")
    yield from check_sealed(obj, old, "data")


RESOURCES = (
    Resource(
        group="",
        version="v1",
        kind="Secret",
        plural="secrets",
        namespaced=True,
        columns=(
            PrinterColumn(
                "Type", "string", lambda obj, now: obj.get("type", ""), "What kind of secret it is."
            ),
            PrinterColumn(
                "Data",
                "string",
                lambda obj, now: len(obj.get("data") or ()),
                "How many entries it holds.",
            ),
            AGE,
        ),
        fields={"type": lambda obj: obj.get("type", "")},
        strategy=StrategyRules(complete=_complete, check=_check, check_change=_check_change),
        doc="Passwords, keys and tokens that pods use.",
    ),
)
