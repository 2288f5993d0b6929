"""A request as it comes in: its query, its headers, and its body within bounds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from allotment.api.conform import duplicate_fields
from allotment.api.document import read_documents
from allotment.api.nesting import MAX_DEPTH, too_deep
from allotment.api.status import BadRequest, TooLarge, UnsupportedMediaType
from allotment.api.yaml_values import TextError
from allotment.apiserver.http import protobuf

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Scope = dict[str, Any]

MAX_BODY = 3 * 1024 * 1024
MAX_PARAMETERS = 200

JSON, YAML = "application/json", "application/yaml"
_KNOWN = f"{JSON}, {YAML}, {protobuf.CONTENT_TYPE}"


class Disconnected(Exception):
    """The client went away before its request was complete. Nobody is there to be answered."""


class Request:
    """One request of an ASGI server."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self._receive = receive

    @cached_property
    def query(self) -> Mapping[str, str]:
        """The parameters; of one that is given more than once, the first. Raises BadRequest."""
        raw = self.scope["query_string"]
        if not raw:
            return {}
        try:
            pairs = parse_qsl(
                raw.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_PARAMETERS, errors="strict"
            )
        except ValueError as exc:
            raise BadRequest(f"the query cannot be read: {exc}") from exc
        return dict(reversed(pairs))

    def flag(self, name: str) -> bool | None:
        """A parameter that is true or false; None if it is not there."""
        value = self.query.get(name)
        if value is None:
            return None
        return value.lower() not in ("false", "0")

    def number(self, name: str) -> int | None:
        value = self.query.get(name)
        if not value:
            return None
        try:
            if len(value) > 19:
                raise ValueError("it is too long")
            return int(value)
        except ValueError as exc:
            raise BadRequest(f'strconv.ParseInt: parsing "{value[:40]}": invalid syntax') from exc

    def header(self, name: bytes) -> str:
        """The first header of this name (in lower case), or empty."""
        for known, value in self.headers:
            if known == name:
                return value.decode("latin-1")
        return ""

    @property
    def content_type(self) -> str:
        return self.header(b"content-type").partition(";")[0].strip().lower()

    async def body(self, limit: int = MAX_BODY) -> bytes:
        """The whole body. Never holds more than ``limit`` and a piece. Raises TooLarge and Disconnected.

        A body that comes too slowly ends the connection (``listener.py``), and so this.
        """
        length = self.header(b"content-length")
        if length.isdecimal() and int(length[:19]) > limit:
            raise _too_large(limit)
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            part = message.get("body", b"")
            size += len(part)
            if size > limit:
                raise _too_large(limit)
            parts.append(part)
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    async def disconnected(self) -> None:
        """Returns when the client is gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Body:
    """A decoded body, with what tells which keys stood twice."""

    def __init__(self, raw: bytes, content_type: str, kind: str) -> None:
        """``kind`` is what it should be, for messages. Raises BadRequest and UnsupportedMediaType."""
        self._raw = raw if content_type in (JSON, "") else b""
        self.value = decode(raw, content_type, kind)

    def duplicates(self, schema: Any = None) -> list[str]:
        return duplicate_fields(self._raw, self.value, schema) if self._raw else []


def decode(raw: bytes, content_type: str, kind: str) -> Any:
    """The plain value of a body. Raises BadRequest and UnsupportedMediaType."""
    if content_type in (JSON, ""):
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


class NotJson(ValueError):
    """Text that is no JSON. The message says why, in Go's words where we have them."""


def decode_json(raw: bytes) -> Any:
    """Raises NotJson, and BadRequest for what is nested too deeply."""
    if too_deep(raw):
        raise BadRequest(f"the object is nested too deeply; at most {MAX_DEPTH} levels are read")
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        truncated = "unexpected end of JSON input"
        raise NotJson(truncated if "truncated" in str(exc) else str(exc)) from exc


def decode_yaml(raw: bytes) -> Any:
    try:
        documents = read_documents(raw.decode("utf-8"))
    except (TextError, UnicodeError) as exc:
        raise BadRequest(f"error converting YAML to JSON: yaml: {exc}") from exc
    if len(documents) > 1:
        raise BadRequest("the body must be one YAML document")
    return documents[0].value if documents else None


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {limit}")
