"""The head of a reply, as bytes."""

from __future__ import annotations

from http import HTTPStatus

from allotment.apiserver.http.reply import Response, StreamResponse

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_NO_GUESSING = b"x-content-type-options: nosniff\r\n"
_NOT_KEPT = b"cache-control: no-store\r\n"
"""Sent unless the answer has its own caching rules. Browsers must neither guess the type of an answer nor cache it."""

_PHRASES = {each.value: each.phrase for each in HTTPStatus}
_STATUS_LINES = [f"HTTP/1.1 {code} {_PHRASES.get(code, '')}\r\n".encode() for code in range(600)]


def head_of(answer: Response | StreamResponse, length: bytes, date: bytes, keep_alive: bool) -> bytes:
    """The head of a reply. ``length`` and ``date`` are complete headers."""
    end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
    told = _NOT_KEPT
    if answer.headers:
        told = b"".join([b"%b: %b\r\n" % header for header in answer.headers])
        if not any(name == b"cache-control" for name, _ in answer.headers):
            told += _NOT_KEPT
    line, type_ = _STATUS_LINES[answer.status], answer.content_type
    return b"%b%bcontent-type: %b\r\n%b%b%b%b" % (line, date, type_, length, _NO_GUESSING, told, end)


def length_of(body: bytes) -> bytes:
    return b"content-length: %d\r\n" % len(body)
