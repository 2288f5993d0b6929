"""The paths below /ui, through a whole server: who gets what, and how changes get there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.auth.identity import ADMINISTRATOR, ANONYMOUS, Identity
from allotment.apiserver.auth.token_file import digest_of
from allotment.apiserver.http.app import App
from allotment.apiserver.http.reply import StreamResponse
from allotment.apiserver.http.request import Request
from allotment.dashboard import dashboard, rights, waiting
from allotment.dashboard import event_stream as viewing
from allotment.dashboard import shared_views as views
from allotment.dashboard.fleet_view import FleetView
from allotment.dashboard.rights import Namespaces, Rights
from tests.apiserver.http.serving import PATIENCE, Reply, Watch
from tests.dashboard.world import GPU, World, person, world

CLAIMS, PODS = {"team-a/alpha", "team-b/beta"}, {"team-a/wants-a", "team-b/wants-b"}


def run(folder: Path, steps: Callable[[World], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        async with asyncio.timeout(PATIENCE), world(folder, **options) as made:
            await steps(made)

    asyncio.run(whole())


def views_of(made: World) -> views.Views[FleetView]:
    page = made.server.app.pages
    assert isinstance(page, dashboard.Dashboard)
    return page.views


def pools_of(document: Any) -> dict[str, Any]:
    return {pool["pool"]: pool for pool in document["pools"]}


def named(document: Any) -> set[str]:
    """Whatever of the teams' claims and pods is named anywhere."""
    text = json.dumps(document)
    waits = {f"{pod['namespace']}/{pod['name']}" for pod in document["waiting"]["pods"]}
    return {claim for claim in CLAIMS if claim.partition("/")[2] in text} | waits


@asynccontextmanager
async def following(made: World, identity: Identity | None, **headers: str) -> AsyncIterator[Watch]:
    async with made.as_(identity).watch("/ui/api/changes", headers) as watch:
        yield watch


async def until(watch: Watch, holds: Callable[[Any], Any]) -> Any:
    """The first line of which something holds."""
    while True:
        line = await watch.event()
        assert line is not None, "the stream ended"
        if holds(line):
            return line


# --- rights ---

# bindings (role, namespace), the names seen, devices of node-1 drawn, how many of them hidden claims hold, a timeline
RIGHTS: dict[str, tuple[list[tuple[str, str]], set[str], int, int | None, bool]] = {
    "anybody who is logged in": ([], set(), 0, 2, True),
    "viewer of devices": ([("allotment:viewer", "")], set(), 3, 2, True),
    "viewer, and one team": (
        [("allotment:viewer", ""), ("view", "team-a")],
        {"team-a/alpha", "team-a/wants-a"},
        3,
        1,
        True,
    ),
    # claims tell of devices, which who may not see slices is not shown
    "one team alone": ([("view", "team-a")], {"team-a/wants-a"}, 0, 2, True),
    "viewer, and both teams": (
        [("allotment:viewer", ""), ("view", "team-a"), ("view", "team-b")],
        CLAIMS | PODS,
        3,
        0,
        True,
    ),
    "viewer everywhere": ([("allotment:viewer", ""), ("view", "")], CLAIMS | PODS, 3, 0, True),
    "pods of a team": (
        [("allotment:viewer", ""), ("pods-only", "team-b")],
        {"team-b/wants-b"},
        3,
        2,
        True,
    ),
    # a stream is a watch: who may only list gets nothing of it
    "claims to list but not to watch": ([("allotment:viewer", ""), ("list-only", "")], set(), 3, 2, True),
    "claims to get but not to list": ([("allotment:viewer", ""), ("get-only", "")], set(), 3, 2, True),
}


def test_nobody_sees_a_name_that_they_may_not_list_and_everybody_the_counts(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        await made.role("pods-only", "list,watch", "", "pods")
        await made.role("list-only", "get,list", "resource.k8s.io", "resourceclaims")
        await made.role("get-only", "get", "resource.k8s.io", "resourceclaims")
        for number, (bindings, names, drawn, hidden, timeline) in enumerate(RIGHTS.values()):
            case = list(RIGHTS)[number]
            user = person(f"user-{number}")
            for role, namespace in bindings:
                await made.bind(user.name, role, namespace)
            document = await made.fleet(user)
            assert named(document) == names, case
            pool = pools_of(document)["node-1"]
            assert len(pool["devices"]) == drawn, case
            assert pool["hidden"] == hidden, case
            assert (pool["counts"]["total"], pool["counts"]["allocated"]) == (3, 2), case
            assert (document["timeline"] is not None) == timeline, case
            async with following(made, user) as watch:
                first = await watch.event()
            assert {**first, "timeline": None} == {**document, "timeline": None}, case

    run(tmp_path, steps)


def test_of_very_many_namespaces_some_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "MOST_NAMESPACES", 1)

    async def steps(made: World) -> None:
        await made.bind("anna", "allotment:viewer")
        for team in ("team-a", "team-b"):
            await made.bind("anna", "view", team)
        document = await made.fleet(person("anna"))
        assert named(document) == {"team-a/alpha", "team-a/wants-a"}
        assert pools_of(document)["node-1"]["hidden"] == 1

    run(tmp_path, steps)


