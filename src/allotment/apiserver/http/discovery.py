"""Discovery documents: plain (APIGroupList, APIResourceList…) and aggregated (one document for everything).

The documents are built from the catalogue, and rebuilt when it has changed.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

from allotment.apiserver.http.negotiation import Accepted
from allotment.apiserver.http.reply import Response, encode
from allotment.apiserver.registry.catalogue import ResourceCatalogue, ServedResource
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.review import Review
from allotment.apiserver.store.record import Obj

_AGGREGATED = "APIGroupDiscoveryList"
_VERSIONS = ("v2", "v2beta1")


class DiscoveryDocuments:
    """The discovery documents of a catalogue."""

    def __init__(self, catalogue: ResourceCatalogue) -> None:
        self._catalogue = catalogue
        self._made: dict[str, Response] = {}
        self._changes = -1

    def find(self, path: str, accepted: tuple[Accepted, ...]) -> Response | None:
        """The document at a path, in the form that the client prefers; None if there is none."""
        if self._changes != self._catalogue.changes:
            self._made = dict(self._documents())
            self._changes = self._catalogue.changes
        path = path.rstrip("/")
        if path in ("/api", "/apis"):
            for form in accepted:
                if form.transform == _AGGREGATED and form.version in _VERSIONS:
                    return self._made[f"{path};{form.version}"]
                if not form.transform:
                    break
        return self._made.get(path)

    def _documents(self) -> Iterable[tuple[str, Response]]:
        groups = self._catalogue.groups()
        yield "/api", Response.of(_core_versions(groups.get("", [])))
        named = {group: versions for group, versions in groups.items() if group}
        yield (
            "/apis",
            Response.of(
                {
                    "kind": "APIGroupList",
                    "apiVersion": "v1",
                    "groups": [_group(group, versions) for group, versions in named.items()],
                }
            ),
        )
        for group, versions in groups.items():
            if group:
                yield (
                    f"/apis/{group}",
                    Response.of({"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}),
                )
            for version in versions:
                api_version = f"{group}/{version}" if group else version
                path = f"/apis/{api_version}" if group else f"/api/{version}"
                resources = [
                    entry
                    for served in self._catalogue.of_version(group, version)
                    for entry in _entries(served)
                ]
                yield (
                    path,
                    Response.of(
                        {
                            "kind": "APIResourceList",
                            "apiVersion": "v1",
                            "groupVersion": api_version,
                            "resources": resources,
                        }
                    ),
                )
        for form in _VERSIONS:
            yield f"/api;{form}", self._aggregated(form, {"": groups.get("", [])})
            yield f"/apis;{form}", self._aggregated(form, named)

    def _aggregated(self, form: str, groups: dict[str, list[str]]) -> Response:
        items = []
        for group, versions in groups.items():
            told = [
                {
                    "version": version,
                    "resources": [
                        _discovered(served, group, version)
                        for served in self._catalogue.of_version(group, version)
                    ],
                    "freshness": "Current",
                }
                for version in versions
            ]
            metadata = {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None}
            items.append({"metadata": metadata, "versions": told})
        body = encode(
            {
                "kind": _AGGREGATED,
                "apiVersion": f"apidiscovery.k8s.io/{form}",
                "metadata": {},
                "items": items,
            }
        )
        content_type = f"application/json;g=apidiscovery.k8s.io;v={form};as={_AGGREGATED}"
        tag = f'"{hashlib.sha256(body).hexdigest().upper()}"'.encode()
        return Response(
            200,
            body,
            content_type.encode(),
            [(b"etag", tag), (b"vary", b"Accept"), (b"cache-control", b"public")],
        )


def _core_versions(versions: list[str]) -> Obj:
    return {
        "kind": "APIVersions",
        "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    }


def _group(group: str, versions: list[str]) -> Obj:
    told = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": told, "preferredVersion": told[0]}


def _entries(served: ServedResource | Review) -> Iterable[Obj]:
    """A resource and its subresources in the form of APIResourceList."""
    if isinstance(served, Review):
        yield {
            "name": served.plural,
            "singularName": served.kind.lower(),
            "namespaced": served.namespaced,
            "kind": served.kind,
            "verbs": ["create"],
        }
        return
    resource = served.resource
    entry: Obj = {
        "name": resource.plural,
        "singularName": _singular(resource),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    entry["storageVersionHash"] = _version_hash(resource)
    yield entry
    for name, api_version, kind, verbs in _subresources(served):
        told: Obj = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind,
            "verbs": verbs,
        }
        if api_version != served.api_version:
            group, _, version = api_version.rpartition("/")
            told |= {"group": group, "version": version}
        yield told


def _discovered(served: ServedResource | Review, group: str, version: str) -> Obj:
    """The same in the form of aggregated discovery."""
    if isinstance(served, Review):
        return {
            "resource": served.plural,
            "responseKind": {"group": group, "version": version, "kind": served.kind},
            "scope": "Namespaced" if served.namespaced else "Cluster",
            "singularResource": served.kind.lower(),
            "verbs": ["create"],
        }
    resource = served.resource
    told: Obj = {
        "resource": resource.plural,
        "responseKind": {"group": group, "version": version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": _singular(resource),
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        told["shortNames"] = list(resource.short_names)
    if resource.categories:
        told["categories"] = list(resource.categories)
    subresources = []
    for name, api_version, kind, verbs in _subresources(served):
        its_group, _, its_version = api_version.rpartition("/")
        subresources.append(
            {
                "subresource": name,
                "responseKind": {"group": its_group, "version": its_version, "kind": kind},
                "verbs": verbs,
            }
        )
    if subresources:
        told["subresources"] = subresources
    return told


def _subresources(served: ServedResource) -> Iterable[tuple[str, str, str, list[str]]]:
    """Name, apiVersion and kind of the body, verbs."""
    resource = served.resource
    found = [(name, each.api_version, each.kind, ["create"]) for name, each in resource.actions.items()]
    found += [
        (name, each.api_version, each.kind, sorted(each.verbs)) for name, each in resource.views.items()
    ]
    if resource.status:
        found.append(("status", served.api_version, resource.kind, ["get", "patch", "update"]))
    return sorted(found)


def _singular(resource: Resource) -> str:
    return resource.singular or resource.kind.lower()


def _version_hash(resource: Resource) -> str:
    text = f"{resource.group}/{resource.version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()
