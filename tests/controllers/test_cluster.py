"""The cluster that other tests stand on does what it says."""

from pathlib import Path

import pytest

from allotment.api.core import Node
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.client.client import Client
from allotment.client.form import Obj
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.controller import Again
from tests.controllers import cluster as fixture
from tests.controllers.cluster import Cluster, in_cluster


class Greeter:
    """Writes a word on every config map that lacks it."""

    name = "greeter"

    def __init__(self, client: Client, informers: Informers) -> None:
        self.queue: WorkQueue[tuple[str, str]] = WorkQueue()
        self._maps = client.plain("v1", "configmaps")
        self._seen = informers.plain("v1", "configmaps")
        self._seen.on_change(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None:
            self.queue.add((new["metadata"]["namespace"], new["metadata"]["name"]))

    async def reconcile(self, key: tuple[str, str]) -> Again | None:
        found = self._seen.get(key[1], key[0])
        if found is not None and "greeting" not in found.get("data", {}):
            await self._maps.patch(key[1], {"data": {"greeting": "hello"}}, key[0])
        return Again(3600, "nobody waits for this")


def test_controllers_run_and_conditions_are_seen(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        maps = cluster.seen.plain("v1", "configmaps")
        part = cluster.component(ADMINISTRATOR)
        await part.start(Greeter(part.client, part.informers))
        await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}})
        found = await cluster.eventually(lambda: (maps.get("m", "default") or {}).get("data"))
        assert found == {"greeting": "hello"}
        await cluster.quiet()
        assert all(one["data"]["greeting"] for one in maps.all())

    in_cluster(tmp_path, scenario)


def test_what_does_not_come_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: Cluster) -> None:
        monkeypatch.setattr(fixture, "PATIENCE", 0.01)
        with pytest.raises(AssertionError, match=r"not within 0\.01 s: a node"):
            await cluster.eventually(lambda: cluster.seen.of(Node).get("n"), "a node")

    in_cluster(tmp_path, scenario)
