"""Whatever fails between two writes, and whoever is gone then: nothing is launched twice, nothing is left behind."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from allotment.api.autoscaling import NodeClaim
from allotment.api.core import Node
from allotment.api.resource import ResourceSlice
from allotment.api.status import NotFound
from allotment.autoscaler.catalogue.node_claims import ClaimProgress
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.failing import BORNE, Failing, Fault, with_each_write_failing
from tests.controllers.machines.cloud import Cloud, SkewedClock, Trouble
from tests.controllers.machines.world import Part, claim, delete, follow, running, seen, state, until

KINDS = (NodeClaim, Node, ResourceSlice)


async def left_nothing(cluster: Cluster, cloud: Cloud) -> None:
    """All that is left is to be collected by who collects garbage everywhere."""
    await cluster.eventually(lambda: not any(cluster.seen.of(kind).all() for kind in KINDS), "all to be gone")
    assert not cloud.running
    assert set(cloud.launches.values()) <= {1}


def test_every_write_may_fail(tmp_path: Path) -> None:
    async def life(cluster: Cluster, failing: Failing) -> None:
        cloud = Cloud(cluster)
        await running(cluster, cloud, failing=failing)
        await claim(cluster)
        await until(cluster, ClaimProgress.INITIALIZED)
        await delete(cluster)
        await until(cluster, None)
        await left_nothing(cluster, cloud)

    writes = with_each_write_failing(tmp_path, life, 3)
    assert (
        len(writes) >= 8
    )  # launched; registered, twice; initialised, twice; cordoned, drained, node, finalizer


@pytest.mark.parametrize("how", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER], ids=lambda each: each.name)
def test_every_write_may_be_the_last_of_a_process(tmp_path: Path, how: Fault) -> None:
    """Each process makes one write and ends, before or after it is carried out."""

    async def scenario(cluster: Cluster) -> None:
        cloud = Cloud(cluster)
        await follow(cluster)
        await claim(cluster)
        processes = await one_write_each(cluster, cloud, how, ClaimProgress.INITIALIZED)
        await delete(cluster)
        processes += await one_write_each(cluster, cloud, how, None)
        assert processes >= 9
        await left_nothing(cluster, cloud)

    in_cluster(tmp_path, scenario)


async def one_write_each(cluster: Cluster, cloud: Cloud, how: Fault, wanted: ClaimProgress | None) -> int:
    for number in range(30):
        # a write that is never carried out has to be let through at last: the first one of every second process
        at = 2 if how is Fault.CRASH_BEFORE and number % 2 else 1
        failing = Failing.once(at, how)
        part = await running(cluster, cloud, failing=failing)
        ended = asyncio.create_task(failing.struck.wait())
        settled = asyncio.create_task(until(cluster, wanted))
        await asyncio.wait((ended, settled), return_when=asyncio.FIRST_COMPLETED)
        done = settled.done() and not ended.done()
        for task in (ended, settled):
            task.cancel()
        await asyncio.gather(ended, settled, return_exceptions=True)
        await part.component.stop()
        if done or state(cluster) is wanted:
            return number + 1
    raise AssertionError(f"not {wanted} after 30 processes")


class Walk:
    """Claims come and go, launches fail, processes end, time passes; in any order."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster, self.chance = cluster, Random(seed)
        self.clock, self.cloud = SkewedClock(), Cloud(cluster, self._trouble)
        self.calm = False
        self.made = 0

    def _trouble(self, number: int) -> Trouble | None:
        if self.calm:
            return None
        troubles: list[Trouble | None] = [None, None, None, *Trouble]
        return self.chance.choice(troubles)

    async def start(self) -> None:
        plan = {number: self.chance.choice([None] * 7 + list(BORNE)) for number in range(1, 60)}
        failing = Failing(lambda number: None if self.calm else plan.get(number))
        self.part: Part = await running(self.cluster, self.cloud, clock=self.clock, failing=failing)

    async def step(self) -> None:
        match self.chance.randrange(8):
            case 0 | 1 | 2:
                self.made += 1
                await claim(self.cluster, f"c{self.made}", self.chance.choice(["large", "small"]))
            case 3:
                there = sorted(each.metadata.name for each in self.cluster.seen.of(NodeClaim).all())
                if there:
                    with suppress(NotFound):
                        await self.cluster.admin.of(NodeClaim).delete(self.chance.choice(there))
            case 4:
                await self.part.component.stop()
                await self.start()
            case 5:
                self.clock.pass_(self.chance.choice([5, 60, 400]))
                self.part.look_again()
            case 6:
                self.cloud.slow = not self.cloud.slow
            case 7:
                nodes = sorted(each.metadata.name for each in self.cluster.seen.of(Node).all())
                if nodes and self.chance.random() < 0.3:
                    with suppress(NotFound):
                        await self.cluster.admin.of(Node).delete(self.chance.choice(nodes))
        for _ in range(self.chance.randrange(30)):
            await asyncio.sleep(0)

    async def rest(self) -> None:
        """Everything works again, and what was put off is done."""
        self.calm, self.cloud.slow = True, False
        await self.part.component.stop()  # calls that hang end with it
        await self.cloud.join_all()
        await self.start()
        for _ in range(3):
            await self.cluster.quiet()
            self.clock.pass_(200)
            self.part.look_again()
        await self.cluster.quiet()

    def check(self) -> None:
        """Claims, machines and nodes are one to one."""
        claims = self.cluster.seen.of(NodeClaim).all()
        nodes = self.cluster.seen.of(Node).all()
        assert {state(self.cluster, each.metadata.name) for each in claims} <= {ClaimProgress.INITIALIZED}
        assert {each.metadata.uid for each in claims} == set(self.cloud.running)
        assert sorted(each.metadata.name for each in nodes) == sorted(
            each.status.node_name or "" for each in claims
        )
        assert set(self.cloud.launches.values()) <= {1}


@pytest.mark.parametrize("seed", range(4))
def test_claims_machines_and_nodes_are_one_to_one_after_any_storm(tmp_path: Path, seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await follow(cluster)
        walk = Walk(cluster, seed)
        await walk.start()
        for _ in range(40):
            await walk.step()
        await walk.rest()
        walk.check()
        for each in cluster.seen.of(NodeClaim).all():
            await cluster.admin.of(NodeClaim).delete(each.metadata.name)
        await cluster.eventually(lambda: not cluster.seen.of(NodeClaim).all(), "claims to go")
        await left_nothing(cluster, walk.cloud)

    in_cluster(tmp_path, scenario)


def test_a_restart_goes_on_where_the_last_process_ended(tmp_path: Path) -> None:
    """With the simulated provider, which has no memory but the cluster."""

    async def scenario(cluster: Cluster) -> None:
        part = await running(cluster)
        await claim(cluster, annotations={"allotment.dev/boot-seconds": "100"})
        await until(cluster, ClaimProgress.LAUNCHED)
        await part.component.stop()
        clock = SkewedClock()
        clock.pass_(101)
        await running(cluster, clock=clock)
        await until(cluster, ClaimProgress.INITIALIZED)
        found = seen(cluster)
        assert found is not None
        assert found.status.node_name == "c"

    in_cluster(tmp_path, scenario)
