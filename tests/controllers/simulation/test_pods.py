"""Pods on simulated nodes, against the embedded server: they start, wait, run, end and go."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from allotment.api.core import Pod
from allotment.client.form import Obj
from allotment.client.transport import Call, Disconnected, Reply, Stream, Transport
from allotment.controllers.controller import Again
from allotment.controllers.simulation.kubelet import KUBELET_PATIENCE, SimulatedKubelet, _Blocked
from allotment.controllers.simulation.prepare import ClaimKey
from tests.controllers.cluster import Cluster, Component, in_cluster
from tests.controllers.simulation.simulated import (
    CARDS,
    Time,
    allocation,
    gpu_claim,
    placed_pod,
    semantic_allocation,
    simulated_node,
    slice_,
    tree,
    user,
)

BY_NAME = {"name": "gpu", "resourceClaimName": "c"}


async def kubelet(cluster: Cluster, time: Time) -> tuple[SimulatedKubelet, Component]:
    part = cluster.component()
    played = SimulatedKubelet(part.client, part.informers, part.recorder, now=time.now)
    await part.start(played)
    return played, part


def phase(cluster: Cluster, name: str = "p") -> str | None:
    found = cluster.seen.of(Pod).get(name, "default")
    return found.status.phase if found is not None else None


def states(pod: Obj, which: str = "containerStatuses") -> list[tuple[str, str]]:
    return [(each["name"], next(iter(each["state"]))) for each in pod["status"][which]]


async def give(cluster: Cluster, to: Obj, *devices: str) -> None:
    """What a scheduler writes."""
    status = {"allocation": allocation(*devices), "reservedFor": [user(to)]}
    claims = cluster.admin.plain("resource.k8s.io/v1", "resourceclaims")
    await claims.patch("c", {"status": status}, "default", subresource="status")


def test_a_pod_starts_in_one_write_and_looks_as_from_a_kubelet(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await kubelet(cluster, Time())
        wanted = placed_pod()
        wanted["spec"]["initContainers"] = [
            {"name": "once", "image": "busybox"},
            {"name": "beside", "image": "busybox", "restartPolicy": "Always"},
        ]
        seen = cluster.seen.plain("v1", "pods")
        versions: list[str] = []
        seen.on_change(lambda old, new: versions.append((new or {})["metadata"]["resourceVersion"]))
        await cluster.create(simulated_node(), wanted)
        await cluster.eventually(lambda: phase(cluster) == "Running")
        await cluster.quiet()
        found = await cluster.admin.plain("v1", "pods").get("p", "default")
        assert len(versions) == 2  # created and started
        assert states(found) == [("main", "running")]
        assert states(found, "initContainerStatuses") == [("once", "terminated"), ("beside", "running")]
        conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
        started = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
        assert {type_: conditions[type_] for type_ in started} == dict.fromkeys(started, "True")
        assert found["status"]["startTime"] == "2026-01-01T00:00:00Z"
        assert found["status"]["podIP"].startswith("10.")
        assert found["status"]["podIPs"] == [{"ip": found["status"]["podIP"]}]
        assert found["status"]["hostIP"].startswith("10.")

    in_cluster(tmp_path, scenario)


def test_pods_on_other_nodes_are_left_to_their_kubelets(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await kubelet(cluster, Time())
        await cluster.create(
            simulated_node("real", simulated=False), placed_pod(on="real"), placed_pod("unbound", on="")
        )
        await cluster.quiet()
        found = await cluster.admin.of(Pod).list("default")
        assert [each.status.phase for each in found.items] == ["Pending", "Pending"]
        # a node may turn out to be played later
        mark = {"metadata": {"labels": {"allotment.dev/simulated": "true"}}}
        await cluster.admin.plain("v1", "nodes", namespaced=False).patch("real", mark)
        await cluster.eventually(lambda: phase(cluster) == "Running")

    in_cluster(tmp_path, scenario)


def test_a_pod_whose_device_is_gone_waits_says_why_and_starts_when_it_is_back(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await kubelet(cluster, Time())
        cluster.seen.plain("v1", "events")
        made = (await cluster.create(simulated_node(), gpu_claim(), placed_pod(on="", claims=(BY_NAME,))))[-1]
        await give(cluster, made, "gpu-0")
        target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "ada"}}
        await cluster.admin.plain("v1", "pods").act("p", "binding", target, "default")
        (told,) = await cluster.eventually(lambda: cluster.events("p"))
        assert told == (
            "FailedPrepareDynamicResources: device gpu-0 of pool ada (gpu.example.com), which ResourceClaim c was "
            "given, no longer exists"
        )
        await cluster.quiet()
        found = await cluster.admin.plain("v1", "pods").get("p", "default")
        assert found["status"]["phase"] == "Pending"
        waits = found["status"]["containerStatuses"][0]["state"]["waiting"]
        assert waits["reason"] == "FailedPrepareDynamicResources"
        assert "gpu-0" in waits["message"]
        assert len(cluster.events("p")) == 1  # said once, not at every look
        await cluster.create(slice_("gpu-0"))
        await cluster.eventually(lambda: phase(cluster) == "Running")
        found = await cluster.admin.plain("v1", "pods").get("p", "default")
        assert states(found) == [("main", "running")]
        assert "message" not in found["status"]["conditions"][-1]

    in_cluster(tmp_path, scenario)


def test_a_pod_bound_ahead_of_its_claim_starts_when_the_claim_is_its(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await kubelet(cluster, Time())
        cluster.seen.plain("v1", "events")
        made = (await cluster.create(simulated_node(), slice_("gpu-0"), placed_pod(claims=(BY_NAME,))))[-1]
        await cluster.eventually(lambda: cluster.events("p") and "does not exist" in cluster.events("p")[-1])
        await cluster.create(gpu_claim())
        await cluster.eventually(lambda: "is not reserved" in cluster.events("p")[-1])
        await give(cluster, made, "gpu-0")
        await cluster.eventually(lambda: phase(cluster) == "Running")

    in_cluster(tmp_path, scenario)


def test_a_pod_whose_instance_of_a_tree_is_gone_waits_for_it(tmp_path: Path) -> None:
    """KEP-4381's MUST, with its own kinds."""

    async def scenario(cluster: Cluster) -> None:
        await kubelet(cluster, Time())
        cluster.seen.plain("v1", "events")
        early = {
            **gpu_claim(),
            "apiVersion": "resource.k8s.io/v1alpha2",
            "spec": {"resourceClassName": "cards"},
        }
        withdrawn = tree("q1")
        made = (
            await cluster.create(simulated_node(), withdrawn, early, placed_pod(on="", claims=(BY_NAME,)))
        )[-1]
        status = {
            "driverName": CARDS,
            "allocation": semantic_allocation("card-0/quarters/q0"),
            "reservedFor": [user(made)],
        }
        claims = cluster.admin.plain("resource.k8s.io/v1alpha2", "resourceclaims")
        await claims.patch("c", {"status": status}, "default", subresource="status")
        target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "ada"}}
        await cluster.admin.plain("v1", "pods").act("p", "binding", target, "default")
        (told,) = await cluster.eventually(lambda: cluster.events("p"))
        assert "which ResourceClaim c was given, no longer exists" in told
        trees = cluster.admin.plain("resource.k8s.io/v1alpha2", "noderesourceslices", namespaced=False)
        await trees.patch("ada-cards", {"spec": tree("q0", "q1")["spec"]})
        await cluster.eventually(lambda: phase(cluster) == "Running")

    in_cluster(tmp_path, scenario)


