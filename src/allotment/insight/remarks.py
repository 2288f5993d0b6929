"""Says on standard error what is no part of an answer, with every word whole on a terminal."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TextIO

from allotment.api.text import printable_lines

_WIDTH = 80
"""Of terminals that do not say."""


def on_terminal(stream: TextIO) -> bool:
    """Whether a person looks at what is written there, on something that can show colours."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def whole_words(text: str, stream: TextIO) -> str:
    """Text broken at spaces where it would run over the edge of the terminal that a stream may be. Lines that quote
    something, with a bar before it, stay as they are."""
    if not on_terminal(stream):
        return text
    width = os.get_terminal_size(stream.fileno()).columns or _WIDTH
    return "\n".join(
        line if len(line) <= width or line.lstrip().startswith("|") else _wrapped(line, width)
        for line in text.split("\n")
    )


def _wrapped(line: str, width: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def remark(text: str) -> None:
    """Says on standard error what is no part of the answer."""
    print(whole_words(printable_lines(text), sys.stderr), file=sys.stderr, flush=True)
