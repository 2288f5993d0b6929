"""What the caller sees of a cluster, read once.

From a server, this reads with the caller's rights. A kind that the caller may not list, or that the server does not have, is
left out; if that matters, a note says so. Claims are read in all namespaces. A caller who may not do that sees the claims of
some namespaces, and everything computed from them says so. From files, everything is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from allotment.allocator.pool import PoolID
from allotment.api import semantic
from allotment.api.apps import DaemonSet
from allotment.api.batch import PodDisruptionBudget, PodGroup, PriorityClass, Queue, VolcanoPodGroup
from allotment.api.core import Namespace, Node, Pod, ResourceQuota
from allotment.api.meta import ApiStruct, ObjectMeta
from allotment.api.pools import ResourcePool
from allotment.api.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from allotment.insight.errors import Failure, NoAnswer
from allotment.usage.pool import PoolUsage
from allotment.usage.published import as_published, published
from allotment.usage.usage import Usage

if TYPE_CHECKING:
    from allotment.client.client import Client
    from allotment.client.discovery import Discovery
    from allotment.client.form import ResourcePath
    from allotment.insight.source import ClusterSource
    from allotment.usage.allocation import AnyClaim

S = TypeVar("S", bound=ApiStruct)
Read = Callable[[type[Any], "ResourcePath", str], Awaitable[list[Any]]]
"""Lists a kind at a place, in one namespace or, if that is empty, in all."""

USE = (ResourceSlice, semantic.NodeResourceSlice, ResourceClaim, DeviceTaintRule, ResourcePool)
"""The kinds that show what is in use."""

GROUPS = (
    PodGroup,
    VolcanoPodGroup,
    Queue,
    PodDisruptionBudget,
    Namespace,
    ResourceQuota,
    PriorityClass,
    DaemonSet,
)
"""Kinds that matter to a scheduler, or to a simulation of one, and not to allocation."""

_PAGE_SIZE = 2_500
"""How many objects one request asks for. A command waits for all of them, so the number of requests matters."""

_LOSSES = {
    ResourceSlice: "devices are unknown, and pools are known only by the counts of their ResourcePools",
    DeviceTaintRule: "taints from rules are not shown",
    semantic.NodeResourceSlice: "devices with KEP-4381 semantic parameters are left out",
    ResourcePool: "what other claims hold is unknown",
    Node: "whether nodes exist and what they reach is unknown",
    Pod: "whether the users of claims still run is unknown",
    DeviceClass: "",
    DaemonSet: "what DaemonSets will use on new machines is not counted",
}
"""The consequence for each kind that the caller may not list."""

_PARTLY = (Pod, ResourceClaimTemplate, PodGroup, VolcanoPodGroup, ResourceQuota)
"""Kinds whose objects in the caller's own namespaces are useful by themselves."""

_COUNTED = (DeviceTaintRule, semantic.NodeResourceSlice)
"""Kinds that ResourcePools take into account, so that a caller who sees only ResourcePools does not need them."""


@dataclass
class Snapshot:
    """Objects by kind, and notes about what is missing."""

    objects: dict[type[ApiStruct], list[Any]] = field(default_factory=dict, repr=False)
    namespaces: tuple[str, ...] | None = None  # the namespaces whose claims are known; None: all
    notes: list[str] = field(default_factory=list)
    denied: dict[type[ApiStruct], str] = field(
        default_factory=dict
    )  # kinds that the caller may not list, with plurals
    standstill: str = ""  # the note about counts that no controller keeps up to date
    partly: dict[type[ApiStruct], dict[str, list[Any]]] = field(
        default_factory=dict, repr=False
    )  # for such kinds, the objects in namespaces where the caller may list them

    def of(self, kind: type[S]) -> list[S]:
        """All objects of a kind; none if the caller may not list all."""
        return self.objects.get(kind, [])

    def some(self, kind: type[S]) -> list[S]:
        """As ``of``; if the caller may only list those of some namespaces, these."""
        if kind in self.objects:
            return self.of(kind)
        return [obj for objects in self.partly.get(kind, {}).values() for obj in objects]

    def knows(self, kind: type[ApiStruct], namespace: str) -> bool:
        """Whether all objects of a kind in a namespace are here."""
        if kind is ResourceClaim:
            return self.namespaces is None or namespace in self.namespaces
        return kind in self.objects or namespace in self.partly.get(kind, {})

    def sees(self, kind: type[ApiStruct]) -> bool:
        """Whether all objects of a kind are here; for claims, those of some namespaces are enough."""
        return kind in self.objects

    @property
    def claims(self) -> list[AnyClaim]:
        return [*self.of(ResourceClaim), *self.of(semantic.ResourceClaim)]

    @cached_property
    def usage(self) -> Usage:
        """Who holds what, according to what the caller may see."""
        objects = [
            obj
            for kind in (ResourceSlice, semantic.NodeResourceSlice, DeviceTaintRule, Node)
            for obj in self.of(kind)
        ]
        usage = Usage([*objects, *self.claims], all_claims=self.namespaces is None)
        for pool in self.of(ResourcePool):
            usage.set_counts(PoolID(pool.spec.driver, pool.spec.pool_name), published(pool))
        return usage

    def pools(self) -> list[PoolUsage]:
        """Every pool; if the caller may not see slices, with the counts of its ResourcePool and no single device."""
        if self.sees(ResourceSlice):
            return self.usage.pools()
        return sorted([as_published(pool) for pool in self.of(ResourcePool)], key=lambda pool: pool.id)

    def whose(self, only: Sequence[str] = ()) -> str:
        """The namespaces whose claims are known, for people; with ``only``, those of these namespaces."""
        names = self.namespaces
        if only:
            names = tuple([name for name in dict.fromkeys(only) if names is None or name in names])
        if names is None:
            return "all namespaces"
        if not names:
            return "no namespace"
        return f"{'namespaces' if len(names) > 1 else 'namespace'} {', '.join(names)}"


