"""Terse builders of the objects that the allocator reads: a test says what matters to it and nothing else.

Plain Python values stand for typed ones: ``device("d0", model="a100", links=[1, 2])`` has a string and a list of whole
numbers; quantities are written as text. Names of attributes with a domain go through ``attributes={"dom/name": …}``.
"""

from collections.abc import Iterable, Mapping, Sequence

from allotment.allocator.allocate import Allocator
from allotment.allocator.features import ALL, Features
from allotment.allocator.held import NOTHING_HELD, Held, Holdings
from allotment.allocator.ledger import Holding
from allotment.allocator.outcome import Allocated, Outcome, Unsatisfiable
from allotment.allocator.pool import DeviceID, Pool, PooledDevice, by_pool, gather_pools
from allotment.api.core import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeStatus,
)
from allotment.api.meta import ObjectMeta
from allotment.api.quantity import Quantity
from allotment.api.resource import (
    AllocationResult,
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    CapacityRequirements,
    CELDeviceSelector,
    Counter,
    CounterSet,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClaimConfiguration,
    DeviceClass,
    DeviceClassConfiguration,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceDerivedAttribute,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    OpaqueDeviceConfiguration,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from allotment.api.resource import Device as DeviceSpec

DRIVER = "gpu.example.com"
NODE = "node-1"
CLASS = "any"

Plain = str | int | bool | Sequence[str] | Sequence[int] | Sequence[bool] | DeviceAttribute
Amount = str | DeviceCapacity


def quantity(text: str) -> Quantity:
    return Quantity.parse(text)


# --- nodes ---


def node(name: str = NODE, *, declares: Sequence[str] = (), **labels: str) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, labels=labels), status=NodeStatus(declared_features=tuple(declares))
    )


