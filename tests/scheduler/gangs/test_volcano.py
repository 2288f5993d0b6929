"""Gangs end to end: the embedded server, our informers, driver and claim controllers, with Volcano's kinds beside Kubernetes' own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.api.batch import SCHEDULING, VOLCANO
from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim
from allotment.api.status import Invalid
from allotment.apiserver.auth.identity import Identity
from allotment.client.form import Obj
from allotment.controllers import names, suite
from allotment.scheduler.cluster import Cluster as Knowledge
from allotment.scheduler.core import Scheduler
from allotment.scheduler.driver import Driver
from tests.checkout import CHECKOUT
from tests.controllers.cluster import Cluster, in_cluster
from tests.scheduler.gang_builders import VOLCANO_TOO

CRDS = CHECKOUT / "src/allotment/scheduler/volcano_crds.yaml"
SCHEDULER = Identity("allotment:scheduler", ("system:authenticated",))
CRD = "apiextensions.k8s.io/v1"


class Plane:
    """A cluster with our scheduler and claim controllers at work."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.core = Scheduler(Knowledge(), VOLCANO_TOO.rosters())

    async def start(self) -> None:
        controllers, scheduler = self.cluster.component(), self.cluster.component(SCHEDULER)
        await controllers.start()
        await scheduler.start()
        for made in await suite.controllers(
            (names.CLAIMS,), controllers.client, controllers.informers, controllers.recorder
        ):
            controllers._spawn(made.run())
        driver = Driver(self.core, scheduler.client, scheduler.informers, scheduler.recorder)
        scheduler._spawn(driver.run())

    async def put(self, api_version: str, plural: str, *objects: Obj, namespaced: bool = True) -> None:
        kind = self.cluster.admin.plain(api_version, plural, namespaced=namespaced)
        for obj in objects:
            await kind.create(obj, "default" if namespaced else "")

    async def gpus(self, node: str, count: int) -> None:
        amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        await self.put(
            "v1",
            "nodes",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": node},
                "status": {"allocatable": amounts},
            },
            namespaced=False,
        )
        spec = {
            "driver": "gpu.example.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{n}"} for n in range(count)],
        }
        obj = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": node},
            "spec": spec,
        }
        await self.put("resource.k8s.io/v1", "resourceslices", obj, namespaced=False)

    async def prepare(self) -> None:
        """A class of devices, and a template for claims of one of them."""
        obj = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {},
        }
        await self.put("resource.k8s.io/v1", "deviceclasses", obj, namespaced=False)
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
        spec = {"spec": {"devices": {"requests": [request]}}}
        made = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one"},
        }
        await self.put("resource.k8s.io/v1", "resourceclaimtemplates", {**made, "spec": spec})

    async def pods(self, group: str, count: int, *, volcano: bool = False, claims: bool = True) -> None:
        for number in range(count):
            spec: dict[str, Any] = {"containers": [{"name": "main", "image": "x"}]}
            meta: dict[str, Any] = {"name": f"{group}-{number}"}
            if volcano:
                meta["annotations"] = {"scheduling.k8s.io/group-name": group}
                spec["schedulerName"] = "volcano"
            else:
                spec["schedulingGroup"] = {"podGroupName": group}
            if claims:
                spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
            await self.put("v1", "pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    async def group(self, name: str, minimum: int, **spec: Any) -> None:
        policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}, **spec}
        meta = {"name": name}
        await self.put(
            SCHEDULING,
            "podgroups",
            {"apiVersion": SCHEDULING, "kind": "PodGroup", "metadata": meta, "spec": policy},
        )

    async def volcano(self, kind: str, name: str, **spec: Any) -> None:
        obj = {"apiVersion": VOLCANO, "kind": kind, "metadata": {"name": name}, "spec": spec}
        await self.put(VOLCANO, f"{kind.lower()}s", obj, namespaced=kind != "Queue")

    def bound(self, group: str) -> int:
        return sum(
            bool(pod.spec.node_name) and pod.metadata.name.startswith(f"{group}-")
            for pod in self.cluster.seen.of(Pod).all()
        )

    def told(self, pod: str) -> str:
        """What a pod's condition says."""
        found = self.cluster.seen.of(Pod).get(pod, "default")
        conditions = found.status.conditions if found is not None else ()
        return next((each.message or "" for each in conditions if each.type == "PodScheduled"), "")

    def status(self, api_version: str, group: str) -> Obj:
        found = self.cluster.seen.plain(api_version, "podgroups").get(group, "default")
        return dict((found or {}).get("status") or {})

    def condition(self, api_version: str, group: str, type_: str) -> Obj:
        conditions = self.status(api_version, group).get("conditions") or ()
        return next((each for each in conditions if each["type"] == type_), {})