def look(source: ClusterSource, kinds: Sequence[type[ApiStruct]]) -> Snapshot:
    """The objects of these kinds. Raises NoAnswer, or BadInput for files."""
    if source.offline:
        return _read(source.offline)
    import uvloop

    try:
        return uvloop.run(_ask(source, kinds))
    except Failure as exc:
        raise NoAnswer(exc.message, exc.hint) from exc


# --- files ---


def _read(files: Sequence[str]) -> Snapshot:
    """The objects in files. The files are assumed to hold all claims. Unknown fields are not errors, because a newer server
    may have written them."""
    from allotment.api.manifests.preparation import prepared
    from allotment.cel.expression_check import check_expression
    from allotment.insight.manifest_cluster import gather
    from allotment.insight.manifest_files import Reading, read_objects

    reading = read_objects(files)
    pools = [each for each in reading.found if isinstance(each.obj, ResourcePool)]
    groups = [each for each in reading.found if isinstance(each.obj, GROUPS)]
    others = [each for each in reading.found if not isinstance(each.obj, (ResourcePool, *GROUPS))]
    cluster = gather(Reading(others, reading.complaints), check_expression, lenient=True)
    snapshot = Snapshot({ResourcePool: [each.obj for each in pools]})
    snapshot.objects[ResourceSlice] = cluster.slices  # the rules have already tainted these
    snapshot.objects[semantic.NodeResourceSlice] = cluster.node_slices
    snapshot.objects[DeviceClass] = cluster.classes
    snapshot.objects[semantic.ResourceClass] = cluster.resource_classes
    snapshot.objects[semantic.ResourceClassParameters] = cluster.class_parameters
    snapshot.objects[semantic.ResourceClaimParameters] = cluster.claim_parameters
    for claim in cluster.claims.values():
        snapshot.objects.setdefault(type(claim), []).append(claim)
    if any(isinstance(each.obj, Node) for each in others):  # otherwise the nodes were made up
        snapshot.objects[Node] = cluster.nodes
    if cluster.pods:
        snapshot.objects[Pod] = cluster.pods
    for volume in cluster.volumes:
        snapshot.objects.setdefault(type(volume), []).append(volume)
    for template in cluster.templates.values():
        snapshot.objects.setdefault(type(template), []).append(template)
    snapshot.objects.setdefault(ResourceClaimTemplate, [])
    for each in groups:
        made, _ = prepared(each, check_expression)
        assert made is not None
        snapshot.objects.setdefault(type(made), []).append(made)
    if not (cluster.slices or cluster.node_slices or pools):
        names = " ".join(files)
        raise NoAnswer(
            f"{names} have no ResourceSlices",
            "save them with: kubectl get resourceslices,resourceclaims,nodes,pods,deviceclasses -A -o yaml",
        )
    return snapshot


def made_up_nodes(slices: Iterable[ResourceSlice]) -> list[Node]:
    """Nodes with the names from the slices, for a caller who sees no nodes."""
    names: set[str] = set()
    for slice in slices:
        names |= {slice.spec.node_name or "", *(device.node_name or "" for device in slice.spec.devices)}
    return [Node(metadata=ObjectMeta(name=name)) for name in sorted(names) if name]


# --- a server ---


async def _ask(source: ClusterSource, kinds: Sequence[type[ApiStruct]]) -> Snapshot:
    from allotment.insight.connecting import connected, connection_of

    async with connected(source.kubeconfig, source.context, "allotment-view") as client:
        namespaces = source.namespaces or (connection_of(source.kubeconfig, source.context).namespace,)
        return await look_at(client, kinds, namespaces, insist=source.all_namespaces)


