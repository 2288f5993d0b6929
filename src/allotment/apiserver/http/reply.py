"""Replies: a body at once, or a stream of lines."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
import yaml

from allotment.api.status import StatusError
from allotment.apiserver.registry.forms import Buffer
from allotment.apiserver.store.record import Obj

Headers = list[tuple[bytes, bytes]]

encode = msgspec.json.Encoder().encode
_JSON = b"application/json"
BYTES_AHEAD = 64 * 1024
"""The most bytes of a reply that are made before any of it is sent."""
PIECES = 3
"""The same limit in pieces, as even a short piece may be much work: the start and the end of a list, and one between."""


@dataclass(slots=True)
class Response:
    """A complete answer. For a long one, ``body`` is only the beginning; ``rest`` makes the other pieces on demand."""

    status: int
    body: bytes
    content_type: bytes = _JSON
    headers: Headers = field(default_factory=list)
    rest: Iterator[Buffer] | None = None

    @staticmethod
    def made(pieces: Iterator[Buffer], content_type: bytes = _JSON) -> Response:
        """A response from pieces: complete if they are few bytes, else with the first ones as its beginning."""
        begun: list[Buffer] = []
        size = 0
        for piece in pieces:
            begun.append(piece)
            size += len(piece)
            if size > BYTES_AHEAD or len(begun) > PIECES:
                return Response(200, b"".join(begun), content_type, rest=pieces)
        return Response(200, b"".join(begun), content_type)

    @staticmethod
    def of(obj: object, status: int = 200) -> Response:
        return Response(status, encode(obj))

    @staticmethod
    def text(text: str, status: int = 200) -> Response:
        return Response(status, text.encode(), b"text/plain; charset=utf-8")

    @staticmethod
    def error(error: StatusError) -> Response:
        reply = Response.of(error.to_status(), error.code)
        if error.retry_after is not None:
            reply.headers.append((b"retry-after", str(error.retry_after).encode()))
        return reply


@dataclass(slots=True, eq=False)
class StreamResponse:
    """A streamed answer: batches of lines as they come. ``end`` ends it even while it waits for a line."""

    lines: AsyncGenerator[bytes, None]
    end: Callable[[], None]
    headers: Headers = field(default_factory=list)
    status: int = 200
    content_type: bytes = _JSON


async def whole(pieces: Iterable[Buffer], pause: Callable[[], Awaitable[None]]) -> bytes:
    """All pieces joined; other requests get their turn in between."""
    made: list[Buffer] = []
    for piece in pieces:
        made.append(piece)
        await pause()
    return b"".join(made)


def as_yaml(body: bytes) -> bytes:
    """A JSON body as YAML."""
    dumped = yaml.dump(msgspec.json.decode(body), Dumper=yaml.CSafeDumper, sort_keys=True)
    return dumped.encode() if isinstance(dumped, str) else bytes(dumped)


def pretty(body: bytes) -> bytes:
    """A JSON body with indentation, for people."""
    return msgspec.json.format(body, indent=2) + b"\n"


def warning_headers(warnings: list[str]) -> Headers:
    """Warnings as HTTP headers; those that a header cannot hold are left out."""
    return [(b"warning", f'299 - "{_quoted(text)}"'.encode("latin-1", "replace")) for text in warnings]


def _quoted(text: str) -> str:
    printable = "".join(char if char.isprintable() else " " for char in text[:1000])
    return printable.replace("\\", "\\\\").replace('"', '\\"')


def status_of(obj: Obj) -> int:
    """The HTTP status of a reply that is an object, perhaps a Status with a code."""
    code = obj.get("code")
    return code if obj.get("kind") == "Status" and isinstance(code, int) else 200
