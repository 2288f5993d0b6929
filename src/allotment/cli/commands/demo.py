"""``allot demo``: a whole control plane with a simulated fleet in this process, workloads that arrive, and what comes of them.

Everything is as in ``allot up --demo``, but in a temporary folder, without a port, and it ends when the last pod has come
where it should: within seconds. On a terminal the table is alive; in a pipe it is printed once, at the end.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allotment.api.meta import ApiStruct
    from allotment.cli.render.demo_table import Launched, PodRow
    from allotment.cli.render.screen import Cell
    from allotment.client.client import Client
    from allotment.daemons.components import Components

    S = TypeVar("S", bound=ApiStruct)

STORY_SECONDS = 45.0
REFRESH = 0.1
WORKLOAD_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything as it is at one moment."""

    nodes: int
    devices: int
    rows: tuple[PodRow, ...]
    machines: tuple[Launched, ...]  # those that were launched, also when they are gone
    missing: tuple[str, ...]  # what is not yet as it should be
    seconds: float

    def cells(self) -> list[list[Cell]]:
        return [*(row.cells() for row in self.rows), *(each.cells() for each in self.machines)]

    def json(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "devices": self.devices,
            "pods": [row.json() for row in self.rows],
            "machines": [each.json() for each in self.machines],
            "asExpected": not self.missing,
            "missing": list(self.missing),
            "seconds": round(self.seconds, 1),
        }


@dataclass(frozen=True, slots=True)
class DemoDisplay:
    """Where pictures are shown while things move, and how long to pause between workloads, in seconds."""

    show: Callable[[Picture], None]
    pause: float = 0.0


@click.command(name="demo")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def command(output: str) -> int:
    """Shows in a few seconds what Allotment does: a simulated fleet appears, workloads arrive and get their devices,
    machines come for one and go again, and the one that cannot fit says why. Needs and leaves nothing: all is in memory and a temporary folder.

    Exit code: 0 everything ended as it should, 1 it did not.
    """
    import logging
    import tempfile

    import uvloop

    from allotment.cli.commands.up import SWITCH_SECONDS
    from allotment.daemons.log import set_up

    set_up(logging.WARNING)
    sys.setswitchinterval(SWITCH_SECONDS)
    with tempfile.TemporaryDirectory(prefix="allot-demo-") as folder, _stage(output) as stage:
        last = uvloop.run(_play(Path(folder), stage))
    if last is None:
        return 130
    if output == "json":
        import json

        click.echo(json.dumps(last.json(), indent=2))
    else:
        _tell(last)
    return 1 if last.missing else 0


@contextmanager
def _stage(output: str) -> Iterator[DemoDisplay]:
    """A live table on a terminal, on which workloads come one after the other for the eye; else nothing and no pause."""
    from allotment.cli.render.demo_table import COLUMNS
    from allotment.cli.render.screen import TerminalScreen, open_screen

    screen = open_screen()
    if output != "table" or not isinstance(screen, TerminalScreen):
        yield DemoDisplay(lambda picture: None)
        return
    with screen.live_table(COLUMNS) as update:
        yield DemoDisplay(lambda picture: update(picture.cells()), WORKLOAD_PAUSE)


def _tell(last: Picture) -> None:
    from allotment.cli.render.demo_table import COLUMNS
    from allotment.cli.render.screen import open_screen

    screen = open_screen()
    screen.heading(f"{len(last.rows)} pods on {last.nodes} simulated nodes with {last.devices} devices")
    screen.table(COLUMNS, last.cells())
    screen.line("")
    for row in last.rows:
        if row.why:
            screen.line((row.pod, "bold yellow"), f" waits: {row.why}")
    for sentence in last.missing:
        screen.line(("not as expected: ", "bold red"), sentence)
    screen.line(f"All this took {last.seconds:.1f} s. Have it stay: allot up --demo")


async def _play(folder: Path, stage: DemoDisplay) -> Picture | None:
    """Runs everything until the story is told; None if somebody did not want to see its end."""
    from allotment.apiserver.server import ApiServer, Options
    from allotment.controllers.names import ALL
    from allotment.daemons.components import ComponentFailed, WantedComponents
    from allotment.daemons.demo_objects import administrator, bring_fleet, bring_workloads, demo_catalogue
    from allotment.daemons.embedded import components_of
    from allotment.daemons.ending import run_until, told_to_end
    from allotment.insight.errors import Failure
    from allotment.scheduler.config.configuration import DEFAULT

    ended = told_to_end()
    seen: list[Picture] = []

    async def story() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bring_workloads(server, pause=stage.pause))
            seen.append(await _watch(components, administrator(server), stage.show))
        ended.set()

    server = ApiServer(Options(folder))
    await server.start()
    try:
        await bring_fleet(server)
        components = components_of(server, WantedComponents(DEFAULT, ALL, (demo_catalogue(),)))
        await run_until(ended, components.run(story))
    except ComponentFailed as exc:
        raise Failure(str(exc)) from exc
    finally:
        await server.stop()
    return seen[0] if seen else None


async def _watch(components: Components, anyone: Client, show: Callable[[Picture], None]) -> Picture:
    """Shows the pods as they settle, until all have or patience is over."""
    from allotment.api.autoscaling import NodeClaim
    from allotment.api.core import Node, Pod
    from allotment.api.resource import ResourceClaim, ResourceSlice
    from allotment.autoscaler.catalogue.overlays import evaluate
    from allotment.cli.render.demo_table import launched, rows, unexpected
    from allotment.daemons.demo_objects import demo_catalogue
    from allotment.insight.catalogue_files import read_files

    catalogue = evaluate(read_files([demo_catalogue()])).machines

    def all_of(kind: type[S]) -> list[S]:
        return components.informers.of(kind).all()

    machines: list[Launched] = []
    began = time.monotonic()
    while True:
        found = rows(all_of(Pod), all_of(ResourceClaim), await _told(anyone))
        machines = launched(all_of(NodeClaim), catalogue, machines)
        picture = Picture(
            len(all_of(Node)),
            sum(len(each.spec.devices) for each in all_of(ResourceSlice)),
            tuple(found),
            tuple(machines),
            tuple(unexpected(found, machines)),
            time.monotonic() - began,
        )
        show(picture)
        if not picture.missing or picture.seconds > STORY_SECONDS:
            return picture
        await asyncio.sleep(REFRESH)


async def _told(anyone: Client) -> dict[str, str]:
    """By uid, what pods were told that no machine helps."""
    from allotment.cli.render.demo_table import NAMESPACE, NO_MACHINE

    events = await anyone.plain("v1", "events").list(NAMESPACE)
    return {
        each["involvedObject"].get("uid", ""): each["message"]
        for each in events.items
        if each["message"].startswith(NO_MACHINE)
    }
