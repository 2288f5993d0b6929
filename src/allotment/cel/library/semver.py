"""Kubernetes' version functions. The version itself is :class:`allotment.api.semver.Version`."""

from operator import gt, lt

from allotment.api.semver import Version, VersionError
from allotment.cel.declare import Library, Overload
from allotment.cel.errors import CelRuntimeError
from allotment.cel.library.pricing import priced
from allotment.cel.types import BOOL, INT, SEMVER, STRING
from allotment.cel.values import CLASS_NAMES

CLASS_NAMES[Version] = SEMVER.name  # the class lives below this package and cannot name its type itself


def parse(text: str, normalize: bool = False) -> Version:
    """Parses strictly, or leniently about a leading ``v``, missing numbers and leading zeros."""
    try:
        return Version.parse_normalized(text) if normalize else Version.parse(text)
    except VersionError as exc:
        raise CelRuntimeError(str(exc)) from exc


def is_semver(text: str, normalize: bool = False) -> bool:
    try:
        parse(text, normalize)
    except CelRuntimeError:
        return False
    return True


def compare(left: Version, right: Version) -> int:
    return (left > right) - (left < right)


def major(version: Version) -> int:
    return _as_int64(version.major)


def minor(version: Version) -> int:
    return _as_int64(version.minor)


def patch(version: Version) -> int:
    return _as_int64(version.patch)


def _as_int64(number: int) -> int:
    """Versions hold unsigned numbers; the largest come out negative, as upstream."""
    return number - 2**64 if number >= 2**63 else number


_PAIR = (SEMVER, SEMVER)

LIBRARY = Library(
    "kubernetes.semver",
    (
        priced(
            "semver",
            Overload("string_to_semver", (STRING,), SEMVER, parse),
            Overload("string_bool_to_semver", (STRING, BOOL), SEMVER, parse),
        ),
        priced(
            "isSemver",
            Overload("is_semver_string", (STRING,), BOOL, is_semver),
            Overload("is_semver_string_bool", (STRING, BOOL), BOOL, is_semver),
        ),
        priced("isGreaterThan", Overload("semver_is_greater_than", _PAIR, BOOL, gt, member=True)),
        priced("isLessThan", Overload("semver_is_less_than", _PAIR, BOOL, lt, member=True)),
        priced("compareTo", Overload("semver_compare_to", _PAIR, INT, compare, member=True)),
        priced("major", Overload("semver_major", (SEMVER,), INT, major, member=True)),
        priced("minor", Overload("semver_minor", (SEMVER,), INT, minor, member=True)),
        priced("patch", Overload("semver_patch", (SEMVER,), INT, patch, member=True)),
    ),
)
