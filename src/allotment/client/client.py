"""The verbs of a Kubernetes API on one kind of object.

``Client(transport).of(ResourceClaim)`` gives typed objects; ``client.plain("v1", "configmaps")`` gives JSON values. Failures are
the exceptions of ``api.status``: ``NotFound``, ``Conflict``, ``Gone``, ``TooManyRequests``…, and ``Disconnected`` when no answer came.

A server that is too busy says when to come back. It has not carried out such a request, so the client sends it again a
few times. It repeats nothing else: after ``Disconnected`` only the caller can know whether repeating is safe.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

import msgspec

from allotment.api.codec import ApiError
from allotment.api.meta import ApiStruct
from allotment.api.patch_type import PatchType as PatchType  # who calls the client finds it here
from allotment.api.status import Conflict, Invalid, StatusError, TooManyRequests, Unavailable, from_status
from allotment.client.form import Form, Obj, ObjectIdentity, Plain, ResourcePath, Typed, resource_of
from allotment.client.transport import Call, Disconnected, Reply, Transport

__all__ = ["Client", "Collection", "Happening", "Listing", "PatchType", "WatchEvent"]

log = logging.getLogger(__name__)

T = TypeVar("T")
S = TypeVar("S", bound=ApiStruct)

OBJECTS_PER_PAGE = 500
_ATTEMPTS = 5
_LONGEST_WAIT = 30
_WATCH_GRACE_SECONDS = 30
"""Seconds by which a watch may exceed the requested time."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """All objects of a collection at one revision."""

    items: list[T]
    version: str


class Happening(Enum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"  # nothing happened up to this version


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One change. A bookmark has no object; ``initial_end`` marks the bookmark after the initial events.

    The event of an object that is left out because it cannot be read has ``unread`` instead, which identifies the object.
    """

    type: Happening
    object: T | None
    version: str
    initial_end: bool = False
    unread: ObjectIdentity | None = None


_CHANGES = {
    happening.value: happening for happening in (Happening.ADDED, Happening.MODIFIED, Happening.DELETED)
}


class _List(msgspec.Struct):
    metadata: dict[str, Any]
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


class _HeadMeta(msgspec.Struct, rename="camel"):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _ObjectHead(msgspec.Struct):
    metadata: _HeadMeta


_LISTS = msgspec.json.Decoder(_List)
_HEADS = msgspec.json.Decoder(_ObjectHead)
_EVENTS = msgspec.json.Decoder(_Event)
_BOOKMARKS = msgspec.json.Decoder(_Bookmark)


