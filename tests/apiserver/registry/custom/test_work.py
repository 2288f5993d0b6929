"""A small object of a custom kind whose schema makes it much work: a thread takes over, or the object is refused.

Each of these held the event loop for seconds, or made an error of the server.
"""

from __future__ import annotations

import time
import weakref
from random import Random
from typing import Any

import pytest

from allotment.api.fields import MOST_ERRORS, FieldError
from allotment.api.status import TooLarge
from allotment.apiserver.allowance import TooMuchAtOnce, at_once
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry.catalogue import ResourceCatalogue, ServedResource
from allotment.apiserver.registry.custom.columns import LONGEST_CELL, MOST_COLUMNS
from allotment.apiserver.registry.custom.definition import definition_errors
from allotment.apiserver.registry.custom.formats import format_check
from allotment.apiserver.registry.custom.kind import resource_of
from allotment.apiserver.registry.custom.patterns import DEFINITION_INSTRUCTIONS, Pattern
from allotment.apiserver.registry.custom.pruning import MOST_VALUES_FILLED, fill
from allotment.apiserver.registry.custom.rules import rule_tree
from allotment.apiserver.registry.custom.structural import Structural
from allotment.apiserver.registry.custom.values import ValueSchema
from allotment.apiserver.registry.forms import Table
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.registry.table import IncludeObject
from tests.apiserver.registry.custom.schemas import TEXT, WHOLE, Raw, array, definition, obj

HELD = 0.15
"""Seconds of the processor, for a machine that is busy."""
WRITE = Write(Operation.CREATE, ADMINISTRATOR, "2026-01-02T03:04:05Z")
OPEN: Raw = {"x-kubernetes-preserve-unknown-fields": True}

_random = Random(1)
LETTERS = "".join(_random.choice("ab") for _ in range(20_000))
MANY = {"a": list(range(6000))}


def rules(*texts: str) -> Raw:
    return {"x-kubernetes-validations": [{"rule": text, "message": f"m{n}"} for n, text in enumerate(texts)]}


def split(*stems: str) -> dict[str, int]:
    return {f"{stem}{number}": number for stem in stems for number in range(2500)}


SLOW: dict[str, tuple[Raw, Any, Any]] = {
    "one slow pattern": ({**TEXT, "pattern": "(.{0,999}c)"}, LETTERS, None),
    "many slow patterns": (
        {**TEXT, "anyOf": [{"pattern": f"[ab]*a[ab]{{{n}}}c"} for n in range(600, 700)]},
        LETTERS,
        None,
    ),
    "patterns that nobody compiled yet": (
        obj(**{f"p{n}": {**TEXT, "pattern": f"^[a-z]{{0,{n + 300}}}$"} for n in range(400)}),
        {f"p{n}": "a" for n in range(400)},
        None,
    ),
    "formats in alternatives": (
        {**TEXT, "anyOf": [{"format": "email", "minLength": n} for n in range(100)]},
        "<" * 20_000,
        None,
    ),
    "wide alternatives": (
        array({**TEXT, "oneOf": [{"maxLength": n} for n in range(300)]}),
        ["abc"] * 5000,
        None,
    ),
    "missing fields": (
        array({"type": "object", "required": [f"name{n}" for n in range(2500)]}),
        [{}] * 5000,
        None,
    ),
    "choices that are lists": (
        array({**OPEN, "enum": [[0] * 300 + [n] for n in range(100)]}),
        [[0] * 300] * 40,
        None,
    ),
    "rules for each element, all unchanged": (
        array({**WHOLE, **rules("self < 100000")}, maxItems=10_000),
        list(range(6000)),
        list(range(6000)),
    ),
    "rules for each field, half of them new": (
        {"type": "object", "additionalProperties": {**WHOLE, **rules("self >= 0")}, "maxProperties": 10_000},
        split("k", "n"),
        split("k", "o"),
    ),
    "constant rules": (
        array({**WHOLE, **rules(*["true"] * 900)}, maxItems=10_000),
        [1] * 10_000,
        None,
    ),
    "rules that an unchanged object breaks": (
        {**obj(x={"type": "object", **OPEN}), **rules(*["false"] * 900)},
        {"x": MANY},
        {"x": MANY},
    ),
    "small defaults": (
        array(obj(**{f"p{n}": {**WHOLE, "default": 0} for n in range(600)})),
        [{} for _ in range(5000)],
        None,
    ),
}


def errors_of(schema: Raw, spec: Any, old: Any) -> list[FieldError]:
    crd = definition(schema=obj(spec=schema))
    crd["metadata"]["generation"] = 1
    crd["status"] = {"acceptedNames": crd["spec"]["names"]}
    strategy = resource_of(crd).strategy
    head = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    new = {**head, "spec": spec}
    strategy.default(new, WRITE)
    return strategy.validate(new) if old is None else strategy.validate_update(new, {**head, "spec": old})


@pytest.mark.parametrize(("schema", "spec", "old"), SLOW.values(), ids=SLOW)
def test_an_expensive_schema_does_not_hold_the_loop(schema: Raw, spec: Any, old: Any) -> None:
    begun = time.thread_time()
    with at_once(), pytest.raises(TooMuchAtOnce):
        errors_of(schema, spec, old)
    assert time.thread_time() - begun < HELD


