"""Expressions about devices: selectors, which say yes or no, and derived attributes, which give a value.

The variable ``device`` has ``driver``, ``attributes[domain].id``, ``capacity[domain].id`` and, with a feature,
``allowMultipleAllocations``. An attribute without a domain belongs to the driver's. A domain that a device does
not have reads as an empty map.

Kubernetes has two environments. *StoredExpressions* admits everything this release knows, whatever features
are on, because objects outlive configurations; *NewExpressions* admits what the release before also knew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from allotment.api.quantity import Quantity
from allotment.api.resource import DeviceAttribute, DeviceCapacity
from allotment.api.semver import Version, VersionError
from allotment.api.unknown_attribute import UnknownAttribute
from allotment.cel import types
from allotment.cel.access import DefaultMap, PartlyKnown
from allotment.cel.caching import cached_by_length
from allotment.cel.environment import COST_LIMIT, MAX_EXPRESSION_BYTES, Environment, Program
from allotment.cel.errors import (
    CelCompileError,
    CelError,
    CelNoSuchKey,
    CelResultError,
    CelRuntimeError,
    CelUnknown,
    SourceText,
)
from allotment.cel.estimate import Range
from allotment.cel.library import bindings, lists
from allotment.cel.library.kubernetes import KUBERNETES
from allotment.cel.reads import Read, Reads, reads_of
from allotment.cel.types import DYN, STRING, Type, TypeKind, map_of
from allotment.cel.values import Value, type_name

__all__ = [
    "ALL",
    "COST_LIMIT",
    "MAX_EXPRESSION_BYTES",
    "CelCompileError",
    "CelError",
    "CelNoSuchKey",
    "CelRuntimeError",
    "CelUnknown",
    "CompiledSelector",
    "DerivedAttribute",
    "DeviceFeatures",
    "DeviceView",
    "EnvType",
    "Read",
    "Reads",
    "compile_derived",
    "compile_selector",
]

EnvType: TypeAlias = Literal["StoredExpressions", "NewExpressions"]

_MOST_ENTRIES: Final = 32
_LONGEST_DOMAIN: Final = 63
_LONGEST_ID: Final = 32
_LONGEST_VALUE: Final = 64
_OBJECT: Final = types.object_type("kubernetes.DRADevice")


@dataclass(frozen=True, slots=True)
class DeviceFeatures:
    """Which fields of a device new expressions may use."""

    consumable_capacity: bool = True
    """``device.allowMultipleAllocations``."""
    list_type_attributes: bool = True
    """Attributes may be lists, so that macros and ``includes`` apply to them."""


ALL: Final = DeviceFeatures()

_LIBRARIES: Final = (*KUBERNETES, bindings.LIBRARY)


@lru_cache(maxsize=8)
def _environment(features: DeviceFeatures, env_type: EnvType) -> Environment:
    if env_type == "StoredExpressions":
        features = ALL
    attribute = DYN if features.list_type_attributes else types.ANY
    fields: dict[str, Type] = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, attribute)),
        "capacity": map_of(STRING, map_of(STRING, types.QUANTITY)),
    }
    if features.consumable_capacity:
        fields["allowMultipleAllocations"] = types.BOOL
    libraries = (*_LIBRARIES, lists.INCLUDES) if features.list_type_attributes else _LIBRARIES
    return Environment(
        libraries,
        variables={"device": _OBJECT},
        fields={_OBJECT.name: fields},
        homogeneous=True,
        limits=_declared_size,
    )


def _declared_size(path: tuple[str, ...]) -> Range | None:
    """The largest size of the value at a path, by the API's limits."""
    match path:
        case ("device",):
            return Range(0, 0)
        case ("device", "driver"):
            return Range(0, _LONGEST_DOMAIN)
        case ("device", "allowMultipleAllocations"):
            return Range(0, 1)
        case ("device", "attributes" | "capacity") | ("device", "attributes" | "capacity", "@values"):
            return Range(0, _MOST_ENTRIES)
        case ("device", "attributes" | "capacity", "@keys"):
            return Range(0, _LONGEST_DOMAIN)
        case ("device", "attributes" | "capacity", "@values", "@keys"):
            return Range(0, _LONGEST_ID)
        case ("device", "capacity", "@values", "@values"):
            return Range(0, 0)
        case ("device", "attributes", "@values", name) if name not in ("@indices",):
            return Range(0, _LONGEST_VALUE)
        case _:
            return None


