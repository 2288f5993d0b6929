"""OpenAPI v3 documents, one for each group and version, from the served resources and their schemas.

kubectl reads them for `explain` (definitions and paths must name their kind), before it trusts the server with
validation and dry runs (PATCH must list the query parameters), and to choose a patch type for kinds that it does not
know (the content types of PATCH). The kinds are not in /openapi/v2: every kubectl that we support works without.

Documents are built on demand. The index needs only their hashes. Documents of built-in kinds change only with this
package, so their hash is that of its data files; a document with custom kinds is hashed itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

import allotment.api
from allotment.api.schema.schema import Schema, definition, schema_of
from allotment.apiserver.http.descriptions import COMMON, described
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.review import Review

Json = dict[str, Any]


def build(resources: Iterable[Resource], reviews: Iterable[Review] = ()) -> Documents:
    """The documents of the served resources. Build new ones when a resource is added, changed or removed."""
    return Documents((*resources, *map(_as_resource, reviews)))


def _as_resource(review: Review) -> Resource:
    group, version, namespaced = review.group, review.version, review.namespaced
    only = frozenset({"create"})
    return Resource(group, version, review.kind, review.plural, namespaced, verbs=only, doc=review.doc)


class Documents:
    """The documents under /openapi/v3. Group-versions have the form of apiVersion, or of paths (``apis/apps/v1``)."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._served: dict[str, list[tuple[Resource, str]]] = defaultdict(list)
        for resource in resources:
            for group, version in _versions(resource):
                self._served[f"{group}/{version}" if group else version].append((resource, version))
        self._built: dict[str, bytes] = {}
        self._etags: dict[str, str] = {}
        self._index: bytes | None = None

    def index(self) -> bytes:
        """The body of /openapi/v3: the path of each document, with its hash."""
        if self._index is None:
            paths = {}
            for api_version in sorted(self._served):
                path = _path(api_version)
                url = f"/openapi/v3{path}?hash={self.etag(api_version)}"
                paths[path[1:]] = {"serverRelativeURL": url}
            self._index = msgspec.json.encode({"paths": paths})
        return self._index

    def is_made(self, group_version: str) -> bool:
        """Whether the document, or the index for "", is at hand, or there is none."""
        if not group_version:
            return self._index is not None
        api_version = _api_version(group_version)
        return api_version not in self._served or (api_version in self._built and api_version in self._etags)

    def make(self, group_version: str) -> None:
        """Has it at hand. May be called in another thread than the rest, while nothing else is made."""
        if group_version:
            self.document(group_version)
            self.etag(group_version)
        else:
            self.index()

    def document(self, group_version: str) -> bytes:
        """The body of one document. Raises KeyError for a group-version that is not served."""
        api_version = _api_version(group_version)
        if api_version not in self._built:
            if api_version not in self._served:
                raise KeyError(group_version)
            document = _document(api_version, self._served[api_version])
            self._built[api_version] = msgspec.json.encode(document)
        return self._built[api_version]

    def etag(self, group_version: str) -> str:
        """The document's hash, without the quotation marks that the ETag header has. Raises KeyError."""
        api_version = _api_version(group_version)
        if api_version not in self._served:
            raise KeyError(group_version)
        if api_version not in self._etags:
            self._etags[api_version] = self._hashed(api_version)
        return self._etags[api_version]

    def _hashed(self, api_version: str) -> str:
        served = self._served[api_version]
        if any(resource.schemas for resource, _ in served):
            return _digest(self.document(api_version))
        told = [(r.plural, r.kind, r.status, sorted((*r.verbs, *r.actions, *r.views))) for r, _ in served]
        return _digest(repr((_static(), api_version, sorted(told))).encode())


def _versions(resource: Resource) -> Iterator[tuple[str, str]]:
    if resource.hub_served:
        yield resource.group, resource.version
    for version in resource.versions:
        yield (resource.group if version.group is None else version.group), version.version


def _path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _api_version(group_version: str) -> str:
    return group_version.strip("/").removeprefix("apis/").removeprefix("api/")


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=32).hexdigest().upper()


@cache
def _static() -> str:
    """A hash of everything in the documents of built-in kinds: the schemas, and the descriptions of types."""
    folder = Path(allotment.api.__file__).parent
    files = sorted((*folder.rglob("*.py"), *folder.glob("schema/documents/*.fields"), Path(__file__)))
    return _digest(b"".join(path.read_bytes() for path in files))


# --- one document ---


