"""Caches the results of functions of a JSON value, by the value's text.

Objects from one template differ only in their names: a thousand pods have one spec. A result that depends only on the
shared part is computed once. The function must be pure, and callers must not change its result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar

import msgspec

ANSWERS: Final = 512
"""The most results cached for one function; those unused for longest go first."""

LARGEST: Final = 8 * 1024
"""The most bytes of a value's text for which a result is cached."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

T = TypeVar("T")


def remembered(question: Callable[..., T]) -> Callable[..., T]:
    """The function, called once for all values with the same text; further arguments must be hashable."""

    @lru_cache(maxsize=ANSWERS)
    def answer(text: bytes, *more: Hashable) -> T:
        return question(_decode(text), *more)  # called with a copy that nobody changes afterwards

    @wraps(question)
    def ask(value: Any, *more: Hashable) -> T:
        try:
            text = _encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError):  # the value is not JSON
            return question(value, *more)
        return answer(text, *more) if len(text) <= LARGEST else question(value, *more)

    return ask
