"""JSON to API structs and back.

The fast path is msgspec's typed decoder, one per type. Input that it refuses is walked again, against the type's
shape. Either it holds ``null`` where Kubernetes reads "absent", and is accepted after all; or it is wrong, and the
error names the field as a user would. Quantities arrive as strings or numbers and leave as strings in the form in
which they arrived.

Errors of this package, apart from those of single values (quantities, versions)::

    ApiError
    ├── DecodeError      data that is no object of the wanted type; carries the field's path
    └── ManifestError    text that holds no such objects; carries source, line and field (module manifest)
"""

from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Any, Literal, TypeVar, cast

import msgspec

from allotment.api.meta import ApiStruct
from allotment.api.nesting import MAX_DEPTH, too_deep
from allotment.api.quantity import Quantity
from allotment.api.schema.shape import Misfit, shape_of

__all__ = ["ApiError", "DecodeError", "decode", "encode", "to_builtins"]

MAX_SIZE = 64 * 1024 * 1024
"""The most bytes of JSON, or characters of a manifest, that we read."""

MAX_UNKNOWN = 100
"""The most unknown fields reported for one object: it bounds the cost of a document that consists of them."""

T = TypeVar("T", bound=ApiStruct)


class ApiError(ValueError):
    """Input from outside is not what the API allows."""


class DecodeError(ApiError):
    """Data is not an object of the wanted type.

    ``path`` names the field (``spec.devices[0].attributes[model]``), empty for the whole object.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


def decode(kind: type[T], data: bytes | Mapping[str, Any]) -> T:
    """The typed view of one object, given as JSON or as plain values.

    Decoding ignores fields that the type does not have (:func:`unknown_fields` finds them). Required fields may be
    missing: validation judges that. Raises :class:`DecodeError`.
    """
    try:
        if isinstance(data, bytes):
            _check_bounds(data)
            return cast(T, _decoder(kind).decode(data))
        return msgspec.convert(data, kind, dec_hook=_dec_hook)
    except msgspec.ValidationError:
        return _decode_leniently(kind, data)
    except msgspec.DecodeError as exc:
        raise _not_json(exc) from exc
    except UnicodeEncodeError as exc:
        raise DecodeError("", "holds half a character (a lone surrogate) in a name") from exc
    except RecursionError as exc:
        raise _too_deep() from exc


def decode_event(kind: type[T], line: bytes) -> tuple[str, T] | None:
    """The type and the object of an event that a watch sends, read in one step.

    None for any other event: a bookmark, an error, or one whose object needs :func:`decode` to judge it. The caller
    then reads the parts one by one.
    """
    if len(line) > MAX_SIZE or too_deep(line):
        return None
    try:
        event = _event_decoder(kind).decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return event.type, event.object


def encode(obj: ApiStruct) -> bytes:
    """The object as JSON. Absent fields stay absent."""
    return _ENCODER.encode(obj)


def to_builtins(obj: ApiStruct) -> dict[str, Any]:
    """The object as plain JSON values: dicts, lists, strings, numbers, booleans."""
    return cast(dict[str, Any], msgspec.json.decode(_ENCODER.encode(obj)))


def unknown_fields(kind: type[ApiStruct], data: Mapping[str, Any]) -> list[str]:
    """Paths of fields in ``data`` that the API does not have, each with a guess at the intended name.

    For example ``spec.devices.requests[0].exactly.cuont (did you mean count?)``. At most
    ``MAX_UNKNOWN`` of them.
    """
    try:
        return [path.removeprefix(".") for path in islice(shape_of(kind).unknown(data), MAX_UNKNOWN)]
    except RecursionError as exc:
        raise _too_deep() from exc


def _decode_leniently(kind: type[T], data: bytes | Mapping[str, Any]) -> T:
    try:
        plain = msgspec.json.decode(data) if isinstance(data, bytes) else data
        return msgspec.convert(shape_of(kind).conform(plain, ""), kind, dec_hook=_dec_hook)
    except Misfit as exc:
        raise DecodeError(exc.path.removeprefix("."), exc.message) from exc
    except msgspec.DecodeError as exc:  # the JSON is broken beyond the point where the typed decoder stopped
        raise _not_json(exc) from exc
    except RecursionError as exc:
        raise _too_deep() from exc


def _check_bounds(data: bytes) -> None:
    if len(data) > MAX_SIZE:
        raise DecodeError("", f"is {len(data)} bytes long; at most {MAX_SIZE} are read")
    if too_deep(data):
        raise _too_deep()


def _not_json(exc: msgspec.DecodeError) -> DecodeError:
    # msgspec reports the place without map keys, which does not help
    reason, _, _ = str(exc).partition(" - at ")
    return DecodeError("", f"is not valid JSON: {reason}")


def _too_deep() -> DecodeError:
    return DecodeError("", f"is nested too deeply; at most {MAX_DEPTH} levels are read")


def _dec_hook(kind: type, value: Any) -> Any:
    if kind is Quantity:
        return Quantity.from_json(value)
    raise NotImplementedError(f"no decoding of {kind!r}")


def _enc_hook(value: Any) -> Any:
    if isinstance(value, Quantity):
        return _lossless(value)
    raise NotImplementedError(f"no encoding of {type(value)!r}")


def _lossless(quantity: Quantity) -> str:
    """The canonical form, unless that would be a different amount: Kubernetes writes ``1000E`` as ``1``."""
    text = str(quantity)
    return text if Quantity.parse(text) == quantity else f"{quantity.nanos // 10**9}"


_ENCODER = msgspec.json.Encoder(enc_hook=_enc_hook)


@cache
def _event_decoder(kind: type[ApiStruct]) -> msgspec.json.Decoder[Any]:
    event = msgspec.defstruct("Event", [("type", Literal["ADDED", "MODIFIED", "DELETED"]), ("object", kind)])
    return msgspec.json.Decoder(event, dec_hook=_dec_hook)


@cache
def _decoder(kind: type[ApiStruct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=_dec_hook)
