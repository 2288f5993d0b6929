"""Services and endpoints: kept for what reads them (kube-scheduler spreads pods by services). No addresses are given out."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.api.fields import FieldError
from allotment.api.label_selector import told_labels
from allotment.api.validation.container import MAX_PORT
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.columns import text
from allotment.apiserver.registry.resource import Column, Resource
from allotment.apiserver.registry.strategies import Rules, at
from allotment.apiserver.registry.templated import SPEC
from allotment.apiserver.store.record import Obj

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def _complete(service: Obj) -> None:
    spec = service["spec"]
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)


def _complete_endpoints(endpoints: Obj) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _check(service: Obj) -> Iterator[FieldError]:
    spec = service["spec"]
    if spec["type"] not in _TYPES:
        yield SPEC.child("type").not_supported(spec["type"], _TYPES)
    headless = spec.get("clusterIP") == "None" or spec["type"] == "ExternalName"
    ports = spec.get("ports") or ()
    if not ports and not headless:
        yield SPEC.child("ports").required("")
    for index, port in enumerate(ports):
        here = SPEC.child("ports").index(index)
        if len(ports) > 1 and not port.get("name"):
            yield here.child("name").required("")
        for name in ("port", "targetPort"):
            number = port.get(name) or 0
            if isinstance(number, int) and not 1 <= number <= MAX_PORT:
                yield here.child(name).invalid(f"must be between 1 and {MAX_PORT}, inclusive", number)
    if spec["type"] == "ExternalName" and not spec.get("externalName"):
        yield SPEC.child("externalName").required("")


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
            Column("Cluster-IP", "string", _address, "Its inner address."),
            Column("External-IP", "string", _external, "Its outer addresses."),
            Column("Port(s)", "string", _ports, "Its ports."),
            AGE,
            Column(
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
        strategy=Rules(
            stated=("spec", "status"), complete=_complete, status={"loadBalancer": {}}, check=_check
        ),
        doc="A name and address for a set of pods; kept, no address is given out.",
    ),
    Resource(
        group="",
        version="v1",
        kind="Endpoints",
        plural="endpoints",
        namespaced=True,
        short_names=("ep",),
        columns=(Column("Endpoints", "string", _endpoints, "Addresses and ports."), AGE),
        create_on_update=True,
        strategy=Rules(complete=_complete_endpoints),
        doc="Where a service's pods are; kept.",
    ),
)
