"""OpenAPI documents over HTTP: /openapi/v3 and below it one document for each group and version.

Definitions of custom kinds may make a document of many megabytes, and the index has the hashes of all of them. So what is
asked for the first time since the kinds changed is made in a thread, one after the other.
"""

from __future__ import annotations

import asyncio

from allotment.apiserver.http.openapi import Documents, build
from allotment.apiserver.http.reply import Response
from allotment.apiserver.http.request import Request
from allotment.apiserver.registry.catalogue import ResourceCatalogue

_ROOT = "/openapi/v3"
_SECOND = "/openapi/v2"
_TITLE = "Kubernetes"


def _text(field: int, value: bytes) -> bytes:
    """A field of a protobuf message, shorter than 128 bytes."""
    return bytes([field << 3 | 2, len(value)]) + value


_SECOND_PROTOBUF = b"".join(  # a gnostic Document: swagger, info (title, version), paths
    (_text(1, b"2.0"), _text(2, _text(1, _TITLE.encode()) + _text(2, b"v1")), _text(8, b""))
)


class OpenApi:
    """The documents of a catalogue, rebuilt when it has changed."""

    def __init__(self, catalogue: ResourceCatalogue) -> None:
        self._catalogue = catalogue
        self._documents: Documents | None = None
        self._changes = -1
        self._making = asyncio.Lock()

    async def find(self, request: Request) -> Response | None:
        """The document that a request asks for; None if there is none. One that the client has is not sent again."""
        path = request.path.rstrip("/")
        if path == _SECOND:
            return _second(request)
        if path != _ROOT and not path.startswith(_ROOT + "/"):
            return None
        name = path[len(_ROOT) + 1 :]
        async with self._making:
            documents = self._current()
            if not documents.is_made(name):
                await asyncio.to_thread(documents.make, name)
        if not name:
            return Response(200, documents.index())
        try:
            tag = f'"{documents.etag(name)}"'
            headers = [(b"etag", tag.encode()), (b"cache-control", b"public, max-age=31536000, immutable")]
            if "hash" not in request.query:
                headers[1] = (b"cache-control", b"no-cache, private")
            if request.header(b"if-none-match") == tag:
                return Response(304, b"", headers=headers)
            return Response(200, documents.document(name), headers=headers)
        except KeyError:
            return None

    def _current(self) -> Documents:
        if self._documents is None or self._changes != self._catalogue.changes:
            self._documents = build(self._catalogue.resources, self._catalogue.reviews)
            self._changes = self._catalogue.changes
        return self._documents


def _second(request: Request) -> Response:
    """An OpenAPI 2 document without any kinds.

    kubectl requests it, only in protobuf, before it sends the items of a ``kind: List``, and accepts kinds that it does
    not find there. The kinds are in version 3, and the server validates what it receives.
    """
    if "protobuf" in request.header(b"accept"):
        return Response(200, _SECOND_PROTOBUF, b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
    return Response.of({"swagger": "2.0", "info": {"title": _TITLE, "version": "v1"}, "paths": {}})
