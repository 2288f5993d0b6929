"""Who leaves a tainted device, and when; what rules say about it; and that each write on the way may fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from allotment.api.core import Pod
from allotment.api.resource import DeviceTaintRule
from allotment.client.client import Collection
from allotment.client.form import Obj
from allotment.client.transport import Transport
from allotment.controllers.taints.device_taint_eviction import DeviceTaintEviction, PodKey
from allotment.controllers.taints.device_taints import key_of
from tests.controllers.cluster import Cluster, Component, in_cluster
from tests.controllers.failing import BORNE, CRASHES, Failing, Fault
from tests.controllers.taints.evictions import START, Clock, going, marks

DRIVER = "gpu.example.com"
AGO = START - timedelta(seconds=40)


# --- builders ---


def taint(effect: str = "NoExecute", key: str = "sick") -> Obj:
    return {"key": key, "effect": effect, "timeAdded": AGO.isoformat()}


def bears(seconds: int | None = None, key: str = "sick") -> Obj:
    found = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return found if seconds is None else {**found, "tolerationSeconds": seconds}


def slice_of(pool: str, *taints: Obj, generation: int = 1, name: str = "", device: str = "d") -> Obj:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"slice-{pool}"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
            "nodeName": "n",
            "devices": [{"name": device, "taints": list(taints)}],
        },
    }


def rule(name: str, effect: str = "NoExecute", **selector: str) -> Obj:
    spec = {"deviceSelector": {"driver": DRIVER, **selector}, "taint": taint(effect)}
    meta = {"name": name}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": meta, "spec": spec}


def claim_of(name: str) -> Obj:
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": requests}},
    }


def allocation(pool: str, *tolerations: Obj, device: str = "d") -> Obj:
    result = {
        "request": "r",
        "driver": DRIVER,
        "pool": pool,
        "device": device,
        "tolerations": list(tolerations),
    }
    return {"devices": {"results": [result]}}


def pod_of(name: str, *claims: str, node: str | None = "n", group: str = "") -> Obj:
    entries = [{"name": f"c{number}", "resourceClaimName": claim} for number, claim in enumerate(claims)]
    spec: Obj = {"containers": [{"name": "main", "image": "none"}], "resourceClaims": entries}
    if node:
        spec["nodeName"] = node
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def consumer(pod: Obj) -> Obj:
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def claims(cluster: Cluster) -> Collection[Obj]:
    return cluster.admin.plain("resource.k8s.io/v1", "resourceclaims")


def slices(cluster: Cluster) -> Collection[Obj]:
    return cluster.admin.plain("resource.k8s.io/v1", "resourceslices", namespaced=False)


def rules(cluster: Cluster) -> Collection[Obj]:
    return cluster.admin.plain("resource.k8s.io/v1", "devicetaintrules", namespaced=False)


async def give(cluster: Cluster, claim: str, allocation: Obj | None, *consumers: Obj) -> None:
    status = {"allocation": allocation, "reservedFor": list(consumers) or None}
    await claims(cluster).patch(claim, {"status": status}, "default", subresource="status")


async def in_use(cluster: Cluster, name: str, *tolerations: Obj, node: str | None = "n") -> Obj:
    """A pod, a claim that it uses, and the pool whose device that has, all of one name."""
    pod, _ = await cluster.create(pod_of(name, name, node=node), claim_of(name))
    await give(cluster, name, allocation(name, *tolerations), consumer(pod))
    return pod


async def start(
    cluster: Cluster, clock: Clock, through: Callable[[Transport], Transport] = lambda beneath: beneath
) -> tuple[Component, DeviceTaintEviction]:
    part = cluster.component(through=through)
    eviction = DeviceTaintEviction(part.client, part.informers, part.recorder, now=clock)
    await part.start(eviction)
    return part, eviction


async def look_again(cluster: Cluster, eviction: DeviceTaintEviction) -> None:
    """What the timers would do, as the clock of the test is not theirs."""
    await cluster.quiet()
    for pod in cluster.seen.of(Pod).all():
        eviction.queue.add(PodKey(pod.metadata.namespace, pod.metadata.name))
    await cluster.quiet()
    for each in cluster.seen.of(DeviceTaintRule).all():
        eviction.queue.add(key_of(each))
    await cluster.quiet()


def told(cluster: Cluster, rule: str) -> tuple[str, str, str]:
    """Status, reason and message of a rule's one condition; empty if it has none about its present spec."""
    found = cluster.seen.of(DeviceTaintRule).get(rule)
    for condition in () if found is None else found.status.conditions:
        if found is not None and condition.observed_generation == found.metadata.generation:
            return condition.status, condition.reason, condition.message
    return "", "", ""


