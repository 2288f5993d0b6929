"""The surface that the contract is written on: requests, replies and watches, the same for every server.

An ``Api`` speaks as the administrator unless told otherwise: a ``User`` is impersonated, ``ANONYMOUS`` shows no
credentials, a ``Token`` is a bearer token. Below it a ``Transport`` carries bytes: ``Https`` to a server behind TLS, and
``embedded.InProcess`` straight into ours. Every wait has a deadline, and none is a sleep.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
PATIENCE = 60.0  # seconds until a reply or an event that must come counts as lost

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class User:
    """Someone to act as, by impersonation."""

    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Token:
    """A bearer token in place of the administrator's certificate."""

    text: str


@dataclass(frozen=True)
class Anonymous:
    """No credentials at all."""


ANONYMOUS = Anonymous()
Who = User | Token | Anonymous | None


@dataclass(frozen=True)
class Reply:
    """What came back. ``headers`` keeps repeated ones; names are in lower case."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name.lower()), "")

    @property
    def warnings(self) -> list[str]:
        """The texts of the Warning headers."""
        return [
            re.sub(r'^299 - "(.*)"$', r"\1", value).replace('\\"', '"')
            for key, value in self.headers
            if key == "warning"
        ]

    @property
    def message(self) -> str:
        """A Status object's message."""
        return str(self.json.get("message", ""))

    @property
    def reason(self) -> str:
        return str(self.json.get("reason", ""))

    @property
    def causes(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.json.get("details", {}).get("causes", [])
        return found

    def must(self, status: int = 0) -> Any:
        """The body of a reply that has to be a success, or this very status."""
        fine = self.status == status if status else self.status < 300
        assert fine, f"HTTP {self.status}: {self.body[:2000]!r}"
        return self.json


@dataclass(frozen=True)
class Call:
    """One request, ready to be sent."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    credentials: bool = True  # whether the administrator's certificate is shown


class Transport(Protocol):
    def send(self, call: Call) -> Reply: ...

    def stream(self, call: Call) -> contextlib.AbstractContextManager[Stream]: ...


@dataclass(frozen=True)
class Stream:
    """A reply that goes on. ``line`` is the next line, empty at the end; TimeoutError after that many seconds."""

    status: int
    headers: tuple[tuple[str, str], ...]
    line: Callable[[float], bytes]


class Watch:
    """Events as they come. Iteration ends when the server ends the stream, and fails when an event is overdue."""

    def __init__(self, stream: Stream, patience: float) -> None:
        self.status, self._stream, self._patience = stream.status, stream, patience

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        line = self._stream.line(self._patience)
        if not line:
            raise StopIteration
        event: dict[str, Any] = json.loads(line)
        return event

    def take(self, count: int) -> list[dict[str, Any]]:
        return [next(self) for _ in range(count)]

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first event that is wanted; those before it are dropped."""
        deadline = time.monotonic() + self._patience
        for event in self:
            if wanted(event):
                return event
            assert time.monotonic() < deadline, "the event that was waited for did not come"
        raise AssertionError("the watch ended before the event that was waited for")


class Api:
    """One server under test. ``real`` tells Kubernetes' own from ours, for the few places in docs/compatibility.md.

    ``forget`` makes the server drop its history up to a revision, as it does by itself in time.
    """

    def __init__(self, name: str, transport: Transport, forget: Callable[[int], None]) -> None:
        self.name, self.real, self._transport = name, name == "kubernetes", transport
        self.forget = forget
        self._fleet: list[str] = []  # the nodes and slices made so far

    def remove_fleet(self) -> None:
        """Deletes the nodes and the ResourceSlices made since the last call, which other tests would allocate from."""
        while self._fleet:
            self.delete(self._fleet.pop())

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        who: Who = None,
    ) -> Reply:
        """``body``: bytes go as they are, anything else as JSON."""
        reply = self._transport.send(_call(method, path, body, headers or {}, who))
        folder = path.partition("?")[0]
        if reply.status == 201 and folder.endswith(("/nodes", "/resourceslices")):
            self._fleet.append(f"{folder}/{reply.json['metadata']['name']}")
        return reply

    def get(self, path: str, *, headers: Mapping[str, str] | None = None, who: Who = None) -> Reply:
        return self.request("GET", path, headers=headers, who=who)

    def post(self, path: str, body: Any, *, who: Who = None) -> Reply:
        return self.request("POST", path, body, who=who)

    def put(self, path: str, body: Any, *, who: Who = None) -> Reply:
        return self.request("PUT", path, body, who=who)

    def delete(self, path: str, options: Any = None, *, who: Who = None) -> Reply:
        return self.request("DELETE", path, options, who=who)

    def patch(self, path: str, body: Any, kind: str = MERGE, *, who: Who = None) -> Reply:
        return self.request("PATCH", path, body, headers={"Content-Type": kind}, who=who)

    def apply(self, path: str, body: Any, manager: str, *, force: bool = False, more: str = "") -> Reply:
        query = f"?fieldManager={manager}" + ("&force=true" if force else "") + more
        return self.patch(path + query, body, APPLY)

    @contextlib.contextmanager
    def watch(
        self,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        who: Who = None,
        patience: float = PATIENCE,
    ) -> Iterator[Watch]:
        """``path`` without ``watch=true``, which is added."""
        path += ("&" if "?" in path else "?") + "watch=true"
        with self._transport.stream(_call("GET", path, None, headers or {}, who)) as stream:
            yield Watch(stream, patience)

    def eventually(self, attempt: Callable[[], T | None], what: str) -> T:
        """Polls what a controller brings about, until the attempt gives something; bounded."""
        deadline = time.monotonic() + PATIENCE
        while True:
            if (found := attempt()) is not None:
                return found
            assert time.monotonic() < deadline, f"{what}: not within {PATIENCE:.0f} s"

    def gone(self, path: str) -> None:
        """Waits until a path answers 404."""
        self.eventually(lambda: True if self.get(path).status == 404 else None, f"{path} is gone")

    def unlike(self, kubernetes: T, ours: T) -> T:
        """What to expect where ours stays different on purpose: each use has its line in docs/compatibility.md."""
        return kubernetes if self.real else ours