def test_who_may_not_even_see_counts_gets_an_empty_picture_that_says_why(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        document = await made.fleet(Identity("stranger"))
        assert document["pools"] == []
        assert document["timeline"] is None
        assert document["notes"][0].startswith("You may list and watch neither")

    run(tmp_path, steps)


def test_nobody_and_wrong_tokens_get_the_page_and_nothing_else(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        nobody = made.as_(None)
        for path in ("/ui", "/ui/", "/ui/fleet.js", "/ui/dashboard.css", "/ui/icon.svg"):
            reply = await nobody.call("GET", path)
            assert reply.status == 200, path
            policy = reply.header("content-security-policy")
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
        wrong = {"authorization": "Bearer wrong"}
        for path in ("/ui/api/fleet", "/ui/api/changes", "/ui/api/device", "/ui/api/pod"):
            assert (await nobody.call("GET", path)).status == 401
            assert (await nobody.call("GET", path, headers=wrong)).status == 401
            assert (await made.as_(ANONYMOUS).call("GET", path)).status == 401

    run(tmp_path, steps)


OTHER_PATHS = {
    ("GET", "/ui/api/other"): 404,
    ("GET", "/ui/../etc/passwd"): 404,
    ("GET", "/ui/static/fleet.html"): 404,
    ("GET", "/uix"): 404,
    ("POST", "/ui/api/fleet"): 405,
    ("DELETE", "/ui"): 405,
    ("GET", "/ui/api/device"): 400,
    ("GET", "/ui/api/pod"): 400,
}


def test_other_paths_and_methods(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        for (method, path), status in OTHER_PATHS.items():
            assert (await made.as_(ADMINISTRATOR).call(method, path)).status == status, (method, path)

    run(tmp_path, steps)


def test_acting_as_somebody_else_shows_what_they_see_if_one_may(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        headers = {"impersonate-user": "anna"}
        reply = await made.as_(ADMINISTRATOR).call("GET", "/ui/api/fleet", headers=headers)
        assert named(reply.json) == set()
        refused = await made.as_(person("bob")).call("GET", "/ui/api/fleet", headers=headers)
        assert refused.status == 403

    run(tmp_path, steps)


def test_a_device_is_described_to_whoever_may_see_slices(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        async def asked(identity: Identity, device: str) -> Reply:
            path = "/ui/api/device"
            return await made.as_(identity).call("GET", path, driver=GPU, pool="node-1", device=device)

        reply = await asked(ADMINISTRATOR, "gpu-0")
        assert reply.json == {
            "attributes": {"model": "titan", "numa": 1, "tags": ["x", "y"]},
            "capacity": {"memory": "80Gi"},
            "shared": False,
            "taints": [],
        }
        assert reply.header("cache-control") == "no-store"
        assert (await asked(person("anna"), "gpu-0")).status == 403
        assert (await asked(ADMINISTRATOR, "none")).status == 404

    run(tmp_path, steps)


def test_a_pod_is_explained_with_the_rights_of_who_asks(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        await made.wants("pair", 2, "team-a")

        async def asked(identity: Identity, name: str = "pair") -> Any:
            return (await made.as_(identity).call("GET", "/ui/api/pod", namespace="team-a", name=name)).json

        told = await asked(ADMINISTRATOR)
        assert told["state"] == "FitsNowhere"
        assert told["reason"].startswith("0/2 nodes: ")
        helps = [each["words"] for each in told["remedies"]]
        assert helps == [
            "fits with count ≤ 1 (request gpu asks for 2)",
            "fits if claim team-a/alpha is released",
            "fits if claim team-b/beta is released",
        ]
        assert (await asked(ADMINISTRATOR, "none"))["state"] == "NoAnswer"

        await made.bind("anna", "allotment:viewer")
        await made.bind("anna", "view", "team-a")
        mine = await asked(person("anna"))
        assert "beta" not in json.dumps(mine)
        assert mine["hidden"] == {"held": 1, "of": 2}
        strange = await asked(person("bob"))
        assert "you may not list" in strange["reason"]
        assert "pair" not in strange["reason"]

    run(tmp_path, steps)


def test_questions_about_pods_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "MOST_OPEN_QUESTIONS", 1)

    async def steps(made: World) -> None:
        asked = [
            made.as_(ADMINISTRATOR).call("GET", "/ui/api/pod", namespace="team-a", name="wants-a")
            for _ in range(3)
        ]
        assert sorted([reply.status for reply in await asyncio.gather(*asked)]) == [200, 429, 429]

    run(tmp_path, steps)


# --- changes ---


def test_a_change_tells_the_pool_that_it_touches(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        async with following(made, ADMINISTRATOR) as watch:
            assert set(pools_of(await watch.event())) == {"node-1", "node-2"}
            await made.claim("gamma", "gpu-0", namespace="team-a", pool="node-2")
            line = await until(watch, lambda line: "pools" in line)
            assert set(pools_of(line)) == {"node-2"}
            assert pools_of(line)["node-2"]["devices"] == [["gpu-0", 1, "", ["team-a/gamma"]]]
            await made.client.plain("resource.k8s.io/v1", "resourceslices", namespaced=False).delete(
                "node-1-slice"
            )
            line = await until(watch, lambda line: line.get("gone"))
            assert line["gone"] == [[GPU, "node-1"]]

    run(tmp_path, steps)


def test_pods_come_with_the_schedulers_words_and_go_when_they_have_a_node(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        async with following(made, ADMINISTRATOR) as watch:
            first = (await watch.event())["waiting"]
            assert first["count"] == 2
            assert first["pods"][0]["message"] == "0/2 nodes: 2 have only 1 gpu, need 9"
            assert first["pods"][0]["reason"] == "Unschedulable"
            target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "wants-a"},
                "target": target,
            }
            await made.client.plain("v1", "pods").act("wants-a", "binding", binding, "team-a")
            line = await until(watch, lambda line: line.get("waiting", {}).get("count") == 1)
            assert [pod["name"] for pod in line["waiting"]["pods"]] == ["wants-b"]

    run(tmp_path, steps)


def test_of_many_pods_those_that_wait_longest_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "ROWS_LISTED", 1)

    async def steps(made: World) -> None:
        told = (await made.fleet(ADMINISTRATOR))["waiting"]
        assert told["count"] == 2
        assert [pod["name"] for pod in told["pods"]] == ["wants-a"]

    run(tmp_path, steps)


def test_time_passes_without_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewing, "CHECK_SECONDS", 0.05)

    async def steps(made: World) -> None:
        async with following(made, ADMINISTRATOR) as watch:
            await watch.event()
            line = await until(
                watch,
                lambda line: any(
                    point and point[0] == 2 for point in line.get("points", {}).get("points", ())
                ),
            )
            assert line["points"]["from"] >= 0

    run(tmp_path, steps)


def test_a_change_of_rights_begins_anew_with_what_may_be_seen_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "CHECK_SECONDS", 0.05)

    async def steps(made: World) -> None:
        await made.bind("anna", "allotment:viewer")
        await made.bind("anna", "view", "team-a")
        async with following(made, person("anna")) as watch:
            assert "team-a/alpha" in named(await watch.event())
            await made.bind("anna", "view", "team-b")
            line = await until(watch, lambda line: line.get("whole"))
            assert named(line) == CLAIMS | PODS
            bindings = made.client.plain("rbac.authorization.k8s.io/v1", "rolebindings")
            for team in ("team-a", "team-b"):
                await bindings.delete("anna-view", team)
            line = await until(watch, lambda line: line.get("whole") and not named(line))
            assert pools_of(line)["node-1"]["hidden"] == 2

    run(tmp_path, steps)


def test_a_stream_ends_with_the_token_that_it_was_opened_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewing, "CHECK_SECONDS", 0.05)
    tokens = {digest_of("secret"): person("anna")}

    async def steps(made: World) -> None:
        async with following(made, None, authorization="Bearer secret") as watch:
            assert (await watch.event())["whole"]
            made.server.authentication._static.clear()
            assert (await until(watch, lambda line: "error" in line))["error"]["code"] == 401
            assert await watch.event() is None

    run(tmp_path, steps, tokens=tokens)


def test_a_view_ends_some_time_after_the_last_page_of_the_person_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "KEPT_SECONDS", 0.05)

    async def steps(made: World) -> None:
        opened = views_of(made)
        async with following(made, ADMINISTRATOR) as first:
            await first.event()
            async with following(made, ADMINISTRATOR) as second:
                await second.event()
                [mine] = opened._open.values()  # one for both
                assert opened.viewers == 2
            assert opened.viewers == 1
        await asyncio.wait([mine.task])
        assert not opened._open
        watches = made.server.app.watches
        assert watches == 2, "only the census goes on"

    run(tmp_path, steps)


