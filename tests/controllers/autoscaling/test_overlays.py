"""NodeOverlays in a cluster: what is written into their statuses, when, and what is not written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from allotment.api.autoscaling import NodeGroup, NodeOverlay, NodePool
from allotment.api.codec import to_builtins
from allotment.api.meta import Condition
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.client.form import resource_of
from allotment.controllers.autoscaling.overlays import Overlays
from tests.autoscaler.build import catalogue, gpus, group, is_type, overlay, pool, type_, where
from tests.controllers.cluster import Cluster, Component, in_cluster
from tests.controllers.failing import Failing

TYPES = catalogue(type_("large"), type_("small"))


async def watching(cluster: Cluster, machines: Catalogue = TYPES) -> tuple[Overlays, Failing]:
    failing = Failing()
    part: Component = cluster.component(through=failing.through)
    made = Overlays(
        part.client,
        part.informers,
        machines,
        place=resource_of(NodeOverlay),
        pools=resource_of(NodePool),
        groups=resource_of(NodeGroup),
    )
    await part.start(made)
    return made, failing


async def create(cluster: Cluster, *objects: NodeOverlay | NodePool | NodeGroup) -> None:
    for each in objects:
        place = resource_of(type(each))
        await cluster.admin.plain(place.api_version, place.plural, namespaced=False).create(to_builtins(each))


def condition(cluster: Cluster, name: str, type_: str = "ValidationSucceeded") -> Condition | None:
    found = cluster.seen.of(NodeOverlay).get(name)
    return next((each for each in found.status.conditions if each.type == type_), None) if found else None


async def until(cluster: Cluster, name: str, status: str) -> Condition:
    def there() -> bool:
        found = condition(cluster, name)
        return found is not None and found.status == status

    await cluster.eventually(there, f"{name} is {status}")
    found = condition(cluster, name)
    assert found is not None
    return found


def test_overlays_are_told_of_conflicts_until_they_are_gone(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await watching(cluster)
        await create(cluster, overlay("one", is_type("large"), dynamicResources=gpus(1)))
        first = await until(cluster, "one", "True")
        assert (first.reason, first.observed_generation) == ("ValidationSucceeded", 1)
        await create(cluster, overlay("two", dynamicResources=gpus(2)))
        for name, other in (("one", "two"), ("two", "one")):
            told = await until(cluster, name, "False")
            assert told.reason == "Conflict"
            assert told.message == f"large: driver gpu.example.com: overlay {other} has the same weight"
        ready = condition(cluster, "one", "Ready")
        assert ready is not None
        assert ready.status == "False"
        overlays = cluster.admin.plain("karpenter.sh/v1alpha1", "nodeoverlays", namespaced=False)
        await overlays.patch("two", {"spec": {"weight": 5}})
        assert (await until(cluster, "two", "True")).observed_generation == 2
        await until(cluster, "one", "True")

    in_cluster(tmp_path, scenario)


def test_pools_and_groups_of_the_cluster_count(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await watching(cluster)
        await create(cluster, overlay("one", where("rack", "In", "r"), price="1"), overlay("two", price="2"))
        await until(cluster, "one", "True")  # no machine has the label
        await create(cluster, group("racks", {"rack": "r"}))
        assert "racks: price" in (await until(cluster, "one", "False")).message
        await cluster.admin.plain("allotment.dev/v1", "nodegroups", namespaced=False).delete("racks")
        await until(cluster, "one", "True")
        await create(cluster, pool("p", labels={"rack": "r"}))
        assert "large: price" in (await until(cluster, "one", "False")).message

    in_cluster(tmp_path, scenario)


def test_another_catalogue_is_another_answer(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        made, _ = await watching(cluster, Catalogue())
        await create(cluster, overlay("one", price="1"), overlay("two", price="2"))
        await until(cluster, "one", "True")
        made.use(TYPES)
        await until(cluster, "one", "False")

    in_cluster(tmp_path, scenario)


def test_what_is_right_is_not_written_again_and_what_others_wrote_stays(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        _, failing = await watching(cluster)
        await create(cluster, overlay("one", price="1"))
        before = await until(cluster, "one", "True")
        overlays = cluster.admin.plain("karpenter.sh/v1alpha1", "nodeoverlays", namespaced=False)
        found: Any = await overlays.get("one")
        foreign = {
            "type": "Foreign",
            "status": "True",
            "reason": "Said",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        kept = [*found["status"]["conditions"], foreign]
        await overlays.patch("one", {"status": {"conditions": kept}}, subresource="status")
        await overlays.patch("one", {"metadata": {"labels": {"a": "b"}}})
        await cluster.eventually(lambda: condition(cluster, "one", "Foreign"))
        await cluster.quiet()
        assert len(failing.writes) == 1
        await overlays.patch("one", {"spec": {"price": "2"}})
        await cluster.eventually(
            lambda: (found := condition(cluster, "one")) is not None and found.observed_generation == 2
        )
        after = condition(cluster, "one")
        assert after is not None
        assert after.last_transition_time == before.last_transition_time  # the status did not change
        assert condition(cluster, "one", "Foreign") is not None

    in_cluster(tmp_path, scenario)
