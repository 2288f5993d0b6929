"""Nodes that fall silent are marked, and only those; pods of nodes that are gone go too."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.core import Node, NodeCondition, NodeSpec, NodeStatus, Pod, Taint
from allotment.client.form import Obj
from allotment.controllers.controller import Again
from allotment.controllers.nodes.node_lifecycle import (
    LATE_SECONDS,
    LEASES,
    NOT_READY,
    SILENCE_SECONDS,
    UNREACHABLE,
    NodeLifecycle,
    _wanted_taints,
)
from allotment.controllers.nodes.orphaned_pods import ABSENT_SECONDS, OrphanedPods
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.simulation.simulated import Time, placed_pod, simulated_node

BOTH = ("NoSchedule", "NoExecute")


async def lifecycle(cluster: Cluster, time: Time) -> NodeLifecycle:
    part = cluster.component()
    judge = NodeLifecycle(part.client, part.informers, part.recorder, now=time.now, clock=time.clock)
    await part.start(judge)
    cluster.seen.of(Node)
    cluster.seen.plain("v1", "events")
    return judge


async def renew(cluster: Cluster, name: str = "ada", at: str = "2026-01-01T00:00:00.000000Z") -> None:
    leases = cluster.admin.plain("coordination.k8s.io/v1", "leases")
    meta = {"name": name, "namespace": LEASES}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
    await leases.apply({**lease, "spec": {"holderIdentity": name, "renewTime": at}})


async def report(cluster: Cluster, status: str, heartbeat: str, name: str = "ada") -> None:
    ready = {"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}
    nodes = cluster.admin.plain("v1", "nodes", namespaced=False)
    await nodes.patch(name, {"status": {"conditions": [ready]}}, subresource="status")


def ready(cluster: Cluster, name: str = "ada") -> str:
    found = cluster.seen.of(Node).get(name) or Node()
    return next((each.status for each in found.status.conditions if each.type == "Ready"), "")


def taints(cluster: Cluster, name: str = "ada") -> set[tuple[str, str]]:
    found = cluster.seen.of(Node).get(name) or Node()
    return {(taint.key, taint.effect) for taint in found.spec.taints}


def tainted(key: str) -> set[tuple[str, str]]:
    return {(key, effect) for effect in BOTH}


def test_a_node_whose_lease_is_not_renewed_is_marked_and_unmarked_when_it_is_back(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        judge = await lifecycle(cluster, time)
        await cluster.create(simulated_node())
        await renew(cluster)
        await cluster.quiet()
        assert await judge.reconcile("ada") == Again(SILENCE_SECONDS, "to check for silence")
        time.pass_(SILENCE_SECONDS - 1)
        assert await judge.reconcile("ada") == Again(1.0, "to check for silence")
        await cluster.quiet()
        assert (ready(cluster), taints(cluster)) == ("True", set())
        time.pass_(1)
        await judge.reconcile("ada")
        await cluster.eventually(lambda: taints(cluster) == tainted(UNREACHABLE))
        assert ready(cluster) == "Unknown"
        await cluster.eventually(
            lambda: cluster.events("ada") == ["NodeNotReady: the node has given no sign of life for 40 s"]
        )
        await cluster.quiet()
        await renew(cluster, at="2026-01-01T00:01:00.000000Z")
        await report(cluster, "True", "2026-01-01T00:01:00Z")
        await cluster.eventually(lambda: taints(cluster) == set())

    in_cluster(tmp_path, scenario)


def test_renewals_keep_a_node_alive(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        judge = await lifecycle(cluster, time)
        await cluster.create(simulated_node())
        for second in range(0, 60, 10):
            await renew(cluster, at=f"2026-01-01T00:00:{second:02}.000000Z")
            await cluster.quiet()
            time.pass_(30)
            assert await judge.reconcile("ada") == Again(10.0, "to check for silence")
        assert ready(cluster) == "True"

    in_cluster(tmp_path, scenario)


def test_a_heartbeat_in_the_status_counts_as_well(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        judge = await lifecycle(cluster, time)
        await cluster.create(simulated_node())
        await report(cluster, "True", "2026-01-01T00:00:00Z")
        await cluster.quiet()
        time.pass_(SILENCE_SECONDS)
        await judge.reconcile("ada")
        await cluster.eventually(lambda: taints(cluster) == tainted(UNREACHABLE))

    in_cluster(tmp_path, scenario)


def test_leases_of_nodes_that_are_gone_are_not_remembered(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        judge = await lifecycle(cluster, Time())
        await renew(cluster, "gone")
        await cluster.eventually(lambda: "gone" in judge._heard)
        await cluster.admin.plain("coordination.k8s.io/v1", "leases").delete("gone", LEASES)
        await cluster.eventually(lambda: not judge._heard)

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize("status", ["True", "False", ""])
def test_a_node_that_was_never_heard_of_is_left_alone(tmp_path: Path, status: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        judge = await lifecycle(cluster, time)
        await cluster.create(simulated_node(ready=status))
        await cluster.quiet()
        time.pass_(SILENCE_SECONDS)
        assert await judge.reconcile("ada") is None
        await cluster.quiet()
        assert (ready(cluster), taints(cluster)) == (status, set())

    in_cluster(tmp_path, scenario)


def test_a_node_that_says_it_is_not_ready_gets_the_other_taint(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await lifecycle(cluster, Time())
        own = simulated_node()
        own["spec"] = {"taints": [{"key": "example.com/mine", "value": "v", "effect": "NoSchedule"}]}
        await cluster.create(own)
        await report(cluster, "False", "2026-01-01T00:00:00Z")
        mine = {("example.com/mine", "NoSchedule")}
        await cluster.eventually(lambda: taints(cluster) == tainted(NOT_READY) | mine)
        await report(cluster, "Unknown", "2026-01-01T00:00:10Z")
        await cluster.eventually(lambda: taints(cluster) == tainted(UNREACHABLE) | mine)
        await report(cluster, "True", "2026-01-01T00:00:20Z")
        await cluster.eventually(lambda: taints(cluster) == mine)

    in_cluster(tmp_path, scenario)


def test_a_judge_who_slept_does_not_judge(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        judge = await lifecycle(cluster, time)
        await cluster.create(simulated_node())
        await renew(cluster)
        await cluster.quiet()
        time.pass_(SILENCE_SECONDS + LATE_SECONDS + 1)
        assert await judge.reconcile("ada") == Again(SILENCE_SECONDS, "to check for silence")
        await cluster.quiet()
        assert ready(cluster) == "True"
        time.pass_(SILENCE_SECONDS)  # but this time it was awake
        await judge.reconcile("ada")
        await cluster.eventually(lambda: ready(cluster) == "Unknown")

    in_cluster(tmp_path, scenario)


_TAINT = st.builds(
    Taint, key=st.sampled_from([NOT_READY, UNREACHABLE, "example.com/a"]), effect=st.sampled_from(BOTH)
)


@given(
    st.lists(_TAINT, unique_by=lambda taint: (taint.key, taint.effect)),
    st.sampled_from(["True", "False", "Unknown"]),
)
def test_taints_follow_from_the_condition_alone(present: list[Taint], status: str) -> None:
    tainted_node = Node(
        spec=NodeSpec(taints=tuple(present)),
        status=NodeStatus(conditions=(NodeCondition(type="Ready", status=status),)),
    )
    wanted = _wanted_taints(tainted_node, "now")
    pairs = [(taint.key, taint.effect) for taint in wanted]
    assert len(set(pairs)) == len(pairs)
    assert [taint for taint in wanted if taint.key == "example.com/a"] == [
        taint for taint in present if taint.key == "example.com/a"
    ]
    ours = {pair for pair in pairs if pair[0] != "example.com/a"}
    assert ours == {"True": set(), "False": tainted(NOT_READY), "Unknown": tainted(UNREACHABLE)}[status]
    again = Node(spec=NodeSpec(taints=tuple(wanted)), status=tainted_node.status)
    assert _wanted_taints(again, "later") == wanted


# --- pods of nodes that are gone ---


async def collector(cluster: Cluster, time: Time) -> OrphanedPods:
    part = cluster.component()
    made = OrphanedPods(part.client, part.informers, part.recorder, now=time.now, clock=time.clock)
    await part.start(made)
    cluster.seen.of(Pod)
    return made


def gone(cluster: Cluster, name: str = "p") -> bool:
    return cluster.seen.of(Pod).get(name, "default") is None


def test_pods_of_a_deleted_node_go_after_a_while(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        made = await collector(cluster, time)
        ends: list[Obj] = []
        await cluster.create(
            simulated_node(),
            simulated_node("bea"),
            placed_pod(),
            placed_pod("other", on="bea"),
            placed_pod("going"),
        )
        pods = cluster.admin.of(Pod)
        await pods.delete("going", "default")  # nobody is there to say that it has ended
        await cluster.quiet()
        await cluster.admin.of(Node).delete("ada")
        await cluster.quiet()
        assert await made.reconcile(("default", "p")) == Again(ABSENT_SECONDS, "its node may come back")
        assert not gone(cluster)
        cluster.seen.plain("v1", "pods").on_change(
            lambda old, new: ends.append(old or {}) if not new else None
        )
        time.pass_(ABSENT_SECONDS)
        for name in ("p", "going", "other"):
            await made.reconcile(("default", name))
        await cluster.eventually(lambda: gone(cluster) and gone(cluster, "going"))
        assert not gone(cluster, "other")
        await cluster.eventually(lambda: len(ends) == 2)
        assert {each["status"]["phase"] for each in ends} == {"Failed"}
        assert {each["status"]["conditions"][-1]["type"] for each in ends} == {"DisruptionTarget"}
        await cluster.quiet()
        assert not made._absent  # nothing is remembered for ever

    in_cluster(tmp_path, scenario)


def test_a_node_that_comes_back_in_time_keeps_its_pods(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        made = await collector(cluster, time)
        await cluster.create(simulated_node(), placed_pod())
        await cluster.quiet()
        await cluster.admin.of(Node).delete("ada")
        await cluster.quiet()
        await cluster.create(simulated_node())
        await cluster.quiet()
        time.pass_(ABSENT_SECONDS)
        assert await made.reconcile(("default", "p")) is None
        assert not gone(cluster)

    in_cluster(tmp_path, scenario)


def test_the_server_is_asked_before_a_pod_is_removed(tmp_path: Path) -> None:
    """The copy may be behind: here it never learns of the node."""

    async def scenario(cluster: Cluster) -> None:
        time = Time()
        made = await collector(cluster, time)
        await cluster.create(simulated_node(), placed_pod())
        await cluster.quiet()
        made._nodes._objects.clear()
        assert await made.reconcile(("default", "p")) is not None
        time.pass_(ABSENT_SECONDS)
        assert await made.reconcile(("default", "p")) is None
        assert (await cluster.admin.of(Pod).get("p", "default")).status.phase == "Pending"

    in_cluster(tmp_path, scenario)


def test_a_pod_that_a_finalizer_holds_is_told_once(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        made = await collector(cluster, time)
        held = placed_pod()
        held["metadata"]["finalizers"] = ["example.com/wait"]
        await cluster.create(held)  # on a node that never was
        await cluster.quiet()
        time.pass_(ABSENT_SECONDS)
        await made.reconcile(("default", "p"))
        await cluster.quiet()
        before = await cluster.admin.of(Pod).get("p", "default")
        assert before.metadata.deletion_timestamp
        await made.reconcile(("default", "p"))
        assert await cluster.admin.of(Pod).get("p", "default") == before

    in_cluster(tmp_path, scenario)
