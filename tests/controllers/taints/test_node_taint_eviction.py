"""Who leaves a tainted node, and when; and that each write on the way may fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from allotment.api.core import Pod
from allotment.client.form import Obj
from allotment.client.transport import Transport
from allotment.controllers.taints.node_taint_eviction import TaintEviction
from tests.builders import plain
from tests.controllers.cluster import Cluster, Component, in_cluster
from tests.controllers.failing import BORNE, CRASHES, Failing, Fault
from tests.controllers.taints.evictions import START, Clock, going, marks


def tainted_node(name: str, *taints: Obj) -> Obj:
    return plain.node(name, spec={"taints": list(taints)})


def taint(key: str, value: str = "", effect: str = "NoExecute", added: datetime | None = None) -> Obj:
    found = {"key": key, "value": value, "effect": effect}
    return found | ({"timeAdded": added.isoformat()} if added else {})


def bears(key: str = "", seconds: int | None = None, *, value: str = "") -> Obj:
    found: Obj = {"operator": "Equal" if value else "Exists", "effect": "NoExecute"}
    return (
        found
        | ({"key": key} if key else {})
        | ({"value": value} if value else {})
        | ({"tolerationSeconds": seconds} if seconds is not None else {})
    )


def bearing_pod(name: str, node: str, *tolerations: Obj) -> Obj:
    return plain.pod(name, namespace="default", nodeName=node, tolerations=list(tolerations))


@dataclass(frozen=True)
class Case:
    """A pod on a node. ``goes``: after how many seconds; None: never."""

    name: str
    taints: tuple[Obj, ...]
    goes: float | None
    tolerations: tuple[Obj, ...] = ()
    status: Obj = field(default_factory=dict)


def bound(at: datetime) -> Obj:
    return {
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at.isoformat()}],
    }


AGO = START - timedelta(seconds=40)
CASES = [
    Case("no-taint", (), None),
    Case("other-effect", (taint("t", effect="NoSchedule"),), None),
    Case("not-tolerated", (taint("t"),), 0),
    Case("tolerated", (taint("t"),), None, (bears("t"),)),
    Case("tolerated-by-all", (taint("t"),), None, (bears(),)),
    Case("other-key", (taint("t"),), 0, (bears("u"),)),
    Case("same-value", (taint("t", "v"),), None, (bears("t", value="v"),)),
    Case("other-value", (taint("t", "v"),), 0, (bears("t", value="w"),)),
    Case("for-a-while", (taint("t"),), 60, (bears("t", 60),)),
    Case("for-no-while", (taint("t"),), 0, (bears("t", 0),)),
    Case("negative-seconds", (taint("t"),), 0, (bears("t", -5),)),
    # the first that matches counts, not the longest nor the shortest
    Case("first-of-two", (taint("t"),), 60, (bears("t", 60), bears("t"))),
    Case("first-is-forever", (taint("t"),), None, (bears("t"), bears("t", 60))),
    Case("two-taints", (taint("t"), taint("u")), 30, (bears("t", 60), bears("u", 30))),
    Case("one-of-two-forever", (taint("t"), taint("u")), 60, (bears("t", 60), bears("u"))),
    Case("one-of-two-not-tolerated", (taint("t"), taint("u")), 0, (bears("t", 60),)),
    Case("more-seconds-than-time-has", (taint("t"),), None, (bears("t", 2**62),)),
    # both are older than we are: a restart does not begin the seconds anew
    Case("since-before-we-looked", (taint("t", added=AGO),), 20, (bears("t", 60),), bound(AGO)),
    Case("taint-older-than-pod", (taint("t", added=AGO),), 60, (bears("t", 60),), bound(START)),
    Case("finished", (taint("t"),), None, status={"phase": "Succeeded"}),
]


async def start(
    cluster: Cluster, clock: Clock, through: Callable[[Transport], Transport] = lambda beneath: beneath
) -> tuple[Component, TaintEviction]:
    part = cluster.component(through=through)
    eviction = TaintEviction(part.client, part.informers, part.recorder, now=clock)
    await part.start(eviction)
    return part, eviction


async def look_again(cluster: Cluster, eviction: TaintEviction) -> None:
    """What the timers would do, as the clock of the test is not theirs."""
    for each in cluster.seen.of(Pod).all():
        eviction.queue.add((each.metadata.namespace, each.metadata.name))
    await cluster.quiet()


def test_pods_leave_when_their_toleration_ends(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        pods = cluster.admin.plain("v1", "pods")
        for case in CASES:
            await cluster.create(
                tainted_node(case.name, *case.taints), bearing_pod(case.name, case.name, *case.tolerations)
            )
            if case.status:
                await pods.patch(case.name, {"status": case.status}, "default", subresource="status")
        cluster.seen.of(Pod)
        _, eviction = await start(cluster, clock)
        seen: dict[str, float] = {}
        for moment in (0.0, 15.0, 20.0, 25.0, 30.0, 55.0, 60.0, 1e6):
            clock.set(moment)
            await look_again(cluster, eviction)
            seen |= {c.name: moment for c in CASES if c.name not in seen and going(cluster, c.name)}
        assert {case.name: seen.get(case.name) for case in CASES} == {case.name: case.goes for case in CASES}

    in_cluster(tmp_path, scenario)


def test_an_evicted_pod_says_so_in_its_condition_and_an_event(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.seen.plain("v1", "events")
        await cluster.create(tainted_node("n", taint("t")), bearing_pod("p", "n"))
        await start(cluster, Clock())
        await cluster.eventually(lambda: going(cluster, "p"), "p goes")
        found = cluster.seen.of(Pod).get("p", "default")
        assert found is not None
        condition = next(each for each in found.status.conditions if each.type == "DisruptionTarget")
        assert (condition.status, condition.reason) == ("True", "DeletionByTaintManager")
        assert condition.last_transition_time == "2030-01-01T00:00:00Z"
        told = await cluster.eventually(lambda: cluster.events("p"))
        assert told[0].startswith("TaintManagerEviction: Deleting the pod: its node has a NoExecute taint")

    in_cluster(tmp_path, scenario)


async def untaint(cluster: Cluster) -> None:
    await cluster.admin.plain("v1", "nodes", namespaced=False).patch("n", {"spec": {"taints": None}})


async def tolerate_for_longer(cluster: Cluster) -> None:
    pods = cluster.admin.plain("v1", "pods")
    kept = (await pods.get("p", "default"))["spec"]["tolerations"][1:]  # those that every pod has
    await pods.patch("p", {"spec": {"tolerations": [bears("t", 3600), *kept]}}, "default")


async def remove_node(cluster: Cluster) -> None:
    await cluster.admin.plain("v1", "nodes", namespaced=False).delete("n")


@pytest.mark.parametrize("change", [untaint, tolerate_for_longer, remove_node])
def test_what_changes_before_the_deadline_keeps_the_pod(
    change: Callable[[Cluster], Awaitable[None]], tmp_path: Path
) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        cluster.seen.plain("v1", "events")
        await cluster.create(tainted_node("n", taint("t")), bearing_pod("p", "n", bears("t", 60)))
        cluster.seen.of(Pod)
        _, eviction = await start(cluster, clock)
        await cluster.quiet()
        await change(cluster)
        await cluster.quiet()
        clock.set(61)
        await look_again(cluster, eviction)
        assert not going(cluster, "p")
        if change is not tolerate_for_longer:
            told = await cluster.eventually(lambda: cluster.events("p"))
            assert told[0].startswith("TaintManagerEviction: The pod may stay")

    in_cluster(tmp_path, scenario)


def test_a_taint_that_comes_later_evicts_only_from_its_node(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(
            tainted_node("n"), tainted_node("m"), bearing_pod("p", "n"), bearing_pod("q", "m")
        )
        cluster.seen.of(Pod)
        _, eviction = await start(cluster, Clock())
        await cluster.quiet()
        nodes = cluster.admin.plain("v1", "nodes", namespaced=False)
        await nodes.patch("n", {"spec": {"taints": [taint("t")]}})
        await cluster.eventually(lambda: going(cluster, "p"), "p goes")
        await look_again(cluster, eviction)
        assert not going(cluster, "q")

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize("how", [*BORNE, *sorted(CRASHES, key=str)], ids=lambda how: how.name)
@pytest.mark.parametrize("at", [1, 2])
def test_any_write_may_fail(at: int, how: Fault, tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(tainted_node("n", taint("t")), bearing_pod("p", "n"))
        clock, failing = Clock(), Failing.once(at, how)

        cluster.seen.of(Pod)
        part, _ = await start(cluster, clock, failing.through)
        await failing.strike()
        if how in CRASHES:
            await part.stop()
            await start(cluster, clock)
        await cluster.eventually(lambda: going(cluster, "p"), "p goes")
        assert marks(cluster, "p") == ["DeletionByTaintManager"]

    in_cluster(tmp_path, scenario)
