"""A server's answer to a request that failed, a ``Status`` object, as exceptions.

The server raises them and writes them out with :meth:`StatusError.to_status`; the client reads the reply with
:func:`from_status` and raises the same class again. Codes, reasons and the wording of the messages are Kubernetes'.

::

    StatusError
    ├── BadRequest 400          ├── Conflict 409        ├── UnsupportedMediaType 415
    ├── Unauthorized 401        ├── AlreadyExists 409   ├── Invalid 422
    ├── Forbidden 403           ├── Gone 410            ├── TooManyRequests 429 (retry_after)
    ├── NotFound 404            │   └── Expired         ├── InternalError 500
    ├── MethodNotAllowed 405    ├── TooLarge 413        ├── Unavailable 503
    └── NotAcceptable 406                               ├── Timeout 504
                                                        └── InsufficientStorage 507
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, ClassVar

from allotment.api.fields import MOST_ERRORS, OMITTED, REQUIRED, ErrorKind, FieldError
from allotment.api.text import shortened

MAX_TOLD = 200
"""The most errors listed for one object; the rest is only counted. A body of 3 MiB can hold a hundred thousand."""

MAX_VALUE, MAX_VALUES = 10_000, 100_000
"""Characters of one wrong value that a message shows, and of all wrong values of one object: each error may be about the whole body."""
MAX_NAME = 1_000
"""Characters of the object's name that a message shows: the longest names of any kind are shorter, and it may be what is wrong."""


class StatusError(Exception):
    """A request failed, as the server reports it. ``details`` is the field of the Status object, as plain JSON."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "Unknown"

    def __init__(
        self,
        message: str,
        details: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = dict(details or {})
        # for an expired list: the ``continue`` token with which to go on nevertheless
        self.metadata = dict(metadata or {})

    def to_status(self) -> dict[str, Any]:
        """The Status object to send."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.reason == "Unknown":  # upstream leaves it out
            del status["reason"]
        if self.details:
            status["details"] = self.details
        status["code"] = self.code
        return status

    @property
    def retry_after(self) -> int | None:
        """Seconds after which the client should try again, if the server said so."""
        seconds = self.details.get("retryAfterSeconds")
        return seconds if isinstance(seconds, int) else None


class BadRequest(StatusError):
    code, reason = 400, "BadRequest"


class Unauthorized(StatusError):
    code, reason = 401, "Unauthorized"


class Forbidden(StatusError):
    code, reason = 403, "Forbidden"


