"""What a selector is found to read."""

import pytest

from allotment.cel.device import compile_selector
from allotment.cel.reads import EVERYTHING, Reads

D = 'device.attributes["a.example.com"]'
ATTRIBUTE = ("attributes", "a.example.com", "x")
DOMAIN = ("attributes", "a.example.com", None)
ALL_ATTRIBUTES = ("attributes", None, None)

CASES: dict[str, tuple[str, set[tuple[str | None, ...]]]] = {
    "nothing": ("true", set()),
    "the driver": ('device.driver == "q"', {("driver",)}),
    "sharing": ("device.allowMultipleAllocations", {("allowMultipleAllocations",)}),
    "an attribute": (f"{D}.x == 1", {ATTRIBUTE}),
    "an attribute by index": (f'{D}["x"] == 1', {ATTRIBUTE}),
    "a capacity": ('device.capacity["d"].m.isInteger()', {("capacity", "d", "m")}),
    "presence": (f"has({D}.x)", {ATTRIBUTE}),
    "membership": (f'"x" in {D}', {ATTRIBUTE}),
    "a domain's presence": ('"a.example.com" in device.attributes', {DOMAIN}),
    "optional access": (f"{D}.?x.hasValue()", {ATTRIBUTE}),
    "beyond the attribute": (f"{D}.x[0] == 1", {ATTRIBUTE}),
    "a bound domain": (f"cel.bind(d, {D}, d.x == 1)", {ATTRIBUTE}),
    "a bound domain handed on": (f"cel.bind(d, {D}, size(d) == 1)", {DOMAIN}),
    "a bound device": ('cel.bind(d, device, d.driver == "q")', {("driver",)}),
    "a name that is bound but not used": (f"cel.bind(d, {D}, true)", set()),
    "a loop over a domain": (f'{D}.exists(k, k == "x")', {DOMAIN}),
    "the size of a domain": (f"{D}.size() == 1", {DOMAIN}),
    "a computed id": (f"{D}[device.driver] == 1", {DOMAIN, ("driver",)}),
    "a computed domain": ("device.attributes[device.driver].x == 1", {ALL_ATTRIBUTES, ("driver",)}),
    "a choice of maps": (f'(device.driver == "q" ? {D} : {D}).x == 1', {ATTRIBUTE, ("driver",)}),
    "both branches": (f"true ? {D}.x == 1 : {D}.y == 1", {ATTRIBUTE, ("attributes", "a.example.com", "y")}),
    "the whole device": ("[device].size() == 1", set(EVERYTHING)),
}


@pytest.mark.parametrize(("expression", "expected"), CASES.values(), ids=CASES)
def test_reads(expression: str, expected: Reads) -> None:
    assert compile_selector(expression).reads == expected
