"""Namespaces that go, with all that is in them; and what every namespace has."""

from pathlib import Path

from allotment.apiserver.store.record import Obj
from allotment.apiserver.upkeep.namespaces import PER_TURN, NamespaceEmptier, ServiceAccountGiver
from tests.apiserver.upkeep.rig import Rig, with_rig


def emptier(rig: Rig) -> NamespaceEmptier:
    return NamespaceEmptier(rig.writes, rig.catalogue, rig.clock)


def condition(namespace: Obj, type_: str) -> Obj:
    found: Obj = next(each for each in namespace["status"]["conditions"] if each.get("type") == type_)
    return found


def test_a_deleted_namespace_goes_with_its_content(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = emptier(rig)
        rig.config_map("a")
        rig.create("secrets", "ns", {"metadata": {"name": "s"}})
        rig.config_map("elsewhere", namespace="default")
        rig.delete("namespaces", "", "ns")
        assert rig.get("namespaces", "", "ns")["status"]["phase"] == "Terminating"
        job.settle()
        assert rig.find("namespaces", "", "ns") is None
        assert rig.names("configmaps", "") == ["elsewhere"]

    with_rig(tmp_path, scenario)


def test_it_says_what_keeps_it_and_goes_when_that_is_gone(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = emptier(rig)
        rig.config_map("held", finalizers=["example.com/hold"])
        rig.delete("namespaces", "", "ns")
        job.settle()
        namespace = rig.get("namespaces", "", "ns")
        remaining = condition(namespace, "NamespaceContentRemaining")
        assert (remaining["status"], remaining["message"]) == (
            "True",
            "Some resources are remaining: configmaps. has 1 resource instances",
        )
        assert "example.com/hold in 1" in condition(namespace, "NamespaceFinalizersRemaining")["message"]
        rig.edit("configmaps", "ns", "held", lambda obj: obj["metadata"].pop("finalizers"))
        job.settle()
        assert rig.find("namespaces", "", "ns") is None

    with_rig(tmp_path, scenario)


def test_pods_go_before_anything_else(tmp_path: Path) -> None:
    """What a pod that still ends stands on, its policies and secrets, stays until it is gone."""

    async def scenario(rig: Rig) -> None:
        job = emptier(rig)
        rig.config_map("needed")
        held: Obj = {"name": "p", "finalizers": ["example.com/hold"]}
        containers = [{"name": "main", "image": "one", "terminationMessagePolicy": "File"}]
        rig.create("pods", "ns", {"metadata": held, "spec": {"containers": containers}})
        rig.delete("namespaces", "", "ns")
        job.settle()
        assert rig.names("configmaps") == ["needed"]
        told = condition(rig.get("namespaces", "", "ns"), "NamespaceContentRemaining")
        assert told["message"] == "Some resources are remaining: pods. has 1 resource instances"
        rig.edit("pods", "ns", "p", lambda obj: obj["metadata"].pop("finalizers"))
        job.settle()
        assert rig.find("namespaces", "", "ns") is None

    with_rig(tmp_path, scenario)


def test_conditions_of_others_stay_and_odd_ones_do_no_harm(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = emptier(rig)
        rig.config_map("held", finalizers=["example.com/hold"])
        odd: list[Obj] = [{"type": "Own", "status": "True"}, {}, {"type": "NamespaceContentRemaining"}]
        served, change = rig.served("namespaces"), {"phase": "Active", "conditions": odd}
        prepared = rig.writes.prepare_change(
            served, "", "ns", lambda old: {**old, "status": change}, rig.call(), "status"
        )
        rig.writes.commit(prepared)
        rig.delete("namespaces", "", "ns")
        job.settle()
        namespace = rig.get("namespaces", "", "ns")
        assert namespace["status"]["conditions"][:2] == odd[:2]
        assert condition(namespace, "NamespaceContentRemaining")["lastTransitionTime"]

    with_rig(tmp_path, scenario)


def test_waiting_for_others_writes_nothing_new(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = emptier(rig)
        rig.config_map("held", finalizers=["example.com/hold"])
        rig.delete("namespaces", "", "ns")
        job.settle()
        before = rig.get("namespaces", "", "ns")
        rig.later(seconds=5)
        job._mark("ns", rig.now)
        job.settle()
        assert rig.get("namespaces", "", "ns") == before

    with_rig(tmp_path, scenario)


def test_much_content_goes_in_turns(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = emptier(rig)
        for number in range(PER_TURN + 5):
            rig.config_map(f"c{number}")
        rig.delete("namespaces", "", "ns")
        assert job.turn()
        assert len(rig.names()) == 5
        job.settle()
        assert rig.find("namespaces", "", "ns") is None

    with_rig(tmp_path, scenario)


def test_a_namespace_that_was_going_when_the_server_stopped_goes_on(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.config_map("a")
        rig.delete("namespaces", "", "ns")
        emptier(rig).settle()
        assert rig.find("namespaces", "", "ns") is None

    with_rig(tmp_path, scenario)


def test_every_namespace_has_a_default_service_account_and_gets_it_back(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = ServiceAccountGiver(rig.writes, rig.catalogue, rig.clock)
        job.settle()
        assert rig.names("serviceaccounts", "") == ["default", "default"]
        rig.delete("serviceaccounts", "ns", "default")
        job.settle()
        assert rig.names("serviceaccounts", "ns") == ["default"]

    with_rig(tmp_path, scenario)