class NotFound(StatusError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(StatusError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(StatusError):
    code, reason = 406, "NotAcceptable"


class Conflict(StatusError):
    code, reason = 409, "Conflict"


class AlreadyExists(StatusError):
    code, reason = 409, "AlreadyExists"


class Gone(StatusError):
    code, reason = 410, "Gone"


class Expired(Gone):
    code, reason = 410, "Expired"


class TooLarge(StatusError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(StatusError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(StatusError):
    code, reason = 422, "Invalid"


class TooManyRequests(StatusError):
    code, reason = 429, "TooManyRequests"


class InternalError(StatusError):
    code, reason = 500, "InternalError"


class Unavailable(StatusError):
    code, reason = 503, "ServiceUnavailable"


class Timeout(StatusError):
    code, reason = 504, "Timeout"


class InsufficientStorage(StatusError):
    code, reason = 507, "InsufficientStorage"


_CLASSES: tuple[type[StatusError], ...] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    Conflict,
    AlreadyExists,
    Gone,
    Expired,
    TooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    Unavailable,
    Timeout,
    InsufficientStorage,
)
_BY_REASON = {known.reason: known for known in _CLASSES}
# if two classes have the same code, the first one
_BY_CODE = {known.code: known for known in reversed(_CLASSES)}


def from_status(code: int, body: Mapping[str, Any] | None) -> StatusError:
    """The exception for a failed reply, chosen by reason or else by HTTP code. ``body`` is the Status, if it is one."""
    body = body if isinstance(body, Mapping) else {}
    known = _BY_REASON.get(body.get("reason", ""), _BY_CODE.get(code, StatusError))
    details = body.get("details")
    message = body.get("message") or f"the server answered with HTTP status {code}"
    metadata = body.get("metadata")
    return known(
        str(message),
        details if isinstance(details, Mapping) else None,
        metadata if isinstance(metadata, Mapping) else None,
    )


# --- replies that all resources share, in Kubernetes' words; ``resource`` is the plural name ---


def _of(resource: str, name: str, group: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = resource
    return details


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def not_found(resource: str, name: str, group: str = "") -> NotFound:
    return NotFound(f'{_qualified(resource, group)} "{name}" not found', _of(resource, name, group))


def already_exists(resource: str, name: str, group: str = "") -> AlreadyExists:
    return AlreadyExists(f'{_qualified(resource, group)} "{name}" already exists', _of(resource, name, group))


def conflict(resource: str, name: str, group: str = "", why: str = "") -> Conflict:
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    text = f'Operation cannot be fulfilled on {_qualified(resource, group)} "{name}": {why}'
    return Conflict(text, _of(resource, name, group))


def forbidden(resource: str, name: str, group: str = "", why: str = "") -> Forbidden:
    subject = _qualified(resource, group) + (f' "{name}"' if name else "")
    return Forbidden(f"{subject} is forbidden: {why}", _of(resource, name, group))


def invalid(kind: str, name: str, errors: Iterable[FieldError], group: str = "") -> Invalid:
    """The errors of an object in one message and one cause each. ``kind`` is the kind, not the plural."""
    name = shortened(name, MAX_NAME)  # as it may be what is wrong
    causes, told, length = [], [], 0
    errors = iter(errors)
    for error in islice(errors, MAX_TOLD):
        text, path = told_as_cause(error, with_value=length < MAX_VALUES), str(error.path) or "[]"
        length += len(text)
        causes.append({"reason": error.kind.value, "message": text, "field": path})
        told.append(f"{path}: {text}")
    if more := sum(1 for _ in islice(errors, MOST_ERRORS - MAX_TOLD)):
        told.append(f"and {more} more" if more < MOST_ERRORS - MAX_TOLD else f"and {more} or more others")
    everything = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    return Invalid(
        f'{kind}{f".{group}" if group else ""} "{name}" is invalid: {everything}',
        {**_of(kind, name, group), "causes": causes},
    )


_SPOKEN = {
    ErrorKind.REQUIRED: "Required value",
    ErrorKind.INVALID: "Invalid value",
    ErrorKind.TYPE_INVALID: "Invalid value",
    ErrorKind.TOO_LONG: "Too long",
    ErrorKind.TOO_MANY: "Too many",
    ErrorKind.DUPLICATE: "Duplicate value",
    ErrorKind.NOT_SUPPORTED: "Unsupported value",
    ErrorKind.NOT_FOUND: "Not found",
    ErrorKind.FORBIDDEN: "Forbidden",
}
_WITH_VALUE = frozenset(
    {
        ErrorKind.INVALID,
        ErrorKind.TYPE_INVALID,
        ErrorKind.DUPLICATE,
        ErrorKind.NOT_SUPPORTED,
        ErrorKind.NOT_FOUND,
        ErrorKind.TOO_MANY,
    }
)


_PIECES = json.JSONEncoder(default=str, ensure_ascii=False, separators=(",", ":")).iterencode


def _shown(value: object) -> str:
    """A value as JSON, encoded only up to the length shown: it may be the whole body, and each error may show it."""
    parts: list[str] = []
    length = 0
    for part in _PIECES(value[: MAX_VALUE + 1] if isinstance(value, str | list) else value):
        parts.append(part)
        length += len(part)
        if length > MAX_VALUE:
            return f"{''.join(parts)[:MAX_VALUE]}..."
    return "".join(parts)


def told_as_cause(error: FieldError, *, with_value: bool = True) -> str:
    """One error as Kubernetes words it: the kind of fault, the value if there is one, then what is wrong."""
    parts = [_SPOKEN[error.kind]]
    if with_value and error.kind in _WITH_VALUE and error.value is not OMITTED:
        parts.append(_shown(error.value))
    if error.choices:
        parts.append("supported values: " + ", ".join(f'"{choice}"' for choice in error.choices))
    elif error.kind is ErrorKind.TOO_LONG and error.limit is not None:
        parts.append(f"may not be more than {error.limit} bytes")
    elif error.kind is ErrorKind.TOO_MANY and error.limit is not None:
        parts.append(f"must have at most {error.limit} items")
    elif error.message and error.message != REQUIRED and error.kind is not ErrorKind.DUPLICATE:
        parts.append(error.message)
    return ": ".join(parts)
