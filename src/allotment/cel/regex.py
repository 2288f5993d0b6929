"""Regular expressions through RE2: linear time whatever the pattern, and bounded memory.

RE2 is the engine upstream uses, so what matches there matches here. A pattern that needs more memory than the
bound is refused like one that does not parse. Compiled patterns are kept, up to a number.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from allotment.cel.errors import CelRuntimeError

MAX_MEMORY = 8 << 20
MAX_LENGTH = 100_000


@lru_cache(maxsize=512)
def pattern(text: str) -> Any:
    """The compiled pattern (an ``re2`` pattern object). Raises :class:`CelRuntimeError` if it is none."""
    if len(text) > MAX_LENGTH:
        raise CelRuntimeError(
            f"regular expression of {len(text)} characters is too long (limit {MAX_LENGTH})"
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    try:
        return re2.compile(text, options)
    except re2.error as exc:
        reason = exc.args[0].decode() if exc.args and isinstance(exc.args[0], bytes) else str(exc)
        raise CelRuntimeError(f"error parsing regexp: {reason}") from exc
