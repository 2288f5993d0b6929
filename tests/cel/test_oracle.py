"""The compiled program against a dumb walk over the syntax tree, and its promises on random expressions."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from allotment.cel.device import (
    ALL,
    CelCompileError,
    CelRuntimeError,
    CompiledSelector,
    DeviceView,
    compile_selector,
)
from allotment.cel.device import _environment as environment_of
from allotment.cel.errors import CelCostExceeded
from allotment.cel.values import Value
from tests.cel import naive
from tests.cel.devices import ATTRIBUTES, CAPACITY, DRIVER, attributes, capacity
from tests.cel.expressions import selectors

VIEW = DeviceView(DRIVER, attributes(ATTRIBUTES), capacity(CAPACITY), allow_multiple_allocations=True)
ENVIRONMENT = environment_of(ALL, "StoredExpressions")


def compiled(text: str) -> CompiledSelector:
    try:
        return compile_selector(text)
    except CelCompileError:
        assume(False)
        raise


def outcome(ask: Any) -> Value:
    try:
        return ask()
    except CelRuntimeError:
        return "error"


@given(selectors)
@example('device.attributes["dra.example.com"].missing || true')
@example("cel.bind(z, 1 / 0 == 1, true || z)")
@example("1 / 0 in []")
@example('"a".startsWith(["a", "b"][(true ? 0 : 0)])')
def test_compiled_and_naive_agree(text: str) -> None:
    selector = compiled(text)
    expected = outcome(lambda: naive.evaluate(ENVIRONMENT, text, {"device": VIEW.value}))
    if expected is not True and expected is not False:
        expected = "error"
    assert outcome(lambda: selector.accepts(VIEW)) == expected


@given(selectors)
@example('cel.bind(z, device.attributes["dra.example.com"].missing, z || true)')
def test_the_limit_is_the_cost(text: str) -> None:
    """What an evaluation costs is enough for it, and one less is not."""
    selector = compiled(text)
    device = (DRIVER, attributes(ATTRIBUTES), capacity(CAPACITY), True)
    try:
        answer, cost = selector.evaluate(*device)
    except CelRuntimeError:
        return
    assert selector.evaluate(*device, limit=cost) == (answer, cost)
    if cost > 0:
        with pytest.raises(CelCostExceeded):
            selector.evaluate(*device, limit=cost - 1)


@given(selectors)
def test_partial_view_answers_as_the_whole_device_does(text: str) -> None:
    selector = compiled(text)
    device = (DRIVER, attributes(ATTRIBUTES), capacity(CAPACITY), True)
    assert outcome(lambda: selector.matches(*device)) == outcome(lambda: selector.accepts(VIEW))


@given(selectors, st.sampled_from(sorted(ATTRIBUTES)), st.booleans())
def test_what_is_not_read_does_not_matter(text: str, name: str, remove: bool) -> None:
    """Soundness of ``reads``: changing an attribute outside them changes no answer."""
    selector = compiled(text)
    domain, slash, id_ = name.partition("/")
    place = (domain, id_) if slash else (DRIVER, name)
    touched = {("attributes", *place), ("attributes", place[0], None), ("attributes", None, None)}
    assume(not touched & selector.reads)
    changed = {key: value for key, value in ATTRIBUTES.items() if key != name or not remove}
    if not remove:
        changed[name] = {"string": "changed"}
    other = DeviceView(DRIVER, attributes(changed), capacity(CAPACITY), allow_multiple_allocations=True)
    assert outcome(lambda: selector.accepts(other)) == outcome(lambda: selector.accepts(VIEW))


@given(st.text(max_size=60) | st.text("()[]{}.?:!-+*/%<>=&|,'\"` 0123456789abxyz_\n", max_size=60))
def test_any_text_compiles_or_is_refused(text: str) -> None:
    with suppress(CelCompileError):
        compile_selector(text)
