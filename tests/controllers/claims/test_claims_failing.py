"""Whatever write fails, and however: in the end there is one claim for each entry, none is left over, and none was taken from
somebody who used it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from allotment.api.resource import ResourceClaim
from allotment.client.form import Obj
from tests.controllers.claims.claim_objects import (
    bind,
    change,
    claiming_pod,
    claims_of,
    controllers,
    finalized_claim,
    finish,
    give,
    group,
    labelling_template,
    recorded,
    remove,
    until_recorded,
)
from tests.controllers.cluster import Cluster, in_cluster
from tests.controllers.failing import BORNE, CRASHES, Failing, Fault

GROUPS = ("scheduling.k8s.io/v1beta1", "podgroups")


@dataclass(slots=True)
class Witness:
    """Sees every change of a claim, and remembers those that took devices from a user that was not over."""

    over: set[str] = field(default_factory=set)
    strangers: frozenset[str] = frozenset()  # uids of claims that are none of this test's business
    crimes: list[str] = field(default_factory=list)

    def see(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is None or old.status.allocation is None or old.metadata.uid in self.strangers:
            return
        kept = set() if new is None else {user.uid for user in new.status.reserved_for}
        taken = new is None or new.status.allocation is None
        for user in old.status.reserved_for:
            if user.uid not in self.over and (taken or user.uid not in kept):
                self.crimes.append(f"{old.metadata.name} was taken from {user.name}")


async def life(cluster: Cluster, number: int, witness: Witness) -> None:
    """Pods and a group come, get devices, and all but one pod go again."""

    def named(what: str) -> str:
        return f"{what}-{number}"

    (gang,) = await cluster.create(group(named("g"), "one-gpu"))
    stays, ends, member = await cluster.create(
        claiming_pod(named("stays"), "one-gpu"),
        claiming_pod(named("ends"), "one-gpu", "one-gpu"),
        claiming_pod(named("member"), "one-gpu", group=named("g")),
    )
    await cluster.create(finalized_claim(named("shared")))
    await until_recorded(cluster, named("ends"), 2)
    for each in ("stays", "member"):
        await until_recorded(cluster, named(each))
    assert len(claims_of(cluster)) == 5
    users: dict[str, list[Obj]] = {named("shared"): [stays, ends]}
    for owner, consumer in ((stays, stays), (ends, ends), (member, gang)):
        for name in recorded(cluster, owner["metadata"]["name"]).values():
            users[name] = [consumer]
    for name, reserved in users.items():
        await give(cluster, name, *reserved)
    for each in ("stays", "ends", "member"):
        await bind(cluster, named(each))
    await leave(cluster, number, witness, [ends, member, gang])
    kept = {named("shared"), *recorded(cluster, named("stays")).values()}
    await cluster.eventually(lambda: set(claims_of(cluster)) == kept, "all other claims to go")
    await cluster.eventually(
        lambda: [len(each.status.reserved_for) for each in claims_of(cluster).values()] == [1, 1]
    )
    witness.over.add(stays["metadata"]["uid"])
    await remove(cluster, named("stays"))
    await remove(cluster, named("shared"), "resource.k8s.io/v1", "resourceclaims")
    await cluster.eventually(lambda: not claims_of(cluster), "the last claims to go")


async def leave(cluster: Cluster, number: int, witness: Witness, gone: list[Obj]) -> None:
    witness.over |= {each["metadata"]["uid"] for each in gone}
    await finish(cluster, f"ends-{number}")
    await remove(cluster, f"member-{number}")
    unprotected = {
        "metadata": {"finalizers": None}
    }  # the real server protects groups until their pods are gone
    await change(cluster, *GROUPS, f"g-{number}", unprotected)
    await remove(cluster, f"g-{number}", *GROUPS)


@asynccontextmanager
async def failing(cluster: Cluster, at: int, how: Fault) -> AsyncIterator[Failing]:
    """Controllers whose write of a number fails. If that is by a crash, new ones take over."""
    connection = Failing.once(at, how)
    parts = [await controllers(cluster, through=connection.through)]

    async def take_over() -> None:
        await connection.struck.wait()
        if how in CRASHES:
            await parts[0].stop()
            parts.append(await controllers(cluster))

    watching = asyncio.create_task(take_over())
    try:
        yield connection
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        for part in parts:
            await part.stop()


HOWS = (*BORNE, Fault.CRASH_BEFORE, Fault.CRASH_AFTER)


@pytest.mark.parametrize(
    "hows",
    [
        pytest.param(HOWS, id="in turn"),
        pytest.param(HOWS[2:] + HOWS[:2], id="in turn, shifted"),
        *(pytest.param((how,), id=how.name, marks=pytest.mark.soak) for how in HOWS),
    ],
)
def test_every_write_may_fail(tmp_path: Path, hows: tuple[Fault, ...]) -> None:
    async def scenario(cluster: Cluster) -> None:
        witness = Witness()
        cluster.seen.of(ResourceClaim).on_change(witness.see)
        await cluster.create(labelling_template())
        at, struck = 0, True
        while struck:
            at += 1
            async with failing(cluster, at, hows[at % len(hows)]) as connection:
                await life(cluster, at, witness)
                struck = connection.struck.is_set()
        assert at > 10  # so many writes there were, and each failed once
        assert witness.crimes == []

    in_cluster(tmp_path, scenario)


def test_many_writes_may_fail(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        witness = Witness()
        cluster.seen.of(ResourceClaim).on_change(witness.see)
        await cluster.create(labelling_template())
        for seed in range(5):
            chance = random.Random(seed)
            plan = [chance.choice([None, None, None, Fault.UNSENT, Fault.LOST]) for _ in range(200)]
            connection = Failing(dict(enumerate(plan)).get)
            part = await controllers(cluster, through=connection.through)
            await life(cluster, seed, witness)
            await part.stop()
        assert witness.crimes == []

    in_cluster(tmp_path, scenario)


def test_two_controllers_at_once_do_no_harm(tmp_path: Path) -> None:
    """As after a leader that lost its lease without noticing."""

    async def scenario(cluster: Cluster) -> None:
        witness = Witness()
        cluster.seen.of(ResourceClaim).on_change(witness.see)
        await cluster.create(labelling_template())
        await controllers(cluster)
        await controllers(cluster)
        await life(cluster, 1, witness)
        assert witness.crimes == []

    in_cluster(tmp_path, scenario)
