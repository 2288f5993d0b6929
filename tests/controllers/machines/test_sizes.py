"""What pools and groups have, when pods came and went, and the numbers that are served."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path

from prometheus_client import CollectorRegistry

from allotment.api.autoscaling import NodeClaim, NodeGroup, NodePool
from allotment.api.core import Node, NodeStatus, Pod
from allotment.api.meta import ObjectMeta
from allotment.api.quantity import Quantity
from allotment.api.timestamps import moment
from allotment.autoscaler.catalogue.node_claims import ClaimProgress, claim_of
from allotment.client.form import resource_of
from allotment.controllers.machines.metrics import MachineNumbers
from allotment.controllers.machines.pod_events import PodEvents
from allotment.controllers.machines.sizes import SourceSizes
from tests.autoscaler.build import catalogue, gpus, group, machine, pool, type_
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.machines.cloud import Cloud, SkewedClock, Trouble
from tests.controllers.machines.world import PLACE, claim, delete, follow, running, seen, until
from tests.controllers.simulation.simulated import placed_pod


async def counting(cluster: Cluster) -> None:
    part = cluster.component()
    made = SourceSizes(
        part.client,
        part.informers,
        claims=PLACE,
        pools=resource_of(NodePool),
        groups=resource_of(NodeGroup),
    )
    await part.start(made)
    for kind in (NodePool, NodeGroup):
        await cluster.seen.of(kind).synced()


def small_node(name: str, **labels: str) -> Node:
    amounts = {"cpu": Quantity.parse("3"), "example.com/x": Quantity.parse("1")}
    return Node(metadata=ObjectMeta(name=name, labels=labels), status=NodeStatus(capacity=amounts))


def test_a_pool_has_its_nodes_and_the_machines_that_are_coming(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await counting(cluster)
        await cluster.admin.of(NodePool).create(pool("p"))
        cloud = Cloud(cluster, {2: Trouble.OUT}.get)
        cloud.slow = True
        await running(cluster, cloud, types=catalogue(type_("large", dynamicResources=gpus(2))))
        await cluster.admin.of(Node).create(small_node("by-hand", **{"karpenter.sh/nodepool": "p"}))
        made = await claim(cluster)  # of 8 processors

        def status() -> tuple[int | None, dict[str, str]]:
            found = cluster.seen.of(NodePool).get("p")
            assert found is not None
            return found.status.nodes, {name: str(each) for name, each in found.status.resources.items()}

        both = {"cpu": "11", "memory": "32Gi", "pods": "110", "example.com/x": "1"}
        await cluster.eventually(lambda: status() == (2, both), "the machine that is coming counts")
        await cloud.join(made.metadata.uid)
        await until(cluster, ClaimProgress.INITIALIZED)
        await claim(cluster, "failed")
        await until(cluster, ClaimProgress.FAILED, "failed")
        await cluster.admin.of(Node).delete("by-hand")
        del both["example.com/x"]
        await cluster.eventually(lambda: status() == (1, {**both, "cpu": "8"}), "what is gone is not counted")
        await delete(cluster)
        await cluster.eventually(lambda: status() == (0, {}), "nothing is left")

    in_cluster(tmp_path, scenario)


def test_a_group_has_its_nodes_and_those_that_are_coming(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await counting(cluster)
        racks = await cluster.admin.of(NodeGroup).create(group("racks"))
        await cluster.admin.of(Node).create(small_node("by-hand", **{"allotment.dev/nodegroup": "racks"}))
        await cluster.admin.of(NodeClaim).create(claim_of(machine(racks), {}, name="c"))

        def size() -> int | None:
            found = cluster.seen.of(NodeGroup).get("racks")
            return found.status.size if found is not None else None

        await cluster.eventually(lambda: size() == 2)

    in_cluster(tmp_path, scenario)


def test_the_last_time_that_a_pod_came_or_went_is_on_the_claim(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = SkewedClock()
        await running(cluster, Cloud(cluster))
        await claim(cluster)
        await until(cluster, ClaimProgress.INITIALIZED)
        part = cluster.component()
        events = PodEvents(part.client, part.informers, place=PLACE, now=clock)
        await part.start(events)
        name = cluster.seen.of(Node).all()[0].metadata.name

        def written() -> datetime | None:
            found = seen(cluster)
            return moment(found.status.last_pod_event_time) if found is not None else None

        await cluster.create(placed_pod("p", on=name))
        await cluster.eventually(written, "a pod came")
        came = written() or clock()
        clock.pass_(100)
        await cluster.admin.of(Pod).delete("p", "default", grace_seconds=0)
        await cluster.eventually(lambda: (written() or came) > came, "it went")
        went = written() or clock()
        assert (went - came).total_seconds() >= 99
        await cluster.create(placed_pod("q", on=name))
        clock.pass_(5)
        await cluster.admin.of(Pod).delete("q", "default", grace_seconds=0)
        await cluster.quiet()
        assert written() == went  # too soon after the last time to be worth a write
        clock.pass_(6)
        events.queue.add(name)
        await cluster.eventually(lambda: (written() or went) > went, "it is time")

    in_cluster(tmp_path, scenario)


def test_pods_that_were_there_before_are_no_news(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await running(cluster, Cloud(cluster))
        await claim(cluster)
        await until(cluster, ClaimProgress.INITIALIZED)
        await cluster.create(placed_pod("p", on=cluster.seen.of(Node).all()[0].metadata.name))
        times = []
        for seconds in (0, 1000):
            clock = SkewedClock()
            clock.pass_(seconds)
            part = cluster.component()
            await part.start(PodEvents(part.client, part.informers, place=PLACE, now=clock))
            await cluster.quiet()
            found = seen(cluster)
            assert found is not None
            times.append(found.status.last_pod_event_time)
            await part.stop()
        assert times[0] is not None
        assert times[0] == times[1]

    in_cluster(tmp_path, scenario)


def test_numbers_tell_what_became_of_claims(tmp_path: Path) -> None:
    registry = CollectorRegistry()

    async def scenario(cluster: Cluster) -> None:
        claims = cluster.seen.of(NodeClaim)
        await follow(cluster)
        numbers = MachineNumbers(claims, registry)
        part = await running(cluster, Cloud(cluster, {2: Trouble.OUT, 3: Trouble.FAILED}.get))
        part.machines._numbers = numbers
        for name in "abc":
            await claim(cluster, name)
            await asyncio.sleep(0)
            await cluster.quiet()
        read = registry.get_sample_value
        for result in ("launched", "out_of_stock", "failed"):
            assert read("allotment_machine_launches_total", {"result": result}) == 1, result
        for state in ClaimProgress:
            expected = state in (ClaimProgress.INITIALIZED, ClaimProgress.FAILED, ClaimProgress.LAUNCHING)
            assert read("allotment_node_claims", {"state": state.value}) == expected, state
        for name in ("registration", "initialization"):
            assert read(f"allotment_machine_{name}_seconds_count") == 1
        assert read("allotment_machine_mismatched_devices_total") == 0

    in_cluster(tmp_path, scenario)
