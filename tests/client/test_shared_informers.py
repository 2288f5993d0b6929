"""One informer a kind for a whole process."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from allotment.api.resource import ResourceClaim
from allotment.client.client import Client
from allotment.client.shared_informers import Informers
from tests.client.script import Obj, Script, config_map, event, listing

PATIENCE = 60.0


def running(script: Script, scenario: Callable[[Informers], Awaitable[None]]) -> None:
    """Runs a scenario, ended within bounds; it starts the informers itself."""

    async def run() -> None:
        informers = Informers(Client(script))
        async with asyncio.timeout(PATIENCE):
            await scenario(informers)
        informers.validate()

    asyncio.run(run())


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_who_asks_for_the_same_kind_gets_the_same_informer() -> None:
    async def scenario(informers: Informers) -> None:
        assert informers.plain("v1", "configmaps") is informers.plain("v1", "configmaps")
        assert informers.of(ResourceClaim) is informers.of(ResourceClaim)
        assert informers.plain("v1", "configmaps") is not informers.plain("v1", "secrets")
        typed: object = informers.of(ResourceClaim)
        # the same objects in another form are another copy
        assert typed is not informers.plain("resource.k8s.io/v1", "resourceclaims")

    running(Script(), scenario)


def test_a_kind_is_listed_and_watched_once_for_all_who_look_at_it() -> None:
    async def scenario(informers: Informers) -> None:
        told: list[tuple[str, str]] = []

        def handler(who: str) -> Callable[[Obj | None, Obj | None], None]:
            return lambda _, new: told.append((who, new["metadata"]["resourceVersion"] if new else "gone"))

        informers.plain("v1", "configmaps").on_change(handler("one"))
        informers.plain("v1", "configmaps").on_change(handler("other"))
        task = asyncio.ensure_future(informers.run())
        await informers.synced()
        await informers.plain("v1", "configmaps").reached(6)
        assert told == [("one", "5"), ("other", "5"), ("one", "6"), ("other", "6")]
        assert [call.query.get("watch", "") for call in script.calls] == ["", "true"]
        await stop(task)

    script = Script(listing(5, config_map("a", 5)))
    script.then_watch(event("MODIFIED", config_map("a", 6)))
    running(script, scenario)


def test_one_that_is_asked_for_while_they_run_starts_at_once() -> None:
    async def scenario(informers: Informers) -> None:
        task = asyncio.ensure_future(informers.run())
        await asyncio.sleep(0)  # it runs, with nothing to follow
        late = informers.plain("v1", "configmaps")
        await informers.synced()
        assert late.get("a", "ns") is not None
        await stop(task)

    running(Script(listing(5, config_map("a", 5))), scenario)


def test_synced_waits_for_every_one() -> None:
    async def scenario(informers: Informers) -> None:
        both = [informers.plain("v1", "configmaps"), informers.plain("v1", "secrets")]
        waiting = asyncio.ensure_future(informers.synced())
        await asyncio.sleep(0)
        assert not waiting.done()
        task = asyncio.ensure_future(informers.run())
        await waiting
        assert [informer.version for informer in both] == [5, 5]
        await stop(task)

    running(Script(listing(5), listing(5)), scenario)


def test_one_that_is_asked_for_after_the_end_is_not_started() -> None:
    async def scenario(informers: Informers) -> None:
        task = asyncio.ensure_future(informers.run())
        await asyncio.sleep(0)
        await stop(task)
        informers.plain("v1", "configmaps")
        await asyncio.sleep(0)
        assert script.calls == []

    script = Script(listing(5))
    running(script, scenario)
