"""Single values as Kubernetes writes them: quantities, times, bytes in base64.

Each has a cheap test for values that are already canonical, and a function that makes a value canonical or raises
:class:`Unreadable` with the message of a Kubernetes server.
"""

from __future__ import annotations

import re
from base64 import b64decode
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from allotment.api.quantity import Quantity, QuantityError
from allotment.api.text import shortened


class Unreadable(ValueError):
    """The API cannot read a value; the message is upstream's."""


_LONGEST_REMEMBERED: Final = 64
"""The most characters of a value that we cache; longer ones are rare and might be hostile."""


def canonical_quantity(value: Any) -> str:
    """The amount as Kubernetes writes it: ``0.5`` becomes ``500m``. Bare numbers are accepted too."""
    if type(value) in (int, float, str):
        try:
            text = str(value)
            return _quantity(text) if len(text) <= _LONGEST_REMEMBERED else _quantity.__wrapped__(text)
        except ValueError:  # a QuantityError, or an int with too many digits to write
            pass
    raise Unreadable(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


@lru_cache(maxsize=4096)
def _quantity(text: str) -> str:
    quantity = Quantity.parse(text)
    canonical = str(quantity)
    # Kubernetes' canonical form of some huge amounts is a different amount.
    return canonical if Quantity.parse(canonical) == quantity else text


def is_quantity(text: str) -> bool:
    try:
        return len(text) <= _LONGEST_REMEMBERED and _quantity(text) == text
    except QuantityError:
        return False


def is_time(text: str, micro: bool = False) -> bool:
    return len(text) == (27 if micro else 20) and _is_time(text, micro)


@lru_cache(maxsize=4096)
def _is_time(text: str, micro: bool) -> bool:
    try:
        return canonical_time(text, micro) == text
    except Unreadable:
        return False


_DATE: Final = (("2006", r"\d{4}"), ("-", "-"), ("01", r"\d\d"), ("-", "-"), ("02", r"\d\d"), ("T", "T"))
_CLOCK: Final = (("15", r"\d\d?"), (":", ":"), ("04", r"\d\d"), (":", ":"), ("05", r"\d\d"))
_ZONE: Final = ("Z07:00", r"Z|[+-]\d\d:\d\d")
_LAYOUTS: Final = {
    False: ("2006-01-02T15:04:05Z07:00", (*_DATE, *_CLOCK, ("", r"(?:[.,]\d+)?"), _ZONE)),
    True: ("2006-01-02T15:04:05.000000Z07:00", (*_DATE, *_CLOCK, (".000000", r"\.\d{6}(?!\d)"), _ZONE)),
}
"""How Go reads times: the name of the layout, and for each of its parts the name and the pattern."""


def canonical_time(text: str, micro: bool = False) -> str:
    """The time in UTC as Kubernetes writes it: whole seconds, or six digits of them for a MicroTime."""
    layout, parts = _LAYOUTS[micro]
    found, at = [], 0
    for part, pattern in parts:
        matched = re.compile(pattern, re.ASCII).match(text, at)
        if matched is None:
            rest = shortened(text[at:])
            raise Unreadable(
                f'parsing time "{shortened(text)}" as "{layout}": cannot parse "{rest}" as "{part}"'
            )
        found.append(matched[0])
        at = matched.end()
    if at != len(text):
        raise Unreadable(f'parsing time "{shortened(text)}": extra text: "{shortened(text[at:])}"')
    year, month, day, hour, minute, second = (int(found[index]) for index in (0, 2, 4, 6, 8, 10))
    fraction, zone = found[11][1:7].ljust(6, "0"), found[12]
    offset = timedelta() if zone == "Z" else timedelta(hours=int(zone[1:3]), minutes=int(zone[4:]))
    try:
        moment = datetime(year, month, day, hour, minute, second, int(fraction))
        moment += offset if zone[0] == "-" else -offset
    except (ValueError, OverflowError) as exc:
        raise Unreadable(f'parsing time "{text}": {str(exc).partition(" must be")[0]} out of range') from exc
    return moment.isoformat(timespec="microseconds" if micro else "seconds") + "Z"


def is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def checked_base64(text: str) -> str:
    """The text, if it is bytes in base64."""
    if not is_base64(text):
        found = re.search(r"[^A-Za-z0-9+/]", text.rstrip("="))
        raise Unreadable(f"illegal base64 data at input byte {found.start() if found else len(text)}")
    return text
