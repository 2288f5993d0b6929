"""The phrases that reasons are made of."""

from __future__ import annotations

import pytest

from allotment.allocator import phrases
from allotment.allocator.phrases import counted, cut, of_one, several
from allotment.api.resource import DeviceTaint


@pytest.mark.parametrize(
    ("count", "words", "expected"),
    [
        (3, "have every gpu in use", "3 have every gpu in use"),
        (1, "have every gpu in use", "1 has every gpu in use"),
        (1, "do not match the pod's node selector", "1 does not match the pod's node selector"),
        (1, "exceed max volume count", "1 exceeds max volume count"),
        (1, "were not asked", "1 was not asked"),
        (1, "fit", "1 fit"),  # no verb that is known: said as it is
        (0, "are cordoned", "0 are cordoned"),
        (1, "in use", "1 in use"),
        (1, "haven't been seen", "1 haven't been seen"),  # only the whole word is a verb
    ],
)
def test_the_verb_agrees_with_the_count(count: int, words: str, expected: str) -> None:
    assert counted(count, words) == expected


def test_words_of_several_may_be_said_of_one() -> None:
    assert of_one("lack shared counters") == "lacks shared counters"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b", "c"], "a; b; c"),
        (["a", "b", "c", "d", "e"], "a; b; c; 2 more"),
    ],
)
def test_of_many_values_the_first_are_shown(values: list[str], expected: str) -> None:
    assert several(values) == expected


def test_a_long_expression_is_cut_to_the_length_that_is_shown() -> None:
    assert cut("x" * phrases.SHOWN_EXPRESSION_LENGTH) == "x" * phrases.SHOWN_EXPRESSION_LENGTH
    assert cut("x" * 200, 10) == "xxxxxxx..."
    assert phrases.on_one_line("a  &&\n\t b") == "a && b"


def test_a_taint_is_written_as_kubectl_does() -> None:
    assert phrases.taint(DeviceTaint(key="hot", value="yes", effect="NoSchedule")) == "hot=yes:NoSchedule"
    assert phrases.taint(DeviceTaint(key="hot", effect="NoExecute")) == "hot:NoExecute"
