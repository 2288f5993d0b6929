"""The keys of a terminal, from the bytes that it sends."""

from __future__ import annotations

import re

_SEQUENCE = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O[@-~])")
_NAMED = {
    b"[A": "up", b"[B": "down", b"OA": "up", b"OB": "down",
    b"[5~": "page up", b"[6~": "page down",
    b"[H": "home", b"OH": "home", b"[1~": "home", b"[7~": "home",
    b"[F": "end", b"OF": "end", b"[4~": "end", b"[8~": "end",
}  # fmt: skip
_CONTROLS = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\t": "tab",
    "\x1b": "escape",
}


def keys_of(data: bytes) -> list[str]:
    """The names of the keys; a printable character stands for itself. Unknown keys are skipped."""
    found, place = list[str](), 0
    for match in _SEQUENCE.finditer(data):
        found += _characters(data[place : match.start()])
        found += [_NAMED[match[0][1:]]] if match[0][1:] in _NAMED else []
        place = match.end()
    return found + _characters(data[place:])


def _characters(data: bytes) -> list[str]:
    named = [_CONTROLS.get(each, each) for each in data.decode(errors="ignore")]
    return [each for each in named if each.isprintable()]