def test_names_of_claims_that_are_about_to_come_are_waited_for_in_silence(tmp_path: Path) -> None:
    """A scheduler binds a pod when it has seen its claims, which may be before their names are in the pod's status."""

    async def scenario(cluster: Cluster) -> None:
        time = Time()
        played, _ = await kubelet(cluster, time)
        cluster.seen.plain("v1", "events")
        await cluster.create(
            simulated_node(), placed_pod(claims=({"name": "gpu", "resourceClaimTemplateName": "t"},))
        )
        await cluster.quiet()
        again = await played.reconcile(("default", "p"))
        assert again == Again(KUBELET_PATIENCE, "its claims are about to be noted")
        assert cluster.events("p") == []
        time.pass_(3e9)  # the server stamps pods by its own clock
        await played.reconcile(("default", "p"))
        (told,) = await cluster.eventually(lambda: cluster.events("p"))
        assert told.endswith("the claim for gpu has not been created from its template yet")

    in_cluster(tmp_path, scenario)


class Unreliable:
    """A connection on which of three writes one never arrives and of another the answer is lost."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._writes = 0

    async def call(self, call: Call) -> Reply:
        if call.method == "GET":
            return await self._transport.call(call)
        self._writes += 1
        if self._writes % 3 == 1:
            raise Disconnected("it did not arrive")
        reply = await self._transport.call(call)
        if self._writes % 3 == 2:
            raise Disconnected("its answer was lost")
        return reply

    def stream(self, call: Call) -> AbstractAsyncContextManager[Stream]:
        return self._transport.stream(call)

    async def close(self) -> None:
        await self._transport.close()


def test_lost_writes_and_lost_answers_change_nothing_in_the_end(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        part = cluster.component(through=Unreliable)
        played = SimulatedKubelet(part.client, part.informers, part.recorder, now=Time().now)
        await part.start(played)
        names = [f"p{number}" for number in range(4)]
        await cluster.create(
            simulated_node(),
            *(placed_pod(name) for name in names),
            placed_pod("ends", marks={"run-seconds": "0"}),
        )
        await cluster.eventually(lambda: all(phase(cluster, name) == "Running" for name in names))
        await cluster.eventually(lambda: phase(cluster, "ends") == "Succeeded")
        for name in names:
            await cluster.admin.of(Pod).delete(name, "default")
        await cluster.eventually(lambda: all(phase(cluster, name) is None for name in names))
        await cluster.quiet()

    in_cluster(tmp_path, scenario)


ENDS = [
    pytest.param({"run-seconds": "0"}, "Succeeded", 0, id="at once"),
    pytest.param({"run-seconds": "0", "exit-code": "3"}, "Failed", 3, id="with an error"),
    pytest.param({"run-seconds": "0", "exit-code": "-x"}, "Succeeded", 0, id="with nonsense for a code"),
]


@pytest.mark.parametrize(("marks", "end", "code"), ENDS)
def test_a_pod_with_a_run_time_ends(tmp_path: Path, marks: dict[str, str], end: str, code: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await kubelet(cluster, Time())
        await cluster.create(simulated_node(), placed_pod(marks=marks))
        await cluster.eventually(lambda: phase(cluster) == end)
        found = await cluster.admin.plain("v1", "pods").get("p", "default")
        ended = found["status"]["containerStatuses"][0]["state"]["terminated"]
        assert ended["exitCode"] == code
        assert not any(
            each["status"] == "True" for each in found["status"]["conditions"] if "Ready" in each["type"]
        )

    in_cluster(tmp_path, scenario)


RUNS = [("", None), ("soon", None), ("-1", None), ("nan", None), ("60", 60.0), ("1e300", 315360000.0)]


@pytest.mark.parametrize(("seconds", "left"), RUNS)
def test_a_pod_runs_as_long_as_it_says(tmp_path: Path, seconds: str, left: float | None) -> None:
    """What is no number of seconds is for ever; what is too many is as good as that."""

    async def scenario(cluster: Cluster) -> None:
        time = Time()
        played, _ = await kubelet(cluster, time)
        await cluster.create(simulated_node(), placed_pod(marks={"run-seconds": seconds}))
        await cluster.eventually(lambda: phase(cluster) == "Running")
        await cluster.quiet()
        again = await played.reconcile(("default", "p"))
        assert again == (None if left is None else Again(left, "its run time is not over"))
        time.pass_(59)
        assert phase(cluster) == "Running"
        await played.reconcile(("default", "p"))
        time.pass_(1)
        await played.reconcile(("default", "p"))
        await cluster.quiet()
        assert phase(cluster) == ("Succeeded" if left == 60 else "Running")

    in_cluster(tmp_path, scenario)


def test_a_deleted_pod_ends_and_goes(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await kubelet(cluster, Time())
        held = placed_pod("held")
        held["metadata"]["finalizers"] = ["example.com/wait"]
        await cluster.create(simulated_node(), placed_pod(), held)
        await cluster.eventually(lambda: phase(cluster) == phase(cluster, "held") == "Running")
        ends: list[Any] = []
        cluster.seen.of(Pod).on_change(
            lambda old, new: ends.append(old and old.status.phase) if not new else None
        )
        pods = cluster.admin.of(Pod)
        for name in ("p", "held"):
            await pods.delete(name, "default")
        await cluster.eventually(lambda: phase(cluster) is None)
        await cluster.eventually(lambda: phase(cluster, "held") == "Succeeded")
        await cluster.quiet()
        assert ends == ["Succeeded"]  # the other waits for who holds it
        await pods.patch("held", {"metadata": {"finalizers": None}}, "default")
        await cluster.eventually(lambda: phase(cluster, "held") is None)

    in_cluster(tmp_path, scenario)


def test_a_pod_that_never_started_goes_too(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await kubelet(cluster, Time())
        cluster.seen.plain("v1", "events")
        await cluster.create(simulated_node(), placed_pod(claims=(BY_NAME,)))
        await cluster.eventually(lambda: cluster.events("p"))
        await cluster.admin.of(Pod).delete("p", "default")
        await cluster.eventually(lambda: phase(cluster) is None)

    in_cluster(tmp_path, scenario)


def test_another_process_goes_on_where_one_stopped(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        time = Time()
        _, part = await kubelet(cluster, time)
        await cluster.create(simulated_node(), placed_pod(marks={"run-seconds": "60"}))
        await cluster.eventually(lambda: phase(cluster) == "Running")
        await part.stop()
        time.pass_(61)
        await kubelet(cluster, time)
        await cluster.eventually(lambda: phase(cluster) == "Succeeded")

    in_cluster(tmp_path, scenario)


def test_who_waits_for_what_is_forgotten_with_the_pod() -> None:
    blocked, one, two = _Blocked(), ClaimKey("ns", "1"), ClaimKey("ns", "2")
    blocked.set(("ns", "p"), one)
    blocked.set(("ns", "p"), two)
    assert (blocked.behind(one), blocked.behind(two)) == ((), (("ns", "p"),))
    blocked.clear(("ns", "p"))
    blocked.clear(("ns", "p"))
    assert not blocked._pods
    assert not blocked._causes
