"""JSON values as patches handle them: copies that nobody else holds, and equality as JSON has it.

A patch that changes while it is applied is copied first, through the encoder. That is the fastest deep copy, leaves the
caller's values alone, and bounds depth, so that walks over the copy may recurse.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from allotment.api.nesting import MAX_DEPTH, too_deep
from allotment.api.status import BadRequest

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode

MAX_SHOWN: Final = 500
"""The most characters of a value that an error message repeats."""


def encoded(value: Any, what: str) -> bytes:
    """``value`` as JSON text. Raises BadRequest, naming ``what``, if it nests too deeply or is no JSON value."""
    try:
        text = _encode(value)
    except RecursionError:
        text = None
    except (TypeError, ValueError, OverflowError) as exc:
        raise BadRequest(f"{what} is not a JSON value: {exc}") from exc
    if text is None or too_deep(text):
        raise BadRequest(f"{what} nests deeper than {MAX_DEPTH} levels")
    return text


def copied(value: Any, what: str) -> Any:
    """A deep copy of ``value``. Raises BadRequest, naming ``what``, if it nests too deeply or is no JSON value."""
    return _decode(encoded(value, what))


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal. Unlike in Python, ``true`` is not 1."""
    return bool(one == other) and _encode_sorted(one) == _encode_sorted(other)


def identity(value: Any) -> tuple[type, Any]:
    """A hashable stand-in for a scalar that keeps ``true`` and 1 apart. Raises TypeError for lists and maps."""
    hash(value)
    return value.__class__, value


def shown(value: Any) -> str:
    """A value as Kubernetes' messages show it, in Go's notation: ``map[name:web ports:[80 443]]``. Shortened."""
    text = _shown(value, MAX_SHOWN)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."


def _shown(value: Any, budget: int) -> str:
    if isinstance(value, dict):
        parts, opening = [f"{key}:" for key in sorted(value)], "map["
        values: list[Any] = [value[key] for key in sorted(value)]
    elif isinstance(value, list):
        parts, opening, values = [""] * len(value), "[", value
    else:
        return _shown_scalar(value)
    told: list[str] = []
    for part, inner in zip(parts, values, strict=True):
        told.append(part + _shown(inner, budget))
        budget -= len(told[-1])
        if budget < 0:
            break
    return f"{opening}{' '.join(told)}]"


def _shown_scalar(value: Any) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)[: MAX_SHOWN + 1]
