"""A catalogue that changes while something goes by it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.insight.catalogue_following import follow_files, state_of

TYPE = """
apiVersion: allotment.dev/v1
kind: InstanceType
metadata: {{name: {name}}}
spec:
  capacity: {{cpu: "2", memory: 8Gi, pods: "10"}}
  offerings: [{{zone: a, price: "1"}}]
"""


async def next_of(told: asyncio.Queue[Catalogue]) -> list[str]:
    async with asyncio.timeout(60):
        return sorted((await told.get()).types)


def test_files_are_read_again_when_they_change_and_mistakes_change_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one, folder = tmp_path / "one.yaml", tmp_path / "more"
        folder.mkdir()
        two = folder / "two.yaml"
        one.write_text(TYPE.format(name="one"))
        two.write_text(TYPE.format(name="two"))
        names, told = (str(one), str(folder)), asyncio.Queue[Catalogue]()
        before = state_of(names)
        one.write_text(TYPE.format(name="changed"))  # before anybody looks
        following = asyncio.create_task(follow_files(names, before, [told.put_nowait], pause=0.005))
        assert await next_of(told) == ["changed", "two"]
        two.write_text("kind: Nonsense")
        while "is unchanged" not in caplog.text:
            await asyncio.sleep(0.005)
        assert told.empty()
        (folder / "new").write_text(TYPE.format(name="three"))
        (folder / "new").replace(two)  # at one go, as editors do
        assert await next_of(told) == ["changed", "three"]
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    asyncio.run(scenario())
