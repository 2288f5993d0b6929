"""Named formats: the rules for names, labels and a few common texts that ``format.<name>()`` stands for.

A format is a value; ``validate`` gives what is wrong with a text, one message a rule, or nothing. Lengths are
in bytes of UTF-8, as Kubernetes counts them. The *prefix* variants judge what ``generateName`` would take: a
dash at the end is fine there, since more is to follow.
"""

import string
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import re2

from allotment.cel import types
from allotment.cel.library.locator import LocatorError, check_request_uri

_LOWER = frozenset(string.ascii_lowercase)
_LOWER_ALNUM = _LOWER | frozenset(string.digits)
_ALNUM = frozenset(string.ascii_letters + string.digits)
_BASE64 = frozenset(string.ascii_letters + string.digits + "+/")
_LABEL_LENGTH = 63
_SUBDOMAIN_LENGTH = 253
_UUID = re2.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_TIME = re2.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")

Rule = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A rule with a name; equality is by name. ``regex_size`` is how long a pattern its cost assumes."""

    cel_type: ClassVar = types.FORMAT
    name: str
    rule: Rule = field(compare=False)
    regex_size: int = field(compare=False)

    def validate(self, text: str) -> list[str]:
        return self.rule(text)


def dns1123_label(text: str) -> list[str]:
    faults = _too_long(text, _LABEL_LENGTH)
    if not _is_word(text, _LOWER_ALNUM, "-"):
        faults.append(
            "must not contain dots"
            if dns1123_subdomain_shape(text)
            else "must be lower case letters, digits and '-', with a letter or digit at both ends"
        )
    return faults


def dns1123_subdomain(text: str) -> list[str]:
    faults = _too_long(text, _SUBDOMAIN_LENGTH)
    if not dns1123_subdomain_shape(text):
        faults.append(
            "must be labels of lower case letters, digits and '-' joined by dots, such as 'example.com'"
        )
    return faults


def dns1123_subdomain_shape(text: str) -> bool:
    return all(_is_word(label, _LOWER_ALNUM, "-") for label in text.split("."))


def dns1035_label(text: str) -> list[str]:
    faults = _too_long(text, _LABEL_LENGTH)
    if not _is_word(text, _LOWER_ALNUM, "-") or text[0] not in _LOWER:
        faults.append("must be lower case letters, digits and '-', with a letter first and no '-' last")
    return faults


def qualified_name(text: str) -> list[str]:
    """An optional DNS subdomain and a slash, then a name."""
    if text.count("/") > 1:
        return ["must be a name, or a DNS subdomain, one '/' and a name"]
    prefix, slash, name = text.rpartition("/")
    faults: list[str] = []
    if slash and not prefix:
        faults.append("the part before '/' must not be empty")
    elif slash:
        faults += [f"the part before '/' {fault}" for fault in dns1123_subdomain(prefix)]
    faults += (
        ["the name must not be empty"]
        if not name
        else [f"the name {it}" for it in _too_long(name, _LABEL_LENGTH)]
    )
    if not _is_word(name, _ALNUM, "-_."):
        faults.append(
            "the name must be letters, digits, '-', '_' and '.', with a letter or digit at both ends"
        )
    return faults


def label_value(text: str) -> list[str]:
    faults = _too_long(text, _LABEL_LENGTH)
    if text and not _is_word(text, _ALNUM, "-_."):
        faults.append(
            "must be empty, or letters, digits, '-', '_' and '.', with a letter or digit at both ends"
        )
    return faults


def uri(text: str) -> list[str]:
    try:
        check_request_uri(text)
    except LocatorError as exc:
        return [str(exc)]
    return []


def uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["must be a UUID"]


def base64(text: str) -> list[str]:
    """Padded base64 of the standard alphabet; nothing at all is no base64."""
    digits = text[:-2] + text[-2:].rstrip("=")
    good = digits != "" and len(text) % 4 == 0 and all(char in _BASE64 for char in digits)
    return [] if good else ["must be base64"]


def date(text: str) -> list[str]:
    return [] if _is_date(text) else ["must be a date such as 2006-01-02"]


def datetime(text: str) -> list[str]:
    """A date, ``T`` and a time of day. What follows a second ``T`` is not looked at, as in Kubernetes."""
    parts = text.lower().split("t")
    clock = _TIME.fullmatch(parts[1]) if len(parts) > 1 and _is_date(parts[0]) else None
    good = clock is not None and clock[1] <= "23" and clock[2] <= "59" and clock[3] <= "59"
    return [] if good else ["must be a date and time such as 2006-01-02T15:04:05Z"]


def prefix_of(rule: Rule) -> Rule:
    """The same rule for the beginning of a name, which may end in a dash."""

    def judge(text: str) -> list[str]:
        # The dash and the byte before it give way to a letter; half of a wider character stays a fault.
        replaceable = len(text) > 1 and text[-1] == "-" and text[-2].isascii()
        return rule(text[:-2] + "a" if replaceable else text)

    return judge


def _is_word(text: str, ends: frozenset[str], inner: str) -> bool:
    return (
        text != ""
        and text[0] in ends
        and text[-1] in ends
        and all(char in ends or char in inner for char in text)
    )


def _too_long(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []


def _is_date(text: str) -> bool:
    if len(text) != 10 or text[4] != "-" or text[7] != "-":
        return False
    digits = text[:4] + text[5:7] + text[8:]
    if not (digits.isascii() and digits.isdigit()):
        return False
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:])
    # Year 0 exists here and is a leap year; the calendar begins with year 1, so ask it about year 400 instead.
    return 1 <= month <= 12 and 1 <= day <= monthrange(year or 400, month)[1]


FORMATS: dict[str, NamedFormat] = {
    "dns1123Label": NamedFormat("DNS1123Label", dns1123_label, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", dns1123_subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", dns1035_label, 30),
    "qualifiedName": NamedFormat("QualifiedName", qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", prefix_of(dns1123_label), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", prefix_of(dns1123_subdomain), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", prefix_of(dns1035_label), 30),
    "labelValue": NamedFormat("LabelValue", label_value, 40),
    "uri": NamedFormat("URI", uri, 1103),
    "uuid": NamedFormat("uuid", uuid, 70),
    "byte": NamedFormat("byte", base64, 84),
    "date": NamedFormat("date", date, 71),
    "datetime": NamedFormat("datetime", datetime, 71),
}
