"""The page of machines, in Chromium without a window."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from allotment.autoscaler.catalogue.catalogue import Catalogue
from tests.autoscaler.build import catalogue, is_type, overlay, pool, type_
from tests.dashboard.browser import Page
from tests.dashboard.test_machines import condition, node_claim
from tests.dashboard.test_page import in_browser, log_in, text
from tests.dashboard.world import World

SMALL = {"cpu": "1", "memory": "1Gi", "pods": "1"}
MACHINES = catalogue(
    type_("large", {"a": "4.5"}), type_("small", {"a": "9"}, capacity=SMALL), pool("p", limits={"cpu": "80"})
)
EVIL = "<img src=x onerror=document.title='caught'>"


async def until_text(page: Page, selector: str, words: str) -> Any:
    found = f"document.querySelector({json.dumps(selector)})?.textContent"
    return await page.until(f"{found}?.includes({json.dumps(words)}) && {found}")


async def click(page: Page, selector: str) -> None:
    await page.ask(f"document.querySelector({json.dumps(selector)}).click()")


def test_a_planner_looks_at_machines_and_asks_for_a_plan(tmp_path: Path) -> None:
    async def steps(made: World, page: Page) -> None:
        await made.put(overlay("dear", is_type("large"), price="5", weight=1))
        await made.put(overlay("cheap", is_type("large"), price="4", weight=1))
        await log_in(made, page, "token-of-the-boss")
        await page.until("document.querySelectorAll('#map .cell').length === 4")
        await page.go(await page.ask("document.querySelector('nav a:not([aria-current])').href"))
        await until_text(page, "#headline", "2 pods wait for a node.")  # one need not log in twice
        assert await page.ask("document.querySelector('nav [aria-current]').textContent") == "Machines"

        # overlays: what they say, where, and that they contradict each other
        assert "large: price: overlay dear has the same weight" in await text(page, "#overlays .wrong")
        assert "applies to large" in await text(page, "#overlays .wrong")
        rows = await page.ask("[...document.querySelectorAll('#lines tr')].map((row) => row.textContent)")
        assert "5.00 4.50" in rows[0]
        assert "dear" in rows[0]

        # the plan: its consequence first, then who goes where
        await click(page, "#make")
        await until_text(page, "#headline", "1 machine, 5.00 per hour, would take 2 of 2 pending pods.")
        assert await text(page, "#proof") == "There is no cheaper plan."
        assert "1 × large" in await text(page, "#parts summary")
        await page.ask("document.querySelector('#parts summary').focus()")
        await page.press("Enter")
        await page.until("document.querySelector('#parts details').open")
        assert "team-a/wants-a" in await text(page, "#parts details")
        assert await text(page, "#plan-state") == "up to date"

        # which is out of date when another pod waits, and the next one says why that fits nowhere
        await made.pod_wanting("huge", "team-b", cpu="100")
        await until_text(page, "#plan-state", "out of date")
        await click(page, "#make")
        await until_text(page, "#headline", "would take 2 of 3 pending pods; 1 would stay pending.")
        assert "team-b/huge" in await text(page, "#parts .wrong")
        reasons = await page.ask(
            "[...document.querySelectorAll('#parts .wrong li')].map((each) => each.textContent)"
        )
        assert any("large" in each and "cpu" in each for each in reasons)

        # machines that were asked for come and change by themselves
        await made.put(node_claim("p-1"))
        row = await until_text(page, "#claims li", "launching")
        assert "5.00 per hour" in row
        await until_text(page, "#sources li", "1 machine")
        await made.put(
            node_claim("p-1"), {"conditions": [condition("Launched", "True")], "nodeName": "node-9"}
        )
        await until_text(page, "#claims li", "node node-9")
        assert await page.ask("document.querySelectorAll('#claims .done').length") == 1
        failed = condition("Launched", "False", "InsufficientCapacity", EVIL)
        await made.put(node_claim("p-1"), {"conditions": [failed]})
        await until_text(page, "#claims .wrong .bad", "failed")
        assert EVIL in await text(page, "#claims p.bad")
        assert await page.ask("document.querySelectorAll('#picture img').length") == 0
        red = await page.ask("getComputedStyle(document.querySelector('#claims p.bad')).color")
        assert red == "rgb(180, 35, 24)"
        assert page.complaints[1:] == []  # the first is that one had to log in

        await click(page, "#make")  # and what is asked for now is for nobody else
        await click(page, "#leave")
        await page.until("!document.getElementById('login').hidden")
        assert await page.ask("document.querySelectorAll('#claims li, #lines tr, #parts *').length") == 0

    in_browser(tmp_path, steps, MACHINES)


def test_on_a_phone_in_the_dark_without_a_catalogue_or_rights(tmp_path: Path) -> None:
    async def steps(made: World, page: Page) -> None:
        await page.look(390, 844, scheme="dark", phone=True)
        await made.bind("anna", "view", "team-a")
        await log_in(made, page, "token-of-anna", "/ui/machines")
        await until_text(page, "#how", "allot up --catalog examples/autoscaling/catalogue.yaml")
        assert "You may not list and watch nodepools" in await text(page, "#notes")
        assert await page.ask("document.documentElement.scrollWidth <= 390")
        dark = await page.ask("getComputedStyle(document.body).backgroundColor")
        assert max(map(int, dark.removeprefix("rgb(").removesuffix(")").split(","))) < 64
        await click(page, "#make")
        refusal = await until_text(page, "#parts .bad", "a plan requires rights that you do not have")
        assert "nodes" in refusal
        nameless = (
            "[...document.querySelectorAll('button, section, [role=region], [role=img], meter')].filter((each) => !each.hidden"
            " && !each.getAttribute('aria-label') && !each.getAttribute('aria-labelledby') && !each.textContent.trim())"
            ".map((each) => each.outerHTML)"
        )
        assert await page.ask(nameless) == []

    in_browser(tmp_path, steps, Catalogue())
