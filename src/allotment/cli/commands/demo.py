"""``allot demo``: a complete control plane with a simulated fleet in this process, the workloads that arrive, and the result.

Everything is as in ``allot up --demo``, except that the data is in a temporary folder, no port is open, and the demo ends
within seconds, when the last pod has reached its expected state. On a terminal the table changes as things happen; in a pipe
it is printed once, at the end.
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
    """The state of everything at one moment."""

    nodes: int
    devices: int
    rows: tuple[PodRow, ...]
    machines: tuple[Launched, ...]  # every machine that was launched, including those that are gone
    missing: tuple[str, ...]  # what does not yet match the expected end
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
    """Where pictures appear while things change, and how many seconds to pause between workloads."""

    show: Callable[[Picture], None]
    pause: float = 0.0


@click.command(name="demo")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def command(output: str) -> int:
    """Shows in a few seconds what Allotment does. A simulated fleet appears; workloads arrive and get their devices; machines
    are launched for one and removed again; and a workload that cannot fit gets the reason. The demo needs nothing and leaves
    nothing behind: its data is in memory and in a temporary folder.

    Exit code: 0 everything ended as expected, 1 something did not.
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
    """On a terminal, a live table on which workloads appear one after the other, so that a person can follow; otherwise no
    table and no pauses."""
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
    screen.line(f"All this took {last.seconds:.1f} s. To keep it running: allot up --demo")


async def _play(folder: Path, stage: DemoDisplay) -> Picture | None:
    """Runs the demo to its end. Returns None if the user interrupted it."""
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
    """Shows the pods as they settle, until all have settled or the time is over."""
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
    """The autoscaler's messages to pods that no machine helps, by the pods' uids."""
    from allotment.cli.render.demo_table import NAMESPACE, NO_MACHINE

    events = await anyone.plain("v1", "events").list(NAMESPACE)
    return {
        each["involvedObject"].get("uid", ""): each["message"]
        for each in events.items
        if each["message"].startswith(NO_MACHINE)
    }
