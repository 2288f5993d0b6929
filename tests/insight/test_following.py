"""A cluster followed with the caller's rights: those who may not watch, and rights that change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from allotment.apiserver.auth.identity import ADMINISTRATOR, Identity
from allotment.apiserver.server import ApiServer, Options
from allotment.client.client import Client
from allotment.client.form import Obj
from allotment.client.in_process import InProcessTransport
from allotment.insight import following
from allotment.insight.following import Following
from allotment.insight.overview import Overview
from tests.insight.fleet import gpu_class, pool_counts, reporting_node, slice_of, team_claim
from tests.insight.test_snapshot import may_list, role

RBAC = "rbac.authorization.k8s.io/v1"
DEVICES = may_list("resourceslices", "deviceclasses", "resourcepools")


def as_user(server: ApiServer, identity: Identity) -> Client:
    return Client(InProcessTransport(server.app, {"identity": identity}))


async def create(client: Client, *objects: Obj) -> None:
    for obj in objects:
        plural = f"{obj['kind'].lower()}{'es' if obj['kind'].endswith('s') else 's'}"
        made = client.plain(obj["apiVersion"], plural, namespaced="namespace" in obj["metadata"])
        stored = await made.create({key: value for key, value in obj.items() if key != "status"})
        if "status" in obj:
            meta = stored["metadata"]
            await made.patch(
                meta["name"], {"status": obj["status"]}, meta.get("namespace", ""), subresource="status"
            )


@asynccontextmanager
async def followed(folder: Path, rules: list[Obj]) -> AsyncIterator[tuple[Client, Following]]:
    """A cluster with two devices, one of them held by a claim of team-a, as somebody with these rights follows it."""
    server = ApiServer(Options(folder))
    await server.start()
    admin = as_user(server, ADMINISTRATOR)
    await create(
        admin,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}},
        reporting_node("node-1"),
        gpu_class(),
        slice_of("node-1", "gpu-0", "gpu-1"),
        team_claim("held", "gpu-0"),
        *role("rights", "ann", rules),
    )
    await create(as_user(server, Identity("allotment:controllers", ())), pool_counts("node-1", 2, 1, 1))
    ann = Following(as_user(server, Identity("ann", ("system:authenticated",))), ("team-a",), insist=False)
    await ann.begin()
    task = asyncio.ensure_future(ann.run())
    try:
        yield admin, ann
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.stop()


async def until(ann: Following, holds: Callable[[Overview], bool]) -> Overview:
    async with asyncio.timeout(60):
        while not holds(overview := ann.overview(())):
            await asyncio.sleep(0.01)
    return overview


def names(overview: Overview) -> set[str]:
    return {info.claim for pool in overview.pools for device in pool.devices for info in device.allocations}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_LIST_SECONDS", 0.05)
    monkeypatch.setattr(following, "_CHECK_SECONDS", 0.05)


EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}


@pytest.mark.parametrize("verbs", [["list"], ["list", "watch"]])
def test_changes_come_with_and_without_the_right_to_watch(tmp_path: Path, verbs: list[str]) -> None:
    async def run() -> None:
        async with followed(tmp_path, [{**EVERYTHING, "verbs": verbs}]) as (admin, ann):
            assert names(ann.overview(())) == {"team-a/held"}
            await create(admin, team_claim("more", "gpu-1"))
            overview = await until(ann, lambda seen: seen.cluster.summary.allocated == 2)
            assert names(overview) == {"team-a/held", "team-a/more"}

    asyncio.run(run())


def test_what_may_no_longer_be_seen_goes(tmp_path: Path) -> None:
    async def run() -> None:
        async with followed(tmp_path, [EVERYTHING]) as (admin, ann):
            assert names(ann.overview(())) == {"team-a/held"}
            roles = admin.plain(RBAC, "clusterroles", namespaced=False)
            await roles.patch("rights", {"rules": [DEVICES]})
            overview = await until(ann, lambda seen: not names(seen))
            assert overview.cluster.hidden == 1  # as ResourcePools count
            assert overview.cluster.summary.allocated == 1
            await roles.patch("rights", {"rules": [EVERYTHING]})
            await until(ann, lambda seen: names(seen) == {"team-a/held"})

    asyncio.run(run())
