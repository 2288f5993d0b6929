"""Attributes that have no known value yet: what is known all the same, in both ways to evaluate."""

from __future__ import annotations

import pytest

from allotment.api.resource import DeviceAttribute
from allotment.api.unknown_attribute import UnknownAttribute
from allotment.cel.device import CelUnknown, CompiledSelector, compile_selector

DRIVER = "gpu.example.com"
ATTRIBUTES = {
    "model": DeviceAttribute(string_value="a"),
    "serial": UnknownAttribute(binding_key="k"),
    "example.com/root": UnknownAttribute(binding_key="k"),
}
OWN = f'device.attributes["{DRIVER}"]'
OTHER = 'device.attributes["example.com"]'

ANSWERS = {
    f"has({OTHER}.root)": True,
    f"has({OWN}.serial)": True,
    f"has({OWN}.other)": False,
    f'"root" in {OTHER}': True,
    f'"other" in {OTHER}': False,
    f"size({OWN}) == 2": True,
    f'{OWN}.model == "a"': True,
    f'{OWN}.model == "a" || {OTHER}.root == "x"': True,
    f'{OTHER}.root == "x" || {OWN}.model == "a"': True,
    f'{OWN}.model == "b" && {OTHER}.root == "x"': False,
    f'{OTHER}.root == "x" && {OWN}.model == "b"': False,
    f'{OWN}.exists(name, name == "serial")': True,
    f'{OWN}.model == "a" ? true : {OTHER}.root == "x"': True,
}
UNANSWERED = (
    f'{OTHER}.root == "x"',
    f'{OTHER}.root != "x"',
    f'{OTHER}["root"] == "x"',
    f'{OTHER}["ro" + "ot"] == "x"',
    f'{OTHER}.?root.orValue("x") == "x"',
    f'{OTHER} == {{"root": "x"}}',
    f'{OWN} == {{"model": "a", "serial": "x"}}',
    f'{OWN}.model == "b" || {OTHER}.root == "x"',
    f"{OTHER}.root == {OWN}.serial",  # bound to be equal, but a selector cannot know
    f"cel.bind(root, {OTHER}.root, root == root)",
    f"type({OTHER}.root) == string",
)


def both(selector: CompiledSelector) -> list[bool]:
    return [selector.matches(DRIVER, ATTRIBUTES, {}), selector.evaluate(DRIVER, ATTRIBUTES, {})[0]]


@pytest.mark.parametrize(("expression", "expected"), ANSWERS.items(), ids=ANSWERS)
def test_what_is_known(expression: str, expected: bool) -> None:
    assert both(compile_selector(expression)) == [expected, expected]


@pytest.mark.parametrize("expression", UNANSWERED)
def test_what_is_not_known(expression: str) -> None:
    selector = compile_selector(expression)
    with pytest.raises(CelUnknown, match="has no known value before the machine runs"):
        selector.matches(DRIVER, ATTRIBUTES, {})
    with pytest.raises(CelUnknown, match="has no known value before the machine runs"):
        selector.evaluate(DRIVER, ATTRIBUTES, {})
