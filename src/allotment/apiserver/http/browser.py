"""Refuses browser requests that a foreign page caused without having the right to.

A browser with a client certificate presents it with every request, even with requests caused by a foreign page. Such a
page cannot read the answer, but a write would take effect. Two rules prevent this:

* A write must come from a page of this server, or from no page at all. Browsers state the origin in ``Sec-Fetch-Site``,
older ones in ``Origin``. A page of the same site (another port, another subdomain) counts as foreign.
* Every browser request must name this server by a name in its certificate, or by an address. Otherwise a page whose own
name suddenly resolves to our address (DNS rebinding) would count as ours, and could read as well as write.

Programs send neither header, so nothing changes for them, whatever their ``Host`` header says and even if they give no
type for their body (``request.py``).
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from allotment.api.status import Forbidden
from allotment.apiserver.auth.authentication import Headers

_READING = ("GET", "HEAD", "OPTIONS")
_OWN_PAGE = ("same-origin", "none")
_SHOWN_LENGTH = 100  # the most characters of a header that are quoted


def caused_by_page(headers: Headers) -> bool:
    """Whether a browser sent this. All browsers send ``Origin`` at least with cross-origin requests of scripts."""
    return any(name in (b"sec-fetch-site", b"origin") for name, _ in headers)


def check_page(method: str, headers: Headers, names: Collection[str]) -> None:
    """Raises Forbidden for a request that a foreign page caused. ``names`` are those of the server's certificate."""
    origin = site = None
    for name, value in headers:
        if name == b"sec-fetch-site":
            site = value
        elif name == b"origin":
            origin = value
    if origin is None and site is None:
        return
    told = dict(headers)
    host = told.get(b"host", b"").decode("latin-1").lower()
    own = site.decode("latin-1").lower() in _OWN_PAGE if site is not None else _place_of(origin) == host
    if method not in _READING and not own:
        raise _foreign(method, origin, site)
    if not _is_ours(host, names):
        raise Forbidden(
            f'a browser asked for "{host[:_SHOWN_LENGTH]}", which is not a name of this server: its certificate has '
            f"{', '.join(sorted(names))}"
        )


def _place_of(origin: bytes | None) -> str | None:
    """The host and port of an origin; None for an opaque (``null``) or invalid one."""
    try:
        return urlsplit((origin or b"").decode("latin-1").lower()).netloc or None
    except ValueError:
        return None


def _is_ours(host: str, names: Collection[str]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name in names or _is_address(name)


def _is_address(name: str) -> bool:
    """Whether the origin is an address. Its page was loaded from there, so DNS cannot redirect it."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _foreign(method: str, origin: bytes | None, site: bytes | None) -> Forbidden:
    page = origin.decode("latin-1")[:_SHOWN_LENGTH] if origin is not None else "another site"
    how = f" (Sec-Fetch-Site: {site.decode('latin-1')[:_SHOWN_LENGTH]})" if site is not None else ""
    return Forbidden(
        f"{method} was caused by a page of {page}{how}: only pages of this server may write through a browser"
    )
