"""Table columns that many kinds share: a value at a path, a number, the containers of a template, a selector."""

from __future__ import annotations

from typing import Any

from allotment.api.label_selector import told
from allotment.apiserver.registry.resource import PrinterColumn
from allotment.apiserver.registry.strategies import at
from allotment.apiserver.store.record import Obj


def text(name: str, path: str, description: str, *, absent: str = "", wide: bool = False) -> PrinterColumn:
    """The text at a dotted path."""
    steps = path.split(".")
    return PrinterColumn(
        name, "string", lambda obj, now: at(obj, *steps) or absent, description, priority=1 if wide else 0
    )


def number(name: str, path: str, description: str) -> PrinterColumn:
    """The whole number at a path; absent is 0."""
    steps = path.split(".")
    return PrinterColumn(name, "integer", lambda obj, now: at(obj, *steps) or 0, description)


def flag(name: str, path: str, description: str, *, absent: bool = False) -> PrinterColumn:
    """The truth value at a path."""
    steps = path.split(".")

    def read(obj: Obj, now: str) -> Any:
        value = at(obj, *steps)
        return absent if value is None else value

    return PrinterColumn(name, "boolean", read, description)


def of_template(*path: str) -> tuple[PrinterColumn, PrinterColumn]:
    """Names and images of the containers in the pod template at a path, for ``-o wide``."""

    def joined(obj: Obj, field: str) -> str:
        return ",".join(each.get(field) or "" for each in at(obj, *path, "spec", "containers") or ())

    return (
        PrinterColumn(
            "Containers",
            "string",
            lambda obj, now: joined(obj, "name"),
            "Names of the containers.",
            priority=1,
        ),
        PrinterColumn(
            "Images", "string", lambda obj, now: joined(obj, "image"), "What the containers run.", priority=1
        ),
    )


def selector(*path: str) -> PrinterColumn:
    """The label selector at a path, for ``-o wide``."""
    return PrinterColumn(
        "Selector", "string", lambda obj, now: told(at(obj, *path)), "Which pods are meant.", priority=1
    )


CREATED_AT = PrinterColumn(
    "Created At",
    "date",
    lambda obj, now: obj["metadata"].get("creationTimestamp"),
    "When the object was created.",
)
"""The columns of kinds that define none."""