def follow(cluster: Cluster) -> None:
    cluster.seen.of(Pod)
    cluster.seen.of(DeviceTaintRule)
    cluster.seen.plain("v1", "events")


# --- who goes, and when ---


@dataclass(frozen=True)
class Case:
    """A pod that uses the device of a pool. ``goes``: after how many seconds; None: never. Taints are 40 s old."""

    name: str
    goes: float | None
    taints: tuple[Obj, ...] = ()
    rule: Obj | None = None
    tolerations: tuple[Obj, ...] = ()
    node: str | None = "n"
    status: Obj | None = None


CASES = [
    Case("healthy", None),
    Case("tainted", 0, (taint(),)),
    Case("by-rule", 0, rule=rule("by-rule", pool="by-rule")),
    Case("by-exact-rule", 0, rule=rule("exact", pool="by-exact-rule", device="d")),
    Case("rule-for-another", None, rule=rule("another", pool="rule-for-another", device="e")),
    Case("no-schedule", None, (taint("NoSchedule"),)),
    Case("rule-no-schedule", None, rule=rule("no-schedule", "NoSchedule", pool="rule-no-schedule")),
    Case("rule-none", None, rule=rule("none", "None", pool="rule-none")),
    Case("borne", None, (taint(),), tolerations=(bears(),)),
    Case("borne-rule", None, rule=rule("borne", pool="borne-rule"), tolerations=(bears(),)),
    Case("another-key", 0, (taint(),), tolerations=(bears(key="other"),)),
    # seconds count from the taint's time, not from when we saw it
    Case("for-a-minute", 20, (taint(),), tolerations=(bears(60),)),
    Case("for-half-a-minute", 0, (taint(),), tolerations=(bears(30),)),
    Case("shortest", 10, (taint(),), tolerations=(bears(60), bears(50))),
    Case("two-taints", 20, (taint(), taint(key="b")), tolerations=(bears(90), bears(60, "b"))),
    Case("device-and-rule", 20, (taint(),), rule("both", pool="device-and-rule"), (bears(60),)),
    Case("for-ages", None, (taint(),), tolerations=(bears(2**62),)),
    Case("not-bound", None, (taint(),), node=None),
    Case("finished", None, (taint(),), status={"phase": "Failed"}),
]