def test_an_unchanged_value_is_compared_once_for_all_alternatives() -> None:
    alternatives = [{"properties": {"x": {"minProperties": n + 2}}} for n in range(800)]
    schema = {**obj(x={"type": "object", **OPEN}), "oneOf": alternatives}
    begun = time.thread_time()
    errors_of(schema, {"x": MANY}, {"x": {"a": list(range(6000))}})
    assert time.thread_time() - begun < HELD


def test_an_ordinary_object_is_judged_at_once() -> None:
    name = {**TEXT, "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
    port = {**WHOLE, "minimum": 1, "maximum": 65535, **rules("self != 22")}
    schema = array(obj("name", name=name, port=port, at={**TEXT, "format": "date-time"}), maxItems=100)
    spec = [{"name": f"part-{n}", "port": n + 100, "at": "2026-01-02T03:04:05Z"} for n in range(100)]
    with at_once():
        assert errors_of(schema, spec, None) == []


def test_matching_that_would_take_a_minute_is_refused_before_it_begins() -> None:
    begun = time.thread_time()
    (error,) = ValueSchema({**TEXT, "pattern": "(.{0,999}c)"}).errors(LETTERS * 60)
    assert "which is too many" in error.message
    assert time.thread_time() - begun < HELD


@pytest.mark.parametrize(
    "text", ["(" * 5000, "a:" * 5000, "[" * 5000], ids=["comments", "groups", "literals"]
)
def test_an_address_that_nests_is_none(text: str) -> None:
    email = format_check("email")
    assert email is not None
    assert not email(text)


def test_a_long_address_is_not_kept_once_it_is_judged() -> None:
    """Python remembers the last hundred, of whatever size."""

    class Text(str):
        pass

    uri, text = format_check("uri"), Text("https://example.com/" + "a" * 1_000_000)
    there = weakref.ref(text)
    assert uri is not None
    assert uri(text)
    del text
    assert there() is None


def test_of_many_broken_rules_some_are_told() -> None:
    tree = rule_tree(Structural(array({**WHOLE, **rules("false")}, maxItems=10_000)), root=False)
    assert tree is not None
    assert len(tree.run([1] * 5000).errors) == MOST_ERRORS


def test_a_long_pattern_is_shortened_in_each_error() -> None:
    (error,) = ValueSchema({**TEXT, "pattern": f"[{'ab' * 50_000}]"}).errors("c")
    assert len(error.message) < 2000


def test_patterns_that_are_huge_programs_are_refused() -> None:
    assert Pattern("[\\pL]{0,25}").size > DEFINITION_INSTRUCTIONS / 100
    wide = [{"pattern": f"[\\pL]{{0,{n}}}"} for n in range(2, 30)] * 30
    crd = definition(schema=obj(spec={**TEXT, "anyOf": wide}))
    begun = time.thread_time()
    (error,) = [each for each in definition_errors(crd) if "instructions" in each.message]
    assert str(error.path) == "spec.versions"
    assert time.thread_time() - begun < 2
    begun = time.thread_time()
    with at_once(), pytest.raises(TooMuchAtOnce):
        list(definition_errors(crd))
    assert time.thread_time() - begun < HELD


def columns(count: int, path: str) -> list[Raw]:
    return [{"name": f"c{number}", "type": "string", "jsonPath": path} for number in range(count)]


@pytest.mark.parametrize("path", ["..x", ".spec[*]", ".spec[?(@==1)]", ".spec"])
def test_a_row_of_many_columns_is_short_work(path: str) -> None:
    crd = definition(schema=obj(spec=array(WHOLE)), additionalPrinterColumns=columns(MOST_COLUMNS, path))
    crd["status"] = {"acceptedNames": crd["spec"]["names"]}
    resource = resource_of(crd)
    begun = time.thread_time()
    cells = [column.read({"spec": list(range(12_000))}, "") for column in resource.columns]
    assert time.thread_time() - begun < HELD
    assert all(cell is None or len(cell) <= LONGEST_CELL for cell in cells)


def test_more_columns_than_anybody_reads_are_refused() -> None:
    crd = definition(additionalPrinterColumns=columns(MOST_COLUMNS + 1, ".spec.a"))
    assert [str(error.path) for error in definition_errors(crd) if error.limit == MOST_COLUMNS] == [
        "spec.additionalPrinterColumns"
    ]


@pytest.mark.parametrize(("count", "piece"), [(1, 100), (20, 5), (MOST_COLUMNS, 1)])
def test_few_rows_of_many_columns_are_made_at_once(count: int, piece: int) -> None:
    crd = definition(additionalPrinterColumns=columns(count, ".spec.a"))
    crd["status"] = {"acceptedNames": crd["spec"]["names"]}
    served = ResourceCatalogue([resource_of(crd)]).find("example.com", "v1", "widgets")
    assert isinstance(served, ServedResource)
    assert Table(served, "v1", IncludeObject.NONE, lambda: "").piece == piece


def test_an_object_gets_so_many_defaults_and_no_more() -> None:
    structural = Structural(array(obj(**{f"p{number}": {**WHOLE, "default": 0} for number in range(100)})))
    fill(structural, [{} for _ in range(MOST_VALUES_FILLED // 100)])
    with pytest.raises(TooLarge, match="more than 100000 defaults"):
        fill(structural, [{} for _ in range(MOST_VALUES_FILLED // 100 + 1)])
