"""IP addresses and networks as values: what ``ip("…")`` and ``cidr("…")`` hold.

Kubernetes takes a narrow view of what an address is, so that no two programs read one text differently:
no leading zeros in IPv4, no zones, no IPv4 inside IPv6 (``::ffff:1.2.3.4``). A network keeps the host bits
it was written with; ``masked()`` clears them.

Both values hold their bits in one integer, so that every predicate is a comparison or a shift.
"""

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import ClassVar

from allotment.cel import types
from allotment.cel.errors import CelRuntimeError

_LONGEST_ADDRESS = 64
"""Characters. The longest address, IPv6 with a dotted tail, has 45; longer texts are refused unread."""
_MAPPED = 0xFFFF  # the upper 96 bits of ::ffff:0:0/96


class AddressError(CelRuntimeError):
    """The text is no address, or no network, that Kubernetes accepts."""


@dataclass(frozen=True, slots=True)
class IP:
    """One address. ``width`` is 32 or 128, which identifies the family."""

    cel_type: ClassVar = types.IP
    bits: int
    width: int

    @property
    def family(self) -> int:
        return 4 if self.width == 32 else 6

    def __len__(self) -> int:
        """Bytes, as cost sees it."""
        return self.width // 8

    def is_unspecified(self) -> bool:
        return self.bits == 0

    def is_loopback(self) -> bool:
        return self.bits >> 24 == 127 if self.width == 32 else self.bits == 1

    def is_multicast(self) -> bool:
        return self.bits >> 28 == 0xE if self.width == 32 else self.bits >> 120 == 0xFF

    def is_link_local_multicast(self) -> bool:
        """224.0.0.0/24, or ff02::/16 with any flags."""
        if self.width == 32:
            return self.bits >> 8 == 0xE00000
        return self.bits >> 112 & 0xFF0F == 0xFF02

    def is_link_local_unicast(self) -> bool:
        return self.bits >> 16 == 0xA9FE if self.width == 32 else self.bits >> 118 == 0x3FA

    def is_global_unicast(self) -> bool:
        """Everything that is not special; private ranges count as global."""
        broadcast = self.width == 32 and self.bits == 0xFFFFFFFF
        special = (
            self.is_unspecified() or self.is_loopback() or self.is_multicast() or self.is_link_local_unicast()
        )
        return not (broadcast or special)

    def __str__(self) -> str:
        return str(IPv4Address(self.bits) if self.width == 32 else IPv6Address(self.bits))


@dataclass(frozen=True, slots=True)
class CIDR:
    """An address and how many of its leading bits name the network."""

    cel_type: ClassVar = types.CIDR
    address: IP
    prefix: int

    def __len__(self) -> int:
        """Bytes that the prefix touches, as cost sees it."""
        return (self.prefix + 7) // 8

    def contains_ip(self, ip: IP) -> bool:
        return ip.width == self.address.width and self._network(ip) == self._network(self.address)

    def contains_cidr(self, other: "CIDR") -> bool:
        return self.prefix <= other.prefix and self.contains_ip(other.address)

    def masked(self) -> "CIDR":
        host = self.address.width - self.prefix
        return CIDR(IP(self.address.bits >> host << host, self.address.width), self.prefix)

    def _network(self, ip: IP) -> int:
        return ip.bits >> (self.address.width - self.prefix)

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix}"


def parse_address(text: str) -> IP:
    """The address that ``text`` spells, IPv4 mapped into IPv6 included."""
    if len(text) > _LONGEST_ADDRESS:
        raise AddressError(f"IP address of {len(text)} characters is too long")
    if "%" in text:
        raise AddressError(f"IP address {text!r} has a zone, which is not allowed")
    try:
        return IP(int(IPv6Address(text)), 128) if ":" in text else IP(int(IPv4Address(text)), 32)
    except AddressValueError as exc:
        raise AddressError(f"IP address {text!r} cannot be parsed: {exc}") from exc


def parse_ip(text: str) -> IP:
    """The address that ``text`` spells, in any spelling that has one meaning."""
    ip = parse_address(text)
    if ip.width == 128 and ip.bits >> 32 == _MAPPED:
        raise AddressError(f"IP address {text!r} is IPv4 mapped into IPv6, which is not allowed")
    return ip


def parse_cidr(text: str) -> CIDR:
    """The network that ``text`` spells: an address, a slash, and a plain decimal prefix length."""
    head, slash, tail = text.rpartition("/")
    if not slash:
        raise AddressError(f"network {text[:_LONGEST_ADDRESS]!r} has no '/'")
    address = parse_ip(head)
    plain = len(tail) <= 3 and tail.isascii() and tail.isdigit() and (tail == "0" or tail[0] != "0")
    if not plain or int(tail) > address.width:
        raise AddressError(f"network {text[:_LONGEST_ADDRESS]!r} has a bad prefix length")
    return CIDR(address, int(tail))


def is_ip(text: str) -> bool:
    return _parses(parse_ip, text)


def is_cidr(text: str) -> bool:
    return _parses(parse_cidr, text)


def is_canonical_ip(text: str) -> bool:
    """Whether ``text`` is the one spelling that formatting its address gives; an error if it is no address."""
    return str(parse_ip(text)) == text


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except AddressError:
        return False
    return True
