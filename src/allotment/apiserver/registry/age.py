"""Ages in the short form of tables: ``42s``, ``3m10s``, ``5h``, ``12d``.

The steps are those of ``kubectl get``: two units while the larger one is small, one unit later. Times are RFC 3339.
"""

from __future__ import annotations

from allotment.api.timestamps import moment
from allotment.apiserver.registry.resource import PrinterColumn
from allotment.apiserver.store.record import Obj

UNKNOWN = "<unknown>"

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400

# Below the first number of seconds, the age is written in the second unit, and in the third one too if there is one.
_STEPS = (
    (2 * _MINUTE, (1, "s"), None),
    (10 * _MINUTE, (_MINUTE, "m"), (1, "s")),
    (3 * _HOUR, (_MINUTE, "m"), None),
    (8 * _HOUR, (_HOUR, "h"), (_MINUTE, "m")),
    (2 * _DAY, (_HOUR, "h"), None),
    (8 * _DAY, (_DAY, "d"), (_HOUR, "h")),
    (2 * _YEAR, (_DAY, "d"), None),
    (8 * _YEAR, (_YEAR, "y"), (_DAY, "d")),
)


def told(seconds: int) -> str:
    """A duration for people. A second or two in the future count as clock difference, more is ``<invalid>``."""
    if seconds < 0:
        return "0s" if seconds >= -1 else "<invalid>"
    for limit, (size, unit), finer in _STEPS:
        if seconds < limit:
            rest = seconds % size // finer[0] if finer else 0
            return f"{seconds // size}{unit}" + (f"{rest}{finer[1]}" if finer and rest else "")
    return f"{seconds // _YEAR}y"


def between(earlier: str | None, later: str | None) -> int | None:
    """Whole seconds from one time to another; None if one of them is absent or no time."""
    begin, end = moment(earlier), moment(later)
    return int((end - begin).total_seconds()) if begin is not None and end is not None else None


def since(time: str | None, now: str, *, absent: str = UNKNOWN) -> str:
    """The age of a time."""
    seconds = between(time, now)
    return absent if seconds is None else told(seconds)


def _age_of(obj: Obj, now: str) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


AGE = PrinterColumn("Age", "string", _age_of, "How long ago the object was created.")
