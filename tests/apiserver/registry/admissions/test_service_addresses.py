"""Addresses and ports of services: the books follow what is stored. What a service may ask for is in the contract tests."""

from __future__ import annotations

from ipaddress import IPv4Network, ip_address
from typing import Any

import pytest

from allotment.api.status import InternalError, Invalid
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry.admissions.service_addresses import SERVICES, ServiceAddresses
from allotment.apiserver.registry.kinds.service import RESOURCES
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Key, Obj
from tests.apiserver.registry.admissions.shelf import Shelf

SMALL = IPv4Network("10.1.0.0/29")  # six addresses, too few to leave some to those that ask
CREATE = Write(Operation.CREATE, ADMINISTRATOR, "2026-01-02T03:04:05Z")
SERVICE = RESOURCES[0]


class Town:
    """Services in a store, and who gives them their addresses."""

    def __init__(
        self, shelf: Shelf, network: IPv4Network = SMALL, ports: range = range(30000, 30004)
    ) -> None:
        self.shelf = shelf
        self.giver = ServiceAddresses(shelf.as_store(), network, ports)

    def give(self, name: str, **spec: Any) -> Obj:
        obj = {"metadata": {"name": name, "namespace": "n"}, "spec": {"ports": [{"port": 80}], **spec}}
        SERVICE.strategy.default(obj, CREATE)
        self.giver.mutate(SERVICE, obj, None, CREATE)
        return obj

    def add(self, name: str, **spec: Any) -> Obj:
        obj = self.give(name, **spec)
        self.shelf.put(Key(SERVICES, "n", name), obj)
        given: Obj = obj["spec"]
        return given


def test_each_address_is_given_once_until_there_are_none() -> None:
    town = Town(Shelf())
    given = {town.add(f"s{number}")["clusterIP"] for number in range(6)}
    assert given == {str(address) for address in SMALL.hosts()}
    with pytest.raises(InternalError, match="failed to allocate a serviceIP: range is full"):
        town.give("one more")
    town.shelf.delete(Key(SERVICES, "n", "s3"))
    assert town.give("again")["spec"]["clusterIP"] in given


def test_a_restart_forgets_nothing() -> None:
    before = Town(Shelf())
    taken = before.add("a", type="NodePort")
    after = Town(before.shelf)
    with pytest.raises(Invalid, match="provided IP is already allocated"):
        after.give("b", clusterIP=taken["clusterIP"])
    with pytest.raises(Invalid, match="provided port is already allocated"):
        after.give("b", type="NodePort", ports=[{"port": 1, "nodePort": taken["ports"][0]["nodePort"]}])


def test_a_write_that_did_not_reach_the_disk_takes_nothing() -> None:
    town = Town(Shelf())
    taken = town.add("a")["clusterIP"]
    town.shelf.roll_back(1)
    assert town.give("b", clusterIP=taken)["spec"]["clusterIPs"] == [taken]


def test_the_lower_end_is_left_to_those_who_ask() -> None:
    """As long as there is room above it; then it is given out as well."""
    wide = IPv4Network("10.1.0.0/24")
    town = Town(Shelf(), wide)
    first, reserved = int(wide.network_address) + 1, 16
    given = [int(ip_address(town.add(f"s{number}")["clusterIP"])) for number in range(254)]
    assert min(given[: 254 - reserved]) == first + reserved
    assert sorted(given[254 - reserved :]) == list(range(first, first + reserved))


def test_ports_of_nodes_come_to_an_end_too() -> None:
    town = Town(Shelf())
    ports = [{"name": f"p{number}", "port": number} for number in range(1, 5)]
    given = [port["nodePort"] for port in town.add("a", type="NodePort", ports=ports)["ports"]]
    assert sorted(given) == list(range(30000, 30004))
    with pytest.raises(InternalError, match="failed to allocate a nodePort: range is full"):
        town.give("b", type="NodePort")


def test_what_was_stored_before_there_were_addresses_does_no_harm() -> None:
    """A service may then say anything, and two of them the same."""
    shelf = Shelf()
    for name, spec in (
        ("a", {"clusterIPs": ["10.1.0.1"]}),
        ("b", {"clusterIPs": ["10.1.0.1"]}),
        ("c", {"clusterIPs": ["whatever", "", "::1", "10.9.9.9"]}),
        ("d", {}),
    ):
        shelf.put(Key(SERVICES, "n", name), {"metadata": {"name": name}, "spec": spec})
    town = Town(shelf)
    shelf.delete(Key(SERVICES, "n", "a"))
    with pytest.raises(Invalid, match="already allocated"):
        town.give("e", clusterIP="10.1.0.1")
    shelf.delete(Key(SERVICES, "n", "b"))
    assert town.give("e", clusterIP="10.1.0.1")
