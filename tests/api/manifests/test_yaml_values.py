"""YAML as kubectl reads it, and bounded whatever is thrown at it."""

import json
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.manifests import yaml_values
from allotment.api.manifests.document import line_finder, read_documents
from allotment.api.manifests.yaml_scalar import plain
from allotment.api.manifests.yaml_values import Path, TextError


def value(text: str) -> Any:
    (document,) = read_documents(text)
    return document.value


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("yes", True),
        ("y", True),
        ("On", True),
        ("FALSE", False),
        ("n", False),
        ("off", False),
        ("", None),
        ("~", None),
        ("null", None),
        ("12", 12),
        ("-12", -12),
        ("+12", 12),
        ("1_000", 1000),
        ("0x1F", 31),
        ("0o17", 15),
        ("017", 15),
        ("0b11", 3),
        ("-0b11", -3),
        ("08", 8.0),  # no octal number, but a decimal one
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 1.8446744073709552e19),
        ("1e3", 1000.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1.5e-3", -0.0015),
        ("2020-01-01", "2020-01-01"),  # dates stay text
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("12:30:45", "12:30:45"),  # no numbers to the base of 60
        ("1Gi", "1Gi"),
        ("1.2.3", "1.2.3"),
        ("-", "-"),
        ("+", "+"),
        (".", "."),
        ("e3", "e3"),
        ("_1", "_1"),
        ("yES", "yES"),
        ("=", "="),
    ],
)
def test_an_unquoted_word(word: str, expected: Any) -> None:
    found = plain(word)
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize("word", [".inf", "-.Inf", ".NaN", "1e999"])
def test_numbers_that_json_lacks_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match="number"):
        plain(word)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 'yes'", {"a": "yes"}),
        ('a: "12"', {"a": "12"}),
        ("a: |\n  12\n", {"a": "12\n"}),
        ("a: !!str 12", {"a": "12"}),
        ("a: !!float 12", {"a": 12.0}),
        ("a: !!int '12'", {"a": 12}),
        ("1: a\ntrue: b\n1.5: c", {"1": "a", "true": "b", "1.5": "c"}),
        ("a: &x [1, 2]\nb: *x", {"a": [1, 2], "b": [1, 2]}),
        ("a: &x 5\nb: *x\n*x : c", {"a": 5, "b": 5, "5": "c"}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}}),
        (
            "a: &x {b: 1}\nc: &y {b: 2, d: 2}\ne: {<<: [*x, *y]}",
            {"a": {"b": 1}, "c": {"b": 2, "d": 2}, "e": {"b": 1, "d": 2}},
        ),
        ("'<<': 1", {"<<": 1}),
        ("{a: [b, {c: d}]}", {"a": ["b", {"c": "d"}]}),
        ("\ufeffa: 1", {"a": 1}),
    ],
)
def test_what_yaml_has_beyond_json(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: 2\na: 3", 3, 'the key "a" occurs twice'),
        ("a:\n- {b: 1,\n   b: 2}", 3, 'the key "b" occurs twice'),
        ("a: b\n  c: d", 2, "not valid YAML: mapping values are not allowed"),
        ("a: [1, 2", 2, "not valid YAML"),
        ("a: 1\n\tb: 2", 2, "tab character"),
        ("{}\n{}", 2, "put --- between documents"),
        ("a: &a [*a]", 1, "the alias *a refers to nothing"),
        ("a: *b", 1, "undefined alias|the alias *b refers to nothing"),
        ("? [a]\n: b", 1, "a key must be a word"),
        ("a: 1\n~: b", 2, "a key is missing"),
        ("a: 1\nb: !!python/object:os.system x", 2, "is not supported"),
        ("a: !!int x", 1, "is not of the type int"),
        ("a: !!binary eA==", 1, "is not supported"),
        ("a: 1\nb: .inf", 2, ".inf is not a number"),
        ("a: 1\nb: {<<: 5}", 2, "a merge (<<) needs a mapping"),
        ("a: \x00", 1, "not text that YAML allows"),
        ("a: \ud800", 1, "not text that YAML allows"),
        ('{"a": 1, "a": 2}', 1, 'the key "a" occurs twice'),
        ('{"a": NaN}', 1, "NaN is not a number"),
        ('{"a": 1e999}', 1, "too large"),
        ('{"a": "\\ud83d"}', 1, "half a character"),
    ],
)
def test_an_error_has_a_line(text: str, line: int, message: str) -> None:
    with pytest.raises(TextError) as caught:
        read_documents(text)
    assert caught.value.line == line
    assert any(part in caught.value.message for part in message.split("|"))


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "{a: " * 100_000, '{"a":' * 100_000, "- " * 10_000 + "a", '[["' * 100_000],
    ids=["lists", "mappings", "json", "blocks", "broken json"],
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(TextError, match="nested too deeply"):
        read_documents(text)


