"""Simulated machines: a Node appears after a while, its drivers publish after another while, and pods run on it as on any
simulated node.

There is no cloud with a memory of its own: a machine runs if its claim says that it was launched, or if its Node exists. So a
launch needs no write, and cannot happen twice. Bound attributes get values at launch: equal ones where they are bound
together, and different ones everywhere else.

Annotations of the claim simulate failures and delays; they come from the template of its pool or group:

    allotment.dev/boot-seconds         until the Node appears; 2 unless given
    allotment.dev/publish-seconds      from then until its slices do; 1 unless given
    allotment.dev/out-of-stock         unavailable types, separated by commas: t, t/zone, t/zone/capacity type; * for all
    allotment.dev/failing-seconds      launches fail until the claim has this age
    allotment.dev/missing-devices      this many devices of each driver, the last ones, are not published
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from allotment.api.autoscaling import HOSTNAME, NodeClaim
from allotment.api.core import Node, NodeSpec, NodeStatus
from allotment.api.meta import ObjectMeta, OwnerReference
from allotment.api.resource import Device, DeviceAttribute, ResourceSlice
from allotment.api.rights import READ
from allotment.api.semantic import NodeResourceSlice
from allotment.api.status import AlreadyExists, NotFound
from allotment.api.unknown_attribute import UnknownAttribute
from allotment.autoscaler.catalogue.machine import Machine, trees_of
from allotment.autoscaler.catalogue.node_claims import LAUNCHED, ClaimProgress, condition, foreseen, state_of
from allotment.client.client import Collection
from allotment.client.form import Typed
from allotment.client.work_queue import WorkQueue
from allotment.controllers.clock import left
from allotment.controllers.controller import Again, Reconciler
from allotment.controllers.machines.membership import UNREGISTERED, follow_nodes, plain_taints
from allotment.controllers.machines.provider import LaunchFailed, OutOfStock, Running, Surroundings
from allotment.controllers.simulation.marks import SIMULATED, seconds

PREFIX = "simulated://"
BOOT_SECONDS, PUBLISH_SECONDS = "allotment.dev/boot-seconds", "allotment.dev/publish-seconds"
OUT_OF_STOCK, FAILING_SECONDS = "allotment.dev/out-of-stock", "allotment.dev/failing-seconds"
MISSING_DEVICES = "allotment.dev/missing-devices"


class SimulatedProvider:
    """The provider of simulated machines."""

    name = "simulated"

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._claims = surroundings.informers.at(surroundings.claims, NodeClaim)
        self._nodes = follow_nodes(surroundings.informers)
        self._client_nodes = surroundings.client.of(Node)

    def reconcilers(self) -> Sequence[Reconciler[str]]:
        return [SimulatedMachines(self._surroundings)]

    async def launch(self, claim: NodeClaim, machine: Machine) -> Running:
        if not machine.offering.available or _sold_out(claim, machine):
            raise OutOfStock(f"{machine.name} is out of stock")
        since = claim.metadata.creation_timestamp
        if left(since, _number(claim, FAILING_SECONDS, 0), self._surroundings.now()) > 0:
            raise LaunchFailed(f"{machine.name}: the launch fails, because {FAILING_SECONDS} says so")
        return Running(PREFIX + claim.metadata.uid, claim.metadata.uid)

    async def terminate(self, claim: str) -> bool:
        for node in self._nodes.of(PREFIX + claim):
            with suppress(NotFound):
                await self._client_nodes.delete(node.metadata.name, uid=node.metadata.uid)
        return True

    async def machines(self) -> Sequence[Running]:
        ids = {
            each.status.provider_id or ""
            for each in self._claims.all()
            if state_of(each) is not ClaimProgress.GOING
        }
        ids |= {node.spec.provider_id or "" for node in self._nodes.all()}
        return [Running(id, id.removeprefix(PREFIX)) for id in sorted(ids) if id.startswith(PREFIX)]


class SimulatedMachines:
    """Reconciles the claims of simulated machines until everything that was requested exists."""

    name = "simulated-machines"
    rights = (
        f"{READ}: karpenter.sh: nodeclaims",
        f"create,delete,patch,{READ}: core: nodes",
        "create: resource.k8s.io: resourceslices",
        "create: ours: noderesourceslices",
    )

    def __init__(self, surroundings: Surroundings) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._market, self._now = surroundings.market, surroundings.now
        client, informers = surroundings.client, surroundings.informers
        self._client_nodes, self._client_slices = client.of(Node), client.of(ResourceSlice)
        trees = surroundings.trees
        self._client_trees = (
            Collection(client, trees, Typed(NodeResourceSlice)) if trees is not None else None
        )
        self._claims, self._nodes = informers.at(surroundings.claims, NodeClaim), follow_nodes(informers)
        self._claims.on_change(lambda _, new: self.queue.add(new.metadata.name) if new is not None else None)

    async def reconcile(self, key: str) -> Again | None:
        claim = self._claims.get(key)
        id = claim.status.provider_id if claim is not None else None
        if claim is None or id is None or not id.startswith(PREFIX) or not state_of(claim).is_coming:
            return None
        nodes = self._nodes.of(id)
        if nodes:
            return await self._publish(claim, nodes[0])
        if state_of(claim) is ClaimProgress.REGISTERED:
            return None  # a power failure is simulated
        launched = condition(claim, LAUNCHED)
        since = launched.last_transition_time if launched is not None else None
        wait = left(since, _number(claim, BOOT_SECONDS, 2), self._now())
        if wait > 0:
            return Again(wait, "its machine is starting")
        with suppress(AlreadyExists):
            node = await self._client_nodes.create(_node(claim))
            return await self._publish(claim, node)
        return None

    async def _publish(self, claim: NodeClaim, node: Node) -> Again | None:
        since = node.metadata.creation_timestamp
        wait = left(since, _number(claim, PUBLISH_SECONDS, 1), self._now())
        if wait > 0:
            return Again(wait, "its drivers are starting")
        machine = self._market.machine_of(claim)
        for each in _slices(claim, machine, node) if machine is not None else ():
            with suppress(AlreadyExists):
                await self._client_slices.create(each)
        if machine is not None and self._client_trees is not None:
            for tree in trees_of(machine, node.metadata.name):
                metadata = replace(tree.metadata, owner_references=(_owner(node),))
                with suppress(AlreadyExists):
                    await self._client_trees.create(
                        replace(tree, api_version=self._client_trees.resource.api_version, metadata=metadata)
                    )
        await self._begin(claim, node)
        return None

    async def _begin(self, claim: NodeClaim, node: Node) -> None:
        """Removes the start-up taints of a node, as the daemons would for which they wait."""
        starting = {(taint.key, taint.effect) for taint in claim.spec.startup_taints}
        kept = [taint for taint in node.spec.taints if (taint.key, taint.effect) not in starting]
        if len(kept) < len(node.spec.taints) and state_of(claim) is ClaimProgress.REGISTERED:
            await self._client_nodes.change(node, {"spec": {"taints": plain_taints(kept)}})


def _node(claim: NodeClaim) -> Node:
    """The node as it joins: with everything that the claim says, and a taint that keeps pods off until it is registered."""
    name, status = claim.metadata.name, claim.status
    return Node(
        metadata=ObjectMeta(name=name, labels={**claim.metadata.labels, HOSTNAME: name, SIMULATED: "true"}),
        spec=NodeSpec(
            provider_id=status.provider_id,
            taints=(*claim.spec.taints, *claim.spec.startup_taints, UNREGISTERED),
        ),
        status=NodeStatus(capacity=status.capacity, allocatable=status.allocatable),
    )


def _slices(claim: NodeClaim, machine: Machine, node: Node) -> list[ResourceSlice]:
    """The predicted slices, with values for what was unknown, and with the faults that the annotations ask for."""
    owner = _owner(node)
    values: dict[str, DeviceAttribute] = {}
    missing = int(_number(claim, MISSING_DEVICES, 0))
    made = []
    for each in foreseen(claim, machine)[1]:
        devices = [_device(device, claim.metadata.uid, values) for device in each.spec.devices]
        spec = replace(each.spec, devices=tuple(devices[: max(len(devices) - missing, 0)]))
        made.append(replace(each, metadata=replace(each.metadata, owner_references=(owner,)), spec=spec))
    return made


def _owner(node: Node) -> OwnerReference:
    return OwnerReference(api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid)


def _device(device: Device, uid: str, values: dict[str, DeviceAttribute]) -> Device:
    attributes = dict(device.attributes)
    for name, value in attributes.items():
        if isinstance(value, UnknownAttribute):
            fresh = DeviceAttribute(string_value=f"{uid[:8]}-{len(values)}")
            attributes[name] = values.setdefault(value.binding_key, fresh)
    return replace(device, attributes=attributes)


def _sold_out(claim: NodeClaim, machine: Machine) -> bool:
    place = machine.offering
    names = {
        "*",
        machine.type,
        f"{machine.type}/{place.zone}",
        f"{machine.type}/{place.zone}/{place.capacity_type}",
    }
    return not names.isdisjoint(
        each.strip() for each in claim.metadata.annotations.get(OUT_OF_STOCK, "").split(",")
    )


def _number(claim: NodeClaim, annotation: str, default: float) -> float:
    found = seconds(claim.metadata.annotations.get(annotation))
    return default if found is None else found