def _document(api_version: str, served: list[tuple[Resource, str]]) -> Json:
    definitions = _NamedSchemas()
    paths: Json = {}
    for resource, version in sorted(served, key=lambda pair: pair[0].plural):
        schema = resource.schemas.get(version) or schema_of(api_version, resource.kind)
        kind = definitions.kind(schema, api_version, resource.kind, resource.doc)
        paths.update(_Paths(definitions, resource, api_version, kind).all())
    return {
        "openapi": "3.0.0",
        "info": {"title": "Allotment", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": definitions.written()},
    }


def _gvk(api_version: str, kind: str) -> dict[str, str]:
    group, _, version = api_version.rpartition("/")
    return {"group": group, "kind": kind, "version": version}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


class _NamedSchemas:
    """The named schemas of a document: those of its kinds, and all that they refer to."""

    def __init__(self) -> None:
        self._written: Json = {}
        self._pending: list[tuple[str, Schema, str]] = []

    def kind(self, schema: Schema, api_version: str, kind: str, doc: str = "") -> str:
        """Adds a kind and its list; returns the name of its definition."""
        group, _, version = api_version.rpartition("/")
        name = schema.name or ".".join((*reversed(group.split(".")), version, kind))
        self._want(name, schema, doc)
        self._write_pending()
        self._written[name]["x-kubernetes-group-version-kind"] = [_gvk(api_version, kind)]
        return name

    def list_of(self, name: str, api_version: str, kind: str) -> str:
        """Adds the list of a kind; returns the name of its definition."""
        meta = definition("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta")
        self._want(meta.name, meta)
        self._written[f"{name}List"] = {
            "description": f"Many objects of the kind {kind}, and the revision they were read at.",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string", "description": COMMON["apiVersion"]},
                "items": {"type": "array", "items": _ref(name), "description": COMMON["items"]},
                "kind": {"type": "string", "description": COMMON["kind"]},
                "metadata": {
                    "allOf": [_ref(meta.name)],
                    "description": "The revision that the list shows, and how to get the rest of it.",
                },
            },
            "x-kubernetes-group-version-kind": [_gvk(api_version, f"{kind}List")],
        }
        return f"{name}List"

    def written(self) -> Json:
        self._write_pending()
        return dict(sorted(self._written.items()))

    def _want(self, name: str, schema: Schema, doc: str = "") -> None:
        if name not in self._written:
            self._written[name] = {}  # a placeholder, so that it is requested only once
            self._pending.append((name, schema, doc))

    def _write_pending(self) -> None:
        while self._pending:
            name, schema, doc = self._pending.pop()
            self._written[name].update(self._definition(schema, doc))

    def _definition(self, schema: Schema, doc: str) -> Json:
        told = described(schema.name)
        text = schema.description or told.text or doc
        return ({"description": text} if text else {}) | self._bare(schema, told.fields)

    def _value(self, schema: Schema, description: str = "") -> Json:
        """A value where it is used: a reference if its schema has a name, with the description that applies here."""
        description = schema.description or description
        if not schema.name:
            return ({"description": description} if description else {}) | self._bare(schema, COMMON)
        self._want(schema.name, schema)
        here = _marks(schema)
        if description:
            here["description"] = description
        return {"allOf": [_ref(schema.name)], **here} if here else _ref(schema.name)

    def _bare(self, schema: Schema, words: Mapping[str, str]) -> Json:
        made = _type(schema) | ({} if schema.name else _marks(schema))
        if schema.name and schema.map_type == "atomic" and schema.type == "object":
            made["x-kubernetes-map-type"] = "atomic"
        if schema.properties:
            made["properties"] = {
                name: self._value(field, words.get(name, "")) for name, field in schema.properties.items()
            }
            if schema.required:
                made["required"] = sorted(schema.required)
        if schema.additional is not None:
            made["additionalProperties"] = self._value(schema.additional)
        if schema.items is not None:
            made["items"] = self._value(schema.items)
        return made


def _type(schema: Schema) -> Json:
    match schema.type:
        case "quantity":
            return {"oneOf": [{"type": "string"}, {"type": "number"}]}
        case "time":
            return {"type": "string", "format": "date-time"}
        case "int-or-string" if schema.name:
            return {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}
        case "int-or-string":
            return {"x-kubernetes-int-or-string": True}
        case "any":
            return {"type": "object"} if schema.name.endswith(("RawExtension", "FieldsV1")) else {}
        case kind:
            return {"type": kind} | ({"format": schema.format} if schema.format else {})


def _marks(schema: Schema) -> Json:
    """The properties of a schema beyond type and fields."""
    made: Json = {}
    if schema.type == "array":
        made["x-kubernetes-list-type"] = schema.list_type
    if schema.list_keys:
        made["x-kubernetes-list-map-keys"] = list(schema.list_keys)
    if schema.map_type == "atomic" and not schema.name:
        made["x-kubernetes-map-type"] = "atomic"
    if schema.patch_strategies:
        made["x-kubernetes-patch-strategy"] = ",".join(sorted(schema.patch_strategies))
    if schema.patch_key:
        made["x-kubernetes-patch-merge-key"] = schema.patch_key
    if schema.default is not None:
        made["default"] = schema.default
    if schema.enum:
        made["enum"] = list(schema.enum)
    if schema.nullable:
        made["nullable"] = True
    if schema.preserve_unknown and not schema.name:
        made["x-kubernetes-preserve-unknown-fields"] = True
    if schema.embedded:
        made["x-kubernetes-embedded-resource"] = True
    return made


