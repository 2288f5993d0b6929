"""A hashable stand-in for a value: two values have equal stand-ins exactly when the language calls them equal.

``distinct`` and the set functions compare everything with everything upstream, and charge for it afterwards.
With stand-ins the same answers take time in proportion to the input, so the charge may come late.

Values whose equality is no equivalence cannot have one: NaN, which differs even from itself, gets a fresh
stand-in each time.
"""

from typing import Any

from allotment.cel.errors import CelRuntimeError
from allotment.cel.library.limits import DEEPEST_VALUE, MOST_ENTRIES
from allotment.cel.values import Optional, UInt, Value


class Identities:
    """Makes stand-ins, and refuses to look at more than a million parts in one call."""

    def __init__(self) -> None:
        self.left = MOST_ENTRIES

    def of(self, value: Value, depth: int = 0) -> Any:
        self.left -= 1
        if self.left < 0 or depth > DEEPEST_VALUE:
            raise CelRuntimeError("value is too large or too deeply nested to compare")
        kind = type(value)
        if kind is str or kind is int or kind is UInt or kind is bytes:
            return value
        if kind is float:
            return value if value == value else object()
        if kind is list:
            return ("list", *(self.of(item, depth + 1) for item in value))
        if isinstance(value, dict):
            return ("map", frozenset((key, self.of(item, depth + 1)) for key, item in value.items()))
        if kind is Optional:
            return (kind, value.present, self.of(value.value, depth + 1))
        return (kind, value)
