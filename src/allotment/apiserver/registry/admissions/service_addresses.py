"""Gives services addresses and node ports: the requested ones if they are free, else any free ones.

The existing services define what is taken: the books follow the store's head. So nothing is assigned twice, a restart
forgets nothing, and a deleted service frees what it had. As on a cluster, the lower end of each range is left for services
that request a certain address, as long as there is room above it.

There is one range, of IPv4. A service that insists on IPv6 is refused. One without selector and address (headless) may
name both families, since it gets no addresses.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from ipaddress import IPv4Network, ip_address
from itertools import chain

from allotment.api.fields import FieldError
from allotment.api.status import InternalError, invalid
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.service_rules import (
    FAMILIES,
    NONE,
    REQUIRE_DUAL,
    SINGLE,
    SPEC,
    address_errors,
    family_of,
    has_addresses,
    has_node_ports,
    is_headless,
    needs_health_port,
)
from allotment.apiserver.registry.strategy import Write
from allotment.apiserver.store.record import Key, Obj, Record
from allotment.apiserver.store.store import Store

SERVICES = "services"
RANGE = IPv4Network("10.96.0.0/16")
PORTS = range(30000, 32768)
_FAMILY, _VERSION = FAMILIES[0], 4


class ServiceAddresses:
    """Completes services when they are written: families, addresses, ports of nodes, the port of health checks."""

    mutated = frozenset({SERVICES})

    def __init__(self, store: Store, network: IPv4Network = RANGE, ports: range = PORTS) -> None:
        self._network, self._range = network, ports
        hosts = range(int(network.network_address) + 1, int(network.broadcast_address))
        self._addresses = _Book(hosts, _lower_end(len(hosts), 16, 256))
        self._ports = _Book(ports, _lower_end(len(ports), 32, 128))
        store.follow(SERVICES, self._note)

    def mutate(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        if write.subresource:
            return
        metadata, spec = obj["metadata"], obj["spec"]
        owner = Key(SERVICES, metadata.get("namespace") or "", metadata.get("name") or "")
        before: Obj = {} if old is None else old.get("spec") or {}
        if old is not None:
            _keep_what_was_given(spec, before)
        _link_addresses(spec, before, new=old is None)
        errors: list[FieldError] = []
        if has_addresses(spec):
            errors = list(_family_errors(spec, before)) or list(self._address_errors(spec, before, owner))
        if not errors:
            errors = list(self._port_errors(spec, before, owner, new=old is None))
        if errors:
            raise invalid(resource.kind, owner.name, errors, resource.group)

    def _address_errors(self, spec: Obj, before: Obj, owner: Key) -> Iterator[FieldError]:
        """Gives a service its addresses, or reports why it cannot have the requested one."""
        if is_headless(spec):
            return
        addresses = list(spec.get("clusterIPs") or ())
        for index in range(len(spec["ipFamilies"])):
            wanted = addresses[index] if index < len(addresses) else ""
            if not wanted:
                addresses[index:] = [str(ip_address(_one_of(self._addresses.free(), "a serviceIP")))]
            elif index < len(before.get("clusterIPs") or ()):
                continue  # it keeps its address, as the rules require
            elif problem := self._address_problem(wanted, owner):
                told = f"failed to allocate IP {wanted}: {problem}"
                yield SPEC.child("clusterIPs").invalid(told, addresses)
        spec["clusterIPs"], spec["clusterIP"] = addresses, addresses[0]

    def _address_problem(self, wanted: str, owner: Key) -> str | None:
        number = int(ip_address(wanted))
        if number not in self._addresses:
            return f"the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {self._network}"
        return "provided IP is already allocated" if self._addresses.is_taken(number, owner) else None

    def _port_errors(self, spec: Obj, before: Obj, owner: Key, *, new: bool) -> Iterator[FieldError]:
        """Gives a service the node ports that it needs, or reports which it cannot have.

        In a new service, two protocols on one port share one node port."""
        kept, unused = _ports_of(before), self._ports.free()
        claimed: dict[int, int] = {}  # by the port of the service
        if has_node_ports(spec):
            ports = spec.get("ports") or ()
            if new:
                asked = ((port.get("port") or 0, port.get("nodePort") or 0) for port in ports)
                claimed = {port: number for port, number in asked if number}
            mine = {*kept, *claimed.values()}
            for index, port in enumerate(ports):
                number = port.get("nodePort") or 0
                if number and number not in kept and (problem := self._port_problem(number, owner)):
                    yield SPEC.child("ports").index(index).child("nodePort").invalid(problem, number)
                if not number and _gets_node_ports(spec):
                    number = claimed.get(port.get("port") or 0, 0) if new else 0
                    port["nodePort"] = number or _one_of(
                        (each for each in unused if each not in mine), "a nodePort"
                    )
                    claimed[port.get("port") or 0] = port["nodePort"]
        if needs_health_port(spec):
            number = spec.get("healthCheckNodePort") or 0
            if not number:
                spec["healthCheckNodePort"] = _one_of(
                    (each for each in unused if each not in claimed.values()), "a HealthCheck NodePort"
                )
            elif number not in kept and (problem := self._port_problem(number, owner)):
                yield SPEC.child("healthCheckNodePort").invalid(problem, number)

    def _port_problem(self, number: int, owner: Key) -> str | None:
        if number not in self._ports:
            told = f"{self._range.start}-{self._range.stop - 1}"
            return f"provided port is not in the valid range. The range of valid ports is {told}"
        return "provided port is already allocated" if self._ports.is_taken(number, owner) else None

    def _note(self, previous: Record | None, current: Record | None) -> None:
        for record, change in ((previous, _Book.forget), (current, _Book.note)):
            if record is None:
                continue
            spec: Obj = record.load().get("spec") or {}
            for address in spec.get("clusterIPs") or ():
                if (number := _number_of(address)) is not None:
                    change(self._addresses, number, record.key)
            for port in _ports_of(spec):
                change(self._ports, port, record.key)


class _Book:
    """The owners of numbers in a range. The ``lower`` first ones are assigned without a request only as a last resort."""

    def __init__(self, numbers: range, lower: int) -> None:
        self._numbers, self._lower = numbers, lower
        self._owners: defaultdict[int, set[Key]] = defaultdict(set)

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def note(self, number: int, owner: Key) -> None:
        self._owners[number].add(owner)

    def forget(self, number: int, owner: Key) -> None:
        self._owners[number].discard(owner)
        if not self._owners[number]:
            del self._owners[number]

    def is_taken(self, number: int, besides: Key) -> bool:
        return any(owner != besides for owner in self._owners.get(number, ()))

    def free(self) -> Iterator[int]:
        """The free numbers, starting at a random place."""
        for part in (self._numbers[self._lower :], self._numbers[: self._lower]):
            start = random.randrange(len(part)) if part else 0
            yield from (number for number in chain(part[start:], part[:start]) if number not in self._owners)


def _lower_end(size: int, step: int, most: int) -> int:
    """How many numbers of a range are reserved for requests; none of a small range."""
    return 0 if size < 16 else max(16, min(size // step, most))


def _one_of(numbers: Iterator[int], what: str) -> int:
    number = next(numbers, None)
    if number is None:
        raise InternalError(f"Internal error occurred: failed to allocate {what}: range is full")
    return number


def _number_of(address: str) -> int | None:
    """An address of our range's family as a number; an old store may contain any text here."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return None
    return int(parsed) if parsed.version == _VERSION else None