def on_plane(folder: Path, scenario: Callable[[Plane], Awaitable[None]]) -> None:
    async def run(cluster: Cluster) -> None:
        plane = Plane(cluster)
        cluster.seen.plain(SCHEDULING, "podgroups")
        await plane.start()
        await plane.prepare()
        await scenario(plane)
        plane.core.validate()

    in_cluster(folder, run)


def test_a_gang_of_kubernetes_is_bound_whole_and_its_group_knows(tmp_path: Path) -> None:
    async def scenario(plane: Plane) -> None:
        await plane.gpus("a", 4)
        await plane.gpus("b", 4)
        await plane.group("gang", 8)
        await plane.pods("gang", 8)

        await plane.cluster.eventually(lambda: plane.bound("gang") == 8, "eight pods bound")

        def scheduled() -> bool:
            return plane.condition(SCHEDULING, "gang", "PodGroupInitiallyScheduled").get("status") == "True"

        await plane.cluster.eventually(scheduled, "the condition of the group")

    on_plane(tmp_path, scenario)


def test_a_gang_that_cannot_fit_says_so_and_comes_when_there_is_room(tmp_path: Path) -> None:
    async def scenario(plane: Plane) -> None:
        await plane.gpus("a", 3)
        await plane.group("gang", 4)
        await plane.pods("gang", 4)
        words = "only 3 of 4 pods that it needs fit"

        await plane.cluster.eventually(lambda: words in plane.told("gang-0"), "the reason")
        condition = await plane.cluster.eventually(
            lambda: plane.condition(SCHEDULING, "gang", "PodGroupInitiallyScheduled"), "the condition"
        )
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert words in condition["message"]
        assert plane.bound("gang") == 0

        await plane.gpus("b", 1)
        await plane.cluster.eventually(lambda: plane.bound("gang") == 4, "four pods bound")

    on_plane(tmp_path, scenario)


def test_a_claim_of_the_group_is_made_once_and_shared(tmp_path: Path) -> None:
    async def scenario(plane: Plane) -> None:
        await plane.gpus("a", 1)
        await plane.gpus("b", 0)
        entry = {"name": "gpu", "resourceClaimTemplateName": "one"}
        await plane.group("gang", 3, resourceClaims=[entry])
        await plane.pods("gang", 3)

        await plane.cluster.eventually(lambda: plane.bound("gang") == 3, "three pods bound")

        claims = plane.cluster.seen.of(ResourceClaim)
        [claim] = await plane.cluster.eventually(lambda: [c for c in claims.all() if c.status.reserved_for])
        assert [user.resource for user in claim.status.reserved_for] == ["podgroups"]
        for number in range(3):
            await plane.cluster.admin.of(Pod).delete(f"gang-{number}", "default", grace_seconds=0)
        await plane.cluster.admin.plain(SCHEDULING, "podgroups").delete("gang", "default")
        await plane.cluster.eventually(lambda: not claims.all(), "the claim goes with its group")

    on_plane(tmp_path, scenario)