def test_the_server_ends_streams_when_it_stops(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        async with following(made, ADMINISTRATOR) as watch:
            await watch.event()
            made.server.app.end_watches()
            await until_end(watch)

    run(tmp_path, steps)


async def until_end(watch: Watch) -> None:
    while await watch.event() is not None:
        pass


# --- bounds ---


def test_people_are_bounded_and_those_who_left_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MOST_VIEWS", 2)

    async def steps(made: World) -> None:
        async with following(made, person("anna")) as first, following(made, person("bob")) as second:
            await first.event()
            await second.event()
            async with following(made, person("anna")) as third:  # who is here already
                await third.event()
            refused = await made.as_(person("carl")).call("GET", "/ui/api/fleet")
            assert refused.status == 429
        # now nobody looks at theirs, which makes room
        assert (await made.as_(person("carl")).call("GET", "/ui/api/fleet")).status == 200
        assert len(views_of(made)._open) == 2

    run(tmp_path, steps)


def test_a_right_that_is_taken_before_the_first_list_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "CHECK_SECONDS", 0.05)

    async def steps(made: World) -> None:
        await made.bind("anna", "allotment:viewer")
        opened = views_of(made)
        judged = opened._rights
        lies = iter([Rights(slices=True, claims=Namespaces(everywhere=True))])
        opened._rights = lambda identity: next(lies, None) or judged(identity)
        document = await made.fleet(person("anna"))
        assert named(document) == set()
        assert pools_of(document)["node-1"]["hidden"] == 2

    run(tmp_path, steps)


