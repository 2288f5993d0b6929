"""How soon the dashboard shows a large fleet, and a change in it, in a real browser: ``make bench``.

The server is ``allot up`` in a process of its own, without components; Chromium reads its page over TLS. *first picture* is from the start of
the navigation to the first frame with every device, each time for a person whom the server has not read for yet; *a change* is from before a claim's status is sent until a frame is drawn with
the device's cell in its new colour, durable write included. A goal is reached if the slowest of all runs is within it. Prints a table and, with ``--json FILE``, writes it down.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.dashboard.browser import Absent, Page, browsing
from tests.insight.fleet import GPU, V1, slice_of, team_claim

from allotment.client.client import Client
from allotment.client.connection import load
from allotment.client.over_http import HttpTransport

NODES, DEVICES, RUNS, CHANGES = 1000, 8, 5, 20
FIRST_GOAL, CHANGE_GOAL = 2.0, 0.2
DRAWN = """new Promise((drawn) => requestAnimationFrame(
    () => setTimeout(() => drawn(performance.timeOrigin + performance.now()))))"""
"""When the next frame is there."""
TOKENS = [f"token-{number}" for number in range(RUNS)]
"""Each of a person of their own, whose first picture has to be read for them; from the second on it is shared."""


async def fill(client: Client) -> None:
    slices, claims = client.plain(V1, "resourceslices", namespaced=False), client.plain(V1, "resourceclaims")
    gate = asyncio.Semaphore(50)

    async def node(number: int) -> None:
        async with gate:
            name = f"node-{number}"
            devices = [_gpu(each) for each in range(DEVICES)]
            await slices.create(slice_of(name, *devices))
            for each in range(DEVICES // 2):
                held = team_claim(f"{name}-{each}", f"gpu-{each}", namespace="default", pool=name, driver=GPU)
                await claims.create(held)
                await claims.apply(_status(held), force=True, subresource="status")

    await asyncio.gather(*map(node, range(NODES)))


def _gpu(number: int) -> dict[str, Any]:
    attributes = {
        "model": {"string": "titan-80"},
        "uuid": {"string": f"gpu-{number:032x}"},
        "numa": {"int": number // 4},
    }
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def _status(obj: dict[str, Any]) -> dict[str, Any]:
    return {each: obj[each] for each in ("apiVersion", "kind", "status")} | {
        "metadata": {each: obj["metadata"][each] for each in ("name", "namespace")}
    }


async def pictures(page: Page, url: str, tokens: list[str]) -> list[float]:
    """How soon the page shows everything to each of these people."""
    found = []
    for token in tokens:
        await page.go(url)
        await page.ask(f"sessionStorage.setItem('allotment-token', {json.dumps(token)})")
        await page.go("about:blank")
        await page.go(url)
        await page.until("performance.getEntriesByName('first-picture').length")
        assert await page.ask("document.querySelectorAll('#map .cell').length") == NODES * DEVICES
        found.append(await page.ask("performance.getEntriesByName('first-picture')[0].startTime") / 1000)
    return found


async def changes(page: Page, client: Client) -> list[float]:
    claims = client.plain(V1, "resourceclaims")
    found = []
    for number in range(CHANGES):
        device = f"gpu-{DEVICES - 1}"
        held = team_claim(f"late-{number}", device, namespace="default", pool=f"node-{number}", driver=GPU)
        await claims.create(held)
        label = json.dumps(f"{device} on node-{number}: ")
        await page.ask(f"{{ watched = document.querySelector(`#map [aria-label^={label}]`); }}")
        seen = asyncio.create_task(page.until(f"watched.className.includes('s1') && {DRAWN}"))
        await asyncio.sleep(0.3)
        begun = time.time()
        await claims.apply(_status(held), force=True, subresource="status")
        found.append(await seen / 1000 - begun)
    return found


async def measure(folder: Path, url: str) -> list[dict[str, Any]]:
    async with Client(HttpTransport(load(folder / "data" / "kubeconfig", None))) as client:
        await fill(client)
        async with browsing(folder / "browser") as page:
            await page.look(1280, 900)
            first = await pictures(page, f"{url}/ui", TOKENS)
            again = await pictures(page, f"{url}/ui", TOKENS[-1:] * RUNS)
            shown = await changes(page, client)
    return [
        _row(f"first picture of {NODES} × {DEVICES}", FIRST_GOAL, first),
        _row("the same person's next page", FIRST_GOAL, again),
        _row("a change shows", CHANGE_GOAL, shown),
    ]


def _row(scenario: str, goal: float, seconds: list[float]) -> dict[str, Any]:
    middle, worst = statistics.median(seconds), max(seconds)
    return {"scenario": scenario, "goal": goal, "median": middle, "worst": worst, "reached": worst <= goal}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        lines = [f'{token},viewer-{token},1,"system:masters"\n' for token in TOKENS]
        (folder / "tokens.csv").write_text("".join(lines))
        server = subprocess.Popen(
            [
                *(
                    Path(sys.executable).with_name("allot"),
                    "up",
                    "--port",
                    "0",
                    "--data-dir",
                    folder / "data",
                ),
                *("--token-file", folder / "tokens.csv", "--no-scheduler", "--no-controllers"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split(" at ")[1].partition(";")[0]
            rows = asyncio.run(measure(folder, url))
        except Absent as absent:
            print(f"the dashboard is not measured: {absent} is missing")
            return 0
        finally:
            server.terminate()
            server.wait()
    for row in rows:
        print(
            f"{row['scenario']:<32} goal {row['goal']:.1f} s  median {row['median']:.3f}  worst {row['worst']:.3f}  {'reached' if row['reached'] else 'missed'}"
        )
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