def test_volcanos_groups_and_queues_with_a_quota_of_devices(tmp_path: Path) -> None:
    """The kinds come to be served while the scheduler runs."""

    async def scenario(plane: Plane) -> None:
        definitions = list(yaml.safe_load_all(CRDS.read_text()))
        await plane.put(CRD, "customresourcedefinitions", *definitions, namespaced=False)
        await plane.gpus("a", 8)
        await plane.volcano("Queue", "research", weight=1, capability={"deviceclass/gpu": 4})
        plane.cluster.seen.plain(VOLCANO, "podgroups")
        queues = plane.cluster.seen.plain(VOLCANO, "queues", namespaced=False)
        await plane.volcano("PodGroup", "one", minMember=3, queue="research")
        await plane.cluster.eventually(lambda: plane.status(VOLCANO, "one").get("phase") == "Inqueue")

        await plane.pods("one", 3, volcano=True)
        await plane.cluster.eventually(lambda: plane.bound("one") == 3, "the first gang")
        await plane.cluster.eventually(lambda: plane.status(VOLCANO, "one").get("phase") == "Running")

        await plane.volcano("PodGroup", "two", minMember=2, queue="research")
        await plane.pods("two", 2, volcano=True)
        words = "queue research may use 4 of deviceclass/gpu, uses 3, and this needs 2 more"
        await plane.cluster.eventually(lambda: words in plane.told("two-0"), "the quota")
        await plane.cluster.eventually(
            lambda: words in plane.condition(VOLCANO, "two", "Unschedulable").get("message", ""),
            "in the group too",
        )
        assert plane.bound("two") == 0

        await plane.cluster.admin.of(Pod).delete("one-0", "default", grace_seconds=0)
        await plane.cluster.eventually(lambda: plane.bound("two") == 2, "room in the quota")
        await plane.cluster.eventually(
            lambda: plane.condition(VOLCANO, "two", "Unschedulable").get("status") == "False"
        )

        def counted() -> bool:
            status = (queues.get("research") or {}).get("status") or {}
            phases = status.get("state"), status.get("running"), status.get("inqueue")
            # the first has lost a pod that it needs
            return phases == ("Open", 1, 1) and status["allocated"] == {
                "cpu": "0",
                "memory": "0",
                "pods": "4",
                "deviceclass/gpu": "4",
            }

        await plane.cluster.eventually(counted, "in the queue too")

    on_plane(tmp_path, scenario)


def test_a_volcano_group_without_a_separate_status_is_told_too(tmp_path: Path) -> None:
    """Volcano's own definition of its groups has no status subresource."""

    async def scenario(plane: Plane) -> None:
        definitions = list(yaml.safe_load_all(CRDS.read_text()))
        for each in definitions:
            del each["spec"]["versions"][0]["subresources"]
        await plane.put(CRD, "customresourcedefinitions", *definitions, namespaced=False)
        await plane.gpus("a", 2)
        plane.cluster.seen.plain(VOLCANO, "podgroups")
        await plane.volcano("PodGroup", "one", minMember=2)
        await plane.pods("one", 2, volcano=True)

        await plane.cluster.eventually(lambda: plane.status(VOLCANO, "one").get("phase") == "Running")

    on_plane(tmp_path, scenario)


def test_amounts_that_are_none_are_refused_where_they_are_written(tmp_path: Path) -> None:
    async def run(cluster: Cluster) -> None:
        plane = Plane(cluster)
        definitions = list(yaml.safe_load_all(CRDS.read_text()))
        await plane.put(CRD, "customresourcedefinitions", *definitions, namespaced=False)
        await plane.volcano("Queue", "q", capability={"cpu": 4, "memory": "1.5Gi", "deviceclass/gpu": "1e3"})
        for kind, spec in (
            ("Queue", {"capability": {"cpu": "much"}}),
            ("Queue", {"deserved": {"cpu": "5%"}}),
            ("Queue", {"guarantee": {"resource": {"cpu": ""}}}),
            ("PodGroup", {"minResources": {"cpu": "1 Gi"}}),
        ):
            with pytest.raises(Invalid, match="cpu"):
                await plane.volcano(kind, "odd", **spec)

    in_cluster(tmp_path, run)