async def look_at(
    client: Client,
    kinds: Sequence[type[ApiStruct]],
    namespaces: Sequence[str],
    *,
    insist: bool = False,
    read: Read | None = None,
) -> Snapshot:
    """What a client's user sees. ``namespaces`` are those whose claims to read if the caller may not list all, unless all are
    required. ``read`` lists one kind; it may keep what it uses for that. Raises Failure if nothing can be shown."""
    from allotment.client.discovery import discover

    served = await discover(client)
    if place(ResourceSlice, served) is None and place(ResourcePool, served) is None:
        raise Failure(
            "the server has no resource.k8s.io/v1 or v1beta2",
            "dynamic resource allocation is on by default since Kubernetes 1.34",
        )
    snapshot, read = Snapshot(), read or partial(_all, client)
    others = [kind for kind in kinds if kind is not ResourceClaim]
    claims = _claims(read, served, snapshot, namespaces, insist) if ResourceClaim in kinds else None
    lists = [_list(read, kind, served, snapshot, namespaces) for kind in others]
    await asyncio.gather(*lists, *filter(None, [claims]))
    if ResourceSlice in kinds and not snapshot.sees(ResourceSlice) and not snapshot.of(ResourcePool):
        raise Failure(
            "you may not list resourceslices, and there are no resourcepools to read instead",
            "ask for the right to list resourceslices.resource.k8s.io: it shows devices, not who holds them",
        )
    if ResourcePool in kinds:
        await judge_counter(client, snapshot)
    if snapshot.namespaces is not None and ResourcePool in kinds and not snapshot.sees(ResourcePool):
        snapshot.notes.append(f"no ResourcePools can be read: {_LOSSES[ResourcePool]}")
    snapshot.notes += [
        f"you may not list {plural}: {_LOSSES[kind]}".removesuffix(": ")
        for kind, plural in snapshot.denied.items()
        if kind is not ResourcePool
        and kind in _LOSSES
        and (kind not in _COUNTED or snapshot.sees(ResourceSlice))
    ]
    snapshot.notes.sort()
    return snapshot


async def judge_counter(client: Client, snapshot: Snapshot) -> None:
    """Notes whether the shown counts may be old. This matters to callers who rely on ResourcePools, their only source for
    what others hold."""
    from datetime import UTC, datetime

    from allotment.api.status import NotFound, StatusError
    from allotment.usage.counter import API_VERSION, NAME, NAMESPACE, PLURAL, standstill

    snapshot.notes = [note for note in snapshot.notes if note != snapshot.standstill]
    snapshot.standstill = ""
    if not snapshot.of(ResourcePool) or (snapshot.namespaces is None and snapshot.sees(ResourceSlice)):
        return
    lease = None
    try:
        lease = await client.plain(API_VERSION, PLURAL).get(NAME, NAMESPACE)
    except NotFound:
        pass
    except StatusError:
        snapshot.standstill = (
            "you may not see whether the controller for ResourcePools is running: their counts may be old"
        )
    snapshot.standstill = snapshot.standstill or standstill(lease, datetime.now(UTC))
    snapshot.notes += [snapshot.standstill] if snapshot.standstill else []


async def _list(
    read: Read, kind: type[ApiStruct], served: Discovery, snapshot: Snapshot, namespaces: Sequence[str]
) -> None:
    from allotment.api.status import Forbidden, NotFound

    where = place(kind, served)
    if where is None:
        return
    try:
        snapshot.objects[kind] = await read(kind, where, "")
    except Forbidden:
        snapshot.denied[kind] = where.plural
    except NotFound:
        return  # the kind is gone since discovery
    if kind in snapshot.denied and kind in _PARTLY:
        for namespace in dict.fromkeys(namespaces):
            with suppress(Forbidden):
                found = await read(kind, where, namespace)
                snapshot.partly.setdefault(kind, {})[namespace] = found


async def _claims(
    read: Read, served: Discovery, snapshot: Snapshot, namespaces: Sequence[str], insist: bool
) -> None:
    from allotment.api.status import Forbidden

    where = place(ResourceClaim, served)
    if where is None:
        snapshot.namespaces = ()
        return
    try:
        snapshot.objects[ResourceClaim] = await read(ResourceClaim, where, "")
        return
    except Forbidden as exc:
        if insist:
            raise Failure(
                "you may not list resourceclaims of all namespaces",
                "leave out -A to see what is known without that right",
            ) from exc
    found, mine = [], []
    for namespace in dict.fromkeys(namespaces):
        try:
            found += await read(ResourceClaim, where, namespace)
            mine.append(namespace)
        except Forbidden:
            snapshot.notes.append(
                f"you may not list resourceclaims in namespace {namespace}; -n names others"
            )
    snapshot.namespaces = tuple(mine)
    if mine:
        snapshot.objects[ResourceClaim] = found
        snapshot.notes.append(
            f"you may list resourceclaims only in {snapshot.whose()}, not in all; -n names others"
        )


async def _all(client: Client, kind: type[S], where: ResourcePath, namespace: str) -> list[S]:
    from allotment.api.status import Expired
    from allotment.client.client import Collection
    from allotment.client.form import Typed

    collection = Collection(client, where, Typed(kind))
    try:
        return (await collection.list(namespace, limit=_PAGE_SIZE)).items
    except Expired:  # changes came faster than pages could be read
        return (await collection.list(namespace, limit=0)).items


def place(kind: type[ApiStruct], served: Discovery) -> ResourcePath | None:
    """The place where a server has a kind, in a version that our type can read."""
    from allotment.client.form import resource_of
    from allotment.client.places import PLACES

    places = PLACES.get(kind)
    if places is None:
        native = resource_of(kind)
        places = (native, replace(native, api_version="resource.k8s.io/v1beta2"))
    return next((each for each in places if served.has(each.api_version, each.plural)), None)
