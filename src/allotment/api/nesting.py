"""Measures how deep JSON text nests, without parsing it.

Input from outside may nest a million brackets. Every later walk over the values recurses, so we bound the depth
before building anything. The measure works on whole buffers at C speed: keep only brackets and quotes, drop the
strings, then add up +1 for every opening bracket and -1 for every closing one. Unbalanced text does not matter
here: the parser reports it.
"""

import re
from itertools import accumulate

MAX_DEPTH = 200
"""More levels than any Kubernetes object has, yet few enough for Python's stack."""

_STRUCTURE = b'[]{}"'
_UNSTRUCTURED = bytes(byte for byte in range(256) if byte not in _STRUCTURE)
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # as signed bytes, +1 and -1
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_STRING = re.compile(rb'"[^"]*"')


def too_deep(text: bytes, limit: int = MAX_DEPTH) -> bool:
    """Whether JSON ``text`` nests deeper than ``limit``."""
    if text.count(b"[") + text.count(b"{") <= limit:
        return False
    if b"\\" in text:
        text = _ESCAPE.sub(b"", text)
    # Two adjacent quotes close one string and open the next, or surround nothing: without them, the content of a
    # string stays inside quotes.
    marks = text.translate(_STEPS, _UNSTRUCTURED).replace(b'""', b"")
    steps = memoryview(_STRING.sub(b"", marks)).cast("b")
    return max(accumulate(steps), default=0) > limit