class DeviceView:
    """A device as expressions see it. Build it once to test several selectors on the same device.

    Raises :class:`CelRuntimeError` if an attribute has no value or an unreadable version.
    """

    __slots__ = ("value",)

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, DeviceAttribute],
        capacity: Mapping[str, DeviceCapacity],
        allow_multiple_allocations: bool = False,
    ) -> None:
        self.value: dict[str, Value] = {
            "driver": driver,
            "attributes": _by_domain(
                driver, {name: _attribute_value(name, a) for name, a in attributes.items()}
            ),
            "capacity": _by_domain(driver, {name: c.value for name, c in capacity.items()}),
            "allowMultipleAllocations": allow_multiple_allocations,
        }


def _by_domain(driver: str, values: Mapping[str, Value]) -> DefaultMap:
    """Names split into domain and id. A name with a domain wins over one that gets the driver's."""
    domains = DefaultMap()
    for name, value in values.items():
        domain, slash, id_ = name.partition("/")
        if not slash:
            domain, id_ = driver, name
            if f"{driver}/{name}" in values:
                continue
        entries = domains.get(domain)
        if entries is None:
            entries = domains[domain] = {}
        entries[id_] = value
        if type(value) is _Unknown:
            _foretell(domains, domain, id_, value)
    return domains


@dataclass(frozen=True, slots=True)
class _Unknown:
    """Stands for the value of an attribute that will have one."""

    message: str


def _foretell(domains: DefaultMap, domain: str, id_: str, value: _Unknown) -> None:
    entries = domains[domain]
    if not isinstance(entries, PartlyKnown):
        entries = domains[domain] = PartlyKnown(entries)
    entries.foretell(id_, value.message)


def _attribute_value(name: str, attribute: DeviceAttribute) -> Value:
    value: Any = attribute.string_value
    if value is not None and attribute.string_values is None:
        return value
    if type(attribute) is UnknownAttribute:
        return _Unknown(f"attribute {name} has no known value before the machine runs")
    try:
        return _other_value(attribute)
    except VersionError as exc:
        raise CelRuntimeError(f"attribute {name}: parse semantic version: {exc}") from exc
    except LookupError as exc:
        raise CelRuntimeError(f"attribute {name}: unsupported attribute value") from exc


def _other_value(attribute: DeviceAttribute) -> Value:
    for values in (attribute.int_values, attribute.bool_values, attribute.string_values):
        if values is not None:
            return list(values)
    if attribute.version_values is not None:
        return [Version.parse(text) for text in attribute.version_values]
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    if attribute.version_value is not None:
        return Version.parse(attribute.version_value)
    raise LookupError


class _Projection:
    """Builds only those parts of a device that an expression reads, if it reads only single attributes.

    An unreadable attribute that is not read then goes unnoticed here; validation reports it.
    """

    def __init__(self, reads: Reads) -> None:
        self.exact = all(None not in read for read in reads)
        entries = [read for read in reads if len(read) == 3]
        self._attributes = [(d, i, f"{d}/{i}") for kind, d, i in entries if kind == "attributes" and d and i]
        self._capacity = [(d, i, f"{d}/{i}") for kind, d, i in entries if kind == "capacity" and d and i]

    def value(
        self,
        driver: str,
        attributes: Mapping[str, DeviceAttribute],
        capacity: Mapping[str, DeviceCapacity],
        allow_multiple_allocations: bool,
    ) -> dict[str, Value]:
        read_attributes, read_capacity = DefaultMap(), DefaultMap()
        for domain, id_, name in self._attributes:
            attribute = attributes.get(name)
            if attribute is None and domain == driver:
                attribute = attributes.get(id_)
            if attribute is not None:
                read_attributes.setdefault(domain, {})[id_] = value = _attribute_value(name, attribute)
                if type(value) is _Unknown:
                    _foretell(read_attributes, domain, id_, value)
        for domain, id_, name in self._capacity:
            amount = capacity.get(name)
            if amount is None and domain == driver:
                amount = capacity.get(id_)
            if amount is not None:
                read_capacity.setdefault(domain, {})[id_] = amount.value
        return {
            "driver": driver,
            "attributes": read_attributes,
            "capacity": read_capacity,
            "allowMultipleAllocations": allow_multiple_allocations,
        }


