"""What an unquoted word in YAML means, as kubectl reads it.

kubectl's YAML is version 1.1 with habits of its own: ``y`` and ``on`` are true, ``017`` is octal, ``1e3`` is a
number, and so is ``1_000``, but dates and ``12:30`` are text. Reading them in another way would accept manifests that
a cluster refuses, and the reverse.
"""

import math
import re

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NUMBER_STARTS = frozenset("+-.0123456789")
_INT = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|[1-9][0-9]*|0)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONGEST_YAML_NUMBER = 512
_UINT64_MAX = 2**64 - 1


def plain(word: str) -> Scalar:
    """The value of an unquoted word. Raises ValueError for infinities and NaN, which JSON does not have."""
    if word in _WORDS:
        return _WORDS[word]
    if word[0] not in _NUMBER_STARTS or len(word) > _LONGEST_YAML_NUMBER:
        return word
    digits = word.replace("_", "")
    if _INT.fullmatch(digits):
        number = _integer(digits)
        if -(2**63) <= number <= _UINT64_MAX:
            return number
    if _FLOAT.fullmatch(digits):
        return finite(digits)
    if _NOT_FINITE.fullmatch(word):
        raise ValueError(f"{word} is not a number that JSON can hold")
    return word


def finite(text: str) -> float:
    """The text as a floating-point number; ValueError if it is too large for one."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def tagged(tag: str, text: str) -> Scalar:
    """The value of a word with an explicit tag such as ``!!str``. ValueError if the tag does not suit the word."""
    kind = tag.removeprefix("tag:yaml.org,2002:")
    if kind in ("str", "!"):
        return text
    value = plain(text)
    fits = {
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "bool": isinstance(value, bool),
        "null": value is None,
    }
    if kind not in fits:
        raise ValueError(f"the tag {tag[:80]} is not supported")
    if not fits[kind]:
        raise ValueError(f"{text[:40]!r} is not of the type {kind} that its tag says")
    return float(value) if kind == "float" and value is not None else value


def _integer(digits: str) -> int:
    sign, magnitude = (-1, digits[1:]) if digits[0] == "-" else (1, digits.removeprefix("+"))
    if len(magnitude) > 1 and magnitude[0] == "0" and magnitude[1].isdigit():
        return sign * int(magnitude, 8)
    return sign * int(magnitude, 0)
