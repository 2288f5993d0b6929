"""Kubernetes' functions of IP addresses, over the values of :mod:`address`."""

from collections.abc import Callable

from allotment.cel.declare import Function, Library, Overload
from allotment.cel.library.address import IP as Address
from allotment.cel.library.address import is_canonical_ip, is_ip, parse_ip
from allotment.cel.library.pricing import priced
from allotment.cel.types import BOOL, INT, IP, STRING


def _family(address: Address) -> int:
    return address.family


def _predicate(name: str, id_: str, impl: Callable[[Address], bool]) -> Function:
    return priced(name, Overload(id_, (IP,), BOOL, impl, member=True))


LIBRARY = Library(
    "kubernetes.net.ip",
    (
        priced("ip", Overload("string_to_ip", (STRING,), IP, parse_ip)),
        priced("isIP", Overload("is_ip", (STRING,), BOOL, is_ip)),
        priced("ip.isCanonical", Overload("ip_is_canonical", (STRING,), BOOL, is_canonical_ip)),
        priced("family", Overload("ip_family", (IP,), INT, _family, member=True)),
        _predicate("isUnspecified", "ip_is_unspecified", Address.is_unspecified),
        _predicate("isLoopback", "ip_is_loopback", Address.is_loopback),
        _predicate("isLinkLocalMulticast", "ip_is_link_local_multicast", Address.is_link_local_multicast),
        _predicate("isLinkLocalUnicast", "ip_is_link_local_unicast", Address.is_link_local_unicast),
        _predicate("isGlobalUnicast", "ip_is_global_unicast", Address.is_global_unicast),
        Function("string", (Overload("ip_to_string", (IP,), STRING, str),)),
    ),
    types=(IP,),
)