def test_the_server_is_asked_as_the_person_and_by_nobody_else_for_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[tuple[str, str]] = set()
    answer = App.answer

    async def noted(app: App, request: Request, *rest: Any, **how: Any) -> Any:
        if request.identity is not None and request.path.startswith("/api"):
            asked.add((request.identity.name, request.path.rpartition("/")[2]))
        return await answer(app, request, *rest, **how)

    async def steps(made: World) -> None:
        await made.bind("anna", "allotment:viewer")
        await made.bind("anna", "view", "team-a")
        monkeypatch.setattr(App, "answer", noted)
        await made.fleet(person("anna"))
        assert {name for name, _ in asked} == {"anna"}
        assert {kind for _, kind in asked} >= {"resourceslices", "resourceclaims", "pods", "resourcepools"}
        own = made.as_(dashboard.OWN)
        for path in ("/apis/resource.k8s.io/v1/resourceclaims", "/api/v1/pods"):
            assert (await own.call("GET", path)).status == 403

    run(tmp_path, steps)


def test_a_slow_reader_costs_no_more_than_there_are_pools_and_gets_the_last_state(tmp_path: Path) -> None:
    async def steps(made: World) -> None:
        stream = await made.server.app.answer(
            Request("GET", "/ui/api/changes", b"", (), identity=ADMINISTRATOR)
        )
        assert isinstance(stream, StreamResponse)
        async with aclosing(stream.lines) as lines:
            assert json.loads(await anext(lines))["whole"]
            claims = made.client.plain("resource.k8s.io/v1", "resourceclaims")
            async with following(
                made, ADMINISTRATOR
            ) as other:  # which reads, and so knows when all has arrived
                for number in range(20):
                    await made.claim(f"gamma-{number}", "gpu-0", namespace="team-a", pool="node-2")
                    await claims.delete(f"gamma-{number}", "team-a")
                await made.claim("last", "gpu-0", namespace="team-a", pool="node-2")
                await until(other, lambda line: "team-a/last" in json.dumps(line))
            told = json.loads(await anext(lines))
            assert [pool["pool"] for pool in told["pools"]] == ["node-2"]
            assert told["pools"][0]["devices"] == [["gpu-0", 1, "", ["team-a/last"]]]

    run(tmp_path, steps)


def test_viewers_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "MOST_VIEWERS", 1)

    async def steps(made: World) -> None:
        async with following(made, ADMINISTRATOR) as watch:
            await watch.event()
            assert (await made.as_(ADMINISTRATOR).call("GET", "/ui/api/changes")).status == 429

    run(tmp_path, steps)