def _ports_of(spec: Obj) -> set[int]:
    """All node ports of a service, including that of its health checks."""
    numbers = {port.get("nodePort") or 0 for port in spec.get("ports") or ()}
    return (numbers | {spec.get("healthCheckNodePort") or 0}) - {0}


def _gets_node_ports(spec: Obj) -> bool:
    return spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False


def _keep_what_was_given(spec: Obj, before: Obj) -> None:
    """A client that sends the same manifest again leaves out what was given to the service: it keeps that."""
    if has_addresses(spec) and has_addresses(before):
        for name in ("clusterIP", "clusterIPs"):
            if not spec.get(name) and before.get(name):
                spec[name] = before[name]
    if (
        has_node_ports(spec)
        and has_node_ports(before)
        and _gets_node_ports(spec)
        and _gets_node_ports(before)
    ):
        used = _ports_of(before) & _ports_of(spec)
        by_name = {port.get("name"): port.get("nodePort") or 0 for port in before.get("ports") or ()}
        for port in spec.get("ports") or ():
            known = by_name.get(port.get("name"), 0)
            if not port.get("nodePort") and known and known not in used:
                port["nodePort"] = known
    if needs_health_port(spec) and needs_health_port(before) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before.get("healthCheckNodePort") or 0


def _link_addresses(spec: Obj, before: Obj, *, new: bool) -> None:
    """Old clients write only ``clusterIP``; ``clusterIPs`` follows it if only one of them changed."""
    first, addresses = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    was, were = before.get("clusterIP") or "", before.get("clusterIPs") or []
    if new:
        linked = addresses or ([first] if first else [])
    elif first == was:
        linked = addresses or were
    elif addresses == were:
        linked = [first] if first else []
    else:
        linked = addresses
    spec.pop("clusterIPs", None)
    if linked:
        spec["clusterIPs"] = linked


def _family_errors(spec: Obj, before: Obj) -> Iterator[FieldError]:
    """Settles the families of a service and their policy, or says what is wrong with them."""
    free_of_pods = is_headless(spec) and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        other = REQUIRE_DUAL if free_of_pods else SINGLE
        spec["ipFamilyPolicy"] = before.get("ipFamilyPolicy") or other
    policy, where = spec["ipFamilyPolicy"], SPEC.child("ipFamilyPolicy")
    if errors := list(address_errors(spec)):
        yield from errors
        return
    families, addresses = list(spec.get("ipFamilies") or ()), spec.get("clusterIPs") or []
    if policy == SINGLE and families == before.get("ipFamilies"):
        families = families[:1]
    for names, what in ((addresses, "cluster IPs"), (families, "IP families")):
        if policy == SINGLE and len(names) > 1:
            errors.append(where.invalid(_ONE_ONLY.format(what), policy))
    if policy != SINGLE and 0 < len(families) < len(before.get("ipFamilies") or ()):
        errors.append(where.invalid("must be 'SingleStack' to release the secondary IP family", policy))
    if errors:
        yield from errors
        return
    families = families or [family_of(each) for each in addresses if each != NONE] or [_FAMILY]
    if free_of_pods:
        if policy != SINGLE:
            families += [each for each in FAMILIES if each not in families]
    elif policy == REQUIRE_DUAL:
        yield where.invalid("this cluster is not configured for dual-stack services", policy)
    for index, family in enumerate(families) if not free_of_pods else ():
        if family != _FAMILY:
            yield SPEC.child("ipFamilies").index(index).invalid("not configured on this cluster", family)
    spec["ipFamilies"] = families


_ONE_ONLY = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