class Client:
    """A server, reached through a transport. Changes are recorded in managedFields under the name ``manager``."""

    def __init__(self, transport: Transport, *, manager: str = "allot") -> None:
        self.transport = transport
        self.manager = manager
        self._writing = {"fieldManager": manager}

    def writing(self, dry_run: bool) -> Mapping[str, str]:
        """The query parameters of a write."""
        return {**self._writing, "dryRun": "All"} if dry_run else self._writing

    def of(self, type_: type[S]) -> Collection[S]:
        """The typed objects of a kind that ``api/`` knows."""
        return Collection(self, resource_of(type_), Typed(type_))

    def plain(self, api_version: str, plural: str, *, namespaced: bool = True) -> Collection[Obj]:
        """The objects of any kind, as JSON values."""
        return Collection(self, ResourcePath(api_version, plural, namespaced), Plain())

    async def send(self, call: Call) -> Reply:
        """The reply to a successful request; raises StatusError if the request failed."""
        for attempt in range(1, _ATTEMPTS + 1):
            reply = await self.transport.call(call)
            if reply.status < 400:
                return reply
            error = failure(reply)
            wait = error.retry_after or _seconds(reply.headers.get("retry-after"))
            if attempt == _ATTEMPTS or wait is None or not isinstance(error, (TooManyRequests, Unavailable)):
                raise error
            await asyncio.sleep(min(wait, _LONGEST_WAIT))
        raise AssertionError("unreachable")

    async def read(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """The JSON at any path of the server, such as discovery or /version."""
        reply = await self.send(Call("GET", path, query or {}, {"Accept": "application/json"}))
        return msgspec.json.decode(reply.body)

    async def close(self) -> None:
        await self.transport.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Collection(Generic[T]):
    """The objects of one kind. An empty namespace means the whole cluster where that makes sense."""

    def __init__(self, client: Client, resource: ResourcePath, form: Form[T]) -> None:
        self.client = client
        self.resource = resource
        self.form = form

    async def get(self, name: str, namespace: str = "", *, subresource: str = "") -> T:
        return await self._one("GET", self.resource.path(namespace, name, subresource), {})

    async def list(
        self, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = OBJECTS_PER_PAGE
    ) -> Listing[T]:
        """All objects, fetched page by page from one snapshot.

        Raises ``Expired`` if that snapshot was compacted meanwhile; ``limit=0`` fetches everything at once.
        """
        items: list[T] = []
        query = _query(labelSelector=labels, fieldSelector=fields, limit=str(limit) if limit else "")
        while True:
            reply = await self.client.send(Call("GET", self.resource.path(namespace), query, _ACCEPT))
            page = _decoded(_LISTS, reply.body, "list")
            read = [self._read(bytes(item)) for item in page.items or ()]
            items += [item for item in read if item is not None]
            if not (token := page.metadata.get("continue")):
                return Listing(items, page.metadata.get("resourceVersion", ""))
            query = {**query, "continue": token}

    @asynccontextmanager
    async def watch(
        self,
        namespace: str = "",
        *,
        since: str = "",
        labels: str = "",
        fields: str = "",
        initial_events: bool = False,
        timeout_seconds: int | None = None,
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        """Changes as they arrive, from a version on, including bookmarks.

        The iterator ends when the server ends the watch, raises ``Expired`` when the version is too old to resume from, and
        ``Disconnected`` when the connection breaks.
        """
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=since,
            labelSelector=labels,
            fieldSelector=fields,
            timeoutSeconds=str(timeout_seconds) if timeout_seconds else "",
        )
        if initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        # a peer may disappear without closing the connection
        patience = timeout_seconds + _WATCH_GRACE_SECONDS if timeout_seconds else None
        call = Call("GET", self.resource.path(namespace), query, _ACCEPT, timeout=patience)
        async with self.client.transport.stream(call) as stream:
            if stream.status >= 400:
                raise failure(await stream.whole())
            yield self._events(stream.batches)

    async def create(self, obj: T, namespace: str = "", *, dry_run: bool = False) -> T:
        """Creates an object and returns it as the server stored it. The namespace is the object's own unless given."""
        path = self.resource.path(namespace or self.form.identity(obj).namespace)
        return await self._one("POST", path, self.client.writing(dry_run), self.form.write(obj))

    async def update(self, obj: T, *, subresource: str = "", dry_run: bool = False) -> T:
        """Replaces the whole object. Use it only if the caller has every field of the object, as plain objects do."""
        identity = self.form.identity(obj)
        path = self.resource.path(identity.namespace, identity.name, subresource)
        return await self._one("PUT", path, self.client.writing(dry_run), self.form.write(obj))

    async def patch(
        self,
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        type_: PatchType = PatchType.MERGE,
        subresource: str = "",
        uid: str = "",
        version: str | int = "",
        dry_run: bool = False,
    ) -> T:
        """Changes a part of an object.

        With ``uid`` or ``version``, a merge patch applies only to that very object or to that state of it; otherwise the
        server refuses it with ``Conflict``. (Servers call a different uid ``Invalid``.)
        """
        path, query = self.resource.path(namespace, name, subresource), self.client.writing(dry_run)
        return self.form.read((await self._patched(path, query, patch, type_, uid, version)).body)

    async def change(
        self, seen: T, patch: Any, *, type_: PatchType = PatchType.MERGE, subresource: str = ""
    ) -> T:
        """A :meth:`patch` of an object that applies only to the state in which the caller saw it."""
        at = self.form.identity(seen)
        return await self.patch(
            at.name,
            patch,
            at.namespace,
            type_=type_,
            subresource=subresource,
            uid=at.uid,
            version=at.version,
        )

    async def amend(
        self,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        type_: PatchType = PatchType.MERGE,
        subresource: str = "",
        uid: str = "",
        version: str | int = "",
    ) -> ObjectIdentity:
        """A :meth:`patch` for callers that need only the version of the result.

        The result is not decoded, which for a large object takes longer than the rest of the call.
        """
        path, query = self.resource.path(namespace, name, subresource), self.client.writing(False)
        reply = await self._patched(path, query, patch, type_, uid, version)
        meta = _decoded(_HEADS, reply.body, "object").metadata
        return ObjectIdentity(meta.namespace, meta.name, meta.uid, int(meta.resource_version or 0))

    async def apply(
        self,
        obj: Mapping[str, Any],
        *,
        manager: str = "",
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        """Server-side apply: sets these fields of the object and owns them. ``Conflict`` names other owners."""
        meta = obj["metadata"]
        path = self.resource.path(meta.get("namespace", ""), meta["name"], subresource)
        query = _query(
            fieldManager=manager or self.client.manager,
            force="true" if force else "",
            dryRun="All" if dry_run else "",
        )
        return await self._one("PATCH", path, query, json.dumps(obj).encode(), _PATCHES[PatchType.APPLY])

    async def delete(
        self,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        version: str | int = "",
        grace_seconds: int | None = None,
        propagation: str = "Background",
        dry_run: bool = False,
    ) -> None:
        """Requests the deletion of an object; finalizers may keep it for a while. Raises ``NotFound`` if it is gone already."""
        options: dict[str, Any] = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": propagation,
        }
        if uid or version:
            options["preconditions"] = _precondition(uid, version)
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if dry_run:
            options["dryRun"] = ["All"]
        path = self.resource.path(namespace, name)
        await self.client.send(Call("DELETE", path, {}, _JSON, msgspec.json.encode(options)))

    async def remove(self, seen: T) -> None:
        """A :meth:`delete` of an object that applies only to the state in which the caller saw it."""
        at = self.form.identity(seen)
        await self.delete(at.name, at.namespace, uid=at.uid, version=at.version)

    async def act(self, name: str, action: str, body: Obj, namespace: str = "") -> Obj:
        """Posts to a subresource that performs an action: ``binding``, ``eviction``, ``token``."""
        path = self.resource.path(namespace, name, action)
        query = self.client.writing(False)
        reply = await self.client.send(Call("POST", path, query, _JSON, msgspec.json.encode(body)))
        answer: Obj = msgspec.json.decode(reply.body)
        return answer

    async def _one(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        if headers is None:
            headers = _ACCEPT if body is None else _JSON
        reply = await self.client.send(Call(method, path, query, headers, body))
        return self.form.read(reply.body)

    async def _patched(
        self, path: str, query: Mapping[str, str], patch: Any, type_: PatchType, uid: str, version: str | int
    ) -> Reply:
        if uid or version:
            patch = {**patch, "metadata": {**patch.get("metadata", {}), **_precondition(uid, version)}}
        call = Call("PATCH", path, query, _PATCHES[type_], msgspec.json.encode(patch))
        try:
            return await self.client.send(call)
        except Invalid as exc:
            if uid and any(cause.get("field") == "metadata.uid" for cause in exc.details.get("causes") or ()):
                raise Conflict(exc.message, exc.details) from exc
            raise

    async def _events(self, batches: AsyncIterator[Sequence[bytes]]) -> AsyncIterator[WatchEvent[T]]:
        async for lines in batches:
            for line in lines:
                if (event := self.form.read_event(line)) is not None:
                    yield self._changed(*event)
                elif (other := self._event(line)) is not None:
                    yield other

    def _event(self, line: bytes) -> WatchEvent[T] | None:
        """An event of any type; None if its type is unknown. Raises the failure in an ERROR event."""
        event = _decoded(_EVENTS, line, "event")
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object)
            raise from_status(status.get("code", 500) if isinstance(status, dict) else 500, status)
        if event.type == "BOOKMARK":
            meta = _decoded(_BOOKMARKS, event.object, "bookmark").metadata
            ended = meta.annotations.get("k8s.io/initial-events-end") == "true"
            return WatchEvent(Happening.BOOKMARK, None, meta.resource_version, ended)
        if event.type not in _CHANGES:
            return None
        obj = self._read(bytes(event.object))
        if obj is not None:
            return self._changed(event.type, obj)
        at = _identity(bytes(event.object))
        return WatchEvent(_CHANGES[event.type], None, str(at.version), unread=at)

    def _read(self, data: bytes) -> T | None:
        """An object of a list or watch; None if it is left out."""
        try:
            return self.form.read(data)
        except ApiError as exc:
            if not self.form.loose:
                raise
            at = _identity(data)
            name = f"{at.namespace}/{at.name}" if at.namespace else at.name
            log.warning("%s %s cannot be read and is left out: %s", self.resource.plural, name, exc)
            return None

    def _changed(self, type_: str, obj: T) -> WatchEvent[T]:
        return WatchEvent(_CHANGES[type_], obj, str(self.form.identity(obj).version))


_ACCEPT = {"Accept": "application/json"}
_JSON = {"Accept": "application/json", "Content-Type": "application/json"}
_PATCHES = {type_: {"Accept": "application/json", "Content-Type": type_.value} for type_ in PatchType}


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw, what: str) -> T:
    """Decodes what a server sent. A stream that broke in the middle of a line counts as disconnected."""
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as exc:
        raise Disconnected(f"the server sent no {what} but {bytes(data)[:100]!r}") from exc


def _identity(data: bytes) -> ObjectIdentity:
    """The identity of an object of which nothing else can be read."""
    meta = _decoded(_HEADS, data, "object").metadata
    return ObjectIdentity(meta.namespace, meta.name, meta.uid, int(meta.resource_version or 0))


def failure(reply: Reply) -> StatusError:
    """The exception for a reply that is an error."""
    try:
        status = msgspec.json.decode(reply.body)
    except msgspec.DecodeError:
        status = {"message": reply.body[:500].decode(errors="replace").strip()}
    return from_status(reply.status, status)


def _precondition(uid: str, version: str | int) -> dict[str, str]:
    return _query(uid=uid, resourceVersion=str(version))


def _query(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def _seconds(header: str | None) -> int | None:
    return int(header) if header and header.isdigit() else None