_Answer = TypeVar("_Answer")


class _Expression(Generic[_Answer]):
    """The shared part of selectors and derived attributes, which differ in how they use the value."""

    def __init__(self, program: Program, convert: Callable[[Value], _Answer]) -> None:
        self._program = program
        self._convert = convert
        self.expression: Final = program.text
        self.max_cost: Final = program.worst_case().max
        """The static worst case, which admission compares with the limit."""
        self.reads: Final[Reads] = reads_of(program.plan)

    def evaluate(
        self,
        driver: str,
        attributes: Mapping[str, DeviceAttribute],
        capacity: Mapping[str, DeviceCapacity],
        allow_multiple_allocations: bool = False,
        limit: int = COST_LIMIT,
    ) -> tuple[_Answer, int]:
        """The answer and its exact cost; an error has it in ``cost``."""
        device = DeviceView(driver, attributes, capacity, allow_multiple_allocations)
        result = self._program.evaluate({"device": device.value}, limit)
        try:
            return self._convert(result.value), result.cost
        except CelRuntimeError as exc:
            exc.cost = result.cost
            raise


class CompiledSelector(_Expression[bool]):
    """A compiled selector. Immutable."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, _as_bool)
        self._projection = _Projection(self.reads)
        self._frame = [*program.frame({"device": None}, COST_LIMIT), None]
        self._slot = program.plan.variables.get(
            "device", -1
        )  # the spare place, if nothing asks for the device

    def matches(
        self,
        driver: str,
        attributes: Mapping[str, DeviceAttribute],
        capacity: Mapping[str, DeviceCapacity],
        allow_multiple_allocations: bool = False,
    ) -> bool:
        """Raises :class:`CelRuntimeError`, for example where an attribute is missing."""
        if not self._projection.exact:
            return self.accepts(DeviceView(driver, attributes, capacity, allow_multiple_allocations))
        return self._answer(self._projection.value(driver, attributes, capacity, allow_multiple_allocations))

    def accepts(self, device: DeviceView) -> bool:
        """Like ``matches``, for a device on which several selectors are tested."""
        return self._answer(device.value)

    def _answer(self, device: dict[str, Value]) -> bool:
        frame = self._frame.copy()
        frame[self._slot] = device
        value = self._program.run(frame)
        return value if value is True or value is False else _as_bool(value)


class DerivedAttribute(_Expression[DeviceAttribute]):
    """A compiled expression for an attribute that devices do not have themselves. Immutable."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, _as_attribute)


def _as_bool(value: Value) -> bool:
    if value is True or value is False:
        return bool(value)
    name = type_name(value)
    raise CelRuntimeError(
        f"CEL result of type {name} could not be converted to bool: type conversion error from '{name}' to 'bool'"
    )


_GO_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int64",
    str: "string",
    Version: "semver.Version",
    float: "float64",
    bytes: "[]uint8",
    Quantity: "*resource.Quantity",
}
_LIST_NAMES: Final[dict[type, str]] = {bool: "bool", int: "int", str: "string", Version: "semver"}


def _as_attribute(value: Value) -> DeviceAttribute:
    kind = type(value)
    if kind is bool:
        return DeviceAttribute(bool_value=value)
    if kind is int:
        return DeviceAttribute(int_value=value)
    if kind is str:
        return DeviceAttribute(string_value=value)
    if kind is Version:
        return DeviceAttribute(version_value=str(value))
    if kind is list:
        return _as_list_attribute(value)
    raise CelRuntimeError(f"unsupported CEL return type: {_GO_NAMES.get(kind, type_name(value))}")