# --- paths ---

_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_LIST = (
    *("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion"),
    *("resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch"),
)
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_TYPES = {
    **dict.fromkeys(("limit", "timeoutSeconds", "gracePeriodSeconds"), "integer"),
    **dict.fromkeys(
        ("allowWatchBookmarks", "sendInitialEvents", "watch", "orphanDependents", "force"), "boolean"
    ),
}
_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_STRATEGIC = "application/strategic-merge-patch+json"
_VERBS = {
    # method: (verb of a collection, verb of one object), the words of x-kubernetes-action, query parameters
    "get": ("list", "get"),
    "post": ("create", ""),
    "put": ("", "update"),
    "patch": ("", "patch"),
    "delete": ("deletecollection", "delete"),
}
_ACTIONS = {"create": "post", "update": "put"}
_PARAMETERS = {
    "list": _LIST,
    "create": _WRITE,
    "update": _WRITE,
    "patch": (*_WRITE, "force"),
    "delete": _DELETE,
    "deletecollection": (*_LIST[:6], *_DELETE),
}


class _Paths:
    """The paths of one resource in one version."""

    def __init__(self, definitions: _NamedSchemas, resource: Resource, api_version: str, kind: str) -> None:
        self._definitions = definitions
        self._resource = resource
        self._api_version = api_version
        self._kind = kind
        # kubectl merges by our definition where we offer it for a kind that it does not know; for kinds that
        # Kubernetes does not have a merge patch is the plainer contract.
        self._patches = (*_PATCHES, _STRATEGIC) if kind.startswith("io.k8s.") else _PATCHES

    def all(self) -> Iterator[tuple[str, Json]]:
        resource, root = self._resource, _path(self._api_version)
        collection = f"{root}/{resource.plural}"
        if resource.namespaced:
            if "list" in resource.verbs:
                yield collection, {"get": self._operation("get", "list", self._kind, resource.kind, ())}
            collection = f"{root}/namespaces/{{namespace}}/{resource.plural}"
        scope = ("namespace",) if resource.namespaced else ()
        yield from self._path(collection, 0, resource.verbs, scope)
        item, scope = f"{collection}/{{name}}", (*scope, "name")
        of_one = resource.verbs
        if "create" in of_one:
            # kubectl looks at PATCH to learn whether the server validates a kind, and else asks for /openapi/v2 to
            # do it itself. So reviews list it, too, though what is not stored cannot be patched.
            of_one |= {"patch"}
        yield from self._path(item, 1, of_one, scope)
        if resource.status:
            yield from self._path(f"{item}/status", 1, resource.verbs & {"get", "patch", "update"}, scope)
        for name, action in resource.actions.items():
            reference = self._other(action.api_version, action.kind)
            operation = self._operation("post", "create", reference, action.kind, scope, action.api_version)
            yield f"{item}/{name}", {"post": operation}
        for name, view in resource.views.items():
            yield from self._path(f"{item}/{name}", 1, view.verbs, scope, view.api_version, view.kind)

    def _path(
        self,
        path: str,
        of_one: int,
        verbs: frozenset[str],
        scope: tuple[str, ...],
        api_version: str = "",
        kind: str = "",
    ) -> Iterator[tuple[str, Json]]:
        reference = self._other(api_version, kind) if kind else self._kind
        operations = {
            method: self._operation(
                method, pair[of_one], reference, kind or self._resource.kind, scope, api_version
            )
            for method, pair in _VERBS.items()
            if pair[of_one] in verbs
        }
        if operations:
            yield path, operations

    def _other(self, api_version: str, kind: str) -> str:
        """The definition of a kind that clients only send to a subresource."""
        return self._definitions.kind(schema_of(api_version, kind), api_version, kind)

    def _operation(
        self, method: str, verb: str, reference: str, kind: str, scope: tuple[str, ...], api_version: str = ""
    ) -> Json:
        api_version = api_version or self._api_version
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in scope
        ]
        parameters += [
            {"name": name, "in": "query", "schema": {"type": _TYPES.get(name, "string")}}
            for name in _PARAMETERS.get(verb, ())
        ]
        reply = self._definitions.list_of(reference, api_version, kind) if verb == "list" else reference
        operation: Json = {
            "x-kubernetes-action": _ACTIONS.get(verb, verb),
            "x-kubernetes-group-version-kind": _gvk(api_version, kind),
            "parameters": parameters,
            "responses": {
                "200": {"description": "OK", "content": {"application/json": {"schema": _ref(reply)}}}
            },
        }
        if verb in ("create", "update"):
            operation["requestBody"] = {"content": {"application/json": {"schema": _ref(reference)}}}
        elif verb == "patch":
            operation["requestBody"] = {
                "content": {name: {"schema": {"type": "object"}} for name in self._patches}
            }
        return operation
