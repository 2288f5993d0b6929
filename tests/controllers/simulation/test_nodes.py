"""Simulated nodes stay alive: their leases are renewed in turn, and what others say of them is put right."""

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from allotment.api.core import Node
from allotment.client.form import Obj
from allotment.controllers.nodes.node_lifecycle import NodeLifecycle
from allotment.controllers.simulation.heartbeat import (
    LEASES,
    RENEW_SECONDS,
    SimulatedHeartbeat,
    _until_turn,
)
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.simulation.simulated import Time, simulated_node


async def heartbeat(cluster: Cluster, time: Time) -> SimulatedHeartbeat:
    part = cluster.component()
    played = SimulatedHeartbeat(part.client, part.informers, part.recorder, now=time.now)
    await part.start(played)
    return played


def lease(cluster: Cluster, name: str = "ada") -> Obj | None:
    return cluster.seen.plain("coordination.k8s.io/v1", "leases").get(name, LEASES)


def ready(cluster: Cluster, name: str = "ada") -> str | None:
    found = cluster.seen.of(Node).get(name)
    conditions = found.status.conditions if found is not None else ()
    return next((each.status for each in conditions if each.type == "Ready"), None)


def tainted(cluster: Cluster) -> dict[str, int]:
    return {each.metadata.name: len(each.spec.taints) for each in cluster.seen.of(Node).all()}


async def label(cluster: Cluster, name: str, value: str | None) -> None:
    mark = {"metadata": {"labels": {"allotment.dev/simulated": value}}}
    await cluster.admin.plain("v1", "nodes", namespaced=False).patch(name, mark)


def test_a_node_gets_a_lease_that_goes_with_it(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await heartbeat(cluster, Time())
        cluster.seen.of(Node)
        made = (await cluster.create(simulated_node(), simulated_node("real", simulated=False)))[0]
        found = await cluster.eventually(lambda: lease(cluster)) or {}
        assert found["spec"]["holderIdentity"] == "ada"
        assert found["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"
        assert found["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        await cluster.quiet()
        assert lease(cluster, "real") is None
        assert ready(cluster) == "True"
        # what was true already is not written again
        found_node = await cluster.admin.of(Node).get("ada")
        assert found_node.metadata.resource_version == made["metadata"]["resourceVersion"]

    in_cluster(tmp_path, scenario)


def test_a_lease_is_renewed_when_its_turn_comes_and_not_before(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        played = await heartbeat(cluster, time)
        await cluster.create(simulated_node())
        await cluster.eventually(lambda: lease(cluster))
        await cluster.quiet()
        again = await played.reconcile("ada")
        assert again is not None
        assert RENEW_SECONDS / 2 <= again.after <= RENEW_SECONDS
        time.pass_(again.after / 2)
        assert (await played.reconcile("ada")) is not None
        await cluster.quiet()
        assert (lease(cluster) or {})["spec"]["renewTime"].startswith("2026-01-01T00:00:00")
        time.pass_(RENEW_SECONDS)
        await played.reconcile("ada")
        renewed = time.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        await cluster.eventually(lambda: (lease(cluster) or {})["spec"]["renewTime"] == renewed)

    in_cluster(tmp_path, scenario)


def test_a_node_that_was_declared_lost_reports_itself_ready(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await heartbeat(cluster, Time())
        await cluster.create(simulated_node(ready="Unknown"), simulated_node("bare", ready=""))
        await cluster.eventually(lambda: ready(cluster) == ready(cluster, "bare") == "True")

    in_cluster(tmp_path, scenario)


def test_without_its_label_a_node_falls_silent(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        played = await heartbeat(cluster, time)
        await cluster.create(simulated_node())
        await cluster.eventually(lambda: lease(cluster))
        await label(cluster, "ada", None)
        await cluster.quiet()
        before = lease(cluster)
        time.pass_(60)
        assert await played.reconcile("ada") is None
        await cluster.quiet()
        assert lease(cluster) == before

    in_cluster(tmp_path, scenario)


def test_pulling_the_plug_is_noticed_and_putting_it_back_in_too(tmp_path: Path) -> None:
    """Together with the controller that judges nodes, which cannot tell simulated ones from others."""

    async def scenario(cluster: Cluster) -> None:
        time = Time()
        played = await heartbeat(cluster, time)
        part = cluster.component()
        judge = NodeLifecycle(part.client, part.informers, part.recorder, now=time.now, clock=time.clock)
        await part.start(judge)
        await cluster.create(simulated_node(), simulated_node("bea"))
        await cluster.eventually(lambda: lease(cluster) and lease(cluster, "bea"))
        await label(cluster, "ada", None)
        for _ in range(4):
            await cluster.quiet()
            time.pass_(RENEW_SECONDS)
            for name in ("ada", "bea"):
                await played.reconcile(name)
        await cluster.quiet()
        for name in ("ada", "bea"):
            await judge.reconcile(name)
        await cluster.eventually(lambda: tainted(cluster) == {"ada": 2, "bea": 0})
        assert (ready(cluster), ready(cluster, "bea")) == ("Unknown", "True")
        await label(cluster, "ada", "true")
        await cluster.eventually(lambda: tainted(cluster) == {"ada": 0, "bea": 0})
        assert ready(cluster) == "True"

    in_cluster(tmp_path, scenario)


@given(st.integers(0, 10**6), st.floats(0, 4e9))
def test_a_turn_comes_every_ten_seconds(number: int, time: float) -> None:
    name = f"node-{number}"
    first = time + _until_turn(name, time)
    assert RENEW_SECONDS / 2 <= first - time <= RENEW_SECONDS * 1.5 + 1e-6
    for jitter in (-0.01, 0.01):  # timers are not exact, and that does not add up
        late = first + jitter
        assert abs(late + _until_turn(name, late) - first - RENEW_SECONDS) < 1e-5


def test_a_fleet_does_not_renew_all_at_once() -> None:
    turns = Counter(int(_until_turn(f"node-{number}", 0.0)) % 10 for number in range(500))
    assert max(turns.values()) < 3 * 500 / RENEW_SECONDS
