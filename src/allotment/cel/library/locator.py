"""URLs as values: what ``url("…")`` holds, read the way Go's ``net/url`` reads them.

A URL is accepted as a *request URI*: absolute, or a path that starts with a slash. The fragment is then cut
off, because a request URI has none and would count it to the path. Escapes are undone in the host and the
path; ``escaped_path`` gives back the spelling of the text wherever that spelling is valid.

Escaping is a matter of bytes, so parts that were escaped stay bytes until asked for as text; bytes that are
no UTF-8 then read as the replacement character.
"""

import string
from dataclasses import dataclass
from typing import ClassVar

from allotment.cel import types
from allotment.cel.errors import CelRuntimeError
from allotment.cel.library.address import AddressError, parse_address

_ALNUM = frozenset((string.ascii_letters + string.digits).encode())
_UNRESERVED = _ALNUM | frozenset(b"-._~")
_PATH = _UNRESERVED | frozenset(b"$&+,/:;=@")
_FRAGMENT = _UNRESERVED | frozenset(b"$&+,/:;=?@!()*")
_HOST = _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\"")
_USER = _UNRESERVED | frozenset(b"$&+,;=")
_KEPT_AS_WRITTEN = frozenset(b"!$&'()*+,;=:@[]%")
_USERINFO = _ALNUM | frozenset(b"-._:~!$&'()*+,;=%@")
_SCHEME = _ALNUM | frozenset(b"+-.")
_HEX = frozenset(string.hexdigits.encode())
_MAX_QUERY_PARAMETERS = 10_000


class LocatorError(CelRuntimeError):
    """The text is no request URI."""


@dataclass(frozen=True, slots=True)
class URL:
    """The parts of a URL, unescaped; ``spelling`` is its normal form, which decides equality.

    The query is read once, with the URL: asking for it costs next to nothing, however long it is.
    """

    cel_type: ClassVar = types.URL
    scheme: str
    host: str
    path: bytes
    raw_path: bytes
    query: dict[str, list[str]]
    """Values by name, in order; parts with a semicolon or a broken escape are left out."""
    spelling: str

    @property
    def hostname(self) -> str:
        return _split_host(self.host)[0]

    @property
    def port(self) -> str:
        return _split_host(self.host)[1]

    @property
    def escaped_path(self) -> str:
        return _spelled(self.path, self.raw_path, _PATH)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, URL) and self.spelling == other.spelling

    def __hash__(self) -> int:
        return hash(self.spelling)

    def __str__(self) -> str:
        return self.spelling


def parse_url(text: str) -> URL:
    """The URL that ``text`` spells; :class:`LocatorError` says what is wrong with it."""
    check_request_uri(text)
    body, _, fragment = text.partition("#")
    return _parse(body, request=False, fragment=fragment)


def check_request_uri(text: str) -> None:
    """Passes if ``text`` is what stands in the first line of an HTTP request; here ``#`` has no meaning."""
    _parse(text, request=True)


def is_url(text: str) -> bool:
    try:
        check_request_uri(text)
    except LocatorError:
        return False
    return True


def _parse(text: str, *, request: bool, fragment: str = "") -> URL:
    if any(char < " " or char == "\x7f" for char in text):
        raise LocatorError("URL has a control character")
    if not text and request:
        raise LocatorError("URL is empty")
    if text == "*":
        return URL("", "", b"*", b"", {}, "*" + _fragment(fragment))
    scheme, rest = _cut_scheme(text)
    body, mark, query = rest.partition("?")
    if not body.startswith("/"):
        if scheme:
            return URL(
                scheme, "", b"", b"", _query(query), f"{scheme}:{body}{mark}{query}" + _fragment(fragment)
            )
        if request:
            raise LocatorError("URL is neither absolute nor a path that starts with '/'")
        if ":" in body.partition("/")[0]:
            raise LocatorError("the first segment of a relative URL has a colon")
    user, host, path, authority = "", b"", body, False
    if body.startswith("//") and (scheme or (not request and not body.startswith("///"))):
        authority = True
        name, slash, tail = body[2:].partition("/")
        path = slash + tail
        user, host = _parse_authority(scheme, name)
    raw = path.encode()
    plain = _unescape(raw)
    raw_path = b"" if _escape(plain, _PATH) == raw else raw
    shown = _spelled(plain, raw_path, _PATH)
    front = f"{scheme}:" if scheme else ""
    if authority and (host or path or user):
        front += f"//{user}{_text(_escape(host, _HOST))}"
    spelling = f"{front}{shown}{mark}{query}" + _fragment(fragment)
    return URL(scheme, _text(host), plain, raw_path, _query(query), spelling)


def _cut_scheme(text: str) -> tuple[str, str]:
    head, colon, rest = text.partition(":")
    if not colon or (head and not (head[0].isascii() and head[0].isalpha())):
        return "", text
    if not head:
        raise LocatorError("URL lacks a scheme before ':'")
    if not all(byte in _SCHEME for byte in head.encode()):
        return "", text
    return head.lower(), rest


