"""Kubernetes' functions of networks in CIDR notation, over the values of :mod:`address`."""

from allotment.cel.declare import Function, Library, Overload
from allotment.cel.library.address import CIDR as Network
from allotment.cel.library.address import IP as Address
from allotment.cel.library.address import is_cidr, parse_cidr, parse_ip
from allotment.cel.library.pricing import priced
from allotment.cel.types import BOOL, CIDR, INT, IP, STRING


def _contains_ip_text(network: Network, text: str) -> bool:
    return network.contains_ip(parse_ip(text))


def _contains_cidr_text(network: Network, text: str) -> bool:
    return network.contains_cidr(parse_cidr(text))


def _address(network: Network) -> Address:
    return network.address


def _prefix(network: Network) -> int:
    return network.prefix


LIBRARY = Library(
    "kubernetes.net.cidr",
    (
        priced("cidr", Overload("string_to_cidr", (STRING,), CIDR, parse_cidr)),
        priced("isCIDR", Overload("is_cidr", (STRING,), BOOL, is_cidr)),
        priced(
            "containsIP",
            Overload("cidr_contains_ip_string", (CIDR, STRING), BOOL, _contains_ip_text, member=True),
            Overload("cidr_contains_ip_ip", (CIDR, IP), BOOL, Network.contains_ip, member=True),
        ),
        priced(
            "containsCIDR",
            Overload("cidr_contains_cidr_string", (CIDR, STRING), BOOL, _contains_cidr_text, member=True),
            Overload("cidr_contains_cidr", (CIDR, CIDR), BOOL, Network.contains_cidr, member=True),
        ),
        priced("ip", Overload("cidr_ip", (CIDR,), IP, _address, member=True)),
        priced("prefixLength", Overload("cidr_prefix_length", (CIDR,), INT, _prefix, member=True)),
        priced("masked", Overload("cidr_masked", (CIDR,), CIDR, Network.masked, member=True)),
        Function("string", (Overload("cidr_to_string", (CIDR,), STRING, str),)),
    ),
    types=(CIDR,),
)
