"""The resources of a server, queried once, so that a program runs on a real cluster and on the embedded server.

Kinds that Kubernetes does not have are native in ``resource.k8s.io`` on the embedded server and custom resources in
``allotment.dev`` on a real one; :meth:`Discovery.find` says which is there.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec

from allotment.api.status import NotAcceptable, NotFound
from allotment.client.client import Client
from allotment.client.form import ResourcePath
from allotment.client.transport import Call

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class AnnouncedResource:
    """A resource that the server announces."""

    resource: ResourcePath
    short_names: tuple[str, ...] = ()
    verbs: frozenset[str] = frozenset()
    subresources: frozenset[str] = frozenset()


class Discovery:
    """All resources of a server, the preferred version of each group first."""

    def __init__(self, served: list[AnnouncedResource]) -> None:
        self.served = served

    def find(self, plural: str, *groups: str) -> AnnouncedResource | None:
        """The resource in the server's preferred version, from the first of these groups that has it."""
        for group in groups:
            for known in self.served:
                if known.resource.plural == plural and _group(known.resource.api_version) == group:
                    return known
        return None

    def has(self, api_version: str, plural: str) -> bool:
        return any(
            known.resource.api_version == api_version and known.resource.plural == plural
            for known in self.served
        )

    def of_kind(self, api_version: str, kind: str) -> ResourcePath:
        """The resource for objects with this apiVersion and kind. Raises KeyError."""
        for known in self.served:
            if known.resource.api_version == api_version and known.resource.kind == kind:
                return known.resource
        raise KeyError(f"the server has no {kind} in {api_version}")

    def named(self, word: str) -> AnnouncedResource | None:
        """The resource that a person names by plural, singular, kind or short name, each also as ``plural.group``."""
        name, _, group = word.lower().partition(".")
        for known in self.served:
            names = {known.resource.plural, known.resource.kind.lower(), *known.short_names}
            if name in names and (not group or _group(known.resource.api_version) == group):
                return known
        return None


async def discover(client: Client) -> Discovery:
    """Queries the server, in two requests if it supports that."""
    parts = await asyncio.gather(_root(client, "/api"), _root(client, "/apis"))
    return Discovery([served for part in parts for served in part])


async def _root(client: Client, path: str) -> list[AnnouncedResource]:
    try:
        reply = await client.send(Call("GET", path, {}, {"Accept": f"{_AGGREGATED},application/json"}))
    except (NotFound, NotAcceptable):
        return []
    body = msgspec.json.decode(reply.body)
    if body.get("kind") == "APIGroupDiscoveryList":
        return [
            _aggregated(group["metadata"].get("name", ""), version["version"], resource)
            for group in body.get("items") or ()
            for version in group.get("versions") or ()
            for resource in version.get("resources") or ()
        ]
    versions = _api_versions(body)
    lists = await asyncio.gather(*(client.read(f"{path}/{version}") for version in versions))
    return [
        served for version, listed in zip(versions, lists, strict=True) for served in _plain(version, listed)
    ]


def _aggregated(group: str, version: str, resource: dict[str, Any]) -> AnnouncedResource:
    api_version = f"{group}/{version}" if group else version
    kind = (resource.get("responseKind") or {}).get("kind", "")
    where = ResourcePath(api_version, resource["resource"], resource.get("scope") == "Namespaced", kind)
    parts = [part["subresource"] for part in resource.get("subresources") or ()]
    return AnnouncedResource(
        where,
        tuple(resource.get("shortNames") or ()),
        frozenset(resource.get("verbs") or ()),
        frozenset(parts),
    )


def _api_versions(body: dict[str, Any]) -> list[str]:
    if "versions" in body and body.get("kind") == "APIVersions":
        return list(body["versions"])
    found = []
    for group in body.get("groups") or ():
        preferred = group["preferredVersion"]["groupVersion"]
        found += sorted((v["groupVersion"] for v in group["versions"]), key=lambda v: v != preferred)
    return found


def _plain(api_version: str, listed: dict[str, Any]) -> list[AnnouncedResource]:
    entries = listed.get("resources") or ()
    parts: dict[str, set[str]] = {}
    for entry in entries:
        plural, _, part = entry["name"].partition("/")
        if part:
            parts.setdefault(plural, set()).add(part)
    return [
        AnnouncedResource(
            ResourcePath(api_version, entry["name"], bool(entry.get("namespaced")), entry["kind"]),
            tuple(entry.get("shortNames") or ()),
            frozenset(entry.get("verbs") or ()),
            frozenset(parts.get(entry["name"], ())),
        )
        for entry in entries
        if "/" not in entry["name"]
    ]


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
