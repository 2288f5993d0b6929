"""An incoming request: its query, its headers, and its body within bounds."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import parse_qsl

import msgspec

from allotment.api.manifests.document import read_documents
from allotment.api.manifests.yaml_values import TextError
from allotment.api.nesting import MAX_DEPTH, too_deep
from allotment.api.schema.conform import duplicate_fields
from allotment.api.status import BadRequest, TooLarge, UnsupportedMediaType
from allotment.apiserver.allowance import ALLOWED_MICROSECONDS, spend
from allotment.apiserver.auth.authentication import Headers
from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.http import protobuf
from allotment.apiserver.http.browser import caused_by_page
from allotment.cel.times import SECOND, parse_duration

MAX_BODY = 3 * 1024 * 1024
MAX_VALUES = 100_000
"""The most values in one body, at all levels: several times those of the largest CustomResourceDefinitions."""
MAX_PARAMETERS = 200
_NUMBER = re.compile(r"[+-]?[0-9]+")
_LONGEST_NUMBER = 40
_SHORT_QUERY = 200  # bytes; most values are the same few, which are parsed once

JSON, YAML = "application/json", "application/yaml"
_KNOWN = f"{JSON}, {YAML}, {protobuf.CONTENT_TYPE}"


class ClientGone(Exception):
    """The client disconnected before its request was complete, so there is nobody to answer."""


class Peer(Protocol):
    """The sender of a request, from whom the rest of the body comes."""

    async def piece(self) -> tuple[bytes, bool]:
        """Some of the body, and whether there is more. Raises ClientGone."""
        ...

    async def gone(self) -> None:
        """Returns when the client has disconnected."""
        ...


class Request:
    """One request, from a peer on the network or from this process.

    ``query`` and ``body`` arrive either as raw bytes, which are parsed on demand, or already parsed. Only requests from this
    process have an ``identity``; ``certificate`` (DER) was verified by TLS.
    """

    __slots__ = (
        "_body",
        "_query",
        "address",
        "certificate",
        "flow",
        "headers",
        "identity",
        "judged",
        "method",
        "path",
        "pause",
        "peer",
    )

    def __init__(
        self,
        method: str,
        path: str,
        query: bytes | Mapping[str, str],
        headers: Headers,
        body: bytes | None = None,
        *,
        peer: Peer | None = None,
        identity: Identity | None = None,
        certificate: bytes | None = None,
        address: str = "",
    ) -> None:
        """The body comes from ``peer`` unless it is given here; ``address`` is the peer's address."""
        self.method = method
        self.path = path
        self.headers = headers  # names in lower case
        self.peer = peer
        self.identity = identity
        self.certificate = certificate
        self.address = address
        self.flow = ""  # the user whose turn the request takes
        self.judged: Callable[[str], None] = _nobody_asks  # called with the user once it is known
        self.pause: Callable[[], Awaitable[None]] = _let_others  # awaited between two parts of a long reply
        self._query = query
        self._body = body

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters; of a repeated one, the first. Raises BadRequest."""
        query = self._query
        if isinstance(query, bytes):
            query = self._query = (_parsed if len(query) <= _SHORT_QUERY else _parsed.__wrapped__)(query)
        return query

    def flag(self, name: str) -> bool | None:
        """A parameter that is true or false; None if it is absent."""
        value = self.query.get(name)
        if value is None:
            return None
        return value.lower() not in ("false", "0")

    def number(self, name: str) -> int | None:
        """A parameter that is a 64-bit whole number, read as Go does; None if it is absent. Raises BadRequest."""
        value = self.query.get(name)
        if value is None:
            return None
        if not _NUMBER.fullmatch(value):
            raise BadRequest(f'strconv.ParseInt: parsing "{value[:40]}": invalid syntax')
        if len(value) > _LONGEST_NUMBER or not -(2**63) <= int(value) < 2**63:
            raise BadRequest(f'strconv.ParseInt: parsing "{value[:40]}": value out of range')
        return int(value)

    def seconds(self, name: str) -> float | None:
        """A parameter that is a duration (``30s``, ``1m30s``), in seconds; None if it is absent. Raises BadRequest."""
        value = self.query.get(name)
        if not value:
            return None
        duration = parse_duration(value)
        if duration is None:
            why = "missing unit in" if value.isdecimal() else "invalid"
            raise BadRequest(
                f'invalid {name} specified in the request URL - time: {why} duration "{value[:40]}"'
            )
        return duration.ns / SECOND

    def header(self, name: bytes) -> str:
        """The first header of this name (in lower case), or empty."""
        for known, value in self.headers:
            if known == name:
                return value.decode("latin-1")
        return ""

    @property
    def content_type(self) -> str:
        """The declared type of the body.

        Without a declaration, a program's body counts as JSON, as the Python client of Kubernetes expects. For a browser we
        guess nothing, as any page can make it send a body without a type.
        """
        said = self.header(b"content-type").partition(";")[0].strip().lower()
        return said or ("" if caused_by_page(self.headers) else JSON)

    async def body(self, limit: int = MAX_BODY, counted: Callable[[int], None] | None = None) -> bytes:
        """The whole body, which is kept. Never holds more than ``limit`` and a piece. Raises TooLarge and ClientGone.

        ``counted`` is called with the size received so far, and may raise. If a body arrives too slowly, ``connection.py``
        closes the connection, which ends this call.
        """
        if self._body is not None or self.peer is None:
            body = self._body or b""
            if len(body) > limit:
                raise _too_large(limit)
            return body
        length = self.header(b"content-length")
        if length.isdecimal() and int(length[:19]) > limit:
            raise _too_large(limit)
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            part, more = await self.peer.piece()
            size += len(part)
            if size > limit:
                raise _too_large(limit)
            if counted is not None:
                counted(size)
            parts.append(part)
        self._body = parts[0] if len(parts) == 1 else b"".join(parts)
        return self._body


def _nobody_asks(user: str) -> None:
    """The pause of a request that came over no connection: none."""


async def _let_others() -> None:
    await asyncio.sleep(0)


@lru_cache(500)
def _parsed(raw: bytes) -> Mapping[str, str]:
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_PARAMETERS, errors="strict"
        )
    except ValueError as exc:
        raise BadRequest(f"the query cannot be read: {exc}") from exc
    return dict(reversed(pairs))


class Body:
    """A decoded body, with the raw text in which to find duplicate keys."""

    def __init__(self, raw: bytes, content_type: str, kind: str) -> None:
        """``kind`` is the expected kind, for messages. Raises BadRequest and UnsupportedMediaType."""
        self._raw = raw if content_type == JSON or not raw else b""
        self.value = decode(raw, content_type, kind)

    def duplicates(self, schema: Any = None) -> list[str]:
        return duplicate_fields(self._raw, self.value, schema) if self._raw else []


def decode(raw: bytes, content_type: str, kind: str) -> Any:
    """The plain value of a body. Raises BadRequest and UnsupportedMediaType."""
    if content_type == JSON or not raw:
        try:
            return decode_json(raw)
        except NotJson as exc:
            start = raw[:30].decode("utf-8", "replace") + (" ..." if len(raw) > 30 else "")
            raise BadRequest(
                f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
                f"json parse error: {exc} ({start})"
            ) from exc
    if content_type in (YAML, "text/yaml", "application/x-yaml"):
        return decode_yaml(raw)
    if content_type == protobuf.CONTENT_TYPE:
        return protobuf.decode_protobuf(raw)
    raise UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {_KNOWN}"
    )


def check_values(value: Any, raw: bytes) -> None:
    """Raises TooLarge for a body with more values than any real object: each costs some microseconds.

    A body has no more values than bytes, so most need not be walked over.
    """
    if len(raw) < MAX_VALUES or not isinstance(value, dict | list):
        return
    count, open_ = 1, [value]
    while open_:
        inner = open_.pop()
        count += len(inner)
        if count > MAX_VALUES:
            raise TooLarge(f"Request entity too large: the body has more than {MAX_VALUES} values")
        open_ += [
            each
            for each in (inner.values() if inner.__class__ is dict else inner)
            if each.__class__ is dict or each.__class__ is list
        ]


class NotJson(ValueError):
    """The text is not JSON. The message says why, in Go's words where we know them."""


def decode_json(raw: bytes) -> Any:
    """Parses JSON. Raises NotJson, and BadRequest for text that nests too deeply."""
    if too_deep(raw):
        raise BadRequest(f"the object is nested too deeply; at most {MAX_DEPTH} levels are read")
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        truncated = "unexpected end of JSON input"
        raise NotJson(truncated if "truncated" in str(exc) else str(exc)) from exc


def decode_yaml(raw: bytes) -> Any:
    """Parses YAML. Raises BadRequest. Aliases can expand to far more than the text, so one counts as maximal work."""
    if b"*" in raw:
        spend(ALLOWED_MICROSECONDS + 1)
    try:
        documents = read_documents(raw.decode("utf-8"))
    except (TextError, UnicodeError) as exc:
        raise BadRequest(f"error converting YAML to JSON: yaml: {exc}") from exc
    if len(documents) > 1:
        raise BadRequest("the body must be one YAML document")
    return documents[0].value if documents else None


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {limit}")
