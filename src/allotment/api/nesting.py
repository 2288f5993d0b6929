"""How deep JSON text nests, found without parsing it.

Input from outside may nest a million brackets; every later walk over the values recurses, so depth is bounded
before anything is built. The measure works on whole buffers at C speed: keep only brackets and quotes, drop
the strings, then add up +1 for every bracket that opens and -1 for every one that closes. Text that is not
balanced is none of our business here: the parser says so.
"""

import re
from itertools import accumulate

MAX_DEPTH = 200
"""More levels than any Kubernetes object has, few enough for Python's stack."""

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
    # Two adjacent quotes close one string and open the next, or surround nothing: dropping them keeps
    # what is inside a string inside.
    marks = text.translate(_STEPS, _UNSTRUCTURED).replace(b'""', b"")
    steps = memoryview(_STRING.sub(b"", marks)).cast("b")
    return max(accumulate(steps), default=0) > limit
