"""Garbage collection on a real store: the three propagation policies, and owners that come and go."""

import asyncio
from contextlib import suppress
from pathlib import Path

from allotment.apiserver.upkeep.collector import Collector
from allotment.apiserver.upkeep.task import LARGE_UPKEEP
from tests.apiserver.upkeep.rig import Rig, with_rig


def collector(rig: Rig) -> Collector:
    return Collector(rig.writes, rig.catalogue, rig.clock)


def test_in_the_background_dependents_go_after_their_owner_down_to_the_last(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = collector(rig)
        top = rig.config_map("top")
        middle = rig.config_map("middle", top)
        rig.config_map("bottom", middle)
        rig.config_map("other")
        job.settle()
        assert rig.names() == ["bottom", "middle", "other", "top"]
        rig.delete("configmaps", "ns", "top", "Background")
        job.settle()
        assert rig.names() == ["other"]
        job.ownership.validate()

    with_rig(tmp_path, scenario)


def test_in_the_foreground_the_owner_goes_last(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = collector(rig)
        top = rig.config_map("top")
        rig.config_map("held", top, finalizers=["example.com/hold"])
        job.settle()
        rig.delete("configmaps", "ns", "top", "Foreground")
        job.settle()
        assert rig.get("configmaps", "ns", "top")["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert rig.get("configmaps", "ns", "held")["metadata"]["deletionTimestamp"]
        rig.edit("configmaps", "ns", "held", lambda obj: obj["metadata"].pop("finalizers"))
        job.settle()
        assert rig.names() == []

    with_rig(tmp_path, scenario)


def test_orphaned_dependents_stay_without_an_owner(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = collector(rig)
        rig.config_map("child", rig.config_map("top"))
        job.settle()
        rig.delete("configmaps", "ns", "top", "Orphan")
        job.settle()
        assert rig.names() == ["child"]
        assert "ownerReferences" not in rig.get("configmaps", "ns", "child")["metadata"]

    with_rig(tmp_path, scenario)


def test_an_object_with_two_owners_stays_while_one_is_left(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = collector(rig)
        one, two = rig.config_map("one"), rig.config_map("two")
        rig.config_map("child", one, two)
        job.settle()
        rig.delete("configmaps", "ns", "one", "Background")
        job.settle()
        left = rig.get("configmaps", "ns", "child")["metadata"]["ownerReferences"]
        assert [reference["name"] for reference in left] == ["two"]
        rig.delete("configmaps", "ns", "two", "Background")
        job.settle()
        assert rig.names() == []

    with_rig(tmp_path, scenario)


def test_an_owner_recreated_under_its_name_is_another(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        top = rig.config_map("top")
        rig.delete("configmaps", "ns", "top")
        rig.config_map("top")
        rig.config_map("child", top)
        collector(rig).settle()
        assert rig.names() == ["top"]

    with_rig(tmp_path, scenario)


def test_what_was_left_over_by_an_earlier_run_is_collected(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.config_map("child", rig.config_map("top"))
        rig.delete("configmaps", "ns", "top", "Background")
        collector(rig).settle()  # begins only now
        assert rig.names() == []

    with_rig(tmp_path, scenario)


def test_a_reference_to_a_kind_that_is_not_served_changes_nothing(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        strange = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x", "uid": "u"}}
        rig.config_map("child", strange)
        collector(rig).settle()
        assert rig.names() == ["child"]

    with_rig(tmp_path, scenario)


def test_it_wakes_up_by_itself(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = collector(rig)
        running = asyncio.ensure_future(job.run())
        rig.config_map("child", rig.config_map("top"))
        rig.delete("configmaps", "ns", "top", "Background")
        watch = rig.store.watch("configmaps", since=rig.store.revision)
        gone = set()
        while "child" not in gone:
            changes = await watch.next(10)
            assert changes, "it never collected anything"
            gone |= {change.record.key.name for change in changes if change.type.value == "DELETED"}
        watch.close()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    with_rig(tmp_path, scenario)


LONG = {"text": "x" * 2 * LARGE_UPKEEP}


def test_large_objects_are_changed_as_small_ones(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = collector(rig)
        for owner, policy in (("top", "Orphan"), ("other", "Foreground")):
            above = rig.config_map(owner, annotations=LONG)
            for number in range(3):
                rig.config_map(f"{owner}-{number}", above, annotations=LONG)
            job.settle()
            rig.delete("configmaps", "ns", owner, policy)
        job.settle()
        assert rig.names() == ["top-0", "top-1", "top-2"]
        for name in rig.names():
            assert "ownerReferences" not in rig.get("configmaps", "ns", name)["metadata"]

    with_rig(tmp_path, scenario)


def test_what_others_write_while_a_large_change_is_prepared_is_not_lost(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = collector(rig)
        rig.config_map("large", annotations=LONG, finalizers=["example.com/hold"])
        rig.delete("configmaps", "ns", "large", "Foreground")
        assert job.turn()
        job._do_left()
        rig.edit("configmaps", "ns", "large", lambda obj: obj["metadata"].update(labels={"by": "others"}))
        job.settle()
        metadata = rig.get("configmaps", "ns", "large")["metadata"]
        assert (metadata["labels"], metadata["finalizers"]) == ({"by": "others"}, ["example.com/hold"])

    with_rig(tmp_path, scenario)
