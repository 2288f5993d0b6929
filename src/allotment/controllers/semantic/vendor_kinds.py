"""Follows the parameter kinds of the translators, while the server has them.

A driver's definitions may be installed before or after its translator, and removed again. So one loop asks the server which
kinds it has each time a definition changes, and starts and stops an informer per kind. When a kind disappears, its objects
are reported as deleted.

A translator that names no version gets the one that the server prefers. Reading a vendor's kind requires a role that the
driver's installation grants; without it, the informer keeps trying, and its log says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from allotment.api.rights import READ
from allotment.api.status import StatusError
from allotment.client.backoff import Backoff
from allotment.client.client import Client, Collection
from allotment.client.discovery import Discovery, discover
from allotment.client.form import Obj, Plain, ResourcePath
from allotment.client.informer import Informer
from allotment.client.places import DEFINITIONS
from allotment.client.shared_informers import Informers
from allotment.client.transport import Disconnected

RIGHTS = (f"{READ}: apiextensions.k8s.io: customresourcedefinitions",)

log = logging.getLogger(__name__)

_BY_KIND = "vendor kinds: group and kind"


@dataclass(frozen=True, slots=True)
class VendorKind:
    """A kind of parameters. No version: the one that the server prefers."""

    group: str
    kind: str
    version: str = ""


Handler = Callable[[ResourcePath, Obj | None, Obj | None], None]


@dataclass(frozen=True, slots=True)
class FollowedKind:
    """A kind that the server has: its place there, and the copy of its objects."""

    collection: Collection[Obj]
    informer: Informer[Obj]
    running: asyncio.Task[None]


class VendorKinds:
    """The informers of vendors' kinds, while :meth:`run` runs."""

    def __init__(self, client: Client, informers: Informers, kinds: Iterable[VendorKind] = ()) -> None:
        self._client = client
        self._kinds = frozenset(kinds)
        self._served: frozenset[tuple[str, str]] | None = None  # None until the server was asked
        self._resources: dict[VendorKind, ResourcePath] = {}  # of the kinds that the server has
        self._followed: dict[ResourcePath, FollowedKind] = {}
        self._handlers: list[Handler] = []
        self._news = asyncio.Event()
        self._news.set()
        self._definitions = informers.plain(DEFINITIONS.api_version, DEFINITIONS.plural, namespaced=False)
        self._definitions.add_index(_BY_KIND, _defined)
        self._definitions.on_change(lambda old, new: self._news.set())

    # --- what others ask ---

    def is_served(self, group: str, kind: str) -> bool:
        """Whether the server has a kind, one of these or any other."""
        return (group, kind) in (self._served or ())

    def is_gone(self, kind: VendorKind) -> bool:
        """Whether a kind certainly has no objects: the server does not have it, and not because its definition is not ready."""
        known = self._served is not None and self._definitions.version > 0
        defined = self._definitions.by(_BY_KIND, (kind.group, kind.kind))
        return known and not defined and not self.is_served(kind.group, kind.kind)

    def find(self, kind: VendorKind) -> FollowedKind | None:
        """None while the server does not have the kind, and for kinds without translators."""
        resource = self._resources.get(kind)
        return self._followed.get(resource) if resource else None

    def on_change(self, handler: Handler) -> None:
        """Adds a handler for the objects of all kinds."""
        self._handlers.append(handler)
        for resource, followed in self._followed.items():
            for obj in followed.informer.all():
                handler(resource, None, obj)

    # --- following ---

    async def run(self) -> None:
        """Starts and stops informers until cancelled."""
        backoff = Backoff()
        async with asyncio.TaskGroup() as tasks:
            try:
                while True:
                    await self._news.wait()
                    self._news.clear()
                    try:
                        self._settle(tasks, await discover(self._client))
                    except (StatusError, Disconnected) as exc:
                        log.info("cannot ask the server which kinds it has: %s; trying again", exc)
                        self._news.set()
                        await asyncio.sleep(backoff.next())
                    else:
                        backoff.reset()
            finally:
                for followed in self._followed.values():
                    followed.running.cancel()
                self._followed.clear()

    def _settle(self, tasks: asyncio.TaskGroup, discovery: Discovery) -> None:
        served = [each for each in discovery.served if {"list", "watch"} <= each.verbs]
        self._served = frozenset((_group(each.resource), each.resource.kind) for each in served)
        found: dict[VendorKind, ResourcePath] = {}
        for each in served:  # the preferred version of a group comes first
            group, _, version = each.resource.api_version.rpartition("/")
            found.setdefault(VendorKind(group, each.resource.kind), each.resource)
            found.setdefault(VendorKind(group, each.resource.kind, version), each.resource)
        kept = {kind: resource for kind, resource in self._resources.items() if not self.is_gone(kind)}
        known = {**kept, **found}  # a definition that is not ready, or still being deleted, may come back
        self._resources = {kind: known[kind] for kind in self._kinds if kind in known}
        wanted = set(self._resources.values())
        for resource in [resource for resource in self._followed if resource not in wanted]:
            self._stop(resource)
        for resource in wanted - self._followed.keys():
            self._start(tasks, resource)

    def _start(self, tasks: asyncio.TaskGroup, resource: ResourcePath) -> None:
        collection = Collection(self._client, resource, Plain())
        informer = Informer(collection)
        informer.on_change(lambda old, new: self._tell(resource, old, new))
        self._followed[resource] = FollowedKind(collection, informer, tasks.create_task(informer.run()))

    def _stop(self, resource: ResourcePath) -> None:
        followed = self._followed.pop(resource)
        followed.running.cancel()
        for obj in followed.informer.all():
            self._tell(resource, obj, None)

    def _tell(self, resource: ResourcePath, old: Obj | None, new: Obj | None) -> None:
        for handler in self._handlers:
            handler(resource, old, new)


def _defined(definition: Obj) -> list[tuple[str, str]]:
    spec = definition.get("spec") or {}
    return [(spec.get("group", ""), (spec.get("names") or {}).get("kind", ""))]


def _group(resource: ResourcePath) -> str:
    return resource.api_version.rpartition("/")[0]