def _parse_authority(scheme: str, authority: str) -> tuple[str, bytes]:
    """User information in its normal form, with its ``@``, and the host with its port."""
    info, at, name = authority.rpartition("@")
    host = _parse_host(scheme, name)
    if not at:
        return "", host
    if not all(byte in _USERINFO for byte in info.encode()):
        raise LocatorError("URL has user information with characters that must be escaped")
    user, colon, password = info.partition(":")
    shown = [_text(_escape(_unescape(side.encode()), _USER)) for side in (user, password)]
    return f"{shown[0]}{colon}{shown[1]}@", host


def _parse_host(scheme: str, host: str) -> bytes:
    bracket = host.rfind("[")
    if bracket > 0:
        raise LocatorError("URL has a '[' inside its host")
    if bracket == 0:
        return _parse_bracketed(host)
    first, last = host.find(":"), host.rfind(":")
    # Other schemes may list several hosts with ports, as databases do; only the last port is checked there.
    colon = first if scheme in ("http", "https") else last
    if colon >= 0:
        _check_port(host[colon:])
    return _unescape_host(host)


def _parse_bracketed(host: str) -> bytes:
    inner, bracket, port = host[1:].rpartition("]")
    if not bracket:
        raise LocatorError("URL has a '[' without ']' in its host")
    _check_port(port)
    address, mark, zone = inner.partition("%25")
    name = _unescape_host(address)
    zone_name = _unescape_host(mark + zone, zone=True)
    if zone_name == b"%":
        raise LocatorError("URL has an empty zone in its host")
    _check_literal(_text(name))
    return b"[" + name + zone_name + b"]" + port.encode()


def _check_literal(address: str) -> None:
    """Between brackets stands an IPv6 address, here also one with IPv4 mapped into it."""
    if ":" not in address:
        raise LocatorError("URL has no IPv6 address between brackets")
    try:
        parse_address(address)
    except AddressError as exc:
        raise LocatorError(f"URL has a bad host: {exc}") from exc


def _check_port(port: str) -> None:
    if port and (port[0] != ":" or not all("0" <= char <= "9" for char in port[1:])):
        raise LocatorError(f"URL has an invalid port {port[:32]!r}")


def _split_host(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    if not colon or not all("0" <= char <= "9" for char in port):
        name, port = host, ""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name, port


def _query(query: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    if query.count("&") + 1 > _MAX_QUERY_PARAMETERS:
        return found
    for part in query.split("&"):
        if not part or ";" in part:
            continue
        name, _, value = part.partition("=")
        try:
            key, text = (_text(_unescape(side.replace("+", " ").encode())) for side in (name, value))
        except LocatorError:
            continue
        found.setdefault(key, []).append(text)
    return found


def _unescape(raw: bytes) -> bytes:
    head, *tails = raw.split(b"%")
    parts = [head]
    for tail in tails:
        if len(tail) < 2 or tail[0] not in _HEX or tail[1] not in _HEX:
            raise LocatorError(f"URL has an invalid escape %{_text(tail[:2])}")
        parts.append(bytes((int(tail[:2], 16),)) + tail[2:])
    return b"".join(parts)


def _unescape_host(text: str, *, zone: bool = False) -> bytes:
    """In a host only bytes beyond ASCII, and ``%25``, may be escaped; in a zone also what a host may hold."""
    raw = text.encode()
    plain = _unescape(raw)
    head, *tails = raw.split(b"%")
    if any(
        byte < 0x80 and byte not in _HOST for part in (head, *(tail[2:] for tail in tails)) for byte in part
    ):
        raise LocatorError("URL has an invalid character in its host")
    for tail in tails:
        byte = int(tail[:2], 16)
        allowed = byte == 0x25 or (zone and (byte == 0x20 or byte in _HOST)) or (not zone and byte >= 0x80)
        if not allowed:
            raise LocatorError(f"URL has an escape in its host that is not allowed: %{_text(tail[:2])}")
    return plain


def _escape(plain: bytes, kept: frozenset[int]) -> bytes:
    if all(byte in kept for byte in plain):
        return plain
    return b"".join(bytes((byte,)) if byte in kept else b"%%%02X" % byte for byte in plain)


def _spelled(plain: bytes, raw: bytes, kept: frozenset[int]) -> str:
    """The part as it was written if that is valid, else escaped afresh."""
    if raw and all(byte in _KEPT_AS_WRITTEN or byte in kept for byte in raw):
        return _text(raw)
    return "*" if plain == b"*" else _text(_escape(plain, kept))


def _fragment(fragment: str) -> str:
    raw = fragment.encode()
    plain = _unescape(raw)
    if not plain:
        return ""
    escaped = _escape(plain, _FRAGMENT)
    return "#" + _spelled(plain, b"" if escaped == raw else raw, _FRAGMENT)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