def _as_list_attribute(values: list[Value]) -> DeviceAttribute:
    if not values:
        return DeviceAttribute(string_values=())
    kind = type(values[0])
    if kind not in _LIST_NAMES:
        raise CelRuntimeError(f"unsupported list element type: {_GO_NAMES.get(kind, type_name(values[0]))}")
    for index, value in enumerate(values):
        if type(value) is not kind:
            got = _GO_NAMES.get(type(value), type_name(value))
            raise CelRuntimeError(
                f"expected list element at index {index} to be {_LIST_NAMES[kind]}, got {got}"
            )
    if kind is bool:
        return DeviceAttribute(bool_values=tuple(values))
    if kind is int:
        return DeviceAttribute(int_values=tuple(values))
    if kind is str:
        return DeviceAttribute(string_values=tuple(values))
    return DeviceAttribute(version_values=tuple(map(str, values)))


_E = TypeVar("_E", CompiledSelector, DerivedAttribute)


@dataclass(frozen=True, slots=True)
class _Failure(Generic[_E]):
    """A cached failure, so that a faulty expression is not compiled again for every device."""

    error: CelCompileError


def compile_selector(
    expression: str, features: DeviceFeatures = ALL, env_type: EnvType = "StoredExpressions"
) -> CompiledSelector:
    """Compiles a selector, and caches the last ones. Raises :class:`CelCompileError`."""
    found = _selector(expression, features, env_type)
    if isinstance(found, _Failure):
        raise found.error
    return found


def compile_derived(
    expression: str, features: DeviceFeatures = ALL, env_type: EnvType = "StoredExpressions"
) -> DerivedAttribute:
    """Compiles a derived attribute, and caches the last ones. Raises :class:`CelCompileError`."""
    found = _derived(expression, features, env_type)
    if isinstance(found, _Failure):
        raise found.error
    return found


@cached_by_length
def _selector(
    expression: str, features: DeviceFeatures, env_type: EnvType
) -> CompiledSelector | _Failure[CompiledSelector]:
    try:
        environment = _environment(features, env_type)
        program = environment.compile(expression)
        _check_selector_type(program, environment.fields[_OBJECT.name]["attributes"].params[1].params[1])
        return CompiledSelector(program)
    except CelCompileError as exc:
        return _Failure(exc.with_traceback(None))


@cached_by_length
def _derived(
    expression: str, features: DeviceFeatures, env_type: EnvType
) -> DerivedAttribute | _Failure[DerivedAttribute]:
    try:
        program = _environment(features, env_type).compile(expression)
        _check_derived_type(program, features.list_type_attributes or env_type == "StoredExpressions")
        return DerivedAttribute(program)
    except CelCompileError as exc:
        return _Failure(exc.with_traceback(None))


def _check_selector_type(program: Program, unknown: Type) -> None:
    """A bool, or what the type of an attribute is in this environment."""
    if program.output not in (types.BOOL, unknown):
        _refuse(program, f"must evaluate to bool or the unknown type, not {program.output}")


_SCALAR_KINDS: Final = frozenset({TypeKind.BOOL, TypeKind.INT, TypeKind.STRING, TypeKind.ANY, TypeKind.DYN})


def _check_derived_type(program: Program, lists_too: bool) -> None:
    output = program.output
    element = output.params[0] if lists_too and output.kind is TypeKind.LIST else output
    if element.kind not in _SCALAR_KINDS and element != types.SEMVER:
        allowed = " or a list of these scalars" if lists_too else ""
        _refuse(
            program,
            f"must evaluate to a primitive scalar (string, integer, boolean, semver){allowed}, not {output}",
        )


def _refuse(program: Program, message: str) -> None:
    raise CelResultError([SourceText(program.text).issue(program.checked.expr.position, message)])
