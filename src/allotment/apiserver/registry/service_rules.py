"""Services: their defaults, their rules, and the fields that a change of type removes.

A service is a union: ``type`` decides which of the other fields have a meaning. When the type changes, the service loses
what it was assigned for the old type (addresses, ports), unless the same write changes those too, which is an error in
itself. ``admissions/service_addresses.py`` assigns addresses and ports before these rules see the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import ip_address, ip_network

from allotment.api.fields import FieldError, FieldPath
from allotment.api.label_selector import check_label_map
from allotment.api.names import dns_label_problem, dns_subdomain_problem, label_key_problem
from allotment.api.validation.container import MAX_PORT
from allotment.apiserver.registry.status_rules import STATUS, address_problem, balancer_errors
from allotment.apiserver.registry.strategies import StrategyRules, at
from allotment.apiserver.registry.strategy import Write
from allotment.apiserver.store.record import Obj

NONE = "None"
"""The address of a headless service."""
SPEC = FieldPath("spec")
TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
FAMILIES = ("IPv4", "IPv6")
SINGLE, PREFER_DUAL, REQUIRE_DUAL = "SingleStack", "PreferDualStack", "RequireDualStack"
_POLICIES = (PREFER_DUAL, REQUIRE_DUAL, SINGLE)
_AFFINITIES = ("ClientIP", NONE)
_INNER, _OUTER = ("Cluster", "Local"), ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_AFFINITY_SECONDS = 10800
_LONGEST_AFFINITY = 86400
_PORT_NAME = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?", re.ASCII)
_FIXED = "may not change once set"
_ONLY_BALANCED = "may only be used when `type` is 'LoadBalancer'"


# --- what kind of service it is ---


def has_addresses(spec: Obj) -> bool:
    return bool(spec.get("type") != "ExternalName")


def has_node_ports(spec: Obj) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer")


def is_headless(spec: Obj) -> bool:
    return bool(spec.get("clusterIPs") == [NONE])


def needs_health_port(spec: Obj) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _reached_from_outside(spec: Obj) -> bool:
    return has_node_ports(spec) or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def family_of(address: str) -> str:
    return FAMILIES[":" in address]


# --- defaults ---


def complete(service: Obj) -> None:
    spec = service["spec"]
    spec["type"] = type_ = spec.get("type") or "ClusterIP"
    affinity = spec["sessionAffinity"] = spec.get("sessionAffinity") or NONE
    if affinity == NONE:
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP" and at(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds") is None:
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
    for port in spec.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    if _reached_from_outside(spec) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if type_ in ("ClusterIP", "NodePort", "LoadBalancer"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    elif type_ == "ExternalName":
        spec.pop("internalTrafficPolicy", None)
    if type_ == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for each in at(service, "status", "loadBalancer", "ingress") or ():
            if each.get("ip"):
                each.setdefault("ipMode", "VIP")


class ServiceRules(StrategyRules):
    """Takes from a changed service what its new type does not have."""

    def prepare_update(self, obj: Obj, old: Obj, write: Write) -> None:
        super().prepare_update(obj, old, write)
        _let_go(obj["spec"], old["spec"])
        if obj["spec"].get("type") != "LoadBalancer":
            obj["status"] = {**(obj.get("status") or {}), "loadBalancer": {}}


def _let_go(spec: Obj, before: Obj) -> None:
    if has_addresses(before) and not has_addresses(spec):
        if _same(spec, before, "clusterIP", "clusterIPs"):
            _drop(spec, "clusterIP", "clusterIPs")
        for name in ("ipFamilies", "ipFamilyPolicy"):
            if _same(spec, before, name):
                _drop(spec, name)
    if has_node_ports(before) and not has_node_ports(spec) and _node_ports(spec) <= _node_ports(before):
        for port in spec.get("ports") or ():
            _drop(port, "nodePort")
    for applies, name in (
        (needs_health_port, "healthCheckNodePort"),
        (_is_balanced, "allocateLoadBalancerNodePorts"),
        (_is_balanced, "loadBalancerClass"),
        (_reached_from_outside, "externalTrafficPolicy"),
    ):
        if applies(before) and not applies(spec) and _same(spec, before, name):
            _drop(spec, name)


def _is_balanced(spec: Obj) -> bool:
    return spec.get("type") == "LoadBalancer"


def _node_ports(spec: Obj) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


def _same(spec: Obj, before: Obj, *names: str) -> bool:
    return all((spec.get(name) or None) == (before.get(name) or None) for name in names)


def _drop(obj: Obj, *names: str) -> None:
    for name in names:
        obj.pop(name, None)


# --- rules ---


def check(service: Obj) -> Iterator[FieldError]:
    spec = service["spec"]
    type_, ports = spec["type"], spec.get("ports") or ()
    if not ports and not is_headless(spec) and type_ != "ExternalName":
        yield SPEC.child("ports").required("")
    if is_headless(spec) and has_node_ports(spec):
        where = SPEC.child("clusterIPs").index(0)
        yield where.invalid(f"may not be set to 'None' for {type_} services", NONE)
    if type_ == "ExternalName":
        yield from _external_name_errors(spec)
    yield from _port_errors(ports)
    yield from check_label_map(spec.get("selector") or {}, SPEC.child("selector"))
    yield from _affinity_errors(spec)
    yield from address_errors(spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        if problem := _outer_address_problem(address):
            yield SPEC.child("externalIPs").index(index).invalid(problem, address)
    if type_ not in TYPES:
        yield SPEC.child("type").not_supported(type_, TYPES)
    yield from _duplicates(ports, type_)
    yield from _balancer_errors(spec)
    yield from _traffic_errors(spec)


def _external_name_errors(spec: Obj) -> Iterator[FieldError]:
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield SPEC.child(name).forbidden("may not be set for ExternalName services")
    target = (spec.get("externalName") or "").removesuffix(".")
    if not target:
        yield SPEC.child("externalName").required("")
    elif problem := dns_subdomain_problem(target):
        yield SPEC.child("externalName").invalid(problem, spec["externalName"])


def _port_errors(ports: Sequence[Obj]) -> Iterator[FieldError]:
    names = set()
    for index, port in enumerate(ports):
        here, name = SPEC.child("ports").index(index), port.get("name") or ""
        if not name and len(ports) > 1:
            yield here.child("name").required("")
        elif name and (problem := dns_label_problem(name)):
            yield here.child("name").invalid(problem, name)
        if name in names and name:
            yield here.child("name").duplicate(name)
        names.add(name)
        if problem := _number_problem(port.get("port") or 0):
            yield here.child("port").invalid(problem, port.get("port") or 0)
        if port["protocol"] not in _PROTOCOLS:
            yield here.child("protocol").not_supported(port["protocol"], _PROTOCOLS)
        target = port["targetPort"]
        if problem := _number_problem(target) if isinstance(target, int) else _name_problem(target):
            yield here.child("targetPort").invalid(problem, target)
        protocol = port.get("appProtocol")
        if protocol is not None and (problem := label_key_problem(protocol)):
            yield here.child("appProtocol").invalid(problem, protocol)


def _number_problem(number: int) -> str | None:
    return None if 1 <= number <= MAX_PORT else f"must be between 1 and {MAX_PORT}, inclusive"


def _name_problem(name: str) -> str | None:
    if _PORT_NAME.fullmatch(name):
        return None
    return (
        "must be a number or the name of a port: at most 15 lower-case letters, digits and '-', with a letter"
    )


def _duplicates(ports: Sequence[Obj], type_: str) -> Iterator[FieldError]:
    seen: set[tuple[str, str, int]] = set()
    for name in ("nodePort", "port"):
        for index, port in enumerate(ports):
            here, number = SPEC.child("ports").index(index), port.get(name) or 0
            if name == "nodePort" and number and type_ == "ClusterIP":
                yield here.child(name).forbidden("may not be used when `type` is 'ClusterIP'")
            if (key := (name, port["protocol"], number)) in seen:
                yield (
                    here.child(name).duplicate(number)
                    if name == "nodePort"
                    else here.duplicate(f"{port['protocol']} {number}")
                )
            if number or name == "port":
                seen.add(key)


def _affinity_errors(spec: Obj) -> Iterator[FieldError]:
    affinity = spec["sessionAffinity"]
    if affinity not in _AFFINITIES:
        yield SPEC.child("sessionAffinity").not_supported(affinity, _AFFINITIES)
    elif affinity == "ClientIP":
        seconds = at(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds")
        if not 1 <= seconds <= _LONGEST_AFFINITY:
            where = SPEC.child("sessionAffinityConfig", "clientIP", "timeoutSeconds")
            yield where.invalid(f"must be greater than 0 and less than {_LONGEST_AFFINITY}", seconds)


def address_errors(spec: Obj) -> Iterator[FieldError]:
    """What is wrong with addresses, families and policy, taken together."""
    if not has_addresses(spec):
        return
    addresses, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    path, first = SPEC.child("clusterIPs"), spec.get("clusterIP") or ""
    if first and not addresses:
        yield path.required("")
    elif first and addresses[0] != first:
        yield path.invalid("first value must match `clusterIP`", addresses)
    elif addresses and not first:
        yield path.invalid("must be empty when `clusterIP` is not specified", addresses)
    for index, family in enumerate(families[: len(FAMILIES) + 1]):  # of which one more is one too many
        if family not in FAMILIES:
            yield SPEC.child("ipFamilies").index(index).not_supported(family, FAMILIES)
        if family in families[:index]:
            yield SPEC.child("ipFamilies").index(index).duplicate(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _POLICIES:
        yield SPEC.child("ipFamilyPolicy").not_supported(policy, _POLICIES)
    if len(addresses) > len(FAMILIES):
        yield path.invalid("may only hold up to 2 values", addresses)
        return
    wrong = list(_wrong_addresses(addresses, path))
    yield from wrong
    if wrong or is_headless(spec):
        return
    if len(addresses) > 1 and len({*map(family_of, addresses)}) == 1:
        yield path.invalid("may specify no more than one IP for each IP family", addresses)
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in FAMILIES and family_of(address) != family:
            told = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield path.index(index).invalid(told, address)


def _wrong_addresses(addresses: list[str], path: FieldPath) -> Iterator[FieldError]:
    for index, address in enumerate(addresses):
        if index == 0 and address == NONE:
            if len(addresses) > 1:
                yield path.invalid("'None' must be the first and only value", addresses)
        elif problem := address_problem(address):
            yield path.index(index).invalid(problem, address)


def _outer_address_problem(text: str) -> str | None:
    if problem := address_problem(text):
        return problem
    address = ip_address(text)
    for wrong, what in (
        (address.is_unspecified, "unspecified"),
        (address.is_loopback, "in the loopback range"),
        (address.is_link_local, "in the link-local range"),
    ):
        if wrong:
            return f"may not be {what}"
    return None


def _balancer_errors(spec: Obj) -> Iterator[FieldError]:
    balanced = _is_balanced(spec)
    path = SPEC.child("LoadBalancerSourceRanges")
    if (ranges := spec.get("loadBalancerSourceRanges")) and not balanced:
        yield path.forbidden(_ONLY_BALANCED)
    for index, text in enumerate(ranges or ()):
        try:
            ip_network(text.strip(), strict=False)
        except ValueError:
            yield path.index(index).invalid("must be a valid CIDR value, (e.g. 10.9.8.0/24)", text)
    if spec.get("allocateLoadBalancerNodePorts") is not None and not balanced:
        yield SPEC.child("allocateLoadBalancerNodePorts").forbidden(_ONLY_BALANCED)
    name = spec.get("loadBalancerClass")
    if name is not None and not balanced:
        yield SPEC.child("loadBalancerClass").forbidden(_ONLY_BALANCED)
    elif name is not None and (problem := label_key_problem(name)):
        yield SPEC.child("loadBalancerClass").invalid(problem, name)


def _traffic_errors(spec: Obj) -> Iterator[FieldError]:
    outer, port = spec.get("externalTrafficPolicy") or "", spec.get("healthCheckNodePort") or 0
    if outer and not _reached_from_outside(spec):
        told = "may only be set for externally-accessible services"
        yield SPEC.child("externalTrafficPolicy").invalid(told, outer)
    elif outer and outer not in _OUTER:
        yield SPEC.child("externalTrafficPolicy").not_supported(outer, _OUTER)
    if port and not needs_health_port(spec):
        told = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield SPEC.child("healthCheckNodePort").invalid(told, port)
    for name, choices in (("internalTrafficPolicy", _INNER), ("trafficDistribution", _DISTRIBUTIONS)):
        if (value := spec.get(name)) is not None and value not in choices:
            yield SPEC.child(name).not_supported(value, choices)


def check_change(service: Obj, old: Obj) -> Iterator[FieldError]:
    """Addresses and families stay as they are; a second one may come, and go again."""
    spec, before = service["spec"], old["spec"]
    if has_addresses(spec) and has_addresses(before):
        if not (is_headless(spec) and is_headless(before)):
            yield from _fixed_errors(spec, before, "clusterIPs")
        if not (is_headless(spec) or is_headless(before)):
            yield from _fixed_errors(spec, before, "ipFamilies")
    if _is_balanced(spec) and _is_balanced(before) and not _same(spec, before, "loadBalancerClass"):
        yield SPEC.child("loadBalancerClass").invalid(_FIXED, spec.get("loadBalancerClass"))
    checked = needs_health_port(spec) and needs_health_port(before)
    if checked and not _same(spec, before, "healthCheckNodePort"):
        yield SPEC.child("healthCheckNodePort").forbidden("field is immutable")


def check_status(service: Obj, old: Obj) -> Iterator[FieldError]:
    if not _is_balanced(service["spec"]) and at(service, "status", "loadBalancer", "ingress"):
        where = STATUS.child("loadBalancer", "ingress")
        yield where.forbidden("may only be used when `spec.type` is 'LoadBalancer'")
    else:
        yield from balancer_errors(service, has_mode=True)


def _fixed_errors(spec: Obj, before: Obj, name: str) -> Iterator[FieldError]:
    now, then = spec.get(name) or [], before.get(name) or []
    path = SPEC.child(name)
    if then and not now:
        yield path.index(0).invalid("the first of them cannot be unset", now)
    for index, (value, old) in enumerate(zip(now, then, strict=False)):
        if value != old:
            yield path.index(index).invalid(_FIXED, now)
    if len(then) > len(now) == 1 and spec.get("ipFamilyPolicy") != SINGLE:
        told = "must be set to 'SingleStack' when releasing the second of them"
        yield SPEC.child("ipFamilyPolicy").invalid(told, spec.get("ipFamilyPolicy"))
