"""Whole expressions over the libraries, against what Kubernetes made of them: value, errors, both costs."""

from typing import Any

import pytest

from allotment.cel import equality
from allotment.cel.environment import Environment
from allotment.cel.errors import CelCompileError, CelRuntimeError
from allotment.cel.library import (
    bindings,
    cidr,
    comprehensions,
    format,
    ip,
    lists,
    optionals,
    quantity,
    regex,
    reshape,
    semver,
    sets,
    standard,
    strings,
    urls,
)
from allotment.cel.types import DYN, STRING, list_of
from allotment.cel.values import Duration, Optional, Timestamp, TypeValue, UInt, Value, key_value, type_name
from tests.cel.library.recorded import RECORDED, Recorded

MODULES = (
    standard,
    equality,
    strings,
    lists,
    reshape,
    sets,
    regex,
    urls,
    ip,
    cidr,
    format,
    quantity,
    semver,
    comprehensions,
    optionals,
    bindings,
)
ENVIRONMENT = Environment(
    [*(module.LIBRARY for module in MODULES), lists.INCLUDES],
    variables={"s": STRING, "l": list_of(STRING), "x": DYN},
    homogeneous=True,
)
DATA = {"s": "hello", "l": ["a", "b"], "x": 1}
ROWS = [(name, row) for name, rows in RECORDED.items() for row in rows]


def typed(value: Value) -> Any:
    """A value in the notation of the recorded answers."""
    match value:
        case None:
            return ["null"]
        case float():
            return ["double", f"{value:g}"]
        case bytes():
            return ["bytes", value.hex()]
        case Duration() | Timestamp():
            return [type_name(value).rpartition(".")[2].lower(), value.ns]
        case Optional():
            return ["optional", typed(value.value)] if value.present else ["optional"]
        case list():
            return ["list", [typed(item) for item in value]]
        case dict():
            return ["map", [[typed(key_value(key)), typed(item)] for key, item in value.items()]]
        case TypeValue():
            return ["type", value.name]
        case bool() | int() | UInt() | str():
            return [type_name(value), value]
    return [type_name(value), str(value)]


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[f"{name}: {row.expression}" for name, row in ROWS])
def test_recorded(name: str, row: Recorded) -> None:
    if row.answer == "fault":
        with pytest.raises(CelCompileError):
            ENVIRONMENT.compile(row.expression)
        return
    program = ENVIRONMENT.compile(row.expression)
    worst = program.worst_case()
    assert (worst.min, worst.max) == (row.least, row.most)
    if row.answer == "error":
        with pytest.raises(CelRuntimeError) as raised:
            program.evaluate(DATA)
        assert raised.value.cost == row.cost
        return
    result = program.evaluate(DATA)
    assert (typed(result.value), result.cost) == (row.answer, row.cost)
