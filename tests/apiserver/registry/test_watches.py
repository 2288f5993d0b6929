"""Watches by themselves, on a clock that stands still until told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from allotment.api.selection import parse_labels
from allotment.apiserver.registry.forms import plain
from allotment.apiserver.registry.reads import ListOptions, Reads
from allotment.apiserver.registry.selection import Selection
from allotment.apiserver.registry.watches import BOOKMARK_SECONDS, Watching
from tests.apiserver.upkeep.rig import Rig, with_rig


async def _durable(rig: Rig, name: str) -> int:
    """The revision of a new object, once it can be read."""
    rig.config_map(name)
    pending = rig.store.on_its_way(rig.served("configmaps").key("ns", name))
    assert pending is not None
    return (await pending).revision


def test_bookmarks_come_amid_changes_that_are_nothing_to_the_watch(tmp_path: Path) -> None:
    seconds = [0.0, 0.0, 0.0, BOOKMARK_SECONDS + 1, BOOKMARK_SECONDS + 1]

    async def scenario(rig: Rig) -> None:
        served = rig.served("configmaps")
        since = await _durable(rig, "before")
        options = ListOptions(
            Selection(served.resource, parse_labels("app=web")),
            str(since),
            watch=True,
            bookmarks=True,
            timeout=300,
        )
        watching = Watching(
            Reads(rig.store),
            served,
            "ns",
            options,
            plain(served),
            lambda: seconds.pop(0),
            lambda: asyncio.sleep(0),
        )
        lines = watching.lines()
        await _durable(rig, "other")
        event = json.loads(await anext(lines))
        assert event["type"] == "BOOKMARK"
        assert event["object"]["metadata"]["resourceVersion"] == str(rig.store.revision)
        watching.close()
        assert [line async for line in lines] == []

    with_rig(tmp_path, scenario)
