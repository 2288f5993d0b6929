"""Versions, ordered as in https://semver.org 2.0.0. There are three readers, of increasing leniency.

=====================  =============================================================  ====================
reader                 accepts besides ``MAJOR.MINOR.PATCH[-PRE][+BUILD]``            used by
=====================  =============================================================  ====================
``Version.parse``      nothing                                                        CEL ``semver(s)``
``parse_normalized``   a leading ``v``, missing minor or patch, leading zeros         CEL ``semver(s, true)``
``parse_tolerant``     all that, and space around it                                  v1alpha2's attributes
=====================  =============================================================  ====================

Numbers are 64-bit and unsigned. Equality, order and hash use precedence, so build metadata does not count:
``1.0.0+a == 1.0.0+b``. ``str`` gives back every part.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from allotment.api.text import quoted, trimmed

__all__ = ["Version", "VersionError"]

_UINT64_MAX: Final = 2**64 - 1
_CACHED_LENGTH: Final = 128  # longer texts are not cached, so that the cache stays small

_NUMBER: Final = r"(0|[1-9][0-9]*+)"
_IDENTIFIERS: Final = r"([0-9A-Za-z-]++(?:\.[0-9A-Za-z-]++)*+)"
_VERSION: Final = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_IDENTIFIERS})?(?:\+{_IDENTIFIERS})?")
_DIGITS: Final = re.compile(r"[0-9]+")
_LEADING_ZERO: Final = re.compile(r"0[0-9]+")


class VersionError(ValueError):
    """The text is not a semantic version."""


class Version:
    """A semantic version that never changes. Ordered, equal and hashed by precedence."""

    __slots__ = ("_key", "build", "major", "minor", "patch", "pre")

    def __init__(
        self,
        major: int,
        minor: int,
        patch: int,
        pre: tuple[int | str, ...] = (),
        build: tuple[str, ...] = (),
    ) -> None:
        self.major = major
        self.minor = minor
        self.patch = patch
        self.pre = pre
        self.build = build
        # A release comes after its pre-releases; among identifiers, numbers come before words.
        order = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in pre)
        self._key = (major, minor, patch, not pre, order)

    @staticmethod
    def parse(text: str) -> Version:
        """Parses a version exactly as the specification requires; raises VersionError."""
        return _parse(text) if len(text) <= _CACHED_LENGTH else _parse_anew(text)

    @staticmethod
    def parse_normalized(text: str) -> Version:
        """Like ``parse``, after dropping one leading ``v``, adding missing numbers and dropping leading zeros.

        A shortened version may not have a pre-release or build metadata.
        """
        parts = [_without_leading_zeros(part) for part in text.removeprefix("v").split(".", 2)]
        if len(parts) < 3:
            if "+" in parts[-1] or "-" in parts[-1]:
                raise VersionError(
                    f"version {quoted(text)} has a pre-release or build but not three numbers; write MAJOR.MINOR.PATCH"
                )
            parts += ["0"] * (3 - len(parts))
        return Version.parse(".".join(parts))

    @staticmethod
    def parse_tolerant(text: str) -> Version:
        """Like ``parse_normalized``, but allows space around the text."""
        return Version.parse_normalized(trimmed(text))

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Version) else NotImplemented

    def __lt__(self, other: Version) -> bool:
        return self._key < other._key if isinstance(other, Version) else NotImplemented

    def __le__(self, other: Version) -> bool:
        return self._key <= other._key if isinstance(other, Version) else NotImplemented

    def __gt__(self, other: Version) -> bool:
        return self._key > other._key if isinstance(other, Version) else NotImplemented

    def __ge__(self, other: Version) -> bool:
        return self._key >= other._key if isinstance(other, Version) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        pre = "-" + ".".join(map(str, self.pre)) if self.pre else ""
        build = "+" + ".".join(self.build) if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{build}"

    def __repr__(self) -> str:
        return f"Version({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Version, (self.major, self.minor, self.patch, self.pre, self.build)

    def __copy__(self) -> Version:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Version:
        return self


def is_version(text: str) -> bool:
    """Whether the text has the form of a version, with numbers of any size. The API requires no more of attributes."""
    match = _VERSION.fullmatch(text)
    pre = match[4] if match else None
    return match is not None and not (pre and any(map(_LEADING_ZERO.fullmatch, pre.split("."))))


def _parse_anew(text: str) -> Version:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise VersionError(
            f"{quoted(text)} is not a semantic version; write MAJOR.MINOR.PATCH, as in 1.2.3 or 1.2.3-rc.1"
        )
    major, minor, patch, pre, build = match.groups()
    return Version(
        _number(text, major),
        _number(text, minor),
        _number(text, patch),
        tuple(_identifier(text, part) for part in pre.split(".")) if pre else (),
        tuple(build.split(".")) if build else (),
    )


_parse: Final = lru_cache(maxsize=4096)(_parse_anew)


def _identifier(text: str, part: str) -> int | str:
    if not _DIGITS.fullmatch(part):
        return part
    if part[0] == "0" and len(part) > 1:
        raise VersionError(
            f"version {quoted(text)} has a numeric pre-release identifier with a leading zero: drop it"
        )
    return _number(text, part)


def _number(text: str, digits: str) -> int:
    number = int(digits) if len(digits) <= 20 else _UINT64_MAX + 1
    if number > _UINT64_MAX:
        raise VersionError(f"version {quoted(text)} has a number beyond 64 bits")
    return number


def _without_leading_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped and stripped[0] in "0123456789" else "0" + stripped
