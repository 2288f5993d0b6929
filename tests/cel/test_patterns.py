"""Regular expressions of a few characters can be huge programs: an expression may only have so much of them."""

from __future__ import annotations

import time

import pytest

from allotment.api.validation import ExpressionUse
from allotment.cel.caching import LONG_KEPT, USUAL_LENGTH, cached_by_length
from allotment.cel.device import compile_selector
from allotment.cel.errors import CelCompileError, CelRuntimeError
from allotment.cel.expression_check import check_expression
from allotment.cel.library.regex import EXPRESSION_INSTRUCTIONS, RegexError, compile_pattern
from allotment.cel.patterns import check_computed_pattern

HELD = 0.5
"""Seconds of the processor on a busy machine: each of these took ten or more."""


def any_of(patterns: list[str]) -> str:
    return " || ".join(f"device.driver.matches('{each}')" for each in patterns)


@pytest.mark.parametrize(
    "pattern",
    [r"(.{{0,{n}}}c)", r"[\\pL]{{0,{n}}}", r"(\\pL{{0,{n}}}){{0,900}}"],
    ids=["dots", "classes", "nested"],
)
def test_the_patterns_of_an_expression_have_a_bound_together(pattern: str) -> None:
    texts = [pattern.format(n=n) for n in range(990, 790, -1)]
    expression = any_of(texts)[:9900].rpartition(" ||")[0]
    begun = time.thread_time()
    with pytest.raises(CelCompileError, match=r"matches argument|instructions together"):
        compile_selector(expression)
    assert time.thread_time() - begun < HELD


@pytest.mark.parametrize("function", ["find('{}') == ''", "findAll('{}') == []"])
def test_what_searches_has_the_bound_too(function: str) -> None:
    calls = [f"device.driver.{function.format(f'(.{{0,{n}}}c)')}" for n in range(990, 900, -1)]
    with pytest.raises(CelCompileError, match="instructions together"):
        compile_selector(" || ".join(calls))


def test_a_pattern_that_stands_often_counts_once() -> None:
    assert check_expression(any_of([r"^[\\pL]{1,63}$"] * 20), ExpressionUse.SELECTOR).error is None


def test_names_in_any_script_may_be_matched_and_a_larger_program_is_refused_soon() -> None:
    assert 50_000 < compile_pattern(r"^\pL{1,63}$").programsize < EXPRESSION_INSTRUCTIONS
    begun = time.thread_time()
    with pytest.raises(RegexError):
        compile_pattern(r"\pL{0,300}")
    assert time.thread_time() - begun < HELD / 5


@pytest.mark.parametrize("pattern", [r"\pL{100}", r"[\PL]{20}", r"\pL" * 11, "((a{20}){20}){20}"])
def test_a_computed_pattern_is_small(pattern: str) -> None:
    with pytest.raises(CelRuntimeError, match="write it as a literal"):
        check_computed_pattern(pattern)


@pytest.mark.parametrize("pattern", [r"^\pL+$", "a{3}b{4}", r"\d{1,4}\.\d+", "[a-z]{1,63}"])
def test_an_ordinary_computed_pattern_is_taken(pattern: str) -> None:
    assert check_computed_pattern(pattern) == pattern


def test_few_long_expressions_are_cached() -> None:
    compiled = []

    @cached_by_length
    def length(text: str) -> int:
        compiled.append(text)
        return len(text)

    for _ in range(2):
        for number in range(LONG_KEPT + 1):
            assert length(str(number)) == len(str(number))
            assert length(f"{number}" + "x" * USUAL_LENGTH) > USUAL_LENGTH
    assert len([text for text in compiled if len(text) < 10]) == LONG_KEPT + 1
    assert len(compiled) == 3 * (LONG_KEPT + 1)