def where(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def selector(
    *expressions: NodeSelectorRequirement, fields: Sequence[NodeSelectorRequirement] = ()
) -> NodeSelector:
    """A node selector of one term."""
    return selector_of(NodeSelectorTerm(match_expressions=expressions, match_fields=tuple(fields)))


def selector_of(*terms: NodeSelectorTerm) -> NodeSelector:
    return NodeSelector(node_selector_terms=terms)


# --- devices and slices ---


def attribute(value: Plain) -> DeviceAttribute:
    """A string, whole number, bool or list of one of these; versions need :func:`version`."""
    if isinstance(value, DeviceAttribute):
        return value
    if isinstance(value, bool):
        return DeviceAttribute(bool_value=value)
    if isinstance(value, int):
        return DeviceAttribute(int_value=value)
    if isinstance(value, str):
        return DeviceAttribute(string_value=value)
    if all(isinstance(each, bool) for each in value):
        return DeviceAttribute(bool_values=tuple(bool(each) for each in value))
    if all(isinstance(each, int) for each in value):
        return DeviceAttribute(int_values=tuple(int(each) for each in value))
    return DeviceAttribute(string_values=tuple(str(each) for each in value))


def version(*values: str) -> DeviceAttribute:
    return (
        DeviceAttribute(version_value=values[0])
        if len(values) == 1
        else DeviceAttribute(version_values=values)
    )


def device(
    name: str,
    *,
    attributes: Mapping[str, Plain] | None = None,
    capacity: Mapping[str, Amount] | None = None,
    draws: Sequence[DeviceCounterConsumption] = (),
    taints: Sequence[DeviceTaint] = (),
    shared: bool | None = None,
    binding: Sequence[str] = (),
    on: str | NodeSelector | None = None,
    everywhere: bool | None = None,
    binds: bool | None = None,
    **more: Plain,
) -> DeviceSpec:
    """``on`` and ``everywhere`` are for slices whose devices choose nodes themselves."""
    return DeviceSpec(
        name=name,
        attributes={key: attribute(value) for key, value in {**(attributes or {}), **more}.items()},
        capacity={key: offer(value) for key, value in (capacity or {}).items()},
        consumes_counters=tuple(draws),
        taints=tuple(taints),
        allow_multiple_allocations=shared,
        binding_conditions=tuple(binding),
        node_name=on if isinstance(on, str) else None,
        node_selector=on if isinstance(on, NodeSelector) else None,
        all_nodes=everywhere,
        binds_to_node=binds,
    )


def devices(count: int, prefix: str = "d") -> list[DeviceSpec]:
    """So many devices that nobody can tell apart."""
    return [device(f"{prefix}{number}") for number in range(count)]


def offer(value: Amount) -> DeviceCapacity:
    return value if isinstance(value, DeviceCapacity) else DeviceCapacity(value=quantity(value))


def policed(value: str, default: str | None = None, *values: str, **bounds: str) -> DeviceCapacity:
    """A capacity with a policy: a default, then either valid values or bounds (``min``, ``max``, ``step``)."""
    valid = CapacityRequestPolicyRange(**{name: quantity(text) for name, text in bounds.items()})
    policy = CapacityRequestPolicy(
        default=quantity(default) if default is not None else None,
        valid_values=tuple(quantity(text) for text in values),
        valid_range=valid if bounds else None,
    )
    return DeviceCapacity(value=quantity(value), request_policy=policy)


def draw(counter_set: str, groups: Sequence[str] = (), **counters: str) -> DeviceCounterConsumption:
    return DeviceCounterConsumption(
        counter_set=counter_set, counters=_counters(counters), compatibility_groups=tuple(groups)
    )


def counter_set(name: str, **counters: str) -> CounterSet:
    return CounterSet(name=name, counters=_counters(counters))


def _counters(counters: Mapping[str, str]) -> dict[str, Counter]:
    return {name: Counter(value=quantity(value)) for name, value in counters.items()}


def taint(key: str, value: str | None = None, effect: str = "NoSchedule") -> DeviceTaint:
    return DeviceTaint(key=key, value=value, effect=effect)


def slice_(
    *devices: DeviceSpec,
    name: str = "slice",
    driver: str = DRIVER,
    pool: str = "pool",
    generation: int = 1,
    of: int = 1,
    on: str | NodeSelector | None = NODE,
    everywhere: bool | None = None,
    per_device: bool | None = None,
    counters: Sequence[CounterSet] = (),
    skips: Sequence[str] = (),
) -> ResourceSlice:
    """A slice of a pool that announces ``of`` slices; by default on NODE alone. ``on=None`` with neither
    ``everywhere`` nor ``per_device`` reaches nobody."""
    chosen = None if everywhere or per_device else on
    return ResourceSlice(
        metadata=ObjectMeta(name=name),
        spec=ResourceSliceSpec(
            driver=driver,
            pool=ResourcePool(name=pool, generation=generation, resource_slice_count=of),
            node_name=chosen if isinstance(chosen, str) else None,
            node_selector=chosen if isinstance(chosen, NodeSelector) else None,
            all_nodes=everywhere,
            per_device_node_selection=per_device,
            devices=devices,
            shared_counters=tuple(counters),
            skip_node_operations=tuple(skips),
        ),
    )


def pools(slices: Sequence[ResourceSlice], on: Node | None = None, features: Features = ALL) -> list[Pool]:
    """The pools that a node makes of slices."""
    return gather_pools(on or node(), slices, features, everywhere=by_pool(slices))


def placed(spec: DeviceSpec, **slice_options: str) -> PooledDevice:
    """A device as the allocator sees it, in a slice of its own."""
    return PooledDevice(spec, slice_(spec, **slice_options))  # type: ignore[arg-type]  # text options only


def device_id(name: str, pool: str = "pool", driver: str = DRIVER) -> DeviceID:
    return DeviceID(driver, pool, name)


def mine(name: str) -> str:
    """An attribute of DRIVER's domain, as an expression."""
    return f'device.attributes["{DRIVER}"].{name}'


# --- classes and claims ---


def cel(*expressions: str) -> tuple[DeviceSelector, ...]:
    return tuple(DeviceSelector(cel=CELDeviceSelector(expression=each)) for each in expressions)


def class_(name: str = CLASS, *expressions: str, config: Sequence[str] = ()) -> DeviceClass:
    return DeviceClass(
        metadata=ObjectMeta(name=name),
        spec=DeviceClassSpec(
            selectors=cel(*expressions),
            config=tuple(DeviceClassConfiguration(opaque=opaque(each)) for each in config),
        ),
    )


def opaque(name: str) -> OpaqueDeviceConfiguration:
    return OpaqueDeviceConfiguration(driver=DRIVER, parameters={"name": name})


ANY = class_()


def toleration(
    key: str | None = None, operator: str | None = None, value: str | None = None, effect: str | None = None
) -> DeviceToleration:
    return DeviceToleration(key=key, operator=operator, value=value, effect=effect)


def request(
    name: str = "r",
    *expressions: str,
    count: int = 1,
    all: bool = False,
    class_name: str = CLASS,
    admin: bool | None = None,
    tolerates: Sequence[DeviceToleration] = (),
    capacity: Mapping[str, str] | None = None,
    derives: Mapping[str, str] | None = None,
) -> DeviceRequest:
    return DeviceRequest(
        name=name,
        exactly=ExactDeviceRequest(
            device_class_name=class_name,
            selectors=cel(*expressions),
            allocation_mode="All" if all else "ExactCount",
            count=None if all else count,
            admin_access=admin,
            tolerations=tuple(tolerates),
            capacity=_wanted(capacity),
            derived_attributes=_derived(derives),
        ),
    )


def either(name: str, *alternatives: DeviceSubRequest) -> DeviceRequest:
    return DeviceRequest(name=name, first_available=alternatives)


def sub(
    name: str,
    *expressions: str,
    count: int = 1,
    all: bool = False,
    class_name: str = CLASS,
    tolerates: Sequence[DeviceToleration] = (),
    capacity: Mapping[str, str] | None = None,
    derives: Mapping[str, str] | None = None,
) -> DeviceSubRequest:
    return DeviceSubRequest(
        name=name,
        device_class_name=class_name,
        selectors=cel(*expressions),
        allocation_mode="All" if all else "ExactCount",
        count=None if all else count,
        tolerations=tuple(tolerates),
        capacity=_wanted(capacity),
        derived_attributes=_derived(derives),
    )


def _wanted(capacity: Mapping[str, str] | None) -> CapacityRequirements | None:
    if capacity is None:
        return None
    return CapacityRequirements(requests={name: quantity(value) for name, value in capacity.items()})


def _derived(derives: Mapping[str, str] | None) -> tuple[DeviceDerivedAttribute, ...]:
    return tuple(DeviceDerivedAttribute(name=name, expression=text) for name, text in (derives or {}).items())


def match(attribute: str, *requests: str) -> DeviceConstraint:
    return DeviceConstraint(match_attribute=_qualified(attribute), requests=requests)


def distinct(attribute: str, *requests: str) -> DeviceConstraint:
    return DeviceConstraint(distinct_attribute=_qualified(attribute), requests=requests)


def _qualified(attribute: str) -> str:
    return attribute if "/" in attribute else f"{DRIVER}/{attribute}"


def claim(
    *requests: DeviceRequest,
    name: str = "claim",
    namespace: str = "ns",
    uid: str = "",
    constraints: Sequence[DeviceConstraint] = (),
    config: Mapping[str, Sequence[str]] | None = None,
) -> ResourceClaim:
    """``config`` maps the name of a configuration to the requests that it is for."""
    given = tuple(
        DeviceClaimConfiguration(requests=tuple(names), opaque=opaque(each))
        for each, names in (config or {}).items()
    )
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=uid),
        spec=ResourceClaimSpec(
            devices=DeviceClaim(requests=requests, constraints=tuple(constraints), config=given)
        ),
    )


