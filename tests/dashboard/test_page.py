"""The page itself, in Chromium without a window, over TLS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.auth.token_file import digest_of
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.client.client import Client
from allotment.client.connection import load
from allotment.client.over_http import HttpTransport
from allotment.dashboard.dashboard import Dashboard
from tests.corpus import unavailable
from tests.dashboard.browser import Absent, Page, browsing
from tests.dashboard.world import World, person, world

PATIENCE = 60
TOKENS = {
    digest_of("token-of-the-boss"): Identity("boss", ("system:masters", "system:authenticated")),
    digest_of("token-of-anna"): person("anna"),
}

CELL = "[...document.querySelectorAll('#map .cell')].find((cell) => cell.getAttribute('aria-label').startsWith({}))"


def cell(label: str) -> str:
    return CELL.format(json.dumps(label))


def in_browser(
    folder: Path, steps: Callable[[World, Page], Awaitable[None]], machines: Catalogue | None = None
) -> None:
    """Skips, or in CI fails, where there is no browser."""

    async def whole() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            browsing(folder / "browser") as page,
            world(folder / "data", machines, port=0, tokens=TOKENS) as made,
        ):
            await steps(made, page)

    (folder / "data").mkdir()
    try:
        asyncio.run(whole())
    except Absent as absent:
        unavailable(str(absent))


async def log_in(made: World, page: Page, token: str, path: str = "/ui") -> None:
    await page.go(f"{made.server.url}{path}")
    await page.until("document.activeElement.id === 'token'")
    await page.type(token)
    await page.ask("document.getElementById('form').requestSubmit()")


async def text(page: Page, selector: str) -> Any:
    return await page.ask(f"document.querySelector({json.dumps(selector)}).textContent")


async def labels(page: Page) -> Any:
    return await page.ask(
        "[...document.querySelectorAll('#map .cell')].map((cell) => cell.getAttribute('aria-label'))"
    )


def test_a_person_logs_in_looks_around_and_sees_what_changes(tmp_path: Path) -> None:
    async def steps(made: World, page: Page) -> None:
        await log_in(made, page, "no-such-token")
        await page.until(
            "document.getElementById('refused').textContent.includes('does not know this token')"
        )
        await page.type("token-of-the-boss")
        await page.ask("document.getElementById('form').requestSubmit()")
        await page.until("document.querySelectorAll('#map .cell').length === 4")
        assert await labels(page) == [
            "gpu-0 on node-1: allocated, held by team-a/alpha",
            "gpu-1 on node-1: allocated, held by team-b/beta",
            "gpu-2 on node-1: available",
            "gpu-0 on node-2: available",
        ]
        await page.until("document.querySelectorAll('#pools tr').length === 2")
        assert "0/2 nodes" in await text(page, "#waiting .badge")
        assert "2 have only 1 gpu, need 9" in await text(page, "#waiting")

        # pointing at a device tells of it
        await page.point_at("#map .cell")
        about = await page.until(
            "document.querySelector('#about dl') && document.getElementById('about').textContent"
        )
        for told in ("gpu-0: allocated", "held by team-a/alpha", "modeltitan", "memory80Gi"):
            assert told in about
        await page.point_at("h1")
        await page.until("document.getElementById('about').hidden")

        # changes show by themselves: of devices, of counts, of pods, of nodes
        await page.ask(f"{{ kept = {cell('gpu-2 on node-1')}; }}")
        await made.claim("late", "gpu-2", namespace="team-a")
        await page.until(cell("gpu-2 on node-1: allocated, held by team-a/late"))
        assert await page.ask("kept.isConnected"), "what stays is not drawn anew"
        await page.until("document.querySelector('#numbers .s1 b').textContent === '3'")
        await made.client.plain("v1", "pods").delete("wants-a", "team-a")
        await page.until("document.getElementById('waiting-count').textContent === '1'")
        await made.slice("node-0", "gpu-0")
        await page.until(cell("gpu-0 on node-0: available"))
        rows = "[...document.querySelectorAll('#map .name')].map((each) => each.textContent)"
        assert await page.ask(rows) == ["node-0", "node-1", "node-2"]
        await asyncio.gather(*(made.slice(f"late-{number}", "gpu-0") for number in range(20)))
        await page.until(f"{rows}.length === 23")
        assert (await page.ask(rows))[:3] == ["late-0", "late-1", "late-2"]
        slices = made.client.plain("resource.k8s.io/v1", "resourceslices", namespaced=False)
        for name in ("node-2", *(f"late-{number}" for number in range(20))):
            await slices.delete(f"{name}-slice")
        await page.until(f"{rows}.join() === 'node-0,node-1'")
        await page.until(
            "document.querySelector('#past svg')?.getAttribute('aria-label').includes('of 4 devices')"
        )

        # a pod says why it waits, and goes on saying so while others come and go
        await page.ask("document.querySelector('#waiting details').open = true")
        await page.until(
            "document.querySelector('.why').textContent.includes('there are none in the cluster')"
        )
        await made.pod("wants-more", "team-a")
        await page.until("document.getElementById('waiting-count').textContent === '2'")
        assert await page.ask("document.querySelector('#waiting details').open")

        # what is looked for stays, the rest goes
        await page.ask("document.getElementById('find').focus()")
        await page.type("team-b/beta")
        shown = "[...document.querySelectorAll('.node:not([hidden]) .name')].map((each) => each.textContent).join()"
        await page.until(f"{shown} === 'node-1'")

        # and a token does not outlive its use
        await page.ask("document.getElementById('leave').click()")
        await page.until("!document.getElementById('login').hidden")
        assert await page.ask("sessionStorage.length") == 0
        assert await page.ask("document.querySelectorAll('#map .cell, #pools tr, #waiting li').length") == 0
        refused = "Failed to load resource: the server responded with a status of 401 (Unauthorized)"
        assert set(page.complaints) == {refused}

    in_browser(tmp_path, steps)


def test_with_the_keyboard_and_on_a_phone(tmp_path: Path) -> None:
    async def steps(made: World, page: Page) -> None:
        await page.look(390, 844, scheme="dark", phone=True)
        await log_in(made, page, "token-of-the-boss")
        await page.until("document.querySelectorAll('#map .cell').length === 4")
        assert await page.ask("document.documentElement.scrollWidth <= 390")
        dark = await page.ask("getComputedStyle(document.body).backgroundColor")
        assert max(map(int, dark.removeprefix("rgb(").removesuffix(")").split(","))) < 64

        # one stop for Tab, the rest by arrows
        assert await page.ask("document.querySelectorAll('#map [tabindex=\"0\"]').length") == 1
        await page.ask("document.getElementById('find').focus()")
        await page.press("Tab")
        focused = "document.activeElement.getAttribute('aria-label')"
        assert (await page.ask(focused)).startswith("gpu-0 on node-1")
        for key, place in {
            "ArrowRight": "gpu-1 on node-1",
            "End": "gpu-2 on node-1",
            "ArrowDown": "gpu-0 on node-2",
            "Home": "gpu-0 on node-2",
        }.items():
            await page.press(key)
            assert (await page.ask(focused)).startswith(place), key
        assert "gpu-0: available" in await text(page, "#about")
        await page.press("Escape")
        assert await page.ask("document.getElementById('about').hidden")
        # every control and region has a name
        nameless = (
            "[...document.querySelectorAll('button, input, section, [role=grid], [role=gridcell], [role=img]')].filter((each) =>"
            " !each.hidden && !each.getAttribute('aria-label') && !each.getAttribute('aria-labelledby')"
            " && !each.textContent.trim() && !each.labels?.length).map((each) => each.outerHTML)"
        )
        assert await page.ask(nameless) == []

    in_browser(tmp_path, steps)


def test_going_away_ends_the_stream_and_coming_back_begins_it_anew(tmp_path: Path) -> None:
    async def steps(made: World, page: Page) -> None:
        await log_in(made, page, "token-of-the-boss")
        await page.until("document.querySelectorAll('#map .cell').length === 4")
        await page.ask("document.title = 'kept'")
        dashboard = made.server.app.pages
        assert isinstance(dashboard, Dashboard)
        assert dashboard.views.viewers == 1
        await page.go("about:blank")
        while (
            dashboard.views.viewers
        ):  # or else six pages that a browser keeps take all its connections to a server
            await asyncio.sleep(0.01)
        await made.claim("late", "gpu-2", namespace="team-a")
        await page.back()
        await page.until(cell("gpu-2 on node-1: allocated, held by team-a/late"))
        assert await page.ask("document.title") == "kept", "the browser had kept the page, as it should here"

    in_browser(tmp_path, steps)


def test_a_page_that_nobody_sees_keeps_no_connection_and_goes_on_when_somebody_looks(tmp_path: Path) -> None:
    async def steps(made: World, page: Page) -> None:
        await log_in(made, page, "token-of-the-boss")
        await page.until("document.querySelectorAll('#map .cell').length === 4")
        await page.ask("document.querySelector('#waiting details').open = true")
        dashboard = made.server.app.pages
        assert isinstance(dashboard, Dashboard)
        async with page.covered():
            assert await page.ask("document.hidden")
            while dashboard.views.viewers:
                await asyncio.sleep(0.01)
            assert await text(page, "#connection") == "paused while nobody looks"
            assert await page.ask("document.querySelectorAll('#map .cell').length") == 4, (
                "what was drawn stays"
            )
            await made.claim("late", "gpu-2", namespace="team-a")
        await page.until(cell("gpu-2 on node-1: allocated, held by team-a/late"))
        assert await text(page, "#connection") == "live"
        assert await page.ask("document.querySelector('#waiting details').open"), "what was open stays open"
        assert page.complaints[1:] == []  # the first is that one had to log in

    in_browser(tmp_path, steps)


def test_who_sees_less_is_told_so_and_names_are_text_and_never_markup(tmp_path: Path) -> None:
    async def steps(made: World, page: Page) -> None:
        await made.bind("anna", "allotment:viewer")
        await made.bind("anna", "view", "team-a")
        evil = "<img src=x onerror=document.title='caught'> \u202eelif\x9b5m\x1b[2J"
        await made.pod("evil", "team-a", evil)
        await log_in(made, page, "token-of-anna")
        await page.until("document.querySelectorAll('#map .cell').length === 4")
        assert "You may see only claims of namespace team-a" in await text(page, "#notes")
        assert [each for each in await labels(page) if "beta" in each] == []
        await page.until("document.querySelector('#pools tr')")
        assert "1 of 2 held by claims that you may not see" in await text(page, "#pools")
        await page.until("document.getElementById('waiting').textContent.includes('onerror')")
        assert "beta" not in await page.ask("document.documentElement.outerHTML")
        assert await page.ask("document.querySelectorAll('#waiting img').length") == 0
        # nor does it turn the words beside it round
        assert r"\u{202e}elif\u{9b}5m\u{1b}[2J" in await text(page, "#waiting")
        assert "\u202e" not in await page.ask("document.documentElement.outerHTML")
        assert await page.ask("document.title") == "Allotment"
        # and if anything did get in, the page's policy would not run it
        blocked = await page.ask("fetch('https://127.0.0.1:1/').then(() => 'sent', (error) => 'refused')")
        assert blocked == "refused"
        assert any("Content Security Policy" in each for each in page.complaints)

    in_browser(tmp_path, steps)


def test_a_client_certificate_needs_no_token(tmp_path: Path) -> None:
    async def whole() -> None:
        async with asyncio.timeout(PATIENCE), world(tmp_path / "data", port=0) as made:
            file = tmp_path / "kubeconfig"
            file.write_text(made.server.kubeconfig("carl", ("system:masters",)))
            async with Client(HttpTransport(load(file))) as client:
                assert len((await client.read("/ui/api/fleet"))["pools"]) == 2

    (tmp_path / "data").mkdir()
    asyncio.run(whole())
