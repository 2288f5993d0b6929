"""Reads request bodies in Kubernetes' protobuf form into plain JSON values.

kubectl and Kubernetes' own components send some objects this way and do not fall back to JSON. A body is four magic
bytes, then an envelope (``runtime.Unknown``) with the apiVersion, the kind and the object's own bytes, which the tables
of ``api.schema.wire`` decode. We only read this form: every client accepts JSON in reply.

Values that protobuf always writes and JSON omits (an empty string, a false) are omitted. Unknown field numbers are
skipped, as newer clients may send them. Malformed input is a BadRequest.
"""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from allotment.api.nesting import too_deep
from allotment.api.schema.schema import schema_of
from allotment.api.schema.wire import Field, Message, message_of
from allotment.api.status import BadRequest
from allotment.api.text import shortened
from allotment.apiserver.store.record import Obj

MAGIC: Final = b"k8s\x00"
CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
MAX_MESSAGE_DEPTH: Final = 100
"""The deepest nesting of messages."""

_EMPTY: Final = memoryview(b"")


def decode_protobuf(body: bytes) -> Obj:
    """The object in a protobuf body, with its apiVersion and kind. Raises BadRequest."""
    try:
        return _decoded(body)
    except _Malformed as exc:
        raise BadRequest(f"the body is not valid protobuf: {exc}") from exc


def _decoded(body: bytes) -> Obj:
    if not body.startswith(MAGIC):
        raise _Malformed("it does not begin with the four bytes that mark a Kubernetes object")
    api_version = kind = encoding = ""
    raw = _EMPTY
    for number, value in _fields(memoryview(body)[len(MAGIC) :]):
        if number == 1 and isinstance(value, memoryview):
            for inner, text in _fields(value):
                if inner == 1 and isinstance(text, memoryview):
                    api_version = _text(text)
                elif inner == 2 and isinstance(text, memoryview):
                    kind = _text(text)
        elif number == 2 and isinstance(value, memoryview):
            raw = value
        elif number == 3 and isinstance(value, memoryview):
            encoding = _text(value)
    if encoding:
        raise _Malformed(f'the content encoding "{shortened(encoding)}" is not supported')
    message = _message_of(api_version, kind)
    return {"apiVersion": api_version, "kind": kind, **_object(message, raw, MAX_MESSAGE_DEPTH)}


def _message_of(api_version: str, kind: str) -> Message:
    if not kind or not api_version:
        missing = "apiVersion" if kind else "Kind"
        raise BadRequest(f"Object '{missing}' is missing in the protobuf body")
    try:
        return message_of(schema_of(api_version, kind).name)
    except KeyError:
        told = f'no kind "{shortened(kind)}" is registered for version "{shortened(api_version)}"'
        raise BadRequest(told) from None


class _Malformed(ValueError):
    """The bytes do not match the message type. The text completes a sentence about the body."""


# --- the wire: numbers and lengths ---

