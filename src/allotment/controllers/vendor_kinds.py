"""Follows vendors' kinds of parameters while somebody refers to them and the server has them.

Which kinds these are is known only at run time: classes name them, claims name them, translators name them, and a driver's
definitions may come before or after all of those. So one loop compares what is wanted with what the server serves, each
time one of the two may have changed, and starts and stops an informer a kind. When a kind goes, its objects are told as
gone.

References name group and kind without a version: the server's preferred one is followed. Translators name theirs.

Anybody may write claims, so what claims name is held in bounds: kinds of Kubernetes itself (groups without a dot or under
``k8s.io``) are never followed, and others only up to a number. Reading a vendor's kind takes a role that the driver's
installation grants; without it the informer tries on and its log says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from allotment.allocator.semantic import GROUPS
from allotment.api.alpha2 import ResourceClass
from allotment.api.conversion.v1alpha2 import CARRIER
from allotment.api.resource import ResourceClaim
from allotment.api.status import StatusError
from allotment.client.backoff import Backoff
from allotment.client.client import Client, Collection
from allotment.client.discovery import Discovery, discover
from allotment.client.form import Obj, Plain, Resource
from allotment.client.informer import Informer
from allotment.client.informers import Informers
from allotment.client.transport import Disconnected

log = logging.getLogger(__name__)

_DEFINITIONS = ("apiextensions.k8s.io/v1", "customresourcedefinitions")
_BY_KIND = "vendor kinds: group and kind"

MAX_FROM_CLAIMS = 64
"""Kinds that are followed only because claims name them."""


@dataclass(frozen=True, slots=True, order=True)
class VendorKind:
    """A kind of parameters. No version: the one that the server prefers."""

    group: str
    kind: str
    version: str = ""


Handler = Callable[[Resource, Obj | None, Obj | None], None]


@dataclass(frozen=True, slots=True)
class Followed:
    """A kind that the server has: its objects there, and the copy of them."""

    collection: Collection[Obj]
    informer: Informer[Obj]
    running: asyncio.Task[None]


class VendorKinds:
    """The informers of vendors' kinds, while :meth:`run` runs. ``always`` are wanted whoever refers to them."""

    def __init__(self, client: Client, informers: Informers, always: Iterable[VendorKind] = ()) -> None:
        self._client = client
        self._always = frozenset(always)
        self._by_classes: Counter[VendorKind] = Counter()
        self._by_claims: Counter[VendorKind] = Counter()
        self._served: frozenset[tuple[str, str]] | None = None  # None before the server was asked
        self._resources: dict[VendorKind, Resource] = {}  # of the kinds that are wanted and served
        self._followed: dict[Resource, Followed] = {}
        self._handlers: list[Handler] = []
        self._news = asyncio.Event()
        self._news.set()
        informers.of(ResourceClass).on_change(self._class_changed)
        informers.of(ResourceClaim).on_change(self._claim_changed)
        self._definitions = informers.plain(*_DEFINITIONS, namespaced=False)
        self._definitions.add_index(_BY_KIND, _defined)
        self._definitions.on_change(lambda old, new: self._news.set())

    # --- what others ask ---

    @property
    def referred(self) -> frozenset[VendorKind]:
        """The kinds of parameters that classes and claims refer to."""
        return frozenset(self._by_classes.keys() | self._by_claims.keys())

    @property
    def total(self) -> int:
        """How many kinds of parameters classes and claims refer to."""
        return len(self.referred)

    @property
    def resolved(self) -> int:
        """How many of those the server has; fewer than all: some driver is not installed completely."""
        return sum(self.is_served(each.group, each.kind) for each in self.referred)

    def is_served(self, group: str, kind: str) -> bool:
        return (group, kind) in (self._served or ())

    def is_gone(self, kind: VendorKind) -> bool:
        """Whether there surely are no objects of a kind: it is not served, and not because its definition is not ready."""
        known = self._served is not None and self._definitions.version > 0
        defined = self._definitions.by(_BY_KIND, (kind.group, kind.kind))
        return known and not defined and not self.is_served(kind.group, kind.kind)

    def find(self, kind: VendorKind) -> Followed | None:
        """None while a kind is not wanted or the server does not have it."""
        resource = self._resources.get(kind)
        return self._followed.get(resource) if resource else None

    def on_change(self, handler: Handler) -> None:
        """Adds a handler for the objects of all kinds."""
        self._handlers.append(handler)
        for resource, followed in self._followed.items():
            for obj in followed.informer.all():
                handler(resource, None, obj)

    # --- what is wanted ---

    def _class_changed(self, old: ResourceClass | None, new: ResourceClass | None) -> None:
        self._count(self._by_classes, kind_of_class(old), kind_of_class(new))

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self._count(self._by_claims, kind_of_claim(old), kind_of_claim(new))

    def _count(self, counts: Counter[VendorKind], old: VendorKind | None, new: VendorKind | None) -> None:
        if old == new:
            return
        if old is not None:
            counts[old] -= 1
            if not counts[old]:
                del counts[old]
        if new is not None:
            counts[new] += 1
        self._news.set()

    def _wanted(self) -> set[VendorKind]:
        """Those to be followed. Which of too many kinds of claims is left to their order by name."""
        named = sorted(kind for kind in self._by_claims if _is_vendors(kind))
        if len(named) > MAX_FROM_CLAIMS:
            log.warning("claims name %d kinds of parameters; %d are followed", len(named), MAX_FROM_CLAIMS)
        of_classes = {kind for kind in self._by_classes if _is_vendors(kind)}
        return {*self._always, *of_classes, *named[:MAX_FROM_CLAIMS]}

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
                        log.info("cannot ask the server what it serves: %s; trying again", exc)
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
        found: dict[VendorKind, Resource] = {}
        for each in served:  # the preferred version of a group comes first
            group, _, version = each.resource.api_version.rpartition("/")
            found.setdefault(VendorKind(group, each.resource.kind), each.resource)
            found.setdefault(VendorKind(group, each.resource.kind, version), each.resource)
        kept = {kind: resource for kind, resource in self._resources.items() if not self.is_gone(kind)}
        known = {**kept, **found}  # a definition that is not ready, or still going, may come back
        self._resources = {kind: known[kind] for kind in self._wanted() if kind in known}
        wanted = set(self._resources.values())
        for resource in [resource for resource in self._followed if resource not in wanted]:
            self._stop(resource)
        for resource in wanted - self._followed.keys():
            self._start(tasks, resource)

    def _start(self, tasks: asyncio.TaskGroup, resource: Resource) -> None:
        collection = Collection(self._client, resource, Plain())
        informer = Informer(collection)
        informer.on_change(lambda old, new: self._tell(resource, old, new))
        self._followed[resource] = Followed(collection, informer, tasks.create_task(informer.run()))

    def _stop(self, resource: Resource) -> None:
        followed = self._followed.pop(resource)
        followed.running.cancel()
        for obj in followed.informer.all():
            self._tell(resource, obj, None)

    def _tell(self, resource: Resource, old: Obj | None, new: Obj | None) -> None:
        for handler in self._handlers:
            handler(resource, old, new)


def _defined(definition: Obj) -> list[tuple[str, str]]:
    spec = definition.get("spec") or {}
    return [(spec.get("group", ""), (spec.get("names") or {}).get("kind", ""))]


def kind_of_class(class_: ResourceClass | None) -> VendorKind | None:
    """What a class's parameters are of, if it has any."""
    reference = class_.parameters_ref if class_ else None
    return None if reference is None else VendorKind(reference.api_group or "", reference.kind)


def kind_of_claim(claim: ResourceClaim | None) -> VendorKind | None:
    """What the parameters of a claim of seed 0's form are of, if it is one and has any."""
    for config in claim.spec.devices.config if claim else ():
        opaque = config.opaque
        if opaque is not None and opaque.driver == CARRIER and isinstance(opaque.parameters, dict):
            reference = opaque.parameters.get("parametersRef")
            if isinstance(reference, dict):
                return VendorKind(str(reference.get("apiGroup") or ""), str(reference.get("kind") or ""))
    return None


def _is_vendors(kind: VendorKind) -> bool:
    return "." in kind.group and not kind.group.endswith(".k8s.io") and kind.group not in GROUPS


def _group(resource: Resource) -> str:
    return resource.api_version.rpartition("/")[0]
