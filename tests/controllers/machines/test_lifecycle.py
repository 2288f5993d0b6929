"""NodeClaims from creation to a node with its devices, and to the end of it."""

from __future__ import annotations

from pathlib import Path

from allotment.api.core import Node
from allotment.api.resource import ResourceSlice
from allotment.autoscaler.node_claims import State
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.machines.world import claim, delete, running, seen, told, until


def test_a_claim_becomes_a_node_with_its_devices_and_goes_without_a_trace(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await running(cluster)
        made = await claim(cluster)
        await until(cluster, State.INITIALIZED)
        found = seen(cluster)
        assert found is not None
        assert found.status.provider_id == f"simulated://{made.metadata.uid}"
        assert found.status.node_name == "c"
        for type_ in ("Launched", "Registered", "Initialized", "Ready", "DevicesAsPredicted"):
            assert told(cluster, type_).status == "True", type_
        node = cluster.seen.of(Node).get("c")
        assert node is not None
        assert node.spec.taints == ()
        assert node.metadata.labels["karpenter.sh/initialized"] == "true"
        assert [len(each.spec.devices) for each in cluster.seen.of(ResourceSlice).all()] == [2]
        await delete(cluster)
        await until(cluster, None)
        await cluster.eventually(lambda: not cluster.seen.of(Node).all(), "the node goes")
        await cluster.eventually(lambda: not cluster.seen.of(ResourceSlice).all(), "its slices go")
        await cluster.quiet()
        reasons = [each.split(":")[0] for each in cluster.events("c")]
        assert set(reasons) >= {"Launched", "Registered", "Initialized", "Draining", "Terminated"}

    in_cluster(tmp_path, scenario)
