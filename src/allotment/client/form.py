"""The form in which a caller wants objects: as typed views of ``api/``, or as plain JSON values.

A form reads and writes one kind and knows where metadata is, so that everything above works for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

import msgspec

from allotment.api import codec, kinds
from allotment.api.batch import Queue, VolcanoPodGroup
from allotment.api.meta import ApiStruct
from allotment.api.semantic import ResourceClaimParameters

T = TypeVar("T")
S = TypeVar("S", bound=ApiStruct)
Obj = dict[str, Any]


class ObjectIdentity(NamedTuple):
    """Identifies one object, and one state of it. The version is opaque but grows."""

    namespace: str
    name: str
    uid: str
    version: int


LOOSE: frozenset[type[ApiStruct]] = frozenset({VolcanoPodGroup, Queue, ResourceClaimParameters})
"""Kinds whose definition we do not control and whose objects tenants write, so a server may hold invalid objects of them.

Lists and watches leave out objects that cannot be read, as if they did not exist; otherwise one tenant could stop every
follower of the kind. Pods that need such an object wait. For other kinds the server guarantees every object: treating
one as gone could cost a node, or allocate a device twice."""


class Form(Protocol[T]):
    """Reads, writes and identifies objects of one kind."""

    @property
    def loose(self) -> bool:
        """Whether to leave out objects that cannot be read."""
        ...

    def read(self, data: bytes) -> T: ...

    def read_event(self, line: bytes) -> tuple[str, T] | None:
        """The type and the object of a watch event, if the line is a regular event of a readable object; else None."""
        ...

    def write(self, obj: T) -> bytes: ...

    def identity(self, obj: T) -> ObjectIdentity: ...


@dataclass(frozen=True, slots=True)
class Typed(Generic[S]):
    """Objects as frozen structs.

    Reading is fast and drops fields that the struct does not have. So write such objects only to create them, and
    change them by patches.
    """

    type: type[S]

    @property
    def loose(self) -> bool:
        return self.type in LOOSE

    def read(self, data: bytes) -> S:
        return codec.decode(self.type, data)

    def read_event(self, line: bytes) -> tuple[str, S] | None:
        return codec.decode_event(self.type, line)

    def write(self, obj: S) -> bytes:
        return codec.encode(obj)

    def identity(self, obj: S) -> ObjectIdentity:
        meta = cast(Any, obj).metadata
        return ObjectIdentity(meta.namespace, meta.name, meta.uid, int(meta.resource_version or 0))


@dataclass(frozen=True, slots=True)
class Plain:
    """Objects as dicts, complete."""

    loose = False

    def read(self, data: bytes) -> Obj:
        obj: Obj = msgspec.json.decode(data)
        return obj

    def read_event(self, line: bytes) -> None:
        """None: the caller reads the parts one by one. Few collections are watched in this form."""

    def write(self, obj: Obj) -> bytes:
        return msgspec.json.encode(obj)

    def identity(self, obj: Obj) -> ObjectIdentity:
        meta = obj.get("metadata") or {}
        version = meta.get("resourceVersion") or "0"
        return ObjectIdentity(
            meta.get("namespace", ""), meta.get("name", ""), meta.get("uid", ""), int(version)
        )


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """Where a kind is served: the parts of its URL path."""

    api_version: str
    plural: str
    namespaced: bool
    kind: str = ""

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of the collection, of one object, or of a part of it."""
        root = "apis" if "/" in self.api_version else "api"
        inside = f"namespaces/{namespace}/" if self.namespaced and namespace else ""
        collection = f"/{root}/{self.api_version}/{inside}{self.plural}"
        if not name:
            return collection
        return f"{collection}/{name}/{subresource}" if subresource else f"{collection}/{name}"


def resource_of(type_: type[ApiStruct]) -> ResourcePath:
    """The path at which the kind of a struct is served."""
    for known in kinds.KINDS.values():
        if known.type is type_ and known.to_type is None:
            return ResourcePath(known.api_version, known.plural, known.namespaced, known.kind)
    raise KeyError(f"{type_.__name__} is no kind of its own")
