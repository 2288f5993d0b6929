"""Ingresses: stored for clients that expect the kind, such as ``kubectl apply --prune``. Nothing routes by them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import dns_label_problem, dns_subdomain_problem
from allotment.api.validation.container import MAX_PORT
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.columns import text
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.status_rules import balancer_errors
from allotment.apiserver.registry.strategies import StrategyRules, at
from allotment.apiserver.registry.templated import SPEC
from allotment.apiserver.store.record import Obj

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_THE_END = ("/..", "/.")
_HOSTS_SHOWN = 3


def _check(ingress: Obj) -> Iterator[FieldError]:
    spec = ingress["spec"]
    backend, rules = spec.get("defaultBackend"), spec.get("rules") or ()
    if backend is None and not rules:
        yield SPEC.invalid("either `defaultBackend` or `rules` must be specified", [])
    if backend is not None:
        yield from _check_backend(backend, SPEC.child("defaultBackend"))
    for index, rule in enumerate(rules):
        yield from _check_rule(rule, SPEC.child("rules").index(index))
    for index, secured in enumerate(spec.get("tls") or ()):
        hosts = SPEC.child("tls").index(index).child("hosts")
        for position, host in enumerate(secured.get("hosts") or ()):
            yield from _check_host(host, hosts.index(position))


def _check_rule(rule: Obj, path: FieldPath) -> Iterator[FieldError]:
    if host := rule.get("host"):
        if _is_address(host):
            yield path.child("host").invalid("must be a DNS name, not an IP address", host)
        yield from _check_host(host, path.child("host"))
    if (http := rule.get("http")) is None:
        return
    here = path.child("http", "paths")
    if not http.get("paths"):
        yield here.required("")
    for index, entry in enumerate(http.get("paths") or ()):
        yield from _check_path(entry, here.index(index))


def _check_path(entry: Obj, path: FieldPath) -> Iterator[FieldError]:
    type_, value = entry.get("pathType"), entry.get("path") or ""
    if type_ is None:
        yield path.child("pathType").required("pathType must be specified")
        return
    here = path.child("path")
    if type_ not in _PATH_TYPES:
        yield path.child("pathType").not_supported(type_, _PATH_TYPES)
    elif (value or type_ != "ImplementationSpecific") and not value.startswith("/"):
        yield here.invalid("must be an absolute path", value)
    if type_ in ("Exact", "Prefix"):
        for piece in _NOT_IN_PATHS:
            if piece in value:
                yield here.invalid(f"must not contain '{piece}'", value)
        for end in _NOT_AT_THE_END:
            if value.endswith(end):
                yield here.invalid(f"cannot end with '{end}'", value)
    yield from _check_backend(entry.get("backend") or {}, path.child("backend"))


def _check_backend(backend: Obj, path: FieldPath) -> Iterator[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield path.invalid("cannot set both resource and service backends", "")
    elif service is not None:
        yield from _check_service(service, path)
    elif resource is not None:
        for name in ("kind", "name"):
            if not resource.get(name):
                yield path.child("resource", name).required("")
    else:
        yield path.invalid("resource or service backend is required", "")


def _check_service(service: Obj, path: FieldPath) -> Iterator[FieldError]:
    name, port = service.get("name") or "", service.get("port") or {}
    if not name:
        yield path.child("service", "name").required("")
    elif problem := dns_label_problem(name):
        yield path.child("service", "name").invalid(problem, name)
    number = port.get("number") or 0
    if port.get("name") and number:
        yield path.invalid("cannot set both port name & port number", "")
    elif not port.get("name") and not number:
        yield path.required("port name or number is required")
    elif number and not 1 <= number <= MAX_PORT:
        where = path.child("service", "port", "number")
        yield where.invalid(f"must be between 1 and {MAX_PORT}, inclusive", number)


def _check_host(host: str, path: FieldPath) -> Iterator[FieldError]:
    if problem := dns_subdomain_problem(host.removeprefix("*.")):
        yield path.invalid(problem, host)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _hosts(ingress: Obj, now: str) -> str:
    rules = at(ingress, "spec", "rules") or ()
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    more = f" + {len(rules) - _HOSTS_SHOWN} more..." if len(hosts) > _HOSTS_SHOWN else ""
    return ",".join(hosts[:_HOSTS_SHOWN]) + more or "*"


def _address(ingress: Obj, now: str) -> str:
    given = at(ingress, "status", "loadBalancer", "ingress") or ()
    return ",".join(sorted({each.get("ip") or each.get("hostname") or "" for each in given} - {""}))


RESOURCES = (
    Resource(
        group="networking.k8s.io",
        version="v1",
        kind="Ingress",
        plural="ingresses",
        namespaced=True,
        short_names=("ing",),
        columns=(
            text("Class", "spec.ingressClassName", "Who is to route by it.", absent="<none>"),
            PrinterColumn("Hosts", "string", _hosts, "For which hosts."),
            PrinterColumn("Address", "string", _address, "Where it can be reached."),
            PrinterColumn(
                "Ports",
                "string",
                lambda obj, now: "80, 443" if at(obj, "spec", "tls") else "80",
                "Its ports.",
            ),
            AGE,
        ),
        status=True,
        strategy=StrategyRules(
            stated=("spec", "status"),
            status={"loadBalancer": {}},
            generation=True,
            check=_check,
            check_status=lambda obj, old: balancer_errors(obj, has_mode=False),
        ),
        doc="Ways from outside to services; kept, nobody routes by them.",
    ),
)
