"""Nodes that join by themselves: a fleet follows the number that its group has, and each claim gets a node."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from allotment.api.autoscaling import NodeClaim, NodeGroup
from allotment.api.core import Node, NodeStatus
from allotment.api.meta import ObjectMeta
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.catalogue.node_claims import ClaimProgress, claim_of
from allotment.autoscaler.catalogue.overlays import evaluate
from allotment.controllers.machines.group_provider import REMOVED, GroupProvider
from tests.autoscaler.build import catalogue, group
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.machines.cloud import READY
from tests.controllers.machines.world import Part, claim, delete, follow, running, seen, state, told


class Fleet:
    """What the operator of a group runs: as many nodes as the group's target, those that are marked gone first."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers = count()

    async def work(self) -> None:
        await self._cluster.quiet()
        nodes = self._cluster.admin.of(Node)
        found = (await nodes.list()).items
        for node in found:
            if REMOVED in node.metadata.annotations:
                await nodes.delete(node.metadata.name)
        staying = [each for each in found if REMOVED not in each.metadata.annotations]
        group = await self._cluster.admin.of(NodeGroup).get("racks")
        for _ in range((group.status.target or 0) - len(staying)):
            await self.join()
        await self._cluster.quiet()

    async def join(self) -> None:
        name = f"rack-{next(self._numbers)}"
        labels = {"allotment.dev/nodegroup": "racks"}
        made = Node(metadata=ObjectMeta(name=name, labels=labels), status=NodeStatus(conditions=(READY,)))
        await self._cluster.admin.of(Node).create(made)


async def begin(cluster: Cluster, **spec: int) -> tuple[Part, Machine, Fleet]:
    made = group("racks", max=spec.get("max", 2), min=spec.get("min", 0))
    await cluster.admin.of(NodeGroup).create(made)
    part = await running(cluster, GroupProvider, types=catalogue())
    await follow(cluster)
    await cluster.seen.of(NodeGroup).synced()
    [machine] = evaluate(catalogue(made)).machines
    await cluster.quiet()
    return part, machine, Fleet(cluster)


async def ask(cluster: Cluster, machine: Machine, name: str) -> None:
    await cluster.admin.of(NodeClaim).create(claim_of(machine, {}, name=name))
    await cluster.quiet()


def target(cluster: Cluster) -> int | None:
    found = cluster.seen.of(NodeGroup).get("racks")
    assert found is not None
    return found.status.target


def node_of(cluster: Cluster, name: str) -> str | None:
    found = seen(cluster, name)
    return found.status.node_name if found is not None else None


def test_each_claim_gets_a_node_and_takes_it_along(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        _, machine, fleet = await begin(cluster)
        await ask(cluster, machine, "a")
        assert target(cluster) == 1
        await ask(cluster, machine, "b")
        assert target(cluster) == 2
        await fleet.work()
        assert (state(cluster, "a"), state(cluster, "b")) == (
            ClaimProgress.INITIALIZED,
            ClaimProgress.INITIALIZED,
        )
        assert {node_of(cluster, "a"), node_of(cluster, "b")} == {"rack-0", "rack-1"}
        await ask(cluster, machine, "c")
        assert told(cluster, "Launched", "c").message == "group racks already has its maximum of 2 nodes"
        kept = node_of(cluster, "b")
        await delete(cluster, "a")
        await cluster.quiet()
        assert (target(cluster), state(cluster, "a")) == (1, ClaimProgress.GOING)
        await fleet.work()
        assert state(cluster, "a") is None
        assert [each.metadata.name for each in cluster.seen.of(Node).all()] == [kept]

    in_cluster(tmp_path, scenario)


def test_a_node_that_nobody_waits_for_any_more_is_kept_for_the_next(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        _, machine, fleet = await begin(cluster, min=1, max=1)
        assert target(cluster) == 1
        await fleet.work()
        await ask(cluster, machine, "a")
        assert (state(cluster, "a"), node_of(cluster, "a")) == (ClaimProgress.INITIALIZED, "rack-0")
        await delete(cluster, "a")
        await cluster.quiet()
        assert target(cluster) == 1  # another one is to come, as one is the least
        await fleet.work()
        assert [each.metadata.name for each in cluster.seen.of(Node).all()] == ["rack-1"]

    in_cluster(tmp_path, scenario)


def test_a_claim_that_goes_before_its_node_comes(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        part, machine, fleet = await begin(cluster)
        await ask(cluster, machine, "a")
        await delete(cluster, "a")
        await cluster.quiet()
        assert (target(cluster), state(cluster, "a")) == (0, None)
        await fleet.join()  # it was on its way
        part.look_again()
        await ask(cluster, machine, "b")
        assert node_of(cluster, "b") == "rack-0"

    in_cluster(tmp_path, scenario)


def test_machines_of_no_group_are_not_for_this_provider(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await running(cluster, GroupProvider)
        await follow(cluster)
        await claim(cluster)
        await cluster.quiet()
        assert told(cluster, "Launched").message.startswith(
            "p/large/a/on-demand does not belong to a NodeGroup"
        )

    in_cluster(tmp_path, scenario)
