"""Actions that write more than one object."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from allotment.apiserver.registry.actions import ResourceActions
from allotment.apiserver.registry.patches import Patches
from allotment.apiserver.registry.resource import ActionResult, SubresourceAction
from allotment.apiserver.store.record import Key
from tests.apiserver.upkeep.rig import Rig, with_rig


def test_the_reply_waits_for_all_that_an_action_wrote(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.config_map("goes")
        other = rig.config_map("other")

        def run(obj: Any, body: Any, call: Any) -> ActionResult:
            return ActionResult(None, None, delete=True, others=((Key("configmaps", "ns", "other"), other),))

        other["data"] = {"changed": "too"}
        action = SubresourceAction("policy/v1", "Eviction", run)
        actions = ResourceActions(rig.writes, rig.deletion, Patches(rig.writes), cast(Any, None))
        written = actions.run(rig.served("configmaps"), "ns", "goes", "eviction", action, {}, rig.call())
        last = await written.record()
        assert (last.key.name, last.load()["data"]) == ("other", {"changed": "too"})
        assert rig.store.get(Key("configmaps", "ns", "goes")) is None

    with_rig(tmp_path, scenario)