# --- what is held, and answers ---


def whole(name: str, pool: str = "pool", *, admin: bool = False) -> Holding:
    return Holding(device_id(name, pool), None, (), admin)


def share(name: str, id: str = "s", pool: str = "pool", **consumed: str) -> Holding:
    amounts = tuple((capacity, quantity(text).nanos) for capacity, text in consumed.items())
    return Holding(device_id(name, pool), id, amounts, False)


def held(*names: str, shared: Mapping[str, Mapping[str, str]] | None = None) -> Held:
    """These devices of the default pool are in use; ``shared`` maps devices to what their shares consume."""
    consumed = {
        device_id(name): {capacity: quantity(text).nanos for capacity, text in amounts.items()}
        for name, amounts in (shared or {}).items()
    }
    return Held(devices=[device_id(name) for name in names], shared=consumed, consumed=consumed)


def allocate(
    slices: Iterable[ResourceSlice],
    *claims: ResourceClaim,
    classes: Iterable[DeviceClass] = (ANY,),
    on: Node | None = None,
    held: Holdings = NOTHING_HELD,
    features: Features = ALL,
    **options: object,
) -> Outcome:
    """One question to a fresh allocator."""
    allocator = Allocator(list(slices), classes, features)
    return allocator.allocate(on or node(), claims, held, **options)  # type: ignore[arg-type]  # passed on


def given(outcome: Outcome) -> list[str]:
    """Which device each result names, as ``request=device``, claim after claim. The outcome must be a yes."""
    assert isinstance(outcome, Allocated), f"{outcome}"
    return [
        f"{result.request}={result.device}" for each in outcome.results for result in each.devices.results
    ]


def refused(outcome: Outcome) -> Unsatisfiable:
    """The outcome, which must be a no."""
    assert isinstance(outcome, Unsatisfiable), f"{outcome}"
    return outcome


def names_of(result: AllocationResult) -> list[str]:
    return [each.device for each in result.devices.results]
