"""Cutting, searching and joining text: every surprising answer was recorded from cel-go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.errors import CelRuntimeError
from allotment.cel.library import strings
from allotment.cel.library.limits import LONGEST_TEXT

ANSWERS = {
    "charAt in the middle": (strings.char_at, ("tacocat", 3), "o"),
    "charAt just behind the end is empty": (strings.char_at, ("ab", 2), ""),
    "indexOf counts characters": (strings.index_of, ("ta©o©αT", "©"), 2),
    "indexOf from an offset": (strings.index_of, ("ta©o©αT", "©", 3), 4),
    "indexOf of nothing is the offset": (strings.index_of, ("tacocat", "", 3), 3),
    "indexOf of nothing stays within the text": (strings.index_of, ("abc", "", 9), 3),
    "indexOf behind the end": (strings.index_of, ("abc", "a", 9), -1),
    "lastIndexOf": (strings.last_index_of, ("tacocat", "at"), 5),
    "lastIndexOf of nothing": (strings.last_index_of, ("abc", ""), 3),
    "lastIndexOf of something longer": (strings.last_index_of, ("", "@@"), -1),
    "lastIndexOf up to an offset": (strings.last_index_of, ("bananananana", "nana", 7), 6),
    "lastIndexOf may reach beyond the offset": (strings.last_index_of, ("ta©o©αT", "©α", 4), 4),
    "lastIndexOf of nothing up to an offset": (strings.last_index_of, ("tacocat", "", 3), 3),
    "lastIndexOf with an offset behind the end": (strings.last_index_of, ("abc", "c", 3), -1),
    "lowerAscii leaves others alone": (strings.lower_ascii, ("TacoCÆt",), "tacocÆt"),
    "upperAscii": (strings.upper_ascii, ("tacoCät",), "TACOCäT"),
    "replace all": (strings.replace, ("{0} days {0} hours", "{0}", "2"), "2 days 2 hours"),
    "replace one": (strings.replace, ("aaa", "a", "b", 1), "baa"),
    "replace none": (strings.replace, ("aaa", "a", "b", 0), "aaa"),
    "replace with a negative limit": (strings.replace, ("aaa", "a", "b", -7), "bbb"),
    "replace nothing": (strings.replace, ("ab", "", "-"), "-a-b-"),
    "replace nothing twice": (strings.replace, ("ab", "", "-", 2), "-a-b"),
    "split": (strings.split, ("a,b,c", ","), ["a", "b", "c"]),
    "split into two": (strings.split, ("a,b,c", ",", 2), ["a", "b,c"]),
    "split into one": (strings.split, ("a,b,c", ",", 1), ["a,b,c"]),
    "split into none": (strings.split, ("a,b,c", ",", 0), []),
    "split with a negative limit": (strings.split, ("o©o©o", "©", -1), ["o", "o", "o"]),
    "split at nothing": (strings.split, ("aé日", ""), ["a", "é", "日"]),
    "split at nothing into two": (strings.split, ("aé日", "", 2), ["a", "é日"]),
    "split at nothing into many": (strings.split, ("ab", "", 9), ["a", "b"]),
    "split nothing at nothing": (strings.split, ("", ""), []),
    "split nothing": (strings.split, ("", ","), [""]),
    "substring": (strings.substring, ("tacocat", 4), "cat"),
    "substring with an end": (strings.substring, ("ta©o©αT", 2, 6), "©o©α"),
    "substring at the end": (strings.substring, ("abc", 3), ""),
    "trim knows all spaces": (strings.trim, (" \f\n\r\t\v\u200a\u2028text\u3000\x85\xa0",), "text"),
    "trim leaves separators that are no space": (strings.trim, ("\x1ctext\u200b",), "\x1ctext\u200b"),
    "join": (strings.join, (["x", "y"],), "xy"),
    "join with a separator": (strings.join, (["x", "y"], "-"), "x-y"),
    "join nothing": (strings.join, ([], "-"), ""),
    "quote": (strings.quote, ('a"b\\\n\a\b\f\r\t\vé😀',), '"a\\"b\\\\\\n\\a\\b\\f\\r\\t\\vé😀"'),
    "reverse": (strings.reverse, ("Ta©oCαt",), "tαCo©aT"),
}


@pytest.mark.parametrize(("function", "args", "answer"), ANSWERS.values(), ids=ANSWERS.keys())
def test_answers(function, args, answer):  # type: ignore[no-untyped-def]  # any of the functions above
    assert function(*args) == answer


ERRORS = {
    "charAt behind": (strings.char_at, ("ab", 3), "index out of range: 3"),
    "charAt before": (strings.char_at, ("ab", -1), "index out of range: -1"),
    "indexOf before": (strings.index_of, ("ab", "a", -1), "index out of range: -1"),
    "lastIndexOf before": (strings.last_index_of, ("ab", "a", -1), "index out of range: -1"),
    "substring behind": (strings.substring, ("tacocat", 40), "index out of range: 40"),
    "substring begin behind": (strings.substring, ("tacocat", 49, 50), "index out of range: 49"),
    "substring end behind": (strings.substring, ("tacocat", 1, 50), "index out of range: 50"),
    "substring backwards": (strings.substring, ("tacocat", 4, 3), "start: 4, end: 3"),
    "join of other things": (strings.join, (["a", 1],), "strings"),
    "replace that grows without end": (strings.replace, ("a" * 10_000, "", "b" * 10_000), "exceeds"),
    "join that grows without end": (strings.join, ([""] * 10_000, "b" * 10_000), "exceeds"),
}


@pytest.mark.parametrize(("function", "args", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_errors(function, args, message):  # type: ignore[no-untyped-def]  # any of the functions above
    with pytest.raises(CelRuntimeError, match=message):
        function(*args)


@given(st.text(), st.text(min_size=1))
def test_joining_what_was_split_gives_the_text_back(text: str, separator: str) -> None:
    assert strings.join(strings.split(text, separator), separator) == text
    assert strings.join(strings.split(text, "")) == text


@given(st.text("ab", max_size=12), st.text("ab", max_size=3), st.integers(0, 12))
def test_searching_agrees_with_trying_every_place(text: str, part: str, offset: int) -> None:
    places = [at for at in range(len(text) + 1) if text.startswith(part, at) and at + len(part) <= len(text)]
    later = [at for at in places if at >= offset]
    if part:
        assert strings.index_of(text, part, offset) == (later[0] if later else -1)
        assert strings.last_index_of(text, part) == (places[-1] if places else -1)
        earlier = [at for at in places if at <= offset]
        expected = earlier[-1] if earlier and offset < len(text) else -1
        assert strings.last_index_of(text, part, offset) == expected


@given(st.text("ab", max_size=8), st.text("ab", max_size=2), st.text("ab", max_size=3), st.integers(-1, 5))
def test_replacing_foresees_the_length(text: str, old: str, new: str, limit: int) -> None:
    assert len(strings.replace(text, old, new, limit)) <= LONGEST_TEXT
    assert strings.replace(text, old, new, limit) == text.replace(old, new, limit)
