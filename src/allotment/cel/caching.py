"""Caches of what expressions compile to: a thousand of usual length, and few long ones, each of which takes a megabyte."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

USUAL_LENGTH = 1000
"""Characters of the longest expression that counts as usual."""
SHORT_KEPT, LONG_KEPT = 1000, 64
"""How many of each are cached."""

P = ParamSpec("P")
T = TypeVar("T")


def cached_by_length(compile_: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
    """The function, whose results are cached; arguments after the expression must be hashable."""
    usual, long = lru_cache(maxsize=SHORT_KEPT)(compile_), lru_cache(maxsize=LONG_KEPT)(compile_)

    @wraps(compile_)
    def cached(expression: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        cache = usual if len(expression) <= USUAL_LENGTH else long
        return cache(expression, *args, **kwargs)  # type: ignore[arg-type]  # hashable, as is said above

    return cached