def test_aliases_that_multiply_are_refused() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    with pytest.raises(TextError, match="aliases expand to more than 100000 values"):
        read_documents("\n".join(levels))


def test_aliases_that_nest_are_refused() -> None:
    levels = ["a0: &a0 []", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 300))]
    with pytest.raises(TextError, match="nested too deeply"):
        read_documents("\n".join(levels))


def test_aliases_of_modest_use_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_values, "MAX_ALIASED", 6)
    text = "a: &x [1, 2]\nb: *x\nc: *x"  # two lists of three values each, the list itself counted
    assert value(text)["c"] == [1, 2]
    with pytest.raises(TextError, match="aliases expand"):
        read_documents(text + "\nd: *x")


def test_text_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.api.manifests.document.MAX_SIZE", 3)
    with pytest.raises(TextError, match="split it"):
        read_documents("a: 1")


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(st.characters(codec="ascii", exclude_categories=["Cc"])), inner)
    ),
    max_leaves=10,
)


@given(PLAIN)
def test_json_reads_as_json(expected: Any) -> None:
    for text in (json.dumps([expected]), json.dumps([expected], indent="\t")):
        assert value(text) == [expected]


@given(PLAIN)
def test_yaml_that_pyyaml_writes_reads_back(expected: Any) -> None:
    # Quoted and tagged: left bare, PyYAML writes words that kubectl takes for something else, such as y.
    assert value(yaml.safe_dump([expected], allow_unicode=True, default_style='"')) == [expected]


@given(st.text(alphabet="ab:-&*<{}[]!|>'\"\n #,?~1.\t%@", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(TextError):
        for document in read_documents(text):
            assert document.line >= 1
            assert line_finder(document)(("a", 0)) >= 1


def test_lines_of_fields() -> None:
    text = "# über\n---\na: 1\nb:\n  - c: 2\n\n    d: 3\n  - 4\n---\n  x:\n    z: 1\n"
    first, second = map(line_finder, read_documents(text))
    paths: list[Path] = [
        (),
        ("a",),
        ("b",),
        ("b", 0),
        ("b", 0, "c"),
        ("b", 0, "d"),
        ("b", 1),
        ("b", 2),
        ("e", "f"),
    ]
    assert [first(path) for path in paths] == [3, 3, 4, 5, 5, 7, 8, 4, 3]
    assert [second(path) for path in ((), ("x",), ("x", "z"))] == [10, 10, 11]


@pytest.mark.parametrize(
    "start", ["", "\ufeff", "# 😀\n", "%YAML 1.1\n"], ids=["plain", "bom", "wide", "directive"]
)
@pytest.mark.parametrize("line_break", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_lines_in_later_documents_whatever_the_encoding_of_breaks(start: str, line_break: str) -> None:
    text = (start + "---\na: 😀\n---\n# c\n  b:\n    c: ü\n--- {d: 1,\n  e: 2}\n").replace("\n", line_break)
    _, second, third = map(line_finder, read_documents(text))
    shift = start.count("\n")
    assert second(("b", "c")) == 6 + shift
    assert third(("e",)) == 8 + shift
