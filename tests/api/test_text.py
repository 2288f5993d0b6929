"""Text in messages: never too long, never more than it says, nothing that a terminal obeys."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.text import (
    SHOWN,
    byte_length,
    few,
    plural,
    printable,
    printable_json,
    printable_lines,
    quoted,
    shortened,
    some_of,
    trimmed,
)


@pytest.mark.parametrize(
    ("text", "length"), [("", 0), ("abc", 3), ("é", 2), ("€", 3), ("😀", 4), ("\ud800", 3)]
)
def test_bytes_are_counted(text: str, length: int) -> None:
    assert byte_length(text) == length


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (" a b\n", "a b"),
        ("\u00a0a\u3000", "a"),
        ("\x1ca\x1f", "\x1ca\x1f"),  # Python would trim these, Go does not
        ("\u200ba", "\u200ba"),  # not white space, although it has no width
    ],
)
def test_go_s_white_space_is_trimmed(text: str, left: str) -> None:
    assert trimmed(text) == left


@given(st.text(max_size=200))
def test_a_shortened_text_fits_and_keeps_its_ends(text: str) -> None:
    short = shortened(text)
    assert len(short) <= SHOWN
    assert short == text or (len(text) > SHOWN and text.startswith(short[:38]) and text.endswith(short[-38:]))


def test_quotation_marks_are_around_the_shortened_text() -> None:
    assert quoted("a'b") == '"a\'b"'
    assert len(quoted("x" * 1000)) <= SHOWN + 2


@pytest.mark.parametrize(
    ("names", "most", "words"),
    [
        ([], 2, ""),
        (["b", "a"], 2, "a, b"),
        (["c", "b", "a"], 2, "a, b, and 1 more"),
    ],
)
def test_some_names_in_order(names: list[str], most: int, words: str) -> None:
    assert some_of(names, most) == words


def test_the_first_few_names_as_they_come() -> None:
    assert few(["b", "a"]) == "b, a"
    assert few(["c", "b", "a"], 2, "; ") == "c; b and 1 more"


def test_a_count_and_its_word() -> None:
    assert [plural(count, "pod") for count in (0, 1, 2)] == ["0 pods", "1 pod", "2 pods"]


@given(st.text(st.characters(codec="utf-8")))
def test_no_character_moves_the_cursor(text: str) -> None:
    assert printable(text).isprintable()
    assert all(line.isprintable() for line in printable_lines(text).split("\n"))
    assert printable(text) == text or not text.isprintable()


def test_a_line_in_a_name_cannot_pass_for_ours() -> None:
    assert printable_lines("a\nReady\n  b\x1b[2J") == "a\n  Ready\n  b\\x1b[2J"


@given(st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_printable_json_says_the_same(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    written = printable_json(text)
    assert json.loads(written) == value
    assert all(line.isprintable() for line in written.split("\n"))
