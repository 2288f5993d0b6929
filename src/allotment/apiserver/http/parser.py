"""Parses requests from the bytes of a connection.

httptools reads HTTP. This module bounds its input, as httptools does not, and assembles its reports into heads. It also
refuses input that two readers could interpret differently: another version, a compressed body, a body after a change of
protocol, headers after the body.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import httptools

from allotment.api.status import BadRequest, StatusError
from allotment.apiserver.http import limits

Headers = list[tuple[bytes, bytes]]
_TELLING = (b"transfer-encoding", b"expect")
_VERSIONS = ("1.1", "1.0")


class HeadTooLarge(StatusError):
    code = 431


class Head(NamedTuple):
    """A request without its body. Header names are in lower case."""

    method: str
    url: bytes
    headers: Headers
    chunks: bool  # the peer accepts a chunked reply
    keep_alive: bool
    continues: bool  # the peer waits for permission to send its body


class RequestListener(Protocol):
    """Receives the events of a parser, for each request in this order. An exception raised here ends the parser."""

    def request_begins(self) -> None: ...

    def head_arrived(self, head: Head) -> None: ...

    def body_arrived(self, body: bytes) -> None: ...

    def request_ends(self) -> None: ...


class Parser:
    """Reads one connection. After an error it reads no more."""

    __slots__ = ("_continues", "_head_bytes", "_headers", "_heard", "_in_head", "_parser", "_unheard", "_url")

    def __init__(self, heard: RequestListener) -> None:
        self._heard = heard
        self._parser: Any = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._url = b""
        self._headers: Headers = []
        self._head_bytes = 0
        self._unheard = 0  # bytes since httptools last reported anything: it may be buffering them
        self._in_head = False
        self._continues = False

    def feed(self, data: bytes | memoryview) -> StatusError | None:
        """Parses more input. Returns the error in it, if there is one."""
        self._unheard += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return None  # a request for another protocol (``kubectl exec``) gets an answer in this one
        except httptools.HttpParserError:  # bad syntax, or an error that we raised
            if self._head_bytes <= limits.MAX_HEADERS:
                return BadRequest("this is not an HTTP request that the server can read")
        if self._head_bytes > limits.MAX_HEADERS or self._unheard > limits.MAX_HEADERS:
            return HeadTooLarge(f"the request's headers are too large: limit is {limits.MAX_HEADERS}")
        return None

    def close(self) -> None:
        """Drops partial input. Nothing may be fed afterwards."""
        self._parser = None

    # --- what httptools reports ---

    def on_message_begin(self) -> None:
        self._url, self._headers = b"", []
        self._head_bytes = self._unheard = 0
        self._in_head = True
        self._continues = False
        self._heard.request_begins()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self._headers
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > limits.MAX_HEADERS or len(headers) >= limits.MAX_HEADER_COUNT:
            self._count(limits.MAX_HEADERS)
        if not self._in_head:
            return  # trailers may contain anything, and we ignore them
        name = name.lower()
        if name in _TELLING:
            self._look_at(name, value.lower())
        headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        parser, headers = self._parser, self._headers
        version, upgrade = parser.get_http_version(), parser.should_upgrade()
        if version not in _VERSIONS:
            raise ValueError("another version of HTTP")
        if upgrade and any(
            name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
            for name, value in headers
        ):
            raise ValueError("a body that httptools would take for the other protocol")
        modern = version == "1.1"
        keep_alive = modern and not upgrade and parser.should_keep_alive()
        method = parser.get_method().decode("ascii")
        self._heard.head_arrived(Head(method, self._url, headers, modern, keep_alive, self._continues))

    def on_body(self, body: bytes) -> None:
        self._unheard = 0
        self._heard.body_arrived(body)

    def on_message_complete(self) -> None:
        self._unheard = 0
        self._heard.request_ends()

    def _look_at(self, name: bytes, value: bytes) -> None:
        if name == b"expect":
            self._continues = self._continues or value == b"100-continue"
        elif value.strip() != b"chunked":
            raise ValueError("only chunks are read")  # httptools would treat compressed data as plain text

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > limits.MAX_HEADERS:
            raise ValueError("the headers are too large")  # ends httptools