Value = int | memoryview
"""A value on the wire: a varint as an int, everything else as its bytes, which are not copied."""


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number of up to 64 bits, seven to a byte, and the offset after it."""
    value = shift = 0
    for byte in data[at : at + 10]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise _Malformed("a number is cut off or has more than 64 bits")


def _fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """The field numbers and values of a message, in order. The fast path is for keys and lengths of one byte."""
    at, end = 0, len(data)
    while at < end:
        key, at = (data[at], at + 1) if data[at] < 0x80 else _varint(data, at)
        number, form = key >> 3, key & 7
        if number == 0:
            raise _Malformed("a field has the number 0")
        if form == 0:
            varint, at = _varint(data, at)
            yield number, varint
            continue
        if form == 2:
            length, at = (data[at], at + 1) if at < end and data[at] < 0x80 else _varint(data, at)
        elif form in (1, 5):
            length = 8 if form == 1 else 4
        else:
            raise _Malformed(f"field {number} has the unknown form {form}")
        if length > end - at:
            raise _Malformed(f"field {number} is longer than what is left of the body")
        yield number, data[at : at + length]
        at += length


def _parts(data: memoryview) -> dict[int, Value]:
    """The fields of a small message, each of which occurs once."""
    return dict(_fields(data))


# --- messages ---


def _object(message: Message, data: memoryview, depth: int) -> Obj:
    if depth == 0:
        raise _Malformed(f"more than {MAX_MESSAGE_DEPTH} messages are inside one another")
    made: Obj = {}
    for number, value in _fields(data):
        field = message.fields.get(number)
        if field is None:
            continue
        if field.repeated:
            made.setdefault(field.name, []).extend(_repeated(field, value, depth))
        elif field.mapped:
            key, item = _entry(field, value, depth)
            made.setdefault(field.name, {})[key] = item
        elif field.inlined:
            made.update(_value(field, value, depth))
        else:
            item = _value(field, value, depth)
            if item is None or (field.omits_zero and not item and field.type not in _NEVER_OMITTED):
                made.pop(field.name, None)
            else:
                made[field.name] = item
    return made


_NEVER_OMITTED: Final = frozenset({"quantity", "int-or-string"})
"""Structs in Go, so JSON never omits them."""


def _repeated(field: Field, value: Value, depth: int) -> list[Any]:
    if isinstance(value, memoryview) and field.type in _VARINTS:  # packed: one number after the other
        numbers, at = [], 0
        while at < len(value):
            number, at = _varint(value, at)
            numbers.append(_VARINTS[field.type](number))
        return numbers
    return [_value(field, value, depth)]


def _entry(field: Field, value: Value, depth: int) -> tuple[str, Any]:
    """A map entry: a message with the key under 1 and the value under 2."""
    key = ""
    item: Value = 0 if field.type in _VARINTS else _EMPTY
    if not isinstance(value, memoryview):
        raise _Malformed(f"{field.name} is a number, but should be a map")
    for number, part in _fields(value):
        if number == 1 and isinstance(part, memoryview):
            key = _text(part)
        elif number == 2:
            item = part
    return key, _value(field, item, depth)


def _value(field: Field, value: Value, depth: int) -> Any:
    if isinstance(value, int):
        if field.type in _VARINTS:
            return _VARINTS[field.type](value)
        raise _Malformed(f"{field.name} is a number, but should be of type {field.type}")
    if field.message is not None:
        return _special(field.message, _object(field.message, value, depth - 1))
    read = _LENGTHS.get(field.type)
    if read is None:
        raise _Malformed(f"{field.name} should be a number of type {field.type}")
    return read(value)


def _special(message: Message, made: Obj) -> Any:
    """Messages that are not objects in JSON."""
    if message.is_list:
        return made.get("items", [])
    own = message.name.removeprefix(_APIEXTENSIONS)
    if own in ("JSONSchemaPropsOrArray", "JSONSchemaPropsOrStringArray"):
        return made.get("jSONSchemas") or made.get("property") or made.get("schema")
    if own == "JSONSchemaPropsOrBool":
        return made["schema"] if "schema" in made else made.get("allows", False)
    return made


_APIEXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

# --- single values ---


def _int64(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _int32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def _text(value: memoryview) -> str:
    return str(value, "utf-8", "replace")


def _raw(value: memoryview) -> Any:
    """JSON inside protobuf, as in RawExtension and FieldsV1."""
    text = _parts(value).get(1)
    if not isinstance(text, memoryview) or not text:
        return None
    if too_deep(bytes(text)):
        raise _Malformed("JSON inside it is nested too deeply")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as exc:
        raise _Malformed(f"JSON inside it cannot be read: {exc}") from exc


def _double(value: memoryview) -> float | int:
    if len(value) != 8:
        raise _Malformed("a fraction does not have eight bytes")
    (number,) = struct.unpack("<d", value)
    if not math.isfinite(number):
        raise _Malformed("a fraction is not a number that JSON has")
    return int(number) if number.is_integer() else number


def _quantity(value: memoryview) -> str:
    parts = _parts(value)
    text = parts.get(1, _EMPTY)
    return _text(text) if isinstance(text, memoryview) and text else "0"


def _int_or_string(value: memoryview) -> int | str:
    parts = _parts(value)
    text, number = parts.get(3, _EMPTY), parts.get(2, 0)
    if parts.get(1, 0) == 1:
        return _text(text) if isinstance(text, memoryview) else ""
    return _int32(number) if isinstance(number, int) else 0


def _moment(value: memoryview) -> tuple[datetime | None, int]:
    parts = _parts(value)
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        raise _Malformed("a time is not a number of seconds")
    if seconds == nanos == 0:
        return None, 0
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=_int64(seconds)), nanos // 1000
    except OverflowError as exc:
        raise _Malformed("a time is outside the years 1 to 9999") from exc


def _time(value: memoryview) -> str | None:
    moment, _ = _moment(value)
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S}Z".zfill(20)


def _micro_time(value: memoryview) -> str | None:
    moment, micros = _moment(value)
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S}.{micros % 10**6:06d}Z".zfill(27)


_VARINTS: Final[dict[str, Callable[[int], Any]]] = {"int64": _int64, "int32": _int32, "bool": bool}
_LENGTHS: Final[dict[str, Callable[[memoryview], Any]]] = {
    "string": _text,
    "bytes": lambda value: b64encode(value).decode("ascii"),
    "double": _double,
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    "time": _time,
    "microtime": _micro_time,
    "raw": _raw,
    "fields": _raw,
}
