"""The columns that a definition gives its kind (``additionalPrinterColumns``).

A row is made on the event loop. So its columns share the values that it may visit, and a cell has a longest text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from allotment.api.text import shortened
from allotment.apiserver.registry.age import since
from allotment.apiserver.registry.custom.jsonpath import MOST_VISITED, JsonPath, PathError
from allotment.apiserver.registry.custom.numbers import told
from allotment.apiserver.registry.resource import PrinterColumn
from allotment.apiserver.store.record import Obj

MOST_COLUMNS: Final = 100
LEAST_VISITED: Final = 1000
"""The values that each column may visit, however many there are."""
LONGEST_CELL: Final = 4096

Cell = Callable[[Any, str], Any]
"""A value and the time now, as a cell."""


def printer_columns(definitions: Iterable[Mapping[str, Any]]) -> tuple[PrinterColumn, ...]:
    """The columns; those after one whose path cannot be read are left out, as upstream leaves them out."""
    wanted = list(definitions)[:MOST_COLUMNS]
    most = max(MOST_VISITED // max(len(wanted), 1), LEAST_VISITED)
    made = []
    for each in wanted:
        try:
            made.append(_column(each, most))
        except PathError:
            break
    return tuple(made) or (AGE,)


def _column(definition: Mapping[str, Any], most: int = MOST_VISITED) -> PrinterColumn:
    text = definition["jsonPath"]
    path, cell = JsonPath(text), _CELLS.get(definition["type"], _text)

    def read(obj: Obj, now: str) -> Any:
        value = path.first(obj, most)
        return None if value is None else cell(value, now)

    return PrinterColumn(
        definition["name"],
        definition["type"],
        read,
        definition.get("description") or f"Custom resource definition column (in JSONPath format): {text}",
        definition.get("format") or "",
        definition.get("priority") or 0,
    )


def _text(value: Any, now: str) -> Any:
    if isinstance(value, str):
        return shortened(value, LONGEST_CELL)
    if isinstance(value, float):
        return told(value)
    text = ""
    for piece in _JSON.iterencode(value):  # which stops where nobody reads on
        text += piece
        if len(text) > LONGEST_CELL:
            return shortened(text, LONGEST_CELL)
    return text


_JSON: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def _whole(value: Any, now: str) -> Any:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(value: Any, now: str) -> Any:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _flag(value: Any, now: str) -> Any:
    return value if isinstance(value, bool) else None


def _age(value: Any, now: str) -> Any:
    return since(value, now, absent="<invalid>") if isinstance(value, str) else None


_CELLS: Final[dict[str, Cell]] = {
    "string": _text,
    "integer": _whole,
    "number": _number,
    "boolean": _flag,
    "date": _age,
}
AGE: Final = _column(
    {
        "name": "Age",
        "type": "date",
        "jsonPath": ".metadata.creationTimestamp",
        "description": "The time since the object was created.",
    }
)
