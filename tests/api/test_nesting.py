"""Depth is measured as a parser would see it, strings and escapes included."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.nesting import too_deep


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


@given(
    st.recursive(
        st.text(alphabet='[]{}"\\a') | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='[]{}"\\a'), inner),
    )
)
def test_the_depth_of_any_json_is_exact(value: Any) -> None:
    text = json.dumps(value).encode()
    assert not too_deep(text, depth(value))
    assert depth(value) == 0 or too_deep(text, depth(value) - 1)


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        (b"[" * 200 + b"]" * 200, False),
        (b"[" * 201 + b"]" * 201, True),
        (b"[" * 100_000, True),  # never closed
        (b"[]" * 100_000, False),
        (b'"' + b"[" * 100_000 + b'"', False),
        (rb'"\"' + b"[" * 100_000 + b'"', False),
        (b"]" * 100_000 + b"[", False),
    ],
)
def test_hostile_text(text: bytes, deep: bool) -> None:
    assert too_deep(text) is deep
