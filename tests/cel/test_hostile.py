"""Expressions that are meant to hurt end in an error with a message, or in a result."""

import pytest

from allotment.cel.device import CelCompileError, CelRuntimeError, compile_selector
from allotment.cel.errors import CelSyntaxError


def bound(count: int, value: str, result: str) -> str:
    """``count`` nested bindings, each value made of the name before it."""
    names = "".join(f"cel.bind(a{n}, {value.format(f'a{n - 1}' if n else '1')}, " for n in range(count))
    return names + result + ")" * count


REFUSED = {
    "parentheses": "(" * 5000 + ")" * 5000,
    "brackets": "[" * 5000 + "]" * 5000,
    "braces": "{1:" * 2000,
    "sums": "1" + "+1" * 5000 + " == 1",
    "selections": "device" + ".a" * 5000,
    "indices": "[1]" + "[0]" * 3000,
    "questions": "true?" * 2000,
    "conditionals": "true?true:" * 1000 + "true",
    "calls": "size(" * 300 + '"a"' + ")" * 300,
    "digits": "9" * 9000 + " == 1",
    "exponent": "1e" + "9" * 9000 + " == 1.0",
    "quotes": '"' * 9999,
    "commas": "," * 9000,
    "repeated macros": "optional.of(1)" + ".optMap(x, x)" * 100 + ".hasValue()",
    "a pattern of a million states": 'device.driver.matches("(a{1000}){1000}")',
    "types that double": bound(100, "{{{0}: {0}}}", "true"),
}
BORNE = {
    "minus signs": "-" * 10000 + "1 == 1",
    "negations": "!" * 9998 + "true",
    "a long conjunction": "true" + " && true" * 1200,
    "a long disjunction": "false" + " || false" * 1000 + " || true",
    "a long list": "[" + "1," * 4000 + "1].size() > 1",
    "240 sums": "1" + "+1" * 240 + " == 241",
    "240 conditionals": "true?true:" * 240 + "true",
    "deep lists": "[" * 200 + "1" + "]" * 200 + " != []",
}
STOPPED = {
    "nested loops": "[1,2,3,4,5,6,7,8,9,10].all(a, " * 8 + 'device.driver != "q"' + ")" * 8,
    "nested lists": "[1,2,3,4,5,6,7,8,9,10].map(a, " * 8 + "device.driver" + ")" * 8 + ".size() > 1",
    "values that double": bound(100, "[{0}, {0}]", "a99 == [a98, a98]"),
    "a computed pattern": 'device.driver.matches("' + "a{1,1000}" * 20 + '" + device.driver)',
}


@pytest.mark.parametrize("expression", REFUSED.values(), ids=REFUSED)
def test_is_refused_with_a_place_and_a_reason(expression: str) -> None:
    with pytest.raises(CelCompileError) as caught:
        compile_selector(expression)
    assert caught.value.line >= 1
    assert caught.value.column >= 1
    assert len(str(caught.value)) < 100_000


@pytest.mark.parametrize("expression", BORNE.values(), ids=BORNE)
def test_is_evaluated(expression: str) -> None:
    assert compile_selector(expression).matches("gpu.example.com", {}, {}) is True


@pytest.mark.parametrize("expression", STOPPED.values(), ids=STOPPED)
def test_is_stopped_while_it_runs(expression: str) -> None:
    selector = compile_selector(expression)
    with pytest.raises(CelRuntimeError):
        selector.matches("gpu.example.com", {}, {})


def test_recursion_limit_is_a_syntax_error_at_the_place() -> None:
    with pytest.raises(CelSyntaxError, match="expression recursion limit exceeded: 250") as caught:
        compile_selector("(" * 300 + "true" + ")" * 300)
    assert caught.value.column == 251
