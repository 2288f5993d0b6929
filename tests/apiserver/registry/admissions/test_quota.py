"""Quotas: what counts, what is refused in which words, and that the status always says what is there."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.api.conversion.v1alpha2 import CARRIER
from allotment.api.quantity import Quantity
from allotment.api.quota_usage import counted_in, in_scope, usage_of
from allotment.api.status import Forbidden
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry.admissions import quota
from allotment.apiserver.registry.admissions.quota import QUOTAS, Quotas
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.errors import Overloaded
from allotment.apiserver.store.record import Key
from tests.apiserver.registry.admissions.shelf import Shelf
from tests.thoroughness import examples

Json = dict[str, Any]

CREATE = Write(Operation.CREATE, ADMINISTRATOR, "2026-01-01T00:00:00Z")
PODS = Resource("", "v1", "Pod", "pods", True)
CONFIGMAPS = Resource("", "v1", "ConfigMap", "configmaps", True)
CLAIMS = Resource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", True)
JOBS = Resource("batch", "v1", "Job", "jobs", True)


def requesting_pod(requests: Json | None = None, limits: Json | None = None, **spec: Any) -> Json:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {"spec": {"containers": [{"name": "main", "resources": resources}], **spec}}


def claim_of(*requests: Json) -> Json:
    return {"spec": {"devices": {"requests": list(requests)}}}


def exactly(class_name: str, count: int = 1, mode: str = "ExactCount") -> Json:
    return {"name": "r", "exactly": {"deviceClassName": class_name, "allocationMode": mode, "count": count}}


class Namespace:
    """One namespace with quotas; writes go the way of the pipeline: ask, store."""

    def __init__(self, *quotas: Json) -> None:
        self.shelf = Shelf()
        self.quotas = Quotas(self.shelf.as_store())
        for number, spec in enumerate(quotas):
            self.quota(spec, f"q{number}")

    def quota(self, spec: Json, name: str = "q0") -> None:
        self.shelf.put(Key(QUOTAS, "ns", name), {"metadata": {"name": name, "namespace": "ns"}, "spec": spec})

    def create(self, resource: Resource, name: str, obj: Json, write: Write = CREATE) -> None:
        obj = {**copy.deepcopy(obj), "metadata": {"name": name, "namespace": "ns"}}
        self.quotas.admit(resource, obj, None, write)
        if not write.dry_run:
            self.shelf.put(Key(resource.id, "ns", name), obj)

    def delete(self, resource: Resource, name: str) -> None:
        self.shelf.delete(Key(resource.id, "ns", name))

    def refused(self, resource: Resource, name: str, obj: Json) -> str:
        with pytest.raises(Forbidden) as caught:
            self.create(resource, name, obj)
        return caught.value.message

    def status(self, name: str = "q0", *, settled: bool = True) -> Json:
        if settled:
            self.quotas.settle()
            self.quotas.validate()
        record = self.shelf.head(Key(QUOTAS, "ns", name))
        assert record is not None
        status: Json = record.load()["status"]
        return status


def test_objects_are_counted_and_one_too_many_is_refused() -> None:
    ns = Namespace({"hard": {"configmaps": "2", "count/jobs.batch": "1"}})
    ns.create(CONFIGMAPS, "a", {})
    ns.create(CONFIGMAPS, "b", {})
    assert ns.refused(CONFIGMAPS, "c", {}) == (
        'configmaps "c" is forbidden: exceeded quota: q0, requested: configmaps=1, used: configmaps=2, limited: configmaps=2'
    )
    ns.create(JOBS, "j", {})
    assert ns.refused(JOBS, "k", {}).startswith('jobs.batch "k" is forbidden: exceeded quota: q0, ')
    assert ns.status() == {
        "hard": {"configmaps": "2", "count/jobs.batch": "1"},
        "used": {"configmaps": "2", "count/jobs.batch": "1"},
    }
    ns.delete(CONFIGMAPS, "a")
    ns.create(CONFIGMAPS, "c", {})


def test_the_status_is_right_before_a_create_is_acknowledged() -> None:
    ns = Namespace({"hard": {"configmaps": "2"}})
    ns.create(CONFIGMAPS, "a", {})
    assert ns.status(settled=False)["used"] == {"configmaps": "1"}


def test_a_status_that_the_store_could_not_take_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    ns = Namespace({"hard": {"configmaps": "2"}}, {"hard": {"configmaps": "3"}})
    ns.create(CONFIGMAPS, "a", {})
    ns.delete(CONFIGMAPS, "a")

    def full(key: Key, obj: Json) -> None:
        raise Overloaded("the disk is busy")

    with monkeypatch.context() as patched:
        patched.setattr(ns.shelf, "put", full)
        with pytest.raises(Overloaded):
            ns.quotas.settle()
    assert [ns.status(name)["used"] for name in ("q0", "q1")] == [{"configmaps": "0"}] * 2


def test_a_quota_of_thousands_of_kinds_asks_each_name_a_few_times_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0

    def counted(name: str, resource: str) -> bool:
        nonlocal asked
        asked += 1
        return counted_in(name, resource)

    monkeypatch.setattr(quota, "counted_in", counted)
    ns = Namespace({"hard": {f"count/things.example{number}.com": "1" for number in range(1000)}})
    for name in "abcdefgh":
        ns.create(CONFIGMAPS, name, {})
    assert ns.status()["used"]["count/things.example0.com"] == "0"
    assert asked < 20 * 1000


def test_a_dry_run_counts_nothing() -> None:
    ns = Namespace({"hard": {"configmaps": "1"}})
    for name in "ab":
        ns.create(CONFIGMAPS, name, {}, Write(Operation.CREATE, ADMINISTRATOR, "", dry_run=True))
    assert ns.status()["used"] == {"configmaps": "0"}


def test_a_create_that_comes_to_nothing_is_not_counted_for_long() -> None:
    ns = Namespace({"hard": {"configmaps": "1"}})
    ns.quotas.admit(CONFIGMAPS, {"metadata": {"name": "a", "namespace": "ns"}}, None, CREATE)
    assert ns.status()["used"] == {"configmaps": "0"}


def test_what_was_there_before_the_quota_counts() -> None:
    ns = Namespace()
    ns.create(CONFIGMAPS, "a", {})
    ns.quota({"hard": {"configmaps": "1"}})
    assert ns.status()["used"] == {"configmaps": "1"}
    assert "used: configmaps=1" in ns.refused(CONFIGMAPS, "b", {})
    ns.quota({"hard": {"configmaps": "2", "pods": "1"}})
    ns.create(CONFIGMAPS, "b", {})
    assert ns.status()["used"] == {"configmaps": "2", "pods": "0"}


def test_devices_are_counted_by_class() -> None:
    name = "gpu.deviceclass.resource.k8s.io/devices"
    ns = Namespace({"hard": {name: "4", "count/resourceclaims.resource.k8s.io": "9"}})
    ns.create(CLAIMS, "a", claim_of(exactly("gpu", 2), exactly("nic", 5)))
    alternatives = {"firstAvailable": [exactly("gpu", 1)["exactly"], exactly("gpu", 3)["exactly"]]}
    assert ns.refused(CLAIMS, "b", claim_of({"name": "any", **alternatives})) == (
        f'resourceclaims.resource.k8s.io "b" is forbidden: exceeded quota: q0, requested: {name}=3, used: {name}=2, limited: {name}=4'
    )
    assert "requested: gpu.deviceclass.resource.k8s.io/devices=32" in ns.refused(
        CLAIMS, "b", claim_of(exactly("gpu", 0, "All"))
    )
    assert ns.status()["used"] == {name: "2", "count/resourceclaims.resource.k8s.io": "1"}


def test_a_semantic_claim_counts_the_instances_that_it_is_given() -> None:
    """How many those are is known when it is allocated: then the quota is asked too."""
    name = "cards.deviceclass.resource.k8s.io/devices"
    ns = Namespace({"hard": {name: "3"}})
    carrier = {"opaque": {"driver": CARRIER, "parameters": {}}}
    wanted = claim_of({"name": "r", "exactly": {"deviceClassName": "cards"}})
    wanted["spec"]["devices"]["config"] = [carrier]
    ns.create(CLAIMS, "a", wanted)
    assert ns.status()["used"] == {name: "1"}

    def allocated(count: int) -> Json:
        results = [{"request": "r", "device": f"d{number}"} for number in range(count)]
        return {
            **wanted,
            "metadata": {"name": "a", "namespace": "ns"},
            "status": {"allocation": {"devices": {"results": results}}},
        }

    write = replace(CREATE, operation=Operation.UPDATE, subresource="status")
    with pytest.raises(Forbidden, match="exceeded quota: q0"):
        ns.quotas.admit(CLAIMS, allocated(4), allocated(0), write)
    ns.quotas.admit(CLAIMS, allocated(3), allocated(0), write)
    ns.shelf.put(Key(CLAIMS.id, "ns", "a"), allocated(3))
    assert ns.status()["used"] == {name: "3"}
    assert "requested: cards.deviceclass.resource.k8s.io/devices=1" in ns.refused(CLAIMS, "b", wanted)


def test_pods_count_what_they_ask_for_until_they_end() -> None:
    ns = Namespace({"hard": {"requests.cpu": "2", "memory": "1Gi", "pods": "5", "count/pods": "5"}})
    running = requesting_pod({"cpu": "1500m", "memory": "512Mi"})
    ns.create(PODS, "a", running)
    assert ns.refused(PODS, "b", running) == (
        'pods "b" is forbidden: exceeded quota: q0, requested: requests.cpu=1500m, used: requests.cpu=1500m, limited: requests.cpu=2'
    )
    assert ns.status()["used"] == {"requests.cpu": "1500m", "memory": "512Mi", "pods": "1", "count/pods": "1"}
    ended = {**running, "metadata": {"name": "a", "namespace": "ns"}, "status": {"phase": "Succeeded"}}
    ns.shelf.put(Key("pods", "ns", "a"), ended)
    assert ns.status()["used"] == {"requests.cpu": "0", "memory": "0", "pods": "0", "count/pods": "1"}


def test_pods_must_say_what_a_quota_counts() -> None:
    ns = Namespace({"hard": {"limits.cpu": "2", "requests.memory": "1Gi"}})
    assert ns.refused(PODS, "a", requesting_pod({"memory": "1"})) == (
        'pods "a" is forbidden: failed quota: q0: must specify limits.cpu for: main'
    )


def test_all_containers_count_and_starting_may_take_more() -> None:
    parts = [{"name": n, "resources": {"requests": {"cpu": "1"}}} for n in "ab"]
    first = {"name": "i", "resources": {"requests": {"cpu": "5"}}}
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}

    def cpu(**spec: Any) -> str:
        return str(usage_of("pods", {"spec": spec})["requests.cpu"])

    assert cpu(containers=parts) == "2"
    assert cpu(containers=parts, initContainers=[first]) == "5"
    assert cpu(containers=parts, initContainers=[sidecar]) == "3"
    assert cpu(containers=parts, initContainers=[sidecar, first]) == "6"
    assert cpu(containers=parts, overhead={"cpu": "500m"}) == "2500m"


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ("Terminating", requesting_pod(activeDeadlineSeconds=5), requesting_pod()),
        ("NotTerminating", requesting_pod(), requesting_pod(activeDeadlineSeconds=5)),
        ("BestEffort", requesting_pod(), requesting_pod({"cpu": "1"})),
        ("NotBestEffort", requesting_pod(limits={"memory": "1"}), requesting_pod()),
        ("PriorityClass", requesting_pod(priorityClassName="high"), requesting_pod()),
        (
            "CrossNamespacePodAffinity",
            requesting_pod(
                affinity={
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["x"]}]}
                }
            ),
            requesting_pod(),
        ),
    ],
)
def test_scopes_choose_the_pods_that_count(scope: str, inside: Json, outside: Json) -> None:
    ns = Namespace({"hard": {"pods": "0"}, "scopes": [scope]})
    ns.create(PODS, "outside", outside)
    assert "exceeded quota" in ns.refused(PODS, "inside", inside)


def test_priority_classes_can_be_named() -> None:
    high = requesting_pod(priorityClassName="high")
    assert in_scope(high, "PriorityClass", "In", ["high"])
    assert not in_scope(high, "PriorityClass", "NotIn", ["high"])
    assert in_scope(requesting_pod(), "PriorityClass", "DoesNotExist")


def test_every_quota_must_hold() -> None:
    ns = Namespace({"hard": {"configmaps": "5"}}, {"hard": {"configmaps": "1"}})
    ns.create(CONFIGMAPS, "a", {})
    assert "exceeded quota: q1" in ns.refused(CONFIGMAPS, "b", {})
    assert ns.status("q0")["used"] == {"configmaps": "1"}


def test_deletions_are_settled_when_the_loop_turns() -> None:
    async def scenario() -> None:
        ns = Namespace({"hard": {"configmaps": "5"}})
        ns.create(CONFIGMAPS, "a", {})
        ns.delete(CONFIGMAPS, "a")
        await asyncio.sleep(0)
        assert ns.status(settled=False)["used"] == {"configmaps": "0"}

    asyncio.run(scenario())


@given(st.randoms(use_true_random=False))
@settings(max_examples=examples(100), deadline=None)
def test_random_writes_never_exceed_and_always_add_up(dice: random.Random) -> None:
    ns = Namespace({"hard": {"configmaps": "2", "gpu.deviceclass.resource.k8s.io/devices": "3"}})
    for _ in range(dice.randint(1, 30)):
        resource, name = dice.choice([CONFIGMAPS, CLAIMS]), dice.choice("abcd")
        step = dice.random()
        if step < 0.5 and ns.shelf.head(Key(resource.id, "ns", name)) is None:
            obj = claim_of(exactly("gpu", dice.randint(1, 2))) if resource is CLAIMS else {}
            with contextlib.suppress(Forbidden):
                ns.create(resource, name, obj)
        elif step < 0.8:
            ns.delete(resource, name)
        elif step < 0.9:
            ns.shelf.roll_back(dice.randint(1, 3))
            if ns.shelf.head(Key(QUOTAS, "ns", "q0")) is None:
                return
        ns.quotas.validate()
        status = ns.status()
        for counted, used in status["used"].items():
            assert Quantity.parse(used) <= Quantity.parse(status["hard"][counted])
