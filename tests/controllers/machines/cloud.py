"""A cloud that outlives the processes that talk to it, counts what they do, and fails when it is told to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum

from msgspec.structs import replace

from allotment.api.autoscaling import NodeClaim
from allotment.api.core import Node, NodeCondition
from allotment.api.meta import OwnerReference
from allotment.api.resource import ResourceSlice
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.catalogue.node_claims import foreseen
from allotment.controllers.machines.membership import UNREGISTERED
from allotment.controllers.machines.provider import LaunchFailed, OutOfStock, Running, Surroundings
from tests.controllers.cluster import Cluster

READY = NodeCondition(type="Ready", status="True", reason="KubeletReady")


class Trouble(Enum):
    """What happens to a launch."""

    OUT = "there is none"
    FAILED = "it fails, and says so"
    STRANGE = "it fails in a way that nobody foresaw"
    LOST = "it is launched, and its answer is lost"
    HUNG = "it is launched, and the answer never comes"


class SkewedClock:
    """Real time, which the server writes into objects, and as much more as was told."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def pass_(self, seconds: float) -> None:
        self._ahead += timedelta(seconds=seconds)


class Cloud:
    """The provider. ``plan`` says what happens to the launch of a number, counted from 1.

    Machines that are launched make their nodes join at once unless ``slow``; then :meth:`join` does. Nodes are named unlike
    their claims.
    """

    name = "cloud"

    def __init__(self, cluster: Cluster, plan: Callable[[int], Trouble | None] = lambda number: None) -> None:
        self._admin = cluster.admin
        self.plan = plan
        self.slow = False
        self.stuck = False  # machines do not end
        self.asked = 0
        self.launches: Counter[str] = Counter()  # by claim
        self.running: dict[str, tuple[NodeClaim, Machine]] = {}
        self.struck = asyncio.Event()
        self._joining: list[asyncio.Task[Node]] = []

    def __call__(self, surroundings: Surroundings) -> Cloud:
        return self

    def id_of(self, uid: str) -> str:
        return f"cloud:///{uid}"

    async def launch(self, claim: NodeClaim, machine: Machine) -> Running:
        self.asked += 1
        trouble = self.plan(self.asked)
        if trouble is Trouble.OUT:
            raise OutOfStock(f"no {machine.name} today")
        if trouble is Trouble.FAILED:
            raise LaunchFailed("the quota is used up")
        if trouble is Trouble.STRANGE:
            raise KeyError("region")
        uid = claim.metadata.uid
        if uid not in self.running:
            self.launches[uid] += 1
            self.running[uid] = (claim, machine)
            if not self.slow:  # machines start whether anybody waits for the answer or not
                self._joining.append(asyncio.create_task(self.join(uid)))
                await asyncio.shield(self._joining[-1])
        if trouble is not None:
            self.struck.set()
        if trouble is Trouble.LOST:
            raise ConnectionResetError("gone")
        if trouble is Trouble.HUNG:
            await asyncio.Event().wait()
        return Running(self.id_of(uid), uid)

    async def join(self, uid: str, *, devices: int | None = None, ready: bool = True) -> Node:
        """Makes a machine's node join and its drivers publish; ``devices`` of each slice at most."""
        claim, machine = self.running[uid]
        node, slices = foreseen(claim, machine)
        name = f"ip-{uid[:8]}"
        node = replace(
            node,
            metadata=replace(node.metadata, name=name, labels={}),
            spec=replace(node.spec, provider_id=self.id_of(uid), taints=(UNREGISTERED,)),
            status=replace(node.status, conditions=(READY,) if ready else ()),
        )
        node = await self._admin.of(Node).create(node)
        for each in slices:
            await self._publish(each, node, devices)
        return node

    async def join_all(self) -> None:
        """Makes those nodes join that were slow."""
        await asyncio.gather(*self._joining)
        joined = {each.spec.provider_id for each in (await self._admin.of(Node).list()).items}
        for uid in self.running:
            if self.id_of(uid) not in joined:
                await self.join(uid)

    async def _publish(self, slice: ResourceSlice, node: Node, devices: int | None) -> None:
        name, uid = node.metadata.name, node.metadata.uid
        owner = OwnerReference(api_version="v1", kind="Node", name=name, uid=uid)
        meta = replace(slice.metadata, name=f"{name}-{slice.spec.driver}", owner_references=(owner,))
        spec = replace(slice.spec, node_name=name, devices=slice.spec.devices[:devices])
        spec = replace(spec, pool=replace(spec.pool, name=name))
        await self._admin.of(ResourceSlice).create(replace(slice, metadata=meta, spec=spec))

    async def terminate(self, claim: str) -> bool:
        if self.stuck:
            return False
        self.running.pop(claim, None)
        return True

    async def machines(self) -> Sequence[Running]:
        return [Running(self.id_of(uid), uid) for uid in self.running]
