"""Tests of a device: the expressions of a class or a request, evaluated once per *distinct projection*.

An expression reads few attributes. Devices that agree on those must get the same answer, so the cache key is what the
expression reads and not the device: a thousand GPUs with a thousand uuids need one evaluation.

An answer is yes, no, or an error. Errors are values here, because the search may never reach the device that causes one
(see ``search``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from allotment.allocator.constraint import elements_of
from allotment.api.resource import DeviceCapacity
from allotment.api.semver import Version, VersionError
from allotment.cel.device import (
    CelCompileError,
    CelRuntimeError,
    CelUnknown,
    DeviceFeatures,
    DeviceView,
    compile_selector,
)

if TYPE_CHECKING:
    from allotment.allocator.features import Features
    from allotment.allocator.pool import PooledDevice
    from allotment.api.resource import DeviceAttribute
    from allotment.cel.device import CompiledSelector as Program
    from allotment.cel.device import Reads

EXPENSIVE_COST = 5_000
"""The estimated cost from which an expression counts as expensive: a millisecond."""

# the most answers cached for one expression; with a projection on a uuid they would grow without end
_ANSWERS_REMEMBERED = 65536


class NotKnownYet(str):
    """The answer for a device on a machine that does not run yet, if it depends on a value that is still unknown.

    Unlike an error, it is nobody's fault: we just cannot rely on the device.
    """

    __slots__ = ()


class ReadPart(NamedTuple):
    """One part of a device that an expression reads, under a unique name."""

    name: Hashable
    of: Callable[[PooledDevice], Hashable]


class Criterion(Protocol):
    """One expression that a device must pass."""

    expression: str

    def ask(self, device: PooledDevice) -> bool | str:
        """Whether the device passes; or, as text, why that is unknown (NotKnownYet: until the machine runs)."""

    @property
    def parts(self) -> Sequence[ReadPart]:
        """The parts that the expression reads: devices that agree on all of them get the same answer."""

    def read_by(self, device: PooledDevice) -> str:
        """The values that the expression reads on this device, for messages."""


class SelectorTest:
    """A CEL selector of resource.k8s.io/v1. A selector that does not compile answers every device with that error."""

    def __init__(self, expression: str, features: Features) -> None:
        self.expression = expression
        self._answers: dict[Hashable, bool | str] = {}
        self._program: Program | None = None
        # names of all attributes and capacities that it can read, if they are known
        self._names: frozenset[str] | None = None
        self._broken = ""
        self.expensive = False
        self.spent = 0  # the cost of all evaluations, if it is expensive
        self.parts: Sequence[ReadPart] = ()
        try:
            self._program = compile_selector(expression, device_features(features))
            self.parts = parts_of(self._program.reads)
            self.expensive = self._program.max_cost > EXPENSIVE_COST
            self._names = _names(self._program.reads)
        except CelCompileError as exc:
            self._broken = f"CEL compile error: {exc}"

    @property
    def reads(self) -> Reads:
        """The parts that the expression reads."""
        return frozenset() if self._program is None else self._program.reads

    def ask(self, device: PooledDevice) -> bool | str:
        if self._program is None:
            return self._broken
        key = tuple([part.of(device) for part in self.parts])
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _ANSWERS_REMEMBERED:
                self._answers.clear()
            answer = self._answers[key] = self._evaluate(self._program, device)
        return answer

    def knows(self, device: PooledDevice) -> bool:
        """Whether the answer is cached."""
        return tuple([part.of(device) for part in self.parts]) in self._answers

    def read_by(self, device: PooledDevice) -> str:
        parts = []
        for read in sorted(self.reads, key=repr):
            if len(read) == 3 and read[1] is not None and read[2] is not None:
                parts.append(f"{read[2]}={_shown(device, read[0], read[1], read[2])}")
            elif read == ("driver",):
                parts.append(f"driver={device.id.driver}")
        return ", ".join(parts)

    def _evaluate(self, program: Program, device: PooledDevice) -> bool | str:
        spec = device.spec
        if device.flaw:
            return f"CEL runtime error: {device.flaw}"
        attributes, capacity = spec.attributes, spec.capacity
        if self._names is not None:  # expose only what it reads: most devices have much more
            attributes = {name: attributes[name] for name in self._names if name in attributes}
            capacity = {name: capacity[name] for name in self._names if name in capacity}
        shared = bool(spec.allow_multiple_allocations)
        try:
            if not self.expensive:
                return program.matches(device.id.driver, attributes, capacity, shared)
            answer, cost = program.evaluate(device.id.driver, attributes, capacity, shared)
            self.spent += cost
            return answer
        except CelUnknown as exc:
            return NotKnownYet(str(exc))
        except CelRuntimeError as exc:
            self.spent += exc.cost
            return f"CEL runtime error: {exc}"


def device_features(features: Features) -> DeviceFeatures:
    """The options of the expression language for the allocator's features."""
    return DeviceFeatures(
        consumable_capacity=features.ConsumableCapacity, list_type_attributes=features.ListTypeAttributes
    )


