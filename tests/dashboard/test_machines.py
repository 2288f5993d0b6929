"""Machines and plans over HTTP: who sees what, how changes get there, and what a plan costs others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from allotment.api.autoscaling import NodeClaim
from allotment.api.codec import decode
from allotment.api.status import Unavailable
from allotment.apiserver.auth.identity import ADMINISTRATOR, Identity
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.autoscaler.catalogue.node_claims import claim_of
from allotment.daemons import plan_process
from allotment.dashboard import machine_view, plans
from allotment.dashboard import shared_views as views
from allotment.dashboard.dashboard import Dashboard
from tests.apiserver.http.serving import PATIENCE, Reply, Watch
from tests.autoscaler.build import Json, catalogue, evaluated, is_type, overlay, pool, type_
from tests.dashboard.world import World, person, world

LARGE = type_("large", {"a": "4.5"}, labels={"size": "l"})
MACHINES = catalogue(LARGE, pool("p", limits={"cpu": "80"}))
NODE_CLASS = {"nodeClassRef": {"group": "example.com", "kind": "MachineClass", "name": "default"}}


def run(
    folder: Path, steps: Callable[[World], Awaitable[None]], machines: Catalogue = MACHINES, **options: Any
) -> None:
    async def whole() -> None:
        async with asyncio.timeout(PATIENCE), world(folder, machines, **options) as made:
            await steps(made)

    asyncio.run(whole())


def dashboard_of(made: World) -> Dashboard:
    page = made.server.app.pages
    assert isinstance(page, Dashboard)
    return page


def node_claim(name: str) -> NodeClaim:
    [machine] = evaluated(LARGE, pool("p")).machines
    made = claim_of(machine, {}, name=name)
    return decode(
        NodeClaim,
        {
            "metadata": {"name": name, "labels": dict(made.metadata.labels)},
            "spec": {**NODE_CLASS, "requirements": [is_type("large")]},
        },
    )


def condition(type_: str, status: str, reason: str = "", message: str = "") -> Json:
    time = "2030-01-01T00:00:00Z"
    return {
        "type": type_,
        "status": status,
        "reason": reason or type_,
        "message": message,
        "lastTransitionTime": time,
    }


async def machines(made: World, identity: Identity) -> Any:
    reply = await made.as_(identity).call("GET", "/ui/api/machines")
    assert reply.status == 200, reply.body
    return reply.json


async def plan(made: World, identity: Identity) -> Reply:
    return await made.as_(identity).call("GET", "/ui/api/plan")


async def until(watch: Watch, holds: Callable[[Any], Any]) -> Any:
    while True:
        line = await watch.event()
        assert line is not None, "the stream ended"
        if holds(line):
            return line


# --- what one sees ---

# bindings; names of claims, of overlays, of pools besides the catalogue's, how many pods wait, how many notes
RIGHTS: dict[str, tuple[list[tuple[str, str]], list[str], list[str], int, int]] = {
    "anybody who is logged in": ([], [], [], 0, 2),
    "a team": ([("view", "team-a")], [], [], 1, 2),
    "viewer": ([("allotment:viewer", "")], ["c"], ["o"], 0, 1),
    "viewer everywhere": ([("allotment:viewer", ""), ("view", "")], ["c"], ["o"], 2, 0),
    "to list but not to watch": ([("list-only", "")], [], [], 0, 2),
}


def test_everybody_sees_what_they_may_list_and_watch_and_is_told_what_is_missing(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        await made.put(node_claim("c"))
        await made.put(overlay("o", price="1"))
        await made.role("list-only", "get,list", "karpenter.sh", "nodeclaims,nodeoverlays,nodepools")
        for number, (case, (bindings, claims, overlays, waiting, notes)) in enumerate(RIGHTS.items()):
            user = person(f"user-{number}")
            for role, namespace in bindings:
                await made.bind(user.name, role, namespace)
            told = await machines(made, user)
            assert [row["name"] for row in told["claims"]["rows"]] == claims, case
            assert [row["name"] for row in told["overlays"]["rows"]] == overlays, case
            assert (told["waiting"]["count"], len(told["notes"])) == (waiting, notes), case
            assert told["catalogue"], "what the server was started with is no secret"
            assert [row["prices"] for row in told["types"]["rows"]] == [
                ["1.00"] * 2 if overlays else ["4.50"] * 2
            ], case

    run(tmp_path, steps)


def test_nobody_gets_the_page_and_nothing_else(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        nobody = made.as_(None)
        reply = await nobody.call("GET", "/ui/machines")
        assert (reply.status, b"machines.js" in reply.body) == (200, True)
        for path in ("/ui/api/machines", "/ui/api/machines/changes", "/ui/api/plan"):
            assert (await nobody.call("GET", path)).status == 401

    run(tmp_path, steps)


def test_without_a_catalogue_that_is_said(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        told = await machines(made, ADMINISTRATOR)
        assert (told["catalogue"], told["types"]["count"], told["waiting"]["count"]) == (False, 0, 2)

    run(tmp_path, steps, Catalogue())


# --- changes ---


def test_changes_are_told_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_view, "EVALUATION_PAUSE_SECONDS", 0.0)

    async def steps(made: World) -> None:
        async with made.as_(ADMINISTRATOR).watch("/ui/api/machines/changes") as watch:
            first = await watch.event()
            assert first["whole"]
            version = first["waiting"]["version"]
            await made.put(node_claim("c"))
            line = await until(watch, lambda line: "claims" in line)
            assert ("types" in line, "overlays" in line) == (False, False)
            assert [row["state"] for row in line["claims"]["rows"]] == ["launching"]
            assert line["sources"]["rows"][0]["machines"] == 1
            assert line["waiting"]["version"] != version, "a machine on its way changes a plan"

            await made.put(
                node_claim("c"), {"conditions": [condition("Launched", "False", "LaunchFailed", "no quota")]}
            )
            line = await until(watch, lambda line: line.get("claims", {}).get("states") == {"failed": 1})
            assert line["claims"]["rows"][0]["message"] == "LaunchFailed: no quota"
            assert line["sources"]["price"] == "0.00"

            await made.put(overlay("half", is_type("large"), priceAdjustment="-50%"))
            line = await until(watch, lambda line: line.get("overlays", {}).get("count"))
            assert line["types"]["rows"][0]["prices"] == ["2.25", "2.25"]

            await made.pod("third", "team-a")
            line = await until(watch, lambda line: line["waiting"]["count"] == 3)
            assert "claims" not in line

    run(tmp_path, steps)


def test_pages_of_both_sorts_count_as_viewers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.dashboard.dashboard.MOST_VIEWERS", 1)

    async def steps(made: World) -> None:
        async with made.as_(ADMINISTRATOR).watch("/ui/api/machines/changes") as watch:
            await watch.event()
            assert (await made.as_(ADMINISTRATOR).call("GET", "/ui/api/changes")).status == 429

    run(tmp_path, steps)


def test_a_change_of_rights_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "CHECK_SECONDS", 0.05)

    async def steps(made: World) -> None:
        await made.put(node_claim("c"))
        async with made.as_(person("anna")).watch("/ui/api/machines/changes") as watch:
            assert (await watch.event())["claims"]["count"] == 0
            await made.bind("anna", "allotment:viewer")
            assert (await until(watch, lambda line: line.get("whole")))["claims"]["count"] == 1

    run(tmp_path, steps)


# --- plans ---


def test_a_plan_is_made_with_the_rights_of_who_asks_in_a_process_of_its_own(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        await made.bind("anna", "allotment:viewer")
        await made.bind("anna", "view", "team-a")
        told, refused = await asyncio.gather(plan(made, ADMINISTRATOR), plan(made, person("anna")))
        assert told.status == 200, told.body
        assert told.json["headline"] == "1 machine, 4.50 per hour, would take 2 of 2 pending pods."
        assert told.json["version"] == (await machines(made, ADMINISTRATOR))["waiting"]["version"]
        [sort] = told.json["machines"]
        assert [place["pod"] for place in sort["each"][0]["pods"]] == ["team-a/wants-a", "team-b/wants-b"]
        assert refused.status == 403
        message = refused.json["message"]
        assert "to list" in message
        for kind in ("pods", "resourceclaims", "resourceclaimtemplates"):
            assert kind in message
        assert "nodes" not in message.partition("in the whole")[0], "what one may see is not asked for"
        assert "wants" not in refused.body.decode()

    run(tmp_path, steps)


def test_a_plan_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_process, "PLAN_SECONDS", 0.01)

    async def steps(made: World) -> None:
        reply = await plan(made, ADMINISTRATOR)
        assert (reply.status, "allot plan" in reply.json["message"]) == (504, True)

    run(tmp_path, steps)


class Planner:
    """Stands for the process: says who asked, and answers when it is let."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.begun = asyncio.Event()
        self.let = asyncio.Event()

    async def __call__(self, identity: Identity) -> dict[str, Any]:
        self.asked.append(identity.name)
        self.begun.set()
        await self.let.wait()
        if identity.name == "unlucky":
            raise Unavailable("no luck")
        return {"headline": f"for {identity.name}"}


