"""What is added to pods on their way in: priority, account, tolerations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from allotment.api.status import Forbidden
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.registry import kinds
from allotment.apiserver.registry.admissions.namespace_lifecycle import NamespaceLifecycle
from allotment.apiserver.registry.admissions.pod_defaults import PodTolerations
from allotment.apiserver.registry.admissions.priority import Priorities
from allotment.apiserver.registry.admissions.service_account import ServiceAccounts
from allotment.apiserver.registry.catalogue import found_in
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Key, Obj
from allotment.apiserver.store.store import Store
from tests.apiserver.registry.kinds.pods import NOW, running_pod

RESOURCES = {resource.id: resource for resource in found_in(kinds)}
CREATE = Write(Operation.CREATE, ADMINISTRATOR, NOW)
UPDATE = Write(Operation.UPDATE, ADMINISTRATOR, NOW)


def with_store(folder: Path, check: Callable[[Store], None]) -> None:
    async def run() -> None:
        store = Store.open(folder / "store")
        try:
            check(store)
        finally:
            await store.close()

    asyncio.run(run())


def priority_class(name: str, value: int, **facts: object) -> tuple[Key, Obj]:
    return Key("priorityclasses.scheduling.k8s.io", "", name), {
        "metadata": {"name": name},
        "value": value,
        **facts,
    }


def test_a_pod_gets_the_priority_of_its_class(tmp_path: Path) -> None:
    def check(store: Store) -> None:
        store.put(*priority_class("high", 1000, preemptionPolicy="Never"))
        priorities = Priorities(store)
        urgent = running_pod(priorityClassName="high")
        priorities.mutate(RESOURCES["pods"], urgent, None, CREATE)
        assert (urgent["spec"]["priority"], urgent["spec"]["preemptionPolicy"]) == (1000, "Never")
        plain = running_pod()
        priorities.mutate(RESOURCES["pods"], plain, None, CREATE)
        assert (plain["spec"]["priority"], plain["spec"].get("priorityClassName")) == (0, None)
        store.put(*priority_class("usual", 7, globalDefault=True))
        usual = running_pod()
        priorities.mutate(RESOURCES["pods"], usual, None, CREATE)
        assert (usual["spec"]["priority"], usual["spec"]["priorityClassName"]) == (7, "usual")
        later = running_pod()
        priorities.mutate(RESOURCES["pods"], later, usual, UPDATE)
        assert later["spec"]["priority"] == 7

    with_store(tmp_path, check)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; "
            "priority admission controller computed 0 from the given PriorityClass name",
        ),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
            "priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
        ),
    ],
)
def test_a_pod_cannot_choose_its_number(tmp_path: Path, spec: Obj, why: str) -> None:
    def check(store: Store) -> None:
        with pytest.raises(Forbidden) as refusal:
            Priorities(store).mutate(RESOURCES["pods"], running_pod(**spec), None, CREATE)
        assert refusal.value.message == f'pods "p" is forbidden: {why}'

    with_store(tmp_path, check)


def test_one_class_is_the_default(tmp_path: Path) -> None:
    def check(store: Store) -> None:
        key, first = priority_class("a", 1, globalDefault=True)
        store.put(key, first)
        priorities, classes = Priorities(store), RESOURCES[key.resource]
        _, second = priority_class("b", 1, globalDefault=True)
        with pytest.raises(Forbidden, match="PriorityClass a is already marked as default"):
            priorities.admit(classes, second, None, CREATE)
        priorities.admit(classes, first, first, UPDATE)
        store.delete(key, first)
        priorities.admit(classes, second, None, CREATE)

    with_store(tmp_path, check)


def test_a_pod_runs_as_an_account_that_is_there(tmp_path: Path) -> None:
    def check(store: Store) -> None:
        accounts = ServiceAccounts(store)
        plain = running_pod()
        accounts.mutate(RESOURCES["pods"], plain, None, CREATE)
        assert plain["spec"]["serviceAccountName"] == plain["spec"]["serviceAccount"] == "default"
        with pytest.raises(Forbidden) as refusal:
            accounts.mutate(RESOURCES["pods"], running_pod(serviceAccountName="robot"), None, CREATE)
        assert refusal.value.message == (
            'pods "p" is forbidden: error looking up service account n/robot: serviceaccount "robot" not found'
        )
        store.put(Key("serviceaccounts", "n", "robot"), {"metadata": {"name": "robot", "namespace": "n"}})
        accounts.mutate(RESOURCES["pods"], running_pod(serviceAccountName="robot"), None, CREATE)
        mirror = running_pod(serviceAccountName="robot")
        mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
        with pytest.raises(Forbidden, match="a mirror pod may not reference service accounts"):
            accounts.admit(RESOURCES["pods"], mirror, None, CREATE)

    with_store(tmp_path, check)


def test_pods_tolerate_lost_nodes_for_a_while_unless_they_say_otherwise() -> None:
    plain, stubborn = running_pod(), running_pod(tolerations=[{"operator": "Exists"}])
    partly = running_pod(tolerations=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}])
    for each in (plain, stubborn, partly):
        PodTolerations().mutate(RESOURCES["pods"], each, None, CREATE)
    assert [each["tolerationSeconds"] for each in plain["spec"]["tolerations"]] == [300, 300]
    assert len(stubborn["spec"]["tolerations"]) == 1
    assert [each["key"] for each in partly["spec"]["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_some_namespaces_stay() -> None:
    delete = Write(Operation.DELETE, ADMINISTRATOR, NOW)
    lifecycle = NamespaceLifecycle()
    lifecycle.admit(RESOURCES["namespaces"], {"metadata": {"name": "mine"}}, None, delete)
    with pytest.raises(
        Forbidden, match='namespaces "default" is forbidden: this namespace may not be deleted'
    ):
        lifecycle.admit(RESOURCES["namespaces"], {"metadata": {"name": "default"}}, None, delete)
