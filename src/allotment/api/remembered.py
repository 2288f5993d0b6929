"""Answers to questions about a JSON value, remembered by the value's text.

Objects made from one template are alike in all but their names: a thousand pods have one spec. What depends on that part
alone is worked out once. The question must be pure, and its answer must not be changed by those who get it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar

import msgspec

ANSWERS: Final = 512
"""Remembered of one question; those longest not asked for are forgotten first."""

LARGEST: Final = 8 * 1024
"""Bytes of a value's text up to which an answer is remembered."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

T = TypeVar("T")


def remembered(question: Callable[..., T]) -> Callable[..., T]:
    """The question, asked once of values that are written alike; further arguments must be hashable."""

    @lru_cache(maxsize=ANSWERS)
    def answer(text: bytes, *more: Hashable) -> T:
        return question(_decode(text), *more)  # of a copy that nobody changes afterwards

    @wraps(question)
    def ask(value: Any, *more: Hashable) -> T:
        try:
            text = _encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError):  # no JSON value after all
            return question(value, *more)
        return answer(text, *more) if len(text) <= LARGEST else question(value, *more)

    return ask