def planning(made: World) -> Planner:
    planner = Planner()
    dashboard_of(made)._plans._plan = planner
    return planner


def test_who_asks_for_the_same_shares_the_answer_and_nobody_else_does(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        planner = planning(made)
        people = [person("anna"), person("anna"), person("bob"), person("anna")]
        asked = [asyncio.create_task(plan(made, each)) for each in people]
        await planner.begun.wait()
        planner.let.set()
        told = [(await each).json["headline"] for each in asked]
        assert told == ["for anna", "for anna", "for bob", "for anna"]
        assert sorted(planner.asked) == ["anna", "bob"]
        await plan(made, person("anna"))
        assert sorted(planner.asked) == ["anna", "anna", "bob"], "a plan is not kept: nodes may have changed"

    run(tmp_path, steps)


def test_plans_are_bounded_and_one_is_made_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "MOST_PLANS", 2)

    async def steps(made: World) -> None:
        planner = planning(made)
        first = asyncio.create_task(plan(made, person("anna")))
        await planner.begun.wait()
        others = [asyncio.create_task(plan(made, person(f"p-{number}"))) for number in range(3)]
        refused = [await each for each in islice(asyncio.as_completed(others), 2)]
        assert [reply.status for reply in refused] == [429, 429]
        assert planner.asked == ["anna"]
        planner.let.set()
        replies = await asyncio.gather(first, *others)
        assert sorted(reply.status for reply in replies) == [200, 200, 429, 429]

    run(tmp_path, steps)


def test_a_plan_that_fails_is_told_and_does_not_stand_in_the_way_of_the_next(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        planner = planning(made)
        planner.let.set()
        assert (await plan(made, person("unlucky"))).status == 503
        assert (await plan(made, person("anna"))).status == 200

    run(tmp_path, steps)
