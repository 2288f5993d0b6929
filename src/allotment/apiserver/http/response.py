"""The head of a reply, as bytes."""

from __future__ import annotations

from http import HTTPStatus

from allotment.apiserver.http.reply import Reply, Stream

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_PHRASES = {each.value: each.phrase for each in HTTPStatus}
_STATUS_LINES = [f"HTTP/1.1 {code} {_PHRASES.get(code, '')}\r\n".encode() for code in range(600)]


def head_of(answer: Reply | Stream, length: bytes, date: bytes, keep_alive: bool) -> bytes:
    """``length`` and ``date`` are whole headers."""
    end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
    head = b"%b%bcontent-type: %b\r\n%b" % (_STATUS_LINES[answer.status], date, answer.content_type, length)
    if answer.headers:
        head += b"".join([b"%b: %b\r\n" % header for header in answer.headers])
    return head + end


def length_of(body: bytes) -> bytes:
    return b"content-length: %d\r\n" % len(body)
