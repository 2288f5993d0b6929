"""The possible values of a label, and whether two such statements can both be true.

A machine that does not run yet has labels with a known value, and others of which only the possible values are known. A test
of a label (``In``, ``NotIn``, ``Exists``, ``DoesNotExist``, ``Gt``, ``Lt``, ``Gte``, ``Lte``) is also a set of values, so
both are represented by :class:`LabelValues`. Several tests of one label are their intersection.

There are two questions. An overlay *applies* to a machine that passes its tests; a label that the machine does not have
passes only NotIn and DoesNotExist. A pool *offers* a machine if the two do not contradict each other on any label; labels
that no instance type of the catalogue has are set by the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from allotment.api.autoscaling import Requirement


@dataclass(frozen=True, slots=True)
class LabelValues:
    """The values in ``listed`` or, with ``others``, all except those; with bounds, only whole numbers within them."""

    listed: frozenset[str] = frozenset()
    others: bool = False
    least: int | None = None
    most: int | None = None
    absent: bool = False  # whether a machine without the label passes

    def __contains__(self, value: str) -> bool:
        return (value in self.listed) != self.others and self._within(value)

    def __and__(self, other: LabelValues) -> LabelValues:
        least = max((each for each in (self.least, other.least) if each is not None), default=None)
        most = min((each for each in (self.most, other.most) if each is not None), default=None)
        absent = self.absent and other.absent
        if self.others and other.others:
            return LabelValues(self.listed | other.listed, True, least, most, absent)
        finite, second = (other, self) if self.others else (self, other)
        listed = frozenset(value for value in finite.listed if value in finite and value in second)
        return LabelValues(listed, False, least, most, absent)

    @property
    def empty(self) -> bool:
        """Whether no value is left."""
        if not self.others:
            return not self.listed
        if self.most is None:
            return False
        spared = sum(value.isdecimal() and self._within(value) for value in self.listed)
        return self.most - (self.least or 0) + 1 <= spared

    def meets(self, other: LabelValues) -> bool:
        """Whether both can be true of one machine."""
        if self.absent and other.absent:
            return True
        for finite, second in ((self, other), (other, self)):  # usually one value against a test
            if not finite.others:
                return any(value in second and value in finite for value in finite.listed)
        return not (self & other).empty

    @property
    def only(self) -> str | None:
        """The value, if there is only one."""
        return next(iter(self.listed)) if not self.others and len(self.listed) == 1 else None

    def _within(self, value: str) -> bool:
        if self.least is None and self.most is None:
            return True
        if not (value.isascii() and value.isdecimal()):
            return False
        number = int(value)
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)


ANY = LabelValues(others=True)
NONE = LabelValues(absent=True)
"""The values of a label that the machine is known not to have."""

Possible = Mapping[str, LabelValues]
"""By label; nothing is known about other labels."""


def one(value: str) -> LabelValues:
    """A known value."""
    return LabelValues(frozenset([value]))


def passing(requirements: Iterable[Requirement]) -> dict[str, LabelValues]:
    """The values that pass all tests, which must be valid."""
    return both([(test.key, _values(test)) for test in requirements])


def labelled(labels: Mapping[str, str]) -> dict[str, LabelValues]:
    return {key: one(value) for key, value in labels.items()}


def both(statements: Iterable[tuple[str, LabelValues]]) -> dict[str, LabelValues]:
    """Both statements at once."""
    found: dict[str, LabelValues] = {}
    for key, values in statements:
        found[key] = found[key] & values if key in found else values
    return found


def failed(machine: Possible, tests: Possible) -> str | None:
    """The first label for which the machine fails; None if it passes all tests."""
    for key, wanted in tests.items():
        if not (wanted.absent if key not in machine else machine[key].meets(wanted)):
            return key
    return None


def contradiction(one: Possible, other: Possible) -> str | None:
    """The first label on which the two contradict each other."""
    fewer, more = (one, other) if len(one) < len(other) else (other, one)
    for key, values in fewer.items():
        if key in more and not values.meets(more[key]):
            return key
    return None


def _values(test: Requirement) -> LabelValues:
    match test.operator:
        case "In":
            return LabelValues(frozenset(test.values))
        case "NotIn":
            return LabelValues(frozenset(test.values), others=True, absent=True)
        case "Exists":
            return ANY
        case "DoesNotExist":
            return NONE
    number = int(test.values[0])
    match test.operator:
        case "Gt":
            return replace(ANY, least=number + 1)
        case "Gte":
            return replace(ANY, least=number)
        case "Lt":
            return replace(ANY, most=number - 1)
        case "Lte":
            return replace(ANY, most=number)
    raise ValueError(f"no operator {test.operator!r}: requirements are validated before they are used")
