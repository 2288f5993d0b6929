"""Services and endpoints. Services get addresses and ports as on a cluster, but nothing routes to them. Endpoints are
stored as they are sent."""

from __future__ import annotations

from allotment.api.label_selector import told_labels
from allotment.api.names import dns_label_problem
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.columns import text
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.service_rules import (
    ServiceRules,
    check,
    check_change,
    check_status,
    complete,
)
from allotment.apiserver.registry.strategies import StrategyRules, at
from allotment.apiserver.store.record import Obj


def _complete_endpoints(endpoints: Obj) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _external(service: Obj, now: str) -> str:
    spec = service.get("spec") or {}
    outer = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ExternalName":
            return str(spec.get("externalName") or "")
        case "LoadBalancer":
            ingress = at(service, "status", "loadBalancer", "ingress") or ()
            given = [each.get("ip") or each.get("hostname") or "" for each in ingress]
            return ",".join([*given, *outer]) or "<pending>"
        case "ClusterIP" | "NodePort":
            return ",".join(outer) or "<none>"
    return "<unknown>"


def _ports(service: Obj, now: str) -> str:
    told = []
    for port in at(service, "spec", "ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        told.append(f"{port.get('port')}{node}/{port.get('protocol')}")
    return ",".join(told) or "<none>"


def _address(service: Obj, now: str) -> str:
    return (at(service, "spec", "clusterIPs") or [at(service, "spec", "clusterIP")])[0] or "<none>"


def _endpoints(endpoints: Obj, now: str) -> str:
    told = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    more = f" + {len(told) - 3} more..." if len(told) > 3 else ""
    return ",".join(told[:3]) + more or "<none>"


RESOURCES = (
    Resource(
        group="",
        version="v1",
        kind="Service",
        plural="services",
        namespaced=True,
        short_names=("svc",),
        categories=("all",),
        columns=(
            text("Type", "spec.type", "How it can be reached."),
            PrinterColumn("Cluster-IP", "string", _address, "Its inner address."),
            PrinterColumn("External-IP", "string", _external, "Its outer addresses."),
            PrinterColumn("Port(s)", "string", _ports, "Its ports."),
            AGE,
            PrinterColumn(
                "Selector",
                "string",
                lambda obj, now: told_labels(at(obj, "spec", "selector")),
                "Which pods it leads to.",
                priority=1,
            ),
        ),
        fields={
            "spec.clusterIP": lambda obj: at(obj, "spec", "clusterIP") or "",
            "spec.type": lambda obj: at(obj, "spec", "type") or "",
        },
        status=True,
        create_on_update=True,
        name_problem=dns_label_problem,
        strategy=ServiceRules(
            stated=("spec", "status"),
            complete=complete,
            status={"loadBalancer": {}},
            check=check,
            check_change=check_change,
            check_status=check_status,
        ),
        doc="A name and address for a set of pods; nobody routes to it.",
    ),
    Resource(
        group="",
        version="v1",
        kind="Endpoints",
        plural="endpoints",
        namespaced=True,
        short_names=("ep",),
        columns=(PrinterColumn("Endpoints", "string", _endpoints, "Addresses and ports."), AGE),
        create_on_update=True,
        strategy=StrategyRules(complete=_complete_endpoints),
        doc="Where a service's pods are; kept.",
    ),
)
