"""What is wrong in an object, and where: field paths and field errors.

A check makes errors from its current path: ``path.child("count").invalid("must be greater than zero", 0)``.
Errors are values, collected and shown together; nothing here raises. The kinds have the names under which a
Kubernetes API server reports them, so that a server can pass them on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from allotment.api.text import quoted
from allotment.api.text import shortened as shortened  # shape imports this name from here

MOST_ERRORS = 1000
"""The most errors collected for one object. A body can hold a hundred thousand, and each costs as much as a check."""
MOST_CHOICES = 100
"""The most supported values that an error lists."""

REQUIRED = "is required"
"""The message for a missing required field that needs no further explanation."""


class Omitted(Enum):
    """Stands in an error for a value that is too large to show."""

    OMITTED = "omitted"


OMITTED = Omitted.OMITTED


class ErrorKind(Enum):
    """What is wrong with a field; the values are the causes in a Kubernetes ``Status``."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    TYPE_INVALID = "FieldValueTypeInvalid"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    DUPLICATE = "FieldValueDuplicate"
    NOT_SUPPORTED = "FieldValueNotSupported"
    NOT_FOUND = "FieldValueNotFound"
    FORBIDDEN = "FieldValueForbidden"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing to correct. ``str`` is the path and the message, for people."""

    path: FieldPath
    kind: ErrorKind
    message: str
    value: object = None
    choices: tuple[str, ...] = ()  # for NOT_SUPPORTED: the supported values
    limit: int | None = None  # for TOO_LONG and TOO_MANY: the limit

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


_new_path = object.__new__  # checks make many paths and use few of them: this spares a call for each


class FieldPath:
    """The way to a field: ``FieldPath("spec").child("devices").index(0).key("a")`` is ``spec.devices[0][a]``."""

    __slots__ = ("_steps",)

    def __init__(self, *names: str) -> None:
        self._steps = names

    def child(self, *names: str) -> FieldPath:
        path = _new_path(FieldPath)
        path._steps = self._steps + names
        return path

    def index(self, index: int) -> FieldPath:
        path = _new_path(FieldPath)
        path._steps = (*self._steps, f"[{index}]")
        return path

    def key(self, key: str) -> FieldPath:
        return FieldPath(*self._steps, f"[{shortened(key)}]")

    def __str__(self) -> str:
        return "".join(step if step[:1] == "[" else f".{step}" for step in self._steps).removeprefix(".")

    def __repr__(self) -> str:
        return f"FieldPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return self._steps == other._steps if isinstance(other, FieldPath) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._steps)

    def required(self, message: str = REQUIRED) -> FieldError:
        return FieldError(self, ErrorKind.REQUIRED, message)

    def invalid(self, message: str, value: object = None) -> FieldError:
        return FieldError(self, ErrorKind.INVALID, message, value)

    def too_long(self, limit: int) -> FieldError:
        return FieldError(self, ErrorKind.TOO_LONG, f"must not be longer than {limit} bytes", limit=limit)

    def too_many(self, count: int, limit: int) -> FieldError:
        return FieldError(
            self,
            ErrorKind.TOO_MANY,
            f"must not have more than {limit} entries, has {count}",
            count,
            limit=limit,
        )

    def duplicate(self, value: object) -> FieldError:
        return FieldError(
            self,
            ErrorKind.DUPLICATE,
            f"{quoted(str(value))} is there already; each may occur once",
            value,
        )

    def not_supported(self, value: object, choices: Iterable[str]) -> FieldError:
        known = tuple(islice(choices, MOST_CHOICES))
        return FieldError(
            self,
            ErrorKind.NOT_SUPPORTED,
            f"{quoted(str(value))} is not supported; use one of {', '.join(known)}",
            value,
            known,
        )

    def not_found(self, message: str, value: object = None) -> FieldError:
        return FieldError(self, ErrorKind.NOT_FOUND, message, value)

    def forbidden(self, message: str) -> FieldError:
        return FieldError(self, ErrorKind.FORBIDDEN, message)


def collected(errors: Iterable[FieldError]) -> list[FieldError]:
    """The errors of an object, computed only until there are more than anybody corrects at once."""
    return list(islice(errors, MOST_ERRORS))
