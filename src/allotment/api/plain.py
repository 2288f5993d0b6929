"""Reads single fields of objects as plain JSON values, for kinds that have no typed view."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]


def at(obj: Any, *path: str) -> Any:
    """The value at a path of names, or None where the way ends early."""
    for name in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(name)
    return obj
