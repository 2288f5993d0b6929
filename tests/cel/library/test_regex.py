"""``find`` and ``findAll``: Go's answers over RE2."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.errors import CelRuntimeError
from allotment.cel.library.regex import LONGEST_PATTERN, RegexError, compile_pattern, find, find_all, matches

ANSWERS = {
    "an empty match behind another is passed over": ("baaau", "a*", -1, ["", "aaa", ""]),
    "the first two": ("baaau", "a*", 2, ["", "aaa"]),
    "none": ("baaau", "a*", 0, []),
    "word boundaries": ("foo bar", r"\b", -1, ["", "", "", ""]),
    "empty matches between": ("foo bar", "o*", -1, ["", "oo", "", "", "", ""]),
    "the start is the start of the text": ("aaa", "^a", -1, ["a"]),
    "nothing, before every character and at the end": ("aé日b", "", -1, ["", "", "", "", ""]),
    "characters, not bytes": ("aé日b", ".", -1, ["a", "é", "日", "b"]),
    "no match": ("abc", "z", -1, []),
    "groups do not matter": ("abcabd", "(ab)(.)", -1, ["abc", "abd"]),
}


@pytest.mark.parametrize(("text", "pattern", "limit", "answer"), ANSWERS.values(), ids=ANSWERS.keys())
def test_find_all(text: str, pattern: str, limit: int, answer: list[str]) -> None:
    assert find_all(text, pattern, limit) == answer
    if limit < 0:
        assert find(text, pattern) == (answer[0] if answer else "")
        assert matches(text, pattern) == bool(answer)


def test_a_dot_does_not_match_a_line_end() -> None:
    assert find("a\nb", "a.b") == ""


def test_named_groups_have_two_spellings() -> None:
    assert find("abc", "(?P<x>b)") == find("abc", "(?<x>b)") == "b"


BAD = {
    "unclosed": "(",
    "any byte": r"\C",
    "any byte behind a quotation": r"\Qa\E\C",
    "look-ahead": "(?=a)",
    "back reference": r"(a)\1",
    "large repetition": "a{1001}",
    "nested repetition": "((a{100}){100})",
    "too long": "a" * (LONGEST_PATTERN + 1),
}


@pytest.mark.parametrize("pattern", BAD.values(), ids=BAD.keys())
def test_bad_patterns(pattern: str) -> None:
    with pytest.raises(RegexError, match="Illegal regex"):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", [r"\Q\C\E", r"\\C", r"\Q\C"])
def test_what_only_looks_like_any_byte(pattern: str) -> None:
    assert compile_pattern(pattern).pattern == pattern


def test_an_empty_pattern_is_free_and_therefore_bounded() -> None:
    assert find_all("x" * 10_001, "", 0) == []
    with pytest.raises(CelRuntimeError, match="empty pattern"):
        find_all("x" * 10_001, "")


def test_a_pattern_that_explodes_elsewhere_is_quick_here() -> None:
    assert not matches("a" * 5000 + "!", "^(a+)+$")


@given(st.text("ab", max_size=20), st.sampled_from(["a*", "b+", "ab", "a|b", "(ab)*", "a?", ""]))
def test_matches_cover_the_same_characters_as_in_other_engines(text: str, pattern: str) -> None:
    assert "".join(find_all(text, pattern)) == "".join(match.group() for match in re.finditer(pattern, text))
