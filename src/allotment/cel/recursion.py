"""Recursive functions that do not use the Python stack.

Expressions come from strangers and may nest deeper than Python recurses. The parser, the checker, the cost
estimate and the compiler are therefore written as generators: where a plain function would call itself, they
``yield`` the generator of the inner call and get its value back. ``run`` drives them with a list for a stack.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Recursive: TypeAlias = Generator["Recursive[Any]", Any, T]
"""A generator that yields calls, receives their values, and returns a ``T``."""


def run(call: Recursive[T]) -> T:
    """The value of the outermost call. An exception ends all of them: nothing inside may catch it."""
    stack: list[Recursive[Any]] = [call]
    value: Any = None
    while True:
        try:
            inner = stack[-1].send(value)
        except StopIteration as end:
            stack.pop()
            value = end.value
            if not stack:
                result: T = value
                return result
        else:
            stack.append(inner)
            value = None
