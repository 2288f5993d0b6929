"""Lines in JSON, against a parser that notes them all."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allotment.api.manifests.json_lines import LineFinder
from allotment.api.manifests.yaml_values import Path

TEXT = """

{
\t"a": "\\ud83d\\ude00 \\" }",
\t"b" : [ 1,
  {"c": null}
], "d"
:
{}
}
"""


def test_lines_with_tabs_escapes_and_odd_breaks() -> None:
    lines = LineFinder(TEXT)
    paths: list[Path] = [(), ("a",), ("b",), ("b", 0), ("b", 1), ("b", 1, "c"), ("d",)]
    assert [lines.line(path) for path in paths] == [3, 4, 5, 5, 6, 6, 7]


def test_what_is_not_there_is_told_by_what_is_around_it() -> None:
    lines = LineFinder(TEXT)
    paths: list[Path] = [("x",), ("a", "x"), ("b", 2), ("b", "c"), ("b", 1, "x", "y"), ("d", 0)]
    assert [lines.line(path) for path in paths] == [3, 4, 5, 5, 6, 7]


def written(value: Any, path: Path) -> Iterator[tuple[str, Path | None]]:
    """Pieces of JSON text; the pieces that begin a field or item come with its path, on a line of their own."""
    if not isinstance(value, dict | list):
        yield json.dumps(value), None
        return
    yield "[" if isinstance(value, list) else "{", None
    for i, key in enumerate(range(len(value)) if isinstance(value, list) else value):
        yield "," if i else "", None
        yield f"\n{json.dumps(key)}:" if isinstance(value, dict) else "\n", (*path, key)
        yield from written(value[key], (*path, key))
    yield "]" if isinstance(value, list) else "}", None


@given(
    st.recursive(
        st.none() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    ),
    st.randoms(use_true_random=False),
)
def test_every_field_is_found_in_any_order_of_asking(value: Any, shuffler: Any) -> None:
    text, places = "", {}
    for piece, path in written(value, ()):
        text += piece
        if path is not None:
            places[path] = text.count("\n") + 1
    asked = list(places)
    shuffler.shuffle(asked)
    lines = LineFinder(text)
    assert {path: lines.line(path) for path in asked} == places
