"""Random JSON values for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

KEYS = st.sampled_from(["a", "b", "c", "x/y", "m~n", ""])
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "b"])
)


def values(*, nulls: bool = False) -> st.SearchStrategy[Any]:
    leaves = st.one_of(SCALARS, st.none()) if nulls else SCALARS
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
        max_leaves=8,
    )


def objects(*, nulls: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(KEYS, values(nulls=nulls), max_size=4)


def nested(depth: int, *, as_list: bool = False) -> Any:
    """A value that nests ``depth`` levels."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if as_list else {"a": value}
    return value