def _call(method: str, path: str, body: Any, headers: Mapping[str, str], who: Who) -> Call:
    all_headers = {"Accept": "application/json", **headers}
    if isinstance(who, User):
        all_headers["Impersonate-User"] = who.name
        if who.groups:
            all_headers["Impersonate-Group"] = ",".join(who.groups)
    if isinstance(who, Token):
        all_headers["Authorization"] = f"Bearer {who.text}"
    if body is not None:
        all_headers.setdefault("Content-Type", "application/json")
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Call(method, path, all_headers, body, credentials=not isinstance(who, Token | Anonymous))


class Https:
    """Over TLS: one connection kept alive for requests, one of its own for each watch."""

    def __init__(self, url: str, admin: ssl.SSLContext, nobody: ssl.SSLContext) -> None:
        parsed = urllib.parse.urlsplit(url)
        self._address = (parsed.hostname or "", parsed.port or 443)
        self._contexts = {True: admin, False: nobody}
        self._open: dict[bool, http.client.HTTPSConnection] = {}

    def send(self, call: Call) -> Reply:
        connection = self._open.get(call.credentials)
        if connection is not None:
            try:
                return _exchange(connection, call)
            except (ConnectionError, http.client.HTTPException):
                connection.close()  # an idle connection that the server ended: once more, on a new one
        self._open[call.credentials] = connection = self._connect(call)
        return _exchange(connection, call)

    @contextlib.contextmanager
    def stream(self, call: Call) -> Iterator[Stream]:
        connection = self._connect(call)
        try:
            _put(connection, call)
            reply = connection.getresponse()

            def line(timeout: float) -> bytes:
                if connection.sock is not None:
                    connection.sock.settimeout(timeout)
                return reply.readline()

            yield Stream(reply.status, _headers(reply), line)
        finally:
            connection.close()

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def _connect(self, call: Call) -> http.client.HTTPSConnection:
        host, port = self._address
        return http.client.HTTPSConnection(
            host, port, context=self._contexts[call.credentials], timeout=PATIENCE
        )


def _put(connection: http.client.HTTPSConnection, call: Call) -> None:
    connection.putrequest(call.method, call.path, skip_accept_encoding=True)
    for name, value in call.headers.items():
        for each in value.split(",") if name == "Impersonate-Group" else [value]:
            connection.putheader(name, each)
    connection.putheader("Content-Length", str(len(call.body or b"")))
    connection.endheaders(call.body)


def _exchange(connection: http.client.HTTPSConnection, call: Call) -> Reply:
    _put(connection, call)
    reply = connection.getresponse()
    return Reply(reply.status, _headers(reply), reply.read())


def _headers(reply: http.client.HTTPResponse) -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), value) for name, value in reply.getheaders())
