"""The named formats of strings, as Kubernetes checks them: ``date-time``, ``ipv4``, ``uuid``, ``email``…

A format that is not known is ignored, as upstream ignores it (and warns of it when the definition is written).
Names are looked up without their dashes.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable
from datetime import date
from email.utils import parseaddr
from typing import Final
from urllib.parse import urlsplit

import re2

Format = Callable[[str], bool]

_NUMBERS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}
_LONGEST_HOST: Final = 255
_LONGEST_AUTHORITY: Final = 4096
"""The characters of a URI in which its scheme and authority are."""


def supported(type_: str, format_: str) -> bool:
    """Whether a format means anything for values of a type."""
    if type_ in ("", "string"):
        return format_.replace("-", "") in _FORMATS
    return format_ in _NUMBERS.get(type_, ())


def format_check(format_: str) -> Format | None:
    """The test of a string format; None for one that is not known."""
    return _FORMATS.get(format_.replace("-", ""))


def format_price(format_: str, text: str) -> float:
    """The most microseconds that testing a text takes."""
    return 1 + len(text) * (2.0 if format_ == "email" else 0.2)


def _pattern(text: str) -> Format:
    compiled = re2.compile(text)
    return lambda value: compiled.search(value) is not None


_DATE_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_GO_DURATION: Final = re.compile(r"[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_LONG_DURATION: Final = re.compile(r"(\d+)\s*([A-Za-zµ]+)")
_UNITS: Final = (
    ("ns", "nano"),
    ("us", "µs", "micro"),
    ("ms", "milli"),
    ("s", "sec"),
    ("m", "min"),
    ("h", "hr", "hour"),
    ("d", "day"),
    ("w", "wk", "week"),
)
_LONGEST_DURATION: Final = 512
_CARD: Final = re.compile(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})"
)
_RGB_PART: Final = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"


def is_date(text: str) -> bool:
    try:
        return len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False


def is_date_time(text: str) -> bool:
    day, separator, rest = text.lower().partition("t")
    match = _DATE_TIME.fullmatch(rest.split("t")[0])
    return bool(
        len(text) >= 4
        and separator
        and is_date(day)
        and match
        and match[1] <= "23"
        and match[2] <= "59"
        and match[3] <= "59"
    )


def duration_nanoseconds(text: str) -> int | None:
    """A duration, as Go writes them (``1h30m``) or with longer words (``3 days``); None if it is none."""
    if len(text) > _LONGEST_DURATION:
        return None
    if _GO_DURATION.fullmatch(text):
        return _go_duration(text)
    total, found = 0, False
    for amount, unit in _LONG_DURATION.findall(text):
        for size, names in zip(_SIZES, _UNITS, strict=True):
            if unit.lower() in names or unit.lower().startswith(names[-1]):
                total, found = total + int(amount) * size, True
    return total if found else None


_SIZES: Final = (1, 10**3, 10**6, 10**9, 60 * 10**9, 3600 * 10**9, 86400 * 10**9, 7 * 86400 * 10**9)
_GO_SIZES: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}  # fmt: skip
_GO_PART: Final = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)")


def _go_duration(text: str) -> int | None:
    total = 0
    for whole, fraction, unit in _GO_PART.findall(text.lstrip("+-")):
        total += int(whole or 0) * _GO_SIZES[unit]
        if fraction:
            total += int(fraction) * _GO_SIZES[unit] // 10 ** len(fraction)
    total = -total if text[:1] == "-" else total
    return total if -(2**63) <= total < 2**63 else None


def _is_host(text: str) -> bool:
    """A name of letters, digits and symbols of any script, with dashes inside; the last of several is letters alone."""
    if len(text.encode()) > _LONGEST_HOST:
        return False
    *labels, last = text.split(".")
    if any(len(label.encode()) > 63 for label in (*labels, last)):
        return False
    if not labels:
        return bool(last) and _is_host_text(last[:1] + last[1:].removeprefix("-"))
    return (
        all(_is_host_text(label[:1] + label[-1:] + label[1:-1].replace("-", "")) for label in labels)
        and 2 <= len(last) <= 63
        and all(char.isalpha() for char in last)
    )


def _is_host_text(text: str) -> bool:
    return bool(text) and all(
        (char.isascii() and char.isalnum()) or unicodedata.category(char)[0] in "SL" for char in text
    )


def _is_ip(version: int) -> Format:
    mark = "." if version == 4 else ":"

    def check(text: str) -> bool:
        try:
            return mark in text and bool(ipaddress.ip_address(_plain_zeros(text))) and "%" not in text
        except ValueError:
            return False

    return check


def _plain_zeros(text: str) -> str:
    """Upstream still reads 010.0.0.1 as 10.0.0.1."""
    return re.sub(r"(?<![0-9a-fA-F:])0+(?=[0-9])", "", text) if "." in text else text


def _is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    try:
        return bool(slash and bits.isdecimal()) and bool(
            ipaddress.ip_network(f"{_plain_zeros(address)}/{int(bits)}", strict=False)
        )
    except ValueError:
        return False


def _is_uri(text: str) -> bool:
    """An absolute URI or an absolute path."""
    if not text or any(char < " " or char == "\x7f" for char in text):
        return False
    try:
        parts = urlsplit(text[:_LONGEST_AUTHORITY])  # which caches its argument; the rest has no rules
        _ = parts.port
    except ValueError:
        return False
    return text.startswith("/") or (bool(parts.scheme) and " " not in parts.netloc)


def _is_email(text: str) -> bool:
    try:
        address = parseaddr(text)[1]
    except RecursionError:  # comments in comments, groups in groups
        return False
    local, at, domain = address.rpartition("@")
    return bool(at and local and domain and " " not in address and "." not in (domain[:1], domain[-1:]))


_MAC: Final = re.compile(
    r"(?i:[0-9a-f]{2}(?::[0-9a-f]{2}){5}(?:(?::[0-9a-f]{2}){2})?|[0-9a-f]{2}(?:-[0-9a-f]{2}){5}(?:(?:-[0-9a-f]{2}){2})?"
    r"|[0-9a-f]{4}(?:\.[0-9a-f]{4}){2}(?:\.[0-9a-f]{4})?)"
)


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    values = [10 if char == "X" else int(char) for char in digits]
    return sum(place * value for place, value in enumerate(values, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum((1, 3)[place % 2] * int(char) for place, char in enumerate(digits)) % 10 == 0


def _is_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    doubled = (int(char) * (1 + place % 2) for place, char in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _is_name(longest: int, dots: bool) -> Format:
    label = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    pattern = re.compile(rf"{label}(\.{label})*" if dots else label)
    return lambda text: len(text) <= longest and pattern.fullmatch(text) is not None


_HEX: Final = "[0-9a-f]"
_FORMATS: Final[dict[str, Format]] = {
    "bsonobjectid": _pattern(r"^[0-9a-fA-F]{24}$"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_host,
    "ipv4": _is_ip(4),
    "ipv6": _is_ip(6),
    "cidr": _is_cidr,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uuid": _pattern(rf"(?i)^{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}$"),
    "uuid3": _pattern(rf"(?i)^{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}$"),
    "uuid4": _pattern(rf"(?i)^{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}$"),
    "uuid5": _pattern(rf"(?i)^{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}$"),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_card,
    "ssn": lambda text: (
        re.fullmatch(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}", text) is not None and len(text) == 11
    ),
    "hexcolor": lambda text: re.fullmatch(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})", text) is not None,
    "rgbcolor": lambda text: re.fullmatch(rf"rgb\({_RGB_PART},{_RGB_PART},{_RGB_PART}\)", text) is not None,
    "byte": lambda text: (
        re.fullmatch(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", text)
        is not None
    ),
    "password": lambda text: True,
    "date": is_date,
    "duration": lambda text: duration_nanoseconds(text) is not None,
    "datetime": is_date_time,
    "k8sshortname": _is_name(63, False),
    "k8slongname": _is_name(253, True),
}
