"""Lines in, lines out: the loop behind ``--ndjson``.

Each answer is flushed before the next line is read, so that a caller can wait for it. A line that is too long gets an error
without being held in memory. Empty lines are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

MAX_PROBLEM_BYTES = 64 * 1024 * 1024
_TOO_LONG = f'{{"name":"","ok":false,"error":"the line is longer than {MAX_PROBLEM_BYTES} bytes"}}'


def serve(answer: Callable[[str], str], lines: BinaryIO, answers: BinaryIO) -> int:
    """Answers lines until the input ends."""
    while line := lines.readline(MAX_PROBLEM_BYTES + 1):
        if len(line) > MAX_PROBLEM_BYTES and not line.endswith(b"\n"):
            _skip_rest(lines)
            text = _TOO_LONG
        elif line in (b"\n", b"\r\n"):
            continue
        else:
            # Bytes that are not UTF-8 become lone surrogates, which JSON does not allow, so the answer reports them.
            text = answer(line.decode("utf-8", "surrogateescape"))
        answers.write(text.encode("utf-8", "replace") + b"\n")
        answers.flush()
    return 0


def _skip_rest(lines: BinaryIO) -> None:
    while (rest := lines.readline(MAX_PROBLEM_BYTES)) and not rest.endswith(b"\n"):
        pass
