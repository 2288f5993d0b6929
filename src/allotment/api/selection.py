"""Label selectors and field selectors as URLs and command lines write them.

``app=web,tier in (a, b),!canary`` is a label selector, ``metadata.name=a,spec.nodeName!=b`` a field selector. Both are
lists of tests that must all hold. Parsing takes one pass over at most ``MAX_SELECTOR_LENGTH`` characters; the messages
of :class:`SelectorError` are Kubernetes'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from allotment.api.names import LABEL_LENGTH, SUBDOMAIN_LENGTH, label_key_problem, label_value_problem

MAX_SELECTOR_LENGTH = 64 * 1024
"""Characters of a selector that we look at."""
MAX_REQUIREMENTS = 8_000
"""That a selector may have: whoever asks is kept waiting for each, and others with them. Of values there may be more."""


class SelectorError(ValueError):
    """The text is not a valid selector."""


class Test(Enum):
    """How a requirement compares. A label that is absent passes NOT_IN and NOT_EXISTS only."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    NOT_EXISTS = "!"
    GREATER = ">"
    LESS = "<"


@dataclass(frozen=True, slots=True)
class SelectorRequirement:
    """One test of one label or field. ``values`` has one entry for GREATER and LESS, none for (NOT_)EXISTS."""

    key: str
    test: Test
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all hold. A selector without any matches everything."""

    requirements: tuple[SelectorRequirement, ...] = ()
    _joint: _Joint = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_joint", _Joint(self.requirements))

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def matches(self, values: Mapping[str, str]) -> bool:
        return not self.requirements or self._joint.holds(values)

    def exactly(self, key: str) -> str | None:
        """The value that ``key`` must have, if the selector requires a single one."""
        for requirement in self.requirements:
            if requirement.key == key and requirement.test is Test.IN and len(requirement.values) == 1:
                return next(iter(requirement.values))
        return None

    def equalities(self) -> tuple[tuple[str, str], ...]:
        """The requirements of the form key=value."""
        return tuple(
            (each.key, next(iter(each.values)))
            for each in self.requirements
            if each.test is Test.IN and len(each.values) == 1
        )


class _Joint:
    """Requirements joined by key, so that testing an object takes time in proportion to the object, not the selector.

    Thousands of requirements, tested one by one on thousands of objects, would keep a server busy for minutes.
    """

    __slots__ = ("above", "absent", "allowed", "below", "needed", "refused")

    def __init__(self, requirements: Iterable[SelectorRequirement]) -> None:
        self.allowed: dict[str, frozenset[str]] = {}
        self.refused: dict[str, set[str]] = {}
        self.needed: set[str] = set()
        self.absent: set[str] = set()
        self.above: dict[str, int] = {}
        self.below: dict[str, int] = {}
        for each in requirements:
            self._add(each.key, each.test, each.values)

    def _add(self, key: str, test: Test, values: frozenset[str]) -> None:
        match test:
            case Test.NOT_EXISTS:
                self.absent.add(key)
            case Test.NOT_IN:
                self.refused.setdefault(key, set()).update(values)
            case Test.IN:
                self.needed.add(key)
                self.allowed[key] = self.allowed.get(key, values) & values
            case Test.EXISTS:
                self.needed.add(key)
            case Test.GREATER | Test.LESS:
                self.needed.add(key)
                bound = int(next(iter(values)))
                if test is Test.GREATER:
                    self.above[key] = max(bound, self.above.get(key, bound))
                else:
                    self.below[key] = min(bound, self.below.get(key, bound))

    def holds(self, values: Mapping[str, str]) -> bool:
        if len(self.needed) > len(values):
            return False
        for key, allowed in self.allowed.items():
            if values.get(key) not in allowed:
                return False
        return (
            self.needed <= values.keys()
            and self.absent.isdisjoint(values)
            and not (
                self.refused and any(value in self.refused.get(key, ()) for key, value in values.items())
            )
            and not ((self.above or self.below) and self._out_of_bounds(values))
        )

    def _out_of_bounds(self, values: Mapping[str, str]) -> bool:
        for bounds, exceeded in ((self.above, int.__le__), (self.below, int.__ge__)):
            for key, bound in bounds.items():
                value = values[key]
                if not _INTEGER.fullmatch(value) or exceeded(int(value), bound):
                    return True
        return False


_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")

EVERYTHING = Selector()

_TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!<>(),])|([^ \t\r\n=!<>(),]+))")
_OPERATORS = {
    "=": Test.IN,
    "==": Test.IN,
    "in": Test.IN,
    "!=": Test.NOT_IN,
    "notin": Test.NOT_IN,
    ">": Test.GREATER,
    "gt": Test.GREATER,
    "<": Test.LESS,
    "lt": Test.LESS,
}
_BINARY = "in, notin, =, ==, !=, gt, lt"


def parse_labels(text: str) -> Selector:
    """Parses a label selector. Raises SelectorError."""
    _check_length(text)
    return _LabelParser(text).parse()


def parse_fields(text: str) -> Selector:
    """Parses a field selector: ``=``, ``==`` and ``!=`` only; a backslash escapes ``\\``, ``,`` and ``=``."""
    _check_length(text)
    requirements: list[SelectorRequirement] = []
    parts = _split_unescaped(text)
    if len(parts) > MAX_REQUIREMENTS:
        raise _too_many()
    for part in parts:
        if not part:
            continue
        for operator, test in (("!=", Test.NOT_IN), ("==", Test.IN), ("=", Test.IN)):
            place = _find_unescaped(part, operator)
            if place >= 0:
                value = _unescape(part[place + len(operator) :])
                requirements.append(SelectorRequirement(part[:place].strip(), test, frozenset((value,))))
                break
        else:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
    return Selector(tuple(requirements))


def _check_length(text: str) -> None:
    if len(text) > MAX_SELECTOR_LENGTH:
        raise SelectorError(
            f"the selector is {len(text)} characters long; at most {MAX_SELECTOR_LENGTH} are understood"
        )


def _too_many() -> SelectorError:
    return SelectorError(f"the selector has too many requirements; at most {MAX_REQUIREMENTS} are understood")


class _LabelParser:
    def __init__(self, text: str) -> None:
        self._tokens = [(sign or "", word or "") for sign, word in _TOKEN.findall(text)]
        self._at = 0

    def parse(self) -> Selector:
        requirements: list[SelectorRequirement] = []
        if not self._tokens:
            return EVERYTHING
        while True:
            sign, word = self._peek()
            if not word and sign != "!":
                raise SelectorError(f"found '{sign}', expected: !, identifier, or 'end of string'")
            if len(requirements) == MAX_REQUIREMENTS:
                raise _too_many()
            try:
                requirements.append(self._requirement())
            except SelectorError as exc:
                raise SelectorError(f"unable to parse requirement: {exc}") from exc
            sign, word = self._take()
            if not sign and not word:
                return Selector(tuple(sorted(requirements, key=lambda each: each.key)))
            if sign != ",":
                raise SelectorError(f"found '{sign or word}', expected: ',' or 'end of string'")
            sign, word = self._peek()
            if not word and sign != "!":
                raise SelectorError(f"found '{sign}', expected: identifier after ','")

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "")

    def _take(self) -> tuple[str, str]:
        token = self._peek()
        self._at += 1
        return token

    def _requirement(self) -> SelectorRequirement:
        sign, key = self._take()
        negated = sign == "!"
        if negated:
            sign, key = self._take()
        if not key:
            raise SelectorError(f"found '{sign}', expected: identifier")
        if label_key_problem(key):
            raise SelectorError(f'<nil>: Invalid value: "{key}": {"; ".join(key_messages(key))}')
        sign, word = self._peek()
        if (not sign and not word) or sign == ",":
            return SelectorRequirement(key, Test.NOT_EXISTS if negated else Test.EXISTS)
        self._take()
        operator = sign or word
        test = _OPERATORS.get(operator)
        if test is None:
            raise SelectorError(f"found '{operator}', expected: {_BINARY}")
        values = self._set() if operator in ("in", "notin") else frozenset((self._one(),))
        return self._checked(SelectorRequirement(key, test, values))

    def _one(self) -> str:
        sign, word = self._peek()
        if (not sign and not word) or sign == ",":
            return ""
        self._take()
        if not word:
            raise SelectorError(f"found '{sign}', expected: identifier")
        return word

    def _set(self) -> frozenset[str]:
        sign, word = self._take()
        if sign != "(":
            raise SelectorError(f"found '{sign or word}' expected: '('")
        values: set[str] = set()
        expecting = True  # a value may follow; if a comma comes first, the value is empty
        while True:
            sign, word = self._take()
            if word and expecting:
                values.add(word)
                expecting = False
            elif sign == ",":
                if expecting:
                    values.add("")
                expecting = True
            elif sign == ")":
                if expecting:
                    values.add("")
                return frozenset(values)
            else:
                wanted = "',', or identifier" if expecting else "',' or ')'"
                raise SelectorError(f"found '{sign or word}', expected: {wanted}")

    @staticmethod
    def _checked(requirement: SelectorRequirement) -> SelectorRequirement:
        for value in sorted(requirement.values):
            if label_value_problem(value):
                raise SelectorError(
                    f'values[0][{requirement.key}]: Invalid value: "{value}": {"; ".join(value_messages(value))}'
                )
            if requirement.test in (Test.GREATER, Test.LESS) and not _INTEGER.fullmatch(value):
                raise SelectorError(
                    f"values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
                )
        return requirement


def key_messages(key: str) -> list[str]:
    """What Kubernetes says about a label key that it refuses."""
    prefix, slash, name = key.rpartition("/")
    if slash and "/" in prefix:
        return [
            f"a valid label key {_WORD_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    told = []
    if slash and not prefix:
        told.append("prefix part must be non-empty")
    elif slash and len(prefix) > SUBDOMAIN_LENGTH:
        told.append(f"prefix part must be no more than {SUBDOMAIN_LENGTH} bytes")
    elif slash and label_key_problem(f"{prefix}/a"):
        told.append(
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
            "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        )
    if not name:
        told.append("name part must be non-empty")
    elif len(name) > LABEL_LENGTH:
        told.append(f"name part must be no more than {LABEL_LENGTH} bytes")
    if label_key_problem(name[:LABEL_LENGTH]):
        told.append(f"name part {_WORD_RULE}")
    return told


_WORD_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def value_messages(value: str) -> list[str]:
    """What Kubernetes says about a label value that it refuses."""
    told = []
    if len(value) > LABEL_LENGTH:
        told.append(f"must be no more than {LABEL_LENGTH} bytes")
    if label_value_problem(value[:LABEL_LENGTH]):
        told.append(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
            "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
            "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        )
    return told


def _split_unescaped(text: str) -> list[str]:
    parts, start, at = [], 0, 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == ",":
            parts.append(text[start:at])
            start = at + 1
        at += 1
    parts.append(text[start:])
    return parts


def _find_unescaped(part: str, operator: str) -> int:
    """Where the part's first operator is, if it is this one; the text before it must not contain an operator."""
    at = 0
    while at < len(part):
        if part[at] == "\\":
            at += 1
        elif part.startswith(operator, at):
            return at
        elif part[at] == "=" or part.startswith("!=", at):
            return -1
        at += 1
    return -1


def _unescape(value: str) -> str:
    if "\\" not in value and "=" not in value:
        return value
    out, at = [], 0
    while at < len(value):
        char = value[at]
        if char == "\\":
            at += 1
            if at == len(value) or value[at] not in "\\,=":
                raise SelectorError(
                    f"invalid field selector: invalid escape sequence: {value[at - 1 : at + 1]}"
                )
            char = value[at]
        elif char in ",=":
            raise SelectorError(f"invalid field selector: invalid unescaped character: {char}")
        out.append(char)
        at += 1
    return "".join(out)
