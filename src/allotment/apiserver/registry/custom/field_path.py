"""Paths to a field that a schema knows (``.spec.size``, ``['a b'].c``): of rules' errors, and of selectable fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from allotment.api.fields import FieldPath
from allotment.apiserver.registry.custom.structural import Structural

_TOKEN: Final = re.compile(r"'(?:\\.|[^'\\])*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}  # fmt: skip


class BadPath(ValueError):
    """What is wrong with a path, in upstream's words."""


def field_path(text: str, structural: Structural, *, brackets: bool = True) -> tuple[FieldPath, Structural]:
    """The path, and what is known of the field at its end. Raises :class:`BadPath`."""
    path, here = FieldPath(), structural
    tokens = iter(_TOKEN.findall(text))
    for token in tokens:
        if token == "[":
            if not brackets:
                raise BadPath("array notation is not allowed")
            name = _quoted(_next(tokens))
            path, here = _enter(path, here, name)
            if (closing := _next(tokens)) != "]":
                raise BadPath(f"expected ] but got {closing}")
        elif token == ".":
            path, here = _enter(path, here, _next(tokens))
        else:
            raise BadPath(f"expected [ or . but got: {token}")
    return path, here


def _next(tokens: Iterator[str]) -> str:
    found = next(tokens, None)
    if found is None:
        raise BadPath("unexpected end of JSON path")
    return found


def _enter(path: FieldPath, here: Structural, name: str) -> tuple[FieldPath, Structural]:
    if here.properties:
        if name not in here.properties:
            raise BadPath("does not refer to a valid field")
        return path.child(name), here.properties[name]
    if here.additional is None:
        raise BadPath("does not refer to a valid field")
    return path.key(name), here.additional


def _quoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise BadPath(f"expected single quoted string but got {token}")

    def plain(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise BadPath(f"invalid string literal: invalid escape char {match[0]}")
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.)", plain, token[1:-1])
