"""Answers that are remembered by a value's text: the same answers, fewer questions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given

from allotment.api.remembered import ANSWERS, LARGEST, remembered
from tests.api.schema.schema_values import ANY_JSON


class Question:
    """Tells what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __call__(self, value: Any, note: str = "") -> tuple[str, str]:
        self.asked.append(value)
        return repr(value), note


def asking() -> tuple[Question, Any]:
    question = Question()
    return question, remembered(lambda value, note="": question(value, note))


def test_values_that_are_written_alike_are_asked_about_once() -> None:
    question, ask = asking()
    assert ask({"a": [1]}) == ask({"a": [1]}) == ("{'a': [1]}", "")
    assert len(question.asked) == 1


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), ("1", 1), (None, "null"), ([], {})])
def test_values_that_only_look_alike_are_told_apart(one: Any, other: Any) -> None:
    _, ask = asking()
    assert ask({"a": one}) != ask({"a": other})


def test_further_arguments_count() -> None:
    question, ask = asking()
    assert [ask(1, "x"), ask(1, "y"), ask(1, "x")] == [("1", "x"), ("1", "y"), ("1", "x")]
    assert len(question.asked) == 2


def test_a_value_may_change_after_it_was_asked_about() -> None:
    _, ask = asking()
    value = {"a": 1}
    before = ask(value)
    value["a"] = 2
    assert (before, ask(value)) == (("{'a': 1}", ""), ("{'a': 2}", ""))


@pytest.mark.parametrize("value", ["x" * LARGEST, {"a": object()}, "\ud800"])
def test_what_is_large_or_no_json_is_asked_about_each_time(value: Any) -> None:
    question, ask = asking()
    assert ask(value) == ask(value) == (repr(value), "")
    assert len(question.asked) == 2


def test_what_was_not_asked_for_long_is_forgotten() -> None:
    question, ask = asking()
    for value in range(ANSWERS + 1):
        ask(value)
    ask(0)
    assert question.asked.count(0) == 2


def test_a_question_that_failed_is_asked_again() -> None:
    asked: list[Any] = []

    @remembered
    def refuse(value: Any) -> None:
        asked.append(value)
        raise LookupError(value)

    for _ in range(2):
        with pytest.raises(LookupError):
            refuse(1)
    assert asked == [1, 1]


@given(ANY_JSON)
def test_the_answer_is_that_to_the_value_itself(value: Any) -> None:
    assume("inf" not in repr(value))  # which JSON does not have
    _, ask = asking()
    assert ask(value) == ask(value) == (repr(value), "")
