"""IP addresses and networks, as strictly as Kubernetes reads them."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.library.address import (
    CIDR,
    IP,
    AddressError,
    is_canonical_ip,
    is_cidr,
    is_ip,
    parse_cidr,
    parse_ip,
)

SPELLINGS = {
    "1.2.3.4": "1.2.3.4",
    "::": "::",
    "::1": "::1",
    "2001:DB8::0:1": "2001:db8::1",
    "1:2:3:4:5:6:7::": "1:2:3:4:5:6:7:0",
    "64:ff9b::1.2.3.4": "64:ff9b::102:304",
    "::1.2.3.4": "::102:304",
    "0:0:0:0:0:0:0:0": "::",
    "1:0:0:2:0:0:0:3": "1:0:0:2::3",
}


@pytest.mark.parametrize(("text", "canonical"), SPELLINGS.items())
def test_addresses_have_one_canonical_spelling(text: str, canonical: str) -> None:
    assert str(parse_ip(text)) == canonical
    assert is_ip(text)
    assert is_canonical_ip(text) == (text == canonical)


NO_ADDRESSES = {
    "leading zero": "1.2.3.04",
    "three parts": "1.2.3",
    "too large": "1.2.3.256",
    "five hex digits": "::12345",
    "two gaps": "1::2::3",
    "a gap for nothing": "1:2:3:4:5:6:7::8",
    "zone": "fe80::1%eth0",
    "IPv4 mapped into IPv6": "::ffff:1.2.3.4",
    "the same in hex": "::ffff:102:304",
    "empty": "",
    "space": " 1.2.3.4",
    "other digits": "１.2.3.4",
    "long": "1" * 100_000,
}


@pytest.mark.parametrize("text", NO_ADDRESSES.values(), ids=NO_ADDRESSES.keys())
def test_what_is_no_address(text: str) -> None:
    assert not is_ip(text)
    assert not is_cidr(f"{text}/8")
    with pytest.raises(AddressError):
        parse_ip(text)


PREDICATES = {
    "0.0.0.0": {"is_unspecified"},
    "::": {"is_unspecified"},
    "127.0.0.53": {"is_loopback"},
    "::1": {"is_loopback"},
    "224.0.0.1": {"is_link_local_multicast"},
    "224.0.1.1": set(),
    "ff02::1": {"is_link_local_multicast"},
    "ff12::1": {"is_link_local_multicast"},
    "ff05::1": set(),
    "169.254.169.254": {"is_link_local_unicast"},
    "fe80::1": {"is_link_local_unicast"},
    "febf::1": {"is_link_local_unicast"},
    "fec0::1": {"is_global_unicast"},
    "10.0.0.1": {"is_global_unicast"},
    "255.255.255.255": set(),
    "fd00::1": {"is_global_unicast"},
}


@pytest.mark.parametrize(("text", "true"), PREDICATES.items())
def test_predicates(text: str, true: set[str]) -> None:
    address = parse_ip(text)
    names = ("unspecified", "loopback", "link_local_multicast", "link_local_unicast", "global_unicast")
    assert {f"is_{name}" for name in names if getattr(address, f"is_{name}")()} == true


NO_NETWORKS = (
    "1.2.3.4",
    "1.2.3.4/",
    "1.2.3.4/33",
    "::/129",
    "1.2.3.4/08",
    "1.2.3.4/+8",
    "1.2.3.4/-1",
    "1.2.3.4/8/8",
)


@pytest.mark.parametrize("text", NO_NETWORKS)
def test_what_is_no_network(text: str) -> None:
    assert not is_cidr(text)


CONTAINMENT = {
    "address inside": ("10.0.0.0/8", "10.1.2.3/32", True),
    "network inside": ("10.9.9.9/8", "10.1.0.0/16", True),
    "itself": ("10.0.0.0/8", "10.0.0.0/8", True),
    "network around": ("10.1.0.0/16", "10.0.0.0/8", False),
    "beside": ("10.0.0.0/8", "11.0.0.0/16", False),
    "other family": ("::/0", "10.0.0.0/8", False),
    "everything": ("0.0.0.0/0", "1.2.3.4/31", True),
}


@pytest.mark.parametrize(("outer", "inner", "answer"), CONTAINMENT.values(), ids=CONTAINMENT.keys())
def test_containment(outer: str, inner: str, answer: bool) -> None:
    assert parse_cidr(outer).contains_cidr(parse_cidr(inner)) == answer


def test_a_network_keeps_its_host_bits_until_masked() -> None:
    network = parse_cidr("10.1.2.3/8")
    assert str(network) == "10.1.2.3/8"
    assert str(network.masked()) == "10.0.0.0/8"
    assert network != network.masked()
    assert network.address == parse_ip("10.1.2.3")
    assert len(network) == 1
    assert len(parse_cidr("::/0")) == 0
    assert len(parse_ip("::")) == 16


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6), st.integers(0, 32))
def test_a_masked_network_contains_what_it_came_from(address: IPv4Address | IPv6Address, prefix: int) -> None:
    width = 32 if isinstance(address, IPv4Address) else 128
    network = CIDR(IP(int(address), width), prefix)
    assert network.masked().contains_ip(network.address)
    assert network.masked().contains_cidr(network)


@given(st.text("0123456789abcf:./%", max_size=24))
def test_parsing_is_total(text: str) -> None:
    for parse in (parse_ip, parse_cidr):
        try:
            value = parse(text)
            assert parse(str(value)) == value
        except AddressError:
            pass
