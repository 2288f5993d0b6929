"""Events live for an hour after their last write."""

from pathlib import Path

from allotment.apiserver.store.record import Obj
from allotment.apiserver.upkeep.events import EventExpiry
from tests.apiserver.upkeep.rig import Rig, with_rig


def event(name: str) -> Obj:
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "p"},
        "reason": "Tested",
        "message": "it was",
        "type": "Normal",
    }


def test_an_event_goes_an_hour_after_it_was_last_written(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        job = EventExpiry(rig.writes, rig.catalogue, rig.clock)
        rig.create("events", "ns", event("once"))
        rig.create("events", "ns", event("again"))
        rig.later(minutes=30)
        rig.edit("events", "ns", "again", lambda obj: obj.update(count=2))
        rig.later(minutes=31)
        job.settle()
        assert rig.names("events") == ["again"]
        rig.later(minutes=30)
        job.settle()
        assert rig.names("events") == []

    with_rig(tmp_path, scenario)
