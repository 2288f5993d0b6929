"""Label and field selectors: what they match, and what is said of texts that are none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.selection import (
    MAX_REQUIREMENTS,
    MAX_SELECTOR_LENGTH,
    Selector,
    SelectorError,
    SelectorRequirement,
    parse_fields,
    parse_labels,
)
from allotment.api.selection import Test as Comparison

LABELS = {"app": "web", "tier": "front", "n": "5", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("absent", False),
        ("!absent", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web", True),
        ("app=db", False),
        ("app!=db", True),
        ("absent!=db", True),  # what is not there differs
        ("empty=", True),
        ("absent=", False),  # absent is not empty
        ("app in (web, db)", True),
        ("app in (db)", False),
        ("app notin (db)", True),
        ("absent notin (db)", True),
        ("empty in (,x)", True),
        ("empty in ()", True),
        ("app=web,tier=front", True),
        ("app=web,tier=back", False),
        ("n>4", True),
        ("n<5", False),
        ("n > 4,n < 6", True),
        ("app>4", False),  # no number is neither greater nor less
        ("in in (in)", False),  # `in` may be a key and a value
        ("app in (web),tier", True),
        ("example.com/x", False),
    ],
)
def test_labels(selector: str, matches: bool) -> None:
    assert parse_labels(selector).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a>b", "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators"),
        ("-a", 'unable to parse requirement: <nil>: Invalid value: "-a": name part must consist of'),
        ("a=-", 'unable to parse requirement: values[0][a]: Invalid value: "-": a valid label must be'),
    ],
)
def test_texts_that_are_no_label_selector(selector: str, message: str) -> None:
    with pytest.raises(SelectorError) as refused:
        parse_labels(selector)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name==a", True),
        ("metadata.name!=a", False),
        ("metadata.name=a,spec.nodeName=n", True),
        ("metadata.name=a,spec.nodeName!=n", False),
        (r"odd=a\,b\=c\\", True),
        ("spec.nodeName=", False),
    ],
)
def test_fields(selector: str, matches: bool) -> None:
    fields = {"metadata.name": "a", "spec.nodeName": "n", "odd": "a,b=c\\"}
    assert parse_fields(selector).matches(fields) is matches


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("name", "invalid selector: 'name'; can't understand 'name'"),
        ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
        ("a=b=c", "invalid field selector: invalid unescaped character: ="),
        ("a=\\x", "invalid field selector: invalid escape sequence: \\x"),
    ],
)
def test_texts_that_are_no_field_selector(selector: str, message: str) -> None:
    with pytest.raises(SelectorError) as refused:
        parse_fields(selector)
    assert str(refused.value) == message


def test_what_a_selector_pins_down() -> None:
    fields = parse_fields("metadata.name=a,spec.nodeName!=b,status.phase=c")
    assert fields.exactly("metadata.name") == "a"
    assert fields.exactly("spec.nodeName") is None
    assert fields.equalities() == (("metadata.name", "a"), ("status.phase", "c"))


@pytest.mark.parametrize("parse", [parse_labels, parse_fields])
def test_a_selector_beyond_all_measure_is_refused_unread(parse: object) -> None:
    assert callable(parse)
    with pytest.raises(SelectorError, match="characters long"):
        parse("a" * (MAX_SELECTOR_LENGTH + 1))


@given(st.text(alphabet="ab01 =!<>(),\\./-in", max_size=60))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    for parse in (parse_labels, parse_fields):
        with contextlib.suppress(SelectorError):
            parse(text).matches({"a": "b"})


WORDS = st.text(alphabet="abc", min_size=1, max_size=3)


@given(WORDS, st.sets(WORDS, min_size=1, max_size=4), st.dictionaries(WORDS, WORDS, max_size=4))
def test_in_and_notin_are_opposites(key: str, values: set[str], labels: dict[str, str]) -> None:
    listed = ",".join(sorted(values))
    inside = parse_labels(f"{key} in ({listed})").matches(labels)
    assert inside is (labels.get(key) in values)
    assert parse_labels(f"{key} notin ({listed})").matches(labels) is not inside


def _holds(requirement: SelectorRequirement, labels: dict[str, str]) -> bool:
    """One requirement by itself, as its documentation reads."""
    value = labels.get(requirement.key)
    match requirement.test:
        case Comparison.IN:
            return value in requirement.values
        case Comparison.NOT_IN:
            return value not in requirement.values
        case Comparison.EXISTS:
            return value is not None
        case Comparison.NOT_EXISTS:
            return value is None
    (bound,) = requirement.values
    if value is None or not value.isdecimal():
        return False
    return int(value) > int(bound) if requirement.test is Comparison.GREATER else int(value) < int(bound)


KEYS, VALUES = st.sampled_from("abc"), st.sampled_from(["", "x", "1", "2", "3"])
NUMBERS = st.sampled_from(["1", "2", "3"]).map(lambda number: frozenset({number}))
REQUIREMENTS = st.one_of(
    st.builds(
        SelectorRequirement,
        KEYS,
        st.sampled_from([Comparison.IN, Comparison.NOT_IN]),
        st.frozensets(VALUES, min_size=1),
    ),
    st.builds(SelectorRequirement, KEYS, st.sampled_from([Comparison.EXISTS, Comparison.NOT_EXISTS])),
    st.builds(SelectorRequirement, KEYS, st.sampled_from([Comparison.GREATER, Comparison.LESS]), NUMBERS),
)


@given(st.lists(REQUIREMENTS, max_size=6), st.dictionaries(KEYS, VALUES))
def test_a_selector_holds_when_each_requirement_does(
    requirements: list[SelectorRequirement], labels: dict[str, str]
) -> None:
    expected = all(_holds(each, labels) for each in requirements)
    assert Selector(tuple(requirements)).matches(labels) == expected


def test_a_selector_of_thousands_of_requirements_costs_what_the_object_has() -> None:
    class Counted(dict[str, str]):
        asked = 0

        def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]  # one form is enough
            self.asked += 1
            return super().get(key, default)

    for text in ("!k{0}", "k{0}!=x", "a!=x{0}", "a,k{0}", "a=1,k{0}=2", "a>{0}"):
        selector = parse_labels(",".join(text.format(number) for number in range(4000)))
        labels = Counted(a="1")
        selector.matches(labels)
        assert labels.asked <= 1, text


@pytest.mark.parametrize("parse", [parse_labels, parse_fields])
def test_a_selector_has_so_many_requirements_and_no_more(parse: Callable[[str], Selector]) -> None:
    """Thirty thousand of them held a server up for longer than any request may."""
    assert len(parse(",".join(["a=b"] * MAX_REQUIREMENTS)).requirements) == MAX_REQUIREMENTS
    with pytest.raises(SelectorError, match="too many requirements"):
        parse(",".join(["a="] * (MAX_REQUIREMENTS + 1)))
    assert parse_labels(f"a in ({','.join(map(str, range(MAX_REQUIREMENTS + 1)))})")