def parts_of(reads: Reads) -> list[ReadPart]:
    """Everything that an expression with these reads can see of a device.

    The driver is always included, as it decides the meaning of unqualified names; and so is any unreadable attribute, as
    it makes every expression fail.
    """
    parts = [ReadPart("driver", lambda device: device.id.driver), ReadPart("flaw", flaw)]
    for read in sorted(reads, key=repr):
        if read == ("allowMultipleAllocations",):
            parts.append(ReadPart(read, lambda device: bool(device.spec.allow_multiple_allocations)))
        elif len(read) == 3:
            parts.append(ReadPart(read, _reader(*read)))
    return parts


def _names(reads: Reads) -> frozenset[str] | None:
    """The names, qualified and bare, of all that is read; None if an expression may read anything."""
    names: set[str] = set()
    for read in reads:
        if len(read) == 3:
            if read[1] is None or read[2] is None:
                return None
            names.update((f"{read[1]}/{read[2]}", read[2]))
    return frozenset(names)


@lru_cache(maxsize=4096)
def _readable(version: str) -> bool:
    try:
        Version.parse(version)
    except VersionError:
        return False
    return True


def flaw(device: PooledDevice) -> str:
    """Why no expression can be evaluated on a device; empty if all can."""
    if device.flaw is None:
        device.flaw = ""
        for name, value in device.spec.attributes.items():
            if value.string_value is None and value.int_value is None and value.bool_value is None:
                version = value.version_value
                if version is not None and _readable(version):
                    continue
                try:
                    DeviceView(device.id.driver, {name: value}, {})
                except CelRuntimeError as exc:
                    device.flaw = str(exc)
                    break
    return device.flaw


def _shown(device: PooledDevice, where: str, domain: str, name: str) -> str:
    mapping = device.spec.attributes if where == "attributes" else device.spec.capacity
    found = mapping.get(f"{domain}/{name}") or (mapping.get(name) if domain == device.id.driver else None)
    if found is None:
        return "(none)"
    if isinstance(found, DeviceCapacity):
        return str(found.value)
    return ",".join(str(value) for _, value in elements_of(found, lists=True)) or "(none)"


def _reader(where: str, domain: str | None, name: str | None) -> Callable[[PooledDevice], Hashable]:
    def table(device: PooledDevice) -> dict[str, DeviceAttribute] | dict[str, DeviceCapacity]:
        return device.spec.attributes if where == "attributes" else device.spec.capacity

    if domain is not None and name is not None:
        qualified = f"{domain}/{name}"

        def one(device: PooledDevice) -> Hashable:
            mapping = table(device)
            found = mapping.get(qualified)
            if device.id.driver == domain:
                return found, mapping.get(name)
            return found

        return one
    prefix = "" if domain is None else f"{domain}/"

    def several(device: PooledDevice) -> Hashable:
        own = domain is None or device.id.driver == domain
        return frozenset(
            item
            for item in table(device).items()
            if item[0].startswith(prefix) or (own and "/" not in item[0])
        )

    return several
