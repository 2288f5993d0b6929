"""Remarks beside an answer, on standard error; on a terminal, without broken words."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TextIO

from allotment.api.text import printable_lines

_WIDTH = 80
"""The width of terminals that do not report theirs."""


def on_terminal(stream: TextIO) -> bool:
    """Whether a person reads the stream on a terminal that can show colours."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def whole_words(text: str, stream: TextIO) -> str:
    """Text wrapped at spaces to the width of the stream, if it is a terminal. Lines that quote something, with a bar before
    it, stay as they are."""
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
    """Writes a remark that is not part of the answer to standard error."""
    print(whole_words(printable_lines(text), sys.stderr), file=sys.stderr, flush=True)
