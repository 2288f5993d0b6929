"""URLs as Go reads them: every answer was recorded from Go's net/url."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.library.locator import LocatorError, check_request_uri, is_url, parse_url

Parts = tuple[str, str, str, str, str, str]

# text: scheme, host, hostname, port, escaped path, normal spelling
ANSWERS: dict[str, Parts] = {
    "http://a": ("http", "a", "a", "", "", "http://a"),
    "http://a/b?c=d#e": ("http", "a", "a", "", "/b", "http://a/b?c=d#e"),
    "https://u:p@h:80/x%20y?z=1&z=2": (
        "https",
        "h:80",
        "h",
        "80",
        "/x%20y",
        "https://u:p@h:80/x%20y?z=1&z=2",
    ),
    "/abs": ("", "", "", "", "/abs", "/abs"),
    "*": ("", "", "", "", "*", "*"),
    "mailto:x@y": ("mailto", "", "", "", "", "mailto:x@y"),
    "http://[::1]:80/": ("http", "[::1]:80", "::1", "80", "/", "http://[::1]:80/"),
    "http://[::1%25en0]/": ("http", "[::1%en0]", "::1%en0", "", "/", "http://[::1%25en0]/"),
    "http://[::ffff:1.2.3.4]/": (
        "http",
        "[::ffff:1.2.3.4]",
        "::ffff:1.2.3.4",
        "",
        "/",
        "http://[::ffff:1.2.3.4]/",
    ),
    "ftp://a:1:2/": ("ftp", "a:1:2", "a:1", "2", "/", "ftp://a:1:2/"),
    "http://é/": ("http", "é", "é", "", "/", "http://%C3%A9/"),
    "http:///p": ("http", "", "", "", "/p", "http:///p"),
    "//h/p": ("", "h", "h", "", "/p", "//h/p"),
    "///p": ("", "", "", "", "///p", "///p"),
    "http://a?": ("http", "a", "a", "", "", "http://a?"),
    "http://a??": ("http", "a", "a", "", "", "http://a??"),
    "http://a/b c": ("http", "a", "a", "", "/b%20c", "http://a/b%20c"),
    "http://a/b%2fc": ("http", "a", "a", "", "/b%2fc", "http://a/b%2fc"),
    "http://a/[x]": ("http", "a", "a", "", "/[x]", "http://a/[x]"),
    "http://u%40@h/": ("http", "h", "h", "", "/", "http://u%40@h/"),
    "http://u@:p@h": ("http", "h", "h", "", "", "http://u%40:p@h"),
    "http://a/?q=%zz&r=1&s;t=2&&u": ("http", "a", "a", "", "/", "http://a/?q=%zz&r=1&s;t=2&&u"),
    "HTTP://A": ("http", "A", "A", "", "", "http://A"),
    "http:opaque?q#f": ("http", "", "", "", "", "http:opaque?q#f"),
    "http://a/é": ("http", "a", "a", "", "/%C3%A9", "http://a/%C3%A9"),
    "http://a/%C3%A9": ("http", "a", "a", "", "/%C3%A9", "http://a/%C3%A9"),
    "http://[fe80::1%25%20x]/": ("http", "[fe80::1% x]", "fe80::1% x", "", "/", "http://[fe80::1%25%20x]/"),
    "http://a/?a+b=c+d": ("http", "a", "a", "", "/", "http://a/?a+b=c+d"),
    "http://<h>/": ("http", "<h>", "<h>", "", "/", "http://<h>/"),
    'http://h"/': ("http", 'h"', 'h"', "", "/", 'http://h"/'),
    "http://a:/": ("http", "a:", "a", "", "/", "http://a:/"),
    "http://:80/": ("http", ":80", "", "80", "/", "http://:80/"),
    "http://@h/": ("http", "h", "h", "", "/", "http://@h/"),
    "http://u:@h/": ("http", "h", "h", "", "/", "http://u:@h/"),
    "http://:p@h/": ("http", "h", "h", "", "/", "http://:p@h/"),
    "/a:b": ("", "", "", "", "/a:b", "/a:b"),
    "/a?b#c": ("", "", "", "", "/a", "/a?b#c"),
    "x:/y": ("x", "", "", "", "/y", "x:/y"),
    "x:///y": ("x", "", "", "", "/y", "x:///y"),
    "http://a/*": ("http", "a", "a", "", "/*", "http://a/*"),
    "http://%25/": ("http", "%", "%", "", "/", "http://%25/"),
    "http://h?x=1#a?b": ("http", "h", "h", "", "", "http://h?x=1#a?b"),
    "http://a/b;c=d": ("http", "a", "a", "", "/b;c=d", "http://a/b;c=d"),
}


@pytest.mark.parametrize(("text", "parts"), ANSWERS.items())
def test_parts(text: str, parts: Parts) -> None:
    url = parse_url(text)
    assert (url.scheme, url.host, url.hostname, url.port, url.escaped_path, url.spelling) == parts
    assert is_url(text)


NO_URLS = [
    "rel",
    "",
    "http://[1.2.3.4]/",
    "http://h:x/",
    "http://a:1:2/",
    "http://h%41/",
    "http://a/%zz",
    "http://a/%",
    "http://a b/",
    "http://a/\x7f",
    ":x",
    "1http://x",
    "ht_tp:x",
    "http://a#f%zz",
    "http://a#f g",
    "http://[fe80::1%25]/",
    "http://[::1",
    "http://x[::1]/",
    "http://h^/",
    "cache_object:foo/bar",
    "http://a\\b/",
]


@pytest.mark.parametrize("text", NO_URLS)
def test_what_is_no_url(text: str) -> None:
    assert not is_url(text)
    with pytest.raises(LocatorError):
        parse_url(text)


def test_a_broken_fragment_passes_the_check_but_does_not_parse() -> None:
    # The check takes "#" for an ordinary character of the host or path.
    assert is_url("http://a/#f%20")
    with pytest.raises(LocatorError):
        parse_url("http://a?x#f%zz")
    assert is_url("http://a?x#f%zz")


def test_query_leaves_out_what_is_broken() -> None:
    query = parse_url("http://a/?a+b=c+d&z=1&z=2&&%zz=1&r=%zz&s;t=2&u&=v").query
    assert query == {"a b": ["c d"], "z": ["1", "2"], "u": [""], "": ["v"]}


def test_too_many_parameters_are_none() -> None:
    assert parse_url("/?" + "&" * 10_000).query == {}


def test_equality_goes_by_the_normal_spelling() -> None:
    assert parse_url("HTTP://a/%41") == parse_url("http://a/%41")
    assert parse_url("http://a/%41") != parse_url("http://a/A")


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert parse_url("http://h%ff/").host == "h\ufffd"


@given(st.text("ah:/?#[]@!%20é.&;=+ ", max_size=24))
def test_parsing_is_total(text: str) -> None:
    for start in ("", "/", "http://", "//"):
        try:
            check_request_uri(start + text)
            url = parse_url(start + text)
        except LocatorError:
            continue
        assert url.escaped_path.isascii()
        assert str(url) == url.spelling
