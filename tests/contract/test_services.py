"""Services: what they get, what they keep, and what of it they may ask for."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from tests.builders.plain import Obj
from tests.contract.api import Api, Reply

SELECTOR = {"app": "web"}
WEB = [{"port": 80}]


def service(name: str, /, ports: Any = WEB, **spec: Any) -> Obj:
    spec = {"selector": SELECTOR, **spec}
    wanted = {"ports": ports, **spec} if ports else spec
    kept = {name: value for name, value in wanted.items() if value is not None}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": kept}


@pytest.fixture
def services(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/services"


def faults(reply: Reply) -> list[tuple[str, str]]:
    """Field and kind of each fault of a write that is refused as invalid."""
    assert (reply.status, reply.reason) == (422, "Invalid"), reply.body
    return [(cause["field"], cause["reason"]) for cause in reply.causes]


def test_one_gets_an_address(api: Api, services: str) -> None:
    made = api.post(services, service("a")).must(201)["spec"]
    assert ipaddress.ip_address(made["clusterIP"]).version == 4
    assert made["clusterIPs"] == [made["clusterIP"]]
    rest = {name: value for name, value in made.items() if name not in ("clusterIP", "clusterIPs")}
    assert rest == {
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "selector": SELECTOR,
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
    }


def test_all_addresses_differ(api: Api, services: str) -> None:
    given = [api.post(services, service(f"a{number}")).must(201)["spec"]["clusterIP"] for number in range(5)]
    assert len(set(given)) == 5


def test_an_address_is_given_to_one_and_free_again_after_it(api: Api, services: str) -> None:
    given = api.post(services, service("a")).must(201)["spec"]["clusterIP"]
    taken = api.post(services, service("b", clusterIP=given))
    assert faults(taken) == [("spec.clusterIPs", "FieldValueInvalid")]
    assert f"failed to allocate IP {given}: provided IP is already allocated" in taken.message
    api.delete(f"{services}/a").must()
    assert api.post(services, service("b", clusterIP=given)).must(201)["spec"]["clusterIPs"] == [given]


@pytest.mark.parametrize("address", ["203.0.113.7", "10.0.0.0"])
def test_an_address_out_of_range_is_refused(api: Api, services: str, address: str) -> None:
    assert faults(api.post(services, service("a", clusterIP=address))) == [
        ("spec.clusterIPs", "FieldValueInvalid")
    ]


WRONG: dict[str, tuple[Obj, list[tuple[str, str]]]] = {
    "no ports": (service("a", ports=None), [("spec.ports", "FieldValueRequired")]),
    "an address that is none": (service("a", clusterIP="x"), [("spec.clusterIPs[0]", "FieldValueInvalid")]),
    "addresses that contradict each other": (
        service("a", clusterIP="None", clusterIPs=["10.0.0.9"]),
        [("spec.clusterIPs", "FieldValueInvalid")],
    ),
    "None and more": (
        service("a", clusterIP="None", clusterIPs=["None", "10.0.0.9"]),
        [("spec.clusterIPs", "FieldValueInvalid")],
    ),
    "a family that there is not": (
        service("a", ipFamilies=["IPv6"]),
        [("spec.ipFamilies[0]", "FieldValueInvalid")],
    ),
    "a family that is none": (
        service("a", ipFamilies=["x"]),
        [("spec.ipFamilies[0]", "FieldValueNotSupported")],
    ),
    "a family twice": (
        service("a", ipFamilies=["IPv4", "IPv4"]),
        [("spec.ipFamilies[1]", "FieldValueDuplicate")],
    ),
    "both families at all costs": (
        service("a", ipFamilyPolicy="RequireDualStack"),
        [("spec.ipFamilyPolicy", "FieldValueInvalid")],
    ),
    "both families and one policy": (
        service("a", ipFamilies=["IPv4", "IPv6"]),
        [("spec.ipFamilyPolicy", "FieldValueInvalid")],
    ),
    "a policy that is none": (
        service("a", ipFamilyPolicy="x"),
        [("spec.ipFamilyPolicy", "FieldValueNotSupported")],
    ),
    "a type that is none": (service("a", type="x"), [("spec.type", "FieldValueNotSupported")]),
    "an external name with an address": (
        service("a", type="ExternalName", externalName="x.io", clusterIP="10.0.0.9"),
        [("spec.clusterIPs", "FieldValueForbidden")],
    ),
    "an external name without one": (
        service("a", type="ExternalName"),
        [("spec.externalName", "FieldValueRequired")],
    ),
    "a headless one on nodes": (
        service("a", type="NodePort", clusterIP="None"),
        [("spec.clusterIPs[0]", "FieldValueInvalid")],
    ),
    "a port of nodes without the type": (
        service("a", ports=[{"port": 80, "nodePort": 30123}]),
        [("spec.ports[0].nodePort", "FieldValueForbidden")],
    ),
    "a port of nodes out of range": (
        service("a", ports=[{"port": 80, "nodePort": 80}], type="NodePort"),
        [("spec.ports[0].nodePort", "FieldValueInvalid")],
    ),
    "ports without names": (
        service("a", ports=[{"port": 80}, {"port": 81}]),
        [("spec.ports[0].name", "FieldValueRequired"), ("spec.ports[1].name", "FieldValueRequired")],
    ),
    "a port twice": (
        service("a", ports=[{"name": "a", "port": 80}, {"name": "b", "port": 80}]),
        [("spec.ports[1]", "FieldValueDuplicate")],
    ),
    "a target that is no name": (
        service("a", ports=[{"port": 80, "targetPort": "no_name"}]),
        [("spec.ports[0].targetPort", "FieldValueInvalid")],
    ),
    "a class without the type": (
        service("a", loadBalancerClass="x.io/y"),
        [("spec.loadBalancerClass", "FieldValueForbidden")],
    ),
    "a policy of outer traffic without the type": (
        service("a", externalTrafficPolicy="Local"),
        [("spec.externalTrafficPolicy", "FieldValueInvalid")],
    ),
    "an outer address that loops back": (
        service("a", externalIPs=["127.0.0.1"]),
        [("spec.externalIPs[0]", "FieldValueInvalid")],
    ),
    "a selector that is none": (
        service("a", selector={"-": "x"}),
        [("spec.selector", "FieldValueInvalid")],
    ),
}


@pytest.mark.parametrize(("sent", "expected"), WRONG.values(), ids=WRONG)
def test_what_contradicts_itself_is_refused(
    api: Api, services: str, sent: Obj, expected: list[tuple[str, str]]
) -> None:
    assert sorted({*faults(api.post(services, sent))}) == sorted(expected)


def test_a_headless_one_gets_none(api: Api, services: str) -> None:
    made = api.post(services, service("a", clusterIP="None")).must(201)["spec"]
    assert (made["clusterIP"], made["clusterIPs"], made["ipFamilies"]) == ("None", ["None"], ["IPv4"])


def test_a_headless_one_for_no_pods_in_particular_has_both_families(api: Api, services: str) -> None:
    made = api.post(services, service("a", clusterIP="None", selector=None)).must(201)["spec"]
    assert (made["ipFamilies"], made["ipFamilyPolicy"]) == (["IPv4", "IPv6"], "RequireDualStack")


def test_an_external_name_gets_none(api: Api, services: str) -> None:
    sent = service("a", ports=None, type="ExternalName", externalName="example.com", selector=None)
    made = api.post(services, sent).must(201)["spec"]
    assert made == {"type": "ExternalName", "externalName": "example.com", "sessionAffinity": "None"}


def test_the_same_manifest_again_changes_nothing(api: Api, services: str) -> None:
    sent = service("a", type="NodePort")
    made = api.post(services, sent).must(201)
    again = api.put(f"{services}/a", sent).must()
    assert again["spec"] == made["spec"]
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@pytest.mark.parametrize("address", ["None", "10.0.0.77"])
def test_an_address_does_not_change(api: Api, services: str, address: str) -> None:
    api.post(services, service("a")).must(201)
    patch = {"spec": {"clusterIP": address, "clusterIPs": [address]}}
    assert faults(api.patch(f"{services}/a", patch)) == [("spec.clusterIPs[0]", "FieldValueInvalid")]


def test_an_external_name_takes_the_address_away_and_another_type_brings_one(api: Api, services: str) -> None:
    given = api.post(services, service("a")).must(201)["spec"]["clusterIP"]
    away = {"spec": {"type": "ExternalName", "externalName": "example.com"}}
    named = api.patch(f"{services}/a", away).must()["spec"]
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & named.keys()
    assert api.post(services, service("b", clusterIP=given)).must(201)["spec"]["clusterIP"] == given
    back = api.patch(f"{services}/a", {"spec": {"type": "ClusterIP", "externalName": None}}).must()["spec"]
    assert back["clusterIPs"] == [back["clusterIP"]] != [given]


def test_ports_of_nodes_are_given_kept_and_taken_away(api: Api, services: str) -> None:
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
        {"name": "web", "port": 80},
    ]
    made = api.post(services, service("a", ports=ports, type="NodePort")).must(201)["spec"]
    given = [port["nodePort"] for port in made["ports"]]
    assert given[0] == given[1] != given[2]
    assert all(30000 <= number <= 32767 for number in given)
    taken = api.post(services, service("b", ports=[{"port": 80, "nodePort": given[2]}], type="NodePort"))
    assert faults(taken) == [("spec.ports[0].nodePort", "FieldValueInvalid")]
    assert "provided port is already allocated" in taken.message
    plain = api.patch(f"{services}/a", {"spec": {"type": "ClusterIP"}}).must()["spec"]
    assert not any("nodePort" in port for port in plain["ports"])
    sent = service("b", ports=[{"port": 80, "nodePort": given[2]}], type="NodePort")
    assert api.post(services, sent).must(201)["spec"]["ports"][0]["nodePort"] == given[2]


def test_a_balanced_one(api: Api, services: str) -> None:
    made = api.post(services, service("a", type="LoadBalancer", externalTrafficPolicy="Local")).must(201)
    spec = made["spec"]
    assert spec["allocateLoadBalancerNodePorts"] is True
    assert spec["ports"][0]["nodePort"] != spec["healthCheckNodePort"] >= 30000
    assert made["status"] == {"loadBalancer": {}}
    without = service("b", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert "nodePort" not in api.post(services, without).must(201)["spec"]["ports"][0]
    less = api.patch(f"{services}/a", {"spec": {"type": "ClusterIP"}}).must()["spec"]
    gone = {"allocateLoadBalancerNodePorts", "healthCheckNodePort", "externalTrafficPolicy"}
    assert not gone & less.keys()


def test_a_dry_run_takes_no_address(api: Api, services: str) -> None:
    free = api.post(services, service("a")).must(201)["spec"]["clusterIP"]
    api.delete(f"{services}/a").must()
    for _ in range(2):
        assert api.post(f"{services}?dryRun=All", service("a", clusterIP=free)).must(201)["spec"]["clusterIP"]
    assert api.get(f"{services}/a").status == 404


def test_affinity_has_a_time(api: Api, services: str) -> None:
    made = api.post(services, service("a", sessionAffinity="ClientIP")).must(201)["spec"]
    assert made["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}
    plain = api.patch(f"{services}/a", {"spec": {"sessionAffinity": "None"}}).must()["spec"]
    assert "sessionAffinityConfig" not in plain