def test_pods_leave_when_their_claims_toleration_ends(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        follow(cluster)
        for case in CASES:
            await cluster.create(slice_of(case.name, *case.taints), *([case.rule] if case.rule else []))
            await in_use(cluster, case.name, *case.tolerations, node=case.node)
            if case.status:
                pods = cluster.admin.plain("v1", "pods")
                await pods.patch(case.name, {"status": case.status}, "default", subresource="status")
        _, eviction = await start(cluster, clock)
        seen: dict[str, float] = {}
        for moment in (0.0, 5.0, 10.0, 15.0, 20.0, 1e6):
            clock.set(moment)
            await look_again(cluster, eviction)
            seen |= {c.name: moment for c in CASES if c.name not in seen and going(cluster, c.name)}
        assert {case.name: seen.get(case.name) for case in CASES} == {case.name: case.goes for case in CASES}
        assert marks(cluster, "tainted") == ["DeletionByDeviceTaintManager"]
        events = await cluster.eventually(lambda: cluster.events("tainted"))
        assert events[0].startswith("DeviceTaintManagerEviction: Deleting the pod: a device of it has")

    in_cluster(tmp_path, scenario)


async def healed(cluster: Cluster) -> None:
    await slices(cluster).delete("slice-p")
    await cluster.create(slice_of("p"))


async def republished(cluster: Cluster) -> None:
    """A newer generation does not have the device any more."""
    await cluster.create(slice_of("p", generation=2, name="newer", device="e"))


async def withdrawn(cluster: Cluster) -> None:
    await slices(cluster).delete("slice-p")


async def deallocated(cluster: Cluster) -> None:
    await give(cluster, "p", None)


async def given_back(cluster: Cluster) -> None:
    await give(cluster, "p", allocation("p", bears(60)))


async def reserved_for_another(cluster: Cluster) -> None:
    other = {"resource": "pods", "name": "p", "uid": "an-older-pod"}
    await give(cluster, "p", allocation("p", bears(60)), other)


@pytest.mark.parametrize(
    "change", [healed, republished, withdrawn, deallocated, given_back, reserved_for_another]
)
def test_what_changes_before_the_deadline_keeps_the_pod(
    change: Callable[[Cluster], Awaitable[None]], tmp_path: Path
) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        follow(cluster)
        await cluster.create(slice_of("p", taint()))
        await in_use(cluster, "p", bears(60))
        _, eviction = await start(cluster, clock)
        await cluster.quiet()
        await change(cluster)
        await cluster.eventually(lambda: cluster.events("p"), "the pod hears that it may stay")
        clock.set(21)
        await look_again(cluster, eviction)
        assert not going(cluster, "p")
        assert cluster.events("p")[0].startswith("DeviceTaintManagerEviction: The pod may stay")

    in_cluster(tmp_path, scenario)


async def lifted(cluster: Cluster) -> None:
    await rules(cluster).delete("r")


async def softened(cluster: Cluster) -> None:
    await rules(cluster).patch("r", {"spec": {"taint": {"effect": "NoSchedule"}}})


async def aimed_elsewhere(cluster: Cluster) -> None:
    await rules(cluster).patch("r", {"spec": {"deviceSelector": {"pool": "q"}}})


@pytest.mark.parametrize("change", [lifted, softened, aimed_elsewhere])
def test_a_rule_that_changes_before_the_deadline_keeps_the_pod(
    change: Callable[[Cluster], Awaitable[None]], tmp_path: Path
) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        follow(cluster)
        await cluster.create(rule("r", pool="p"))
        await in_use(cluster, "p", bears(60))
        _, eviction = await start(cluster, clock)
        await cluster.quiet()
        await change(cluster)
        await cluster.eventually(lambda: cluster.events("p"), "the pod hears that it may stay")
        clock.set(21)
        await look_again(cluster, eviction)
        assert not going(cluster, "p")

    in_cluster(tmp_path, scenario)


def test_taints_reservations_and_bindings_that_come_later_evict(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        await cluster.create(slice_of("early"), slice_of("unreserved", taint()), slice_of("unbound", taint()))
        await in_use(cluster, "early")
        waiting = (await cluster.create(pod_of("unreserved", "unreserved"), claim_of("unreserved")))[0]
        await in_use(cluster, "unbound", node=None)
        await start(cluster, Clock())
        await cluster.quiet()
        assert not any(going(cluster, name) for name in ("early", "unreserved", "unbound"))
        await slices(cluster).patch("slice-early", slice_of("early", taint()))
        await cluster.eventually(lambda: going(cluster, "early"), "the taint evicts")
        await give(cluster, "unreserved", allocation("unreserved"), consumer(waiting))
        await cluster.eventually(lambda: going(cluster, "unreserved"), "the reservation evicts")
        target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "unbound"}}
        pods = cluster.admin.plain("v1", "pods")
        await pods.act("unbound", "binding", {**target, "target": {"kind": "Node", "name": "n"}}, "default")
        await cluster.eventually(lambda: going(cluster, "unbound"), "the binding evicts")

    in_cluster(tmp_path, scenario)


