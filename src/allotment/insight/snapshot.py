"""What the caller sees of a cluster, read once.

From a server with the rights that the caller has: a kind that may not be listed, or is not served, is left out and, where that
makes a difference, noted. Claims are asked for in all namespaces; whoever may not do that sees those of some, and
everything that is computed from them says so. From files everything that they hold is seen.
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
"""Lists a kind at a place, in a namespace or, if that is empty, in all."""

USE = (ResourceSlice, semantic.NodeResourceSlice, ResourceClaim, DeviceTaintRule, ResourcePool)
"""The kinds that tell what is in use."""

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
"""Kinds that a scheduler reads, or who foresees what it does, and allocation does not look at."""

_PAGE = 2_500
"""Objects that are asked for at a time. A command waits for all of them, so what counts is how often it has to ask."""

_LOSSES = {
    ResourceSlice: "devices are not known, and pools only as their ResourcePools count them",
    DeviceTaintRule: "devices that rules taint are told as if they were not",
    semantic.NodeResourceSlice: "devices in KEP-4381's early form are left out",
    ResourcePool: "what claims hold that you may not see is not known",
    Node: "whether nodes exist and what they reach is not known",
    Pod: "whether the users of claims still run is not known",
    DeviceClass: "",
    DaemonSet: "what DaemonSets will take of new machines is not counted",
}
"""What goes with a kind that may not be listed."""

_PARTLY = (Pod, ResourceClaimTemplate, PodGroup, VolcanoPodGroup, ResourceQuota)
"""Kinds of which those in the caller's own namespaces are of use by themselves."""

_COUNTED = (DeviceTaintRule, semantic.NodeResourceSlice)
"""Kinds that ResourcePools take into account: who sees only those misses nothing of these."""


@dataclass
class Snapshot:
    """Objects by kind, and what is to be said about what is not here."""

    objects: dict[type[ApiStruct], list[Any]] = field(default_factory=dict, repr=False)
    namespaces: tuple[str, ...] | None = None  # those whose claims are seen; None: all
    notes: list[str] = field(default_factory=list)
    denied: dict[type[ApiStruct], str] = field(
        default_factory=dict
    )  # kinds that may not be listed, with plurals
    standstill: str = ""  # what the notes say of counts that nobody keeps up
    partly: dict[type[ApiStruct], dict[str, list[Any]]] = field(
        default_factory=dict, repr=False
    )  # of such kinds, what there is in namespaces where they may

    def of(self, kind: type[S]) -> list[S]:
        """All objects of a kind; none if it is not seen."""
        return self.objects.get(kind, [])

    def some(self, kind: type[S]) -> list[S]:
        """As ``of``; where only those of some namespaces may be listed, those."""
        if kind in self.objects:
            return self.of(kind)
        return [obj for objects in self.partly.get(kind, {}).values() for obj in objects]

    def knows(self, kind: type[ApiStruct], namespace: str) -> bool:
        """Whether all objects of a kind in a namespace are here."""
        if kind is ResourceClaim:
            return self.namespaces is None or namespace in self.namespaces
        return kind in self.objects or namespace in self.partly.get(kind, {})

    def sees(self, kind: type[ApiStruct]) -> bool:
        """Whether all objects of a kind are here; of claims, those of some namespaces do."""
        return kind in self.objects

    @property
    def claims(self) -> list[AnyClaim]:
        return [*self.of(ResourceClaim), *self.of(semantic.ResourceClaim)]

    @cached_property
    def usage(self) -> Usage:
        """Who has what, as far as the caller may know."""
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
        """Every pool; without the right to see slices, as ResourcePools count it, device by device unknown."""
        if self.sees(ResourceSlice):
            return self.usage.pools()
        return sorted([as_published(pool) for pool in self.of(ResourcePool)], key=lambda pool: pool.id)

    def whose(self, only: Sequence[str] = ()) -> str:
        """Of which namespaces claims are seen, for people; with ``only``, of which of these."""
        names = self.namespaces
        if only:
            names = tuple([name for name in dict.fromkeys(only) if names is None or name in names])
        if names is None:
            return "all namespaces"
        if not names:
            return "no namespace"
        return f"{'namespaces' if len(names) > 1 else 'namespace'} {', '.join(names)}"


