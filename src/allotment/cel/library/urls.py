"""Kubernetes' URL functions over the values of :mod:`locator`."""

from operator import attrgetter

from allotment.cel.declare import Function, Library, Overload
from allotment.cel.library.locator import is_url, parse_url
from allotment.cel.library.pricing import priced
from allotment.cel.types import BOOL, STRING, URL, list_of, map_of


def _part(name: str, id_: str, attribute: str) -> Function:
    return priced(name, Overload(id_, (URL,), STRING, attrgetter(attribute), member=True))


LIBRARY = Library(
    "kubernetes.urls",
    (
        priced("url", Overload("string_to_url", (STRING,), URL, parse_url)),
        priced("isURL", Overload("is_url_string", (STRING,), BOOL, is_url)),
        _part("getScheme", "url_get_scheme", "scheme"),
        _part("getHost", "url_get_host", "host"),
        _part("getHostname", "url_get_hostname", "hostname"),
        _part("getPort", "url_get_port", "port"),
        _part("getEscapedPath", "url_get_escaped_path", "escaped_path"),
        priced(
            "getQuery",
            Overload(
                "url_get_query", (URL,), map_of(STRING, list_of(STRING)), attrgetter("query"), member=True
            ),
        ),
    ),
)