def test_pods_go_by_claims_of_templates_extended_resources_and_groups(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        pods = cluster.admin.plain("v1", "pods")
        await cluster.create(
            slice_of("p", taint()), *(claim_of(name) for name in ("made", "extended", "shared"))
        )
        made = pod_of("by-template")
        made["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "t"}]
        by_template, by_name = await cluster.create(made, pod_of("by-extended-resource"))
        await cluster.create(pod_of("member", "shared", group="g"), pod_of("stranger", "shared", group="h"))
        named = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "made"}]}
        mapped = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "r"}
        special = {"resourceClaimName": "extended", "requestMappings": [mapped]}
        await pods.patch("by-template", {"status": named}, "default", subresource="status")
        await pods.patch(
            "by-extended-resource",
            {"status": {"extendedResourceClaimStatus": special}},
            "default",
            subresource="status",
        )
        group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "of-g"}
        for claim, user, device in (
            ("made", consumer(by_template), "d"),
            ("extended", consumer(by_name), "e"),
            ("shared", group, "f"),
        ):
            await give(cluster, claim, allocation("q", device=device), user)
        await start(cluster, Clock())
        await cluster.create(rule("r", pool="q"))
        for name in ("by-template", "by-extended-resource", "member"):
            await cluster.eventually(lambda name=name: going(cluster, name), f"{name} goes")  # type: ignore[misc]  # bound now
        await cluster.quiet()
        assert not going(cluster, "stranger")

    in_cluster(tmp_path, scenario)


