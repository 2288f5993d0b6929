"""One step of a path to a field, in the form that managedFields have: ``f:spec``, ``k:{"name":"web"}``, ``v:"a"``, ``i:0``.

The text is the step: two steps are the same iff their texts are, so sets of fields are plain dicts keyed by it. That
needs one way to write each step. Ours sorts keys and leaves out blanks, as Kubernetes does, and what comes from outside
is read and written anew.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

from allotment.api.schema.schema import Schema

MAX_STEP_LENGTH: Final = 100_000
"""Of a step's text, in characters."""

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode
_UNSAFE = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})  # as Go's encoder escapes them


class BadElement(ValueError):
    """A step that cannot be made or read; the message says why."""


def written(value: Any) -> str:
    text = _encode(value).decode()
    if "<" in text or ">" in text or "&" in text:
        return text.translate(_UNSAFE)
    return text


def of_item(item: Any, schema: Schema) -> str:
    """The step to an element of a list that ``schema`` (the list's) says is a set or keyed. Raises BadElement."""
    if schema.list_type == "set":
        return of_value(item)
    names = schema.list_keys
    try:
        return _of_keys(names, *[item[name] for name in names])
    except (TypeError, KeyError):
        return _of_odd_item(item, schema)


@lru_cache(maxsize=8192, typed=True)  # typed: 1 is not true
def _of_keys(names: tuple[str, ...], *values: Any) -> str:
    if not names:
        raise BadElement("associative list with keys has none")
    return "k:" + written(dict(zip(names, values, strict=True)))


def _of_odd_item(item: Any, schema: Schema) -> str:
    """The step to an element that has not all keys, or some that are no scalars."""
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise BadElement(f"associative list with keys may not have {what}")
    fields = schema.items.properties if schema.items is not None else {}
    keys: dict[str, Any] = {}
    for name in schema.list_keys:
        if name in item:
            keys[name] = item[name]
        elif name in fields and fields[name].default is not None:
            keys[name] = fields[name].default
    if not keys:
        names = " ".join(f'"{name}"' for name in schema.list_keys)
        raise BadElement(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return "k:" + written(keys)


def of_value(value: Any) -> str:
    """The step to an element of a set."""
    if isinstance(value, dict):
        raise BadElement("associative list without keys has an element that's a map type")
    if isinstance(value, list):
        raise BadElement("not supported: associative list with lists as elements")
    if value is None:
        raise BadElement("associative list without keys has an element that's an explicit null")
    return "v:" + written(value)


@lru_cache(maxsize=4096)
def canonical(text: str) -> str | None:
    """A step as we write it; None for one of a kind that we do not know. Raises BadElement for nonsense."""
    if len(text) > MAX_STEP_LENGTH:
        raise BadElement("too long")
    if text[1:2] != ":":
        raise BadElement(f"missing colon: {text[:100]}")
    kind, rest = text[0], text[2:]
    if kind == "f":
        return text
    if kind == "i":
        if not rest.removeprefix("-").isdecimal() or not rest.isascii() or len(rest) > 18:
            raise BadElement(f"not an index: {rest[:100]}")
        return f"i:{int(rest)}"
    if kind not in "kv":
        return None
    try:
        value = _decode(rest)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise BadElement(f"not a JSON value: {rest[:100]}") from exc
    if kind == "k" and not isinstance(value, dict):
        raise BadElement(f"not an object: {rest[:100]}")
    return f"{kind}:{written(value)}"


def spoken(text: str) -> str:
    """A step as error messages have it: ``.spec``, ``[name="web"]``, ``[="a"]``, ``[0]``."""
    kind, rest = text[0], text[2:]
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        return f"[{','.join(f'{name}={written(value)}' for name, value in _decode(rest).items())}]"
    return f"[={rest}]" if kind == "v" else f"[{rest}]"


_KINDS = "fkvi"


def order(text: str) -> tuple[Any, ...]:
    """A sort key: fields by name, then elements by their keys or values, numbers before texts."""
    kind, rest = text[0], text[2:]
    if kind == "f":
        return 0, rest
    value = _decode(rest)
    if kind == "k":
        return 1, *((name, _rank(inner)) for name, inner in value.items())
    return _KINDS.index(kind), _rank(value)


def _rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (3, written(value))
