"""OpenAPI documents over HTTP: /openapi/v3 and below it one document for each group and version."""

from __future__ import annotations

from allotment.apiserver.http.openapi import Documents, build
from allotment.apiserver.http.reply import Reply
from allotment.apiserver.http.request import Request
from allotment.apiserver.registry.catalogue import Catalogue

_ROOT = "/openapi/v3"


class OpenApi:
    """The documents of a catalogue, made again when it has changed."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._documents: Documents | None = None
        self._changes = -1

    def find(self, request: Request) -> Reply | None:
        """The document that a request asks for; None if there is none. One that the client has is not sent again."""
        path = request.path.rstrip("/")
        if path == _ROOT:
            return Reply(200, self._current().index())
        if not path.startswith(_ROOT + "/"):
            return None
        documents, name = self._current(), path[len(_ROOT) + 1 :]
        try:
            tag = f'"{documents.etag(name)}"'
            headers = [(b"etag", tag.encode()), (b"cache-control", b"public, max-age=31536000, immutable")]
            if "hash" not in request.query:
                headers[1] = (b"cache-control", b"no-cache, private")
            if request.header(b"if-none-match") == tag:
                return Reply(304, b"", headers=headers)
            return Reply(200, documents.document(name), headers=headers)
        except KeyError:
            return None

    def _current(self) -> Documents:
        if self._documents is None or self._changes != self._catalogue.changes:
            self._documents = build(self._catalogue.resources, self._catalogue.reviews)
            self._changes = self._catalogue.changes
        return self._documents