def test_a_pod_goes_when_the_first_of_its_claims_no_longer_bears_it(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        follow(cluster)
        await cluster.create(slice_of("a", taint()), rule("r", pool="b"))
        pod, _, _ = await cluster.create(pod_of("p", "long", "short"), claim_of("long"), claim_of("short"))
        await give(cluster, "long", allocation("a", bears(80)), consumer(pod))
        await give(cluster, "short", allocation("b", bears(60)), consumer(pod))
        _, eviction = await start(cluster, clock)
        clock.set(15)
        await look_again(cluster, eviction)
        assert not going(cluster, "p")
        clock.set(20)
        await look_again(cluster, eviction)
        assert going(cluster, "p")

    in_cluster(tmp_path, scenario)


def test_only_users_of_the_device_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        for number in range(20):
            await cluster.create(slice_of(f"p{number}"))
            await in_use(cluster, f"p{number}")
        _, eviction = await start(cluster, Clock())
        await cluster.quiet()
        looked: list[object] = []
        monkeypatch.setattr(eviction.queue, "add", looked.append)
        await slices(cluster).patch("slice-p7", slice_of("p7", taint()))
        await cluster.create(rule("r", pool="p3", device="d"))
        await cluster.quiet()
        of_pods = [key for key in looked if isinstance(key, PodKey)]
        assert sorted(key.name for key in of_pods) == ["p3", "p7"]

    in_cluster(tmp_path, scenario)


# --- what rules say ---


def test_a_rule_tells_how_far_its_eviction_is(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        follow(cluster)
        await cluster.create(slice_of("p"), slice_of("q"), rule("r"), rule("idle", pool="none"))
        await in_use(cluster, "p", bears(60))
        await in_use(cluster, "q", bears(120))
        part, eviction = await start(cluster, clock)
        await cluster.eventually(lambda: told(cluster, "r")[0])
        assert told(cluster, "r") == ("True", "PodsPendingEviction", "2 pods to be evicted in 1 namespace.")
        await cluster.eventually(lambda: told(cluster, "idle")[0])
        assert told(cluster, "idle") == ("False", "NotStarted", "")
        clock.set(25)
        await look_again(cluster, eviction)
        assert going(cluster, "p")
        left = "1 pod to be evicted in 1 namespace. 1 pod evicted since the controller started."
        assert told(cluster, "r") == ("True", "PodsPendingEviction", left)
        await in_use(cluster, "late", bears(120))
        clock.set(30)
        await look_again(cluster, eviction)
        assert told(cluster, "r")[2] == left  # written less than ten seconds ago
        clock.set(35)
        await look_again(cluster, eviction)
        assert told(cluster, "r")[2] == left.replace("1 pod to", "2 pods to")
        clock.set(100)
        await look_again(cluster, eviction)
        assert going(cluster, "q")
        assert told(cluster, "r") == ("False", "Completed", "3 pods evicted since the controller started.")
        await part.stop()
        clock.set(130)
        await start(cluster, clock)
        await cluster.eventually(lambda: told(cluster, "r")[2] == "", "the new one knows no count")
        assert told(cluster, "r") == ("False", "Completed", "")

    in_cluster(tmp_path, scenario)


def test_a_rule_without_effect_tells_what_it_would_do(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = Clock()
        follow(cluster)
        # an old generation is not published any more
        await cluster.create(
            slice_of("p"), slice_of("q", generation=2), slice_of("q", name="old", device="o")
        )
        await in_use(cluster, "p")
        await in_use(cluster, "q", bears())
        _, eviction = await start(cluster, clock)
        await cluster.create(rule("dry", "None"), rule("other", "NoSchedule"))
        await cluster.eventually(lambda: told(cluster, "dry")[0] and told(cluster, "other")[0])
        status, reason, message = told(cluster, "dry")
        assert (status, reason) == ("False", "NoEffect")
        assert message == (
            "Selects 2 devices published and 2 allocated; with the effect NoExecute 1 pod would be evicted in"
            " 1 namespace. This is counted once for each change of the rule."
        )
        assert told(cluster, "other")[1] == "OtherEffect"
        await in_use(cluster, "late")
        clock.set(60)
        await look_again(cluster, eviction)
        assert told(cluster, "dry")[2] == message
        await rules(cluster).patch("dry", {"spec": {"deviceSelector": {"pool": "late"}}})
        await cluster.eventually(lambda: told(cluster, "dry")[2] not in ("", message))
        assert told(cluster, "dry")[2].startswith("Selects 0 devices published and 1 allocated; ")
        assert not any(going(cluster, name) for name in ("p", "q", "late"))

    in_cluster(tmp_path, scenario)


def test_conditions_of_others_stay(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        await cluster.create(rule("r", pool="p"))
        theirs = {
            "type": "Theirs",
            "status": "True",
            "reason": "R",
            "message": "",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }
        await rules(cluster).patch("r", {"status": {"conditions": [theirs]}}, subresource="status")
        await start(cluster, Clock())

        def types() -> list[str]:
            found = cluster.seen.of(DeviceTaintRule).get("r")
            return [each.type for each in found.status.conditions] if found else []

        await cluster.eventually(lambda: "EvictionInProgress" in types())
        assert sorted(types()) == ["EvictionInProgress", "Theirs"]

    in_cluster(tmp_path, scenario)


# --- failures ---


@pytest.mark.parametrize("how", [*BORNE, *sorted(CRASHES, key=str)], ids=lambda how: how.name)
@pytest.mark.parametrize("at", [1, 2, 3])
def test_any_write_may_fail(at: int, how: Fault, tmp_path: Path) -> None:
    """The three writes: the rule's condition, the pod's, and its deletion."""

    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        await cluster.create(slice_of("p"), rule("r", pool="p"))
        await in_use(cluster, "p")
        clock, failing = Clock(), Failing.once(at, how)

        part, eviction = await start(cluster, clock, failing.through)
        await failing.strike()
        if how in CRASHES:
            await part.stop()
            part, eviction = await start(cluster, clock)
        await cluster.eventually(lambda: going(cluster, "p"), "p goes")
        await cluster.eventually(lambda: told(cluster, "r")[0], "the rule has a status")
        assert marks(cluster, "p") == ["DeletionByDeviceTaintManager"]
        clock.set(60)
        await look_again(cluster, eviction)
        assert told(cluster, "r")[0] == "False"

    in_cluster(tmp_path, scenario)