def look(source: ClusterSource, kinds: Sequence[type[ApiStruct]]) -> Snapshot:
    """What there is of these kinds. Raises NoAnswer, or BadInput for files."""
    if source.offline:
        return _read(source.offline)
    import uvloop

    try:
        return uvloop.run(_ask(source, kinds))
    except Failure as exc:
        raise NoAnswer(exc.message, exc.hint) from exc


# --- files ---


def _read(files: Sequence[str]) -> Snapshot:
    """What is saved in files. All claims are taken to be there. Fields that we do not know are no mistakes: a newer server
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
    seen = Snapshot({ResourcePool: [each.obj for each in pools]})
    seen.objects[ResourceSlice] = cluster.slices  # tainted already as rules have it
    seen.objects[semantic.NodeResourceSlice] = cluster.node_slices
    seen.objects[DeviceClass] = cluster.classes
    seen.objects[semantic.ResourceClass] = cluster.resource_classes
    seen.objects[semantic.ResourceClassParameters] = cluster.class_parameters
    seen.objects[semantic.ResourceClaimParameters] = cluster.claim_parameters
    for claim in cluster.claims.values():
        seen.objects.setdefault(type(claim), []).append(claim)
    if any(isinstance(each.obj, Node) for each in others):  # else they are made up
        seen.objects[Node] = cluster.nodes
    if cluster.pods:
        seen.objects[Pod] = cluster.pods
    for volume in cluster.volumes:
        seen.objects.setdefault(type(volume), []).append(volume)
    for template in cluster.templates.values():
        seen.objects.setdefault(type(template), []).append(template)
    seen.objects.setdefault(ResourceClaimTemplate, [])
    for each in groups:
        made, _ = prepared(each, check_expression)
        assert made is not None
        seen.objects.setdefault(type(made), []).append(made)
    if not (cluster.slices or cluster.node_slices or pools):
        names = " ".join(files)
        raise NoAnswer(
            f"{names} have no ResourceSlices",
            "save them with: kubectl get resourceslices,resourceclaims,nodes,pods,deviceclasses -A -o yaml",
        )
    return seen


def made_up_nodes(slices: Iterable[ResourceSlice]) -> list[Node]:
    """Nodes by the names that slices have, for whoever sees no others."""
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
    """What a client's user sees. ``namespaces`` are those whose claims to look at if not all may be listed, unless all are
    insisted on. ``read`` lists one kind; it may keep what it does it with. Raises Failure if there is nothing to tell of."""
    from allotment.client.discovery import discover

    served = await discover(client)
    if place(ResourceSlice, served) is None and place(ResourcePool, served) is None:
        raise Failure(
            "the server has no resource.k8s.io/v1 or v1beta2",
            "dynamic resource allocation is on by default since Kubernetes 1.34",
        )
    seen, read = Snapshot(), read or partial(_all, client)
    others = [kind for kind in kinds if kind is not ResourceClaim]
    claims = _claims(read, served, seen, namespaces, insist) if ResourceClaim in kinds else None
    lists = [_list(read, kind, served, seen, namespaces) for kind in others]
    await asyncio.gather(*lists, *filter(None, [claims]))
    if ResourceSlice in kinds and not seen.sees(ResourceSlice) and not seen.of(ResourcePool):
        raise Failure(
            "you may not list resourceslices, and there are no resourcepools to read in their place",
            "ask for the right to list resourceslices.resource.k8s.io: it tells of devices, not of who has them",
        )
    if ResourcePool in kinds:
        await judge_counter(client, seen)
    if seen.namespaces is not None and ResourcePool in kinds and not seen.sees(ResourcePool):
        seen.notes.append(f"no ResourcePools can be read: {_LOSSES[ResourcePool]}")
    seen.notes += [
        f"you may not list {plural}: {_LOSSES[kind]}".removesuffix(": ")
        for kind, plural in seen.denied.items()
        if kind is not ResourcePool and kind in _LOSSES and (kind not in _COUNTED or seen.sees(ResourceSlice))
    ]
    seen.notes.sort()
    return seen


async def judge_counter(client: Client, seen: Snapshot) -> None:
    """Notes whether counts that are shown may be old: of whoever goes by ResourcePools, as nothing else tells them what others hold."""
    from datetime import UTC, datetime

    from allotment.api.status import NotFound, StatusError
    from allotment.usage.counter import API_VERSION, NAME, NAMESPACE, PLURAL, standstill

    seen.notes = [note for note in seen.notes if note != seen.standstill]
    seen.standstill = ""
    if not seen.of(ResourcePool) or (seen.namespaces is None and seen.sees(ResourceSlice)):
        return
    lease = None
    try:
        lease = await client.plain(API_VERSION, PLURAL).get(NAME, NAMESPACE)
    except NotFound:
        pass
    except StatusError:
        seen.standstill = "whether the counter of ResourcePools runs cannot be seen: their counts may be old"
    seen.standstill = seen.standstill or standstill(lease, datetime.now(UTC))
    seen.notes += [seen.standstill] if seen.standstill else []


async def _list(
    read: Read, kind: type[ApiStruct], served: Discovery, seen: Snapshot, namespaces: Sequence[str]
) -> None:
    from allotment.api.status import Forbidden, NotFound

    where = place(kind, served)
    if where is None:
        return
    try:
        seen.objects[kind] = await read(kind, where, "")
    except Forbidden:
        seen.denied[kind] = where.plural
    except NotFound:
        return  # it has gone since the server told of it
    if kind in seen.denied and kind in _PARTLY:
        for namespace in dict.fromkeys(namespaces):
            with suppress(Forbidden):
                found = await read(kind, where, namespace)
                seen.partly.setdefault(kind, {})[namespace] = found


async def _claims(
    read: Read, served: Discovery, seen: Snapshot, namespaces: Sequence[str], insist: bool
) -> None:
    from allotment.api.status import Forbidden

    where = place(ResourceClaim, served)
    if where is None:
        seen.namespaces = ()
        return
    try:
        seen.objects[ResourceClaim] = await read(ResourceClaim, where, "")
        return
    except Forbidden as exc:
        if insist:
            raise Failure(
                "you may not list resourceclaims of all namespaces",
                "leave out -A to be told what can be told without",
            ) from exc
    found, mine = [], []
    for namespace in dict.fromkeys(namespaces):
        try:
            found += await read(ResourceClaim, where, namespace)
            mine.append(namespace)
        except Forbidden:
            seen.notes.append(f"you may not list resourceclaims in namespace {namespace}; -n names others")
    seen.namespaces = tuple(mine)
    if mine:
        seen.objects[ResourceClaim] = found
        seen.notes.append(f"you may list resourceclaims only in {seen.whose()}, not in all; -n names others")


async def _all(client: Client, kind: type[S], where: ResourcePath, namespace: str) -> list[S]:
    from allotment.api.status import Expired
    from allotment.client.client import Collection
    from allotment.client.form import Typed

    collection = Collection(client, where, Typed(kind))
    try:
        return (await collection.list(namespace, limit=_PAGE)).items
    except Expired:  # changes came faster than pages
        return (await collection.list(namespace, limit=0)).items


def place(kind: type[ApiStruct], served: Discovery) -> ResourcePath | None:
    """Where a server has a kind, in a version that reads like ours."""
    from allotment.client.form import resource_of
    from allotment.client.places import PLACES

    places = PLACES.get(kind)
    if places is None:
        native = resource_of(kind)
        places = (native, replace(native, api_version="resource.k8s.io/v1beta2"))
    return next((each for each in places if served.has(each.api_version, each.plural)), None)
