"""In which form a caller wants objects: as typed views of ``api/``, or as the plain JSON values themselves.

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
    """What tells one object, and one state of it, from others. The version is opaque but grows."""

    namespace: str
    name: str
    uid: str
    version: int


LOOSE: frozenset[type[ApiStruct]] = frozenset({VolcanoPodGroup, Queue, ResourceClaimParameters})
"""Kinds that anybody may have defined, and whose objects tenants write: a server may keep some that are no such thing. One that cannot be
read is left out of lists and watches, as if it were not there, or whoever wrote it would stop everybody who follows the kind. Pods that
need it wait. Of other kinds the server vouches for each object: to take one for gone could cost a node, or give a device away twice."""


class Form(Protocol[T]):
    """How objects of one kind are read, written and identified."""

    @property
    def loose(self) -> bool:
        """Whether objects that cannot be read are left out."""
        ...

    def read(self, data: bytes) -> T: ...

    def read_event(self, line: bytes) -> tuple[str, T] | None:
        """An event of a watch, its type and object, if that is what the line is and the object is as most are."""
        ...

    def write(self, obj: T) -> bytes: ...

    def identity(self, obj: T) -> ObjectIdentity: ...


@dataclass(frozen=True, slots=True)
class Typed(Generic[S]):
    """Objects as frozen structs. Reading is fast and forgets fields that the struct does not have, so write such
    objects only to create them; change them by patches."""

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
        """Its parts are read one by one: there are few that somebody watches in this form."""

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
    """Where a kind is served: what a path needs to know."""

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
    """Where the kind of a struct is served."""
    for known in kinds.KINDS.values():
        if known.type is type_ and known.to_type is None:
            return ResourcePath(known.api_version, known.plural, known.namespaced, known.kind)
    raise KeyError(f"{type_.__name__} is no kind of its own")
