"""``allot scheduler``: the scheduler alone, on any cluster; with ``--dry-run``, what it would do there; with ``--replay``, whether a
recorded run leads to the same decisions again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.options.feature_gates import DEVICES, feature_gates_option
from allotment.cli.options.service_options import connection_options, service_options

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from allotment.daemons.service import Service
    from allotment.scheduler.config.configuration import Configuration
    from allotment.scheduler.dry_run import DryRunDecision

NAME = "scheduler"


@click.command(name="scheduler")
@connection_options
@click.option(
    "--config", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="profiles and patience; also kube-scheduler's own configuration file",
)  # fmt: skip
@click.option(
    "--name", "scheduler_name", metavar="NAME",
    help="schedule pods with this schedulerName, in place of the one in --config or default-scheduler",
)  # fmt: skip
@click.option(
    "--dry-run", is_flag=True, help="print what it would decide about the pods that wait now, and end"
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True,
    help="of --dry-run",
)  # fmt: skip
@click.option(
    "--record", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="write all events and decisions into a new file, up to 1 GiB",
)  # fmt: skip
@click.option(
    "--replay", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="decide again about a recorded run, without a cluster, and compare; --config, --name and --feature-gates "
    "replace what was recorded of them",
)  # fmt: skip
@feature_gates_option
@service_options
def command(
    kubeconfig: Path | None,
    context: str | None,
    config: Path | None,
    scheduler_name: str | None,
    dry_run: bool,
    output: str,
    record: Path | None,
    replay: Path | None,
    switched_off: frozenset[str],
    leader_elect: bool,
    metrics_host: str,
    metrics_port: int | None,
    verbose: bool,
) -> int:
    """Gives pods a node and devices, on any Kubernetes cluster (1.34 or newer for devices).

    Beside the cluster's own scheduler, choose a --name and use it as schedulerName of pods. `allot up` has a scheduler
    already, unless started with --no-scheduler.

    Exit code: 0 stopped by Ctrl-C or SIGTERM, 1 could not start or failed.
    With --dry-run: 0 every waiting pod fits, 1 some do not, 2 it could not be found out.
    With --replay: 0 the decisions are the same, 1 they differ, 2 the file is no recording.
    """
    import uvloop

    from allotment.cli.options.scheduler_config import configuration_of
    from allotment.cli.options.service_options import log_level
    from allotment.daemons.log import set_up
    from allotment.daemons.service import Service
    from allotment.insight.errors import Failure, NoAnswer

    if sum((dry_run, record is not None, replay is not None)) > 1:
        raise click.UsageError("--dry-run, --record and --replay exclude each other")
    set_up(log_level(verbose))

    def configured() -> Configuration:
        return _named(configuration_of(config, devices=DEVICES not in switched_off), scheduler_name)

    if dry_run or replay is not None:
        try:
            if replay is not None:
                as_recorded = config is None and scheduler_name is None and not switched_off
                return _replay(replay, None if as_recorded else configured())
            return uvloop.run(_rehearse(kubeconfig, context, configured(), output))
        except Failure as exc:
            raise NoAnswer(exc.message, exc.hint) from exc
    configuration = configured()
    if record is not None:
        _check_writable(record)
    service = Service(NAME, kubeconfig, context, leader_elect, metrics_host, metrics_port)
    uvloop.run(_run(service, configuration, record))
    return 0


def _named(configuration: Configuration, name: str | None) -> Configuration:
    from dataclasses import replace

    if name is None:
        return configuration
    if not name or len(configuration.profiles) != 1:
        raise click.UsageError("--name needs a name, and a --config with no more than one profile")
    return replace(configuration, profiles=(replace(configuration.profiles[0], name=name),))


async def _run(service: Service, configuration: Configuration, record: Path | None) -> None:
    from allotment.daemons import rights
    from allotment.daemons.components import Components, WantedComponents
    from allotment.daemons.service import check_rights, serve
    from allotment.insight.connecting import connected

    async with connected(service.kubeconfig, service.context, service.lease) as client:
        await check_rights(client, service.name, await rights.of_scheduler(service, client))

        async def work(registry: CollectorRegistry) -> None:
            wanted = WantedComponents(configuration, record=record)
            await Components(wanted, client, client, registry).run()

        await serve(service, client, work)


# --- what it would do ---


async def _rehearse(
    kubeconfig: Path | None, context: str | None, configuration: Configuration, output: str
) -> int:
    from allotment.insight.connecting import connected
    from allotment.scheduler.driver import configured, snapshot
    from allotment.scheduler.dry_run import DryRun

    async with connected(kubeconfig, context, "allotment-dry-run") as client:
        objects = await snapshot(client)
    decisions = DryRun(configured(configuration), time.time()).run(objects)
    if output == "json":
        _print_json(decisions)
    else:
        _show(decisions)
    return 0 if all(decision.fits for decision in decisions) else 1


def _show(decisions: list[DryRunDecision]) -> None:
    from allotment.cli.render.screen import open_screen

    screen = open_screen()
    if not decisions:
        screen.line("No pod waits for this scheduler.")
    for decision in decisions:
        pod = (f"{decision.namespace}/{decision.name}", "bold" if decision.fits else "bold red")
        devices = f": {', '.join(decision.devices)}" if decision.devices else ""
        why = f" ({decision.why})" if decision.fits and decision.why else decision.why or "no reason is known"
        screen.line(
            pod,
            f" → {decision.node}{devices}{why if decision.why else ''}"
            if decision.fits
            else f" does not fit: {why}",
        )


def _print_json(decisions: list[DryRunDecision]) -> None:
    import json

    from allotment.api.text import printable_json

    pods = [
        {
            "namespace": decision.namespace,
            "name": decision.name,
            "fits": decision.fits,
            "node": decision.node or None,
            "devices": list(decision.devices),
            "message": decision.why or None,
        }
        for decision in decisions
    ]
    click.echo(printable_json(json.dumps({"pods": pods}, indent=2, ensure_ascii=False)))


# --- what it did ---


def _check_writable(record: Path) -> None:
    from allotment.insight.errors import Failure

    try:
        record.open("ab").close()
    except OSError as exc:
        raise Failure(f"--record: {record} cannot be written: {exc.strerror or exc}") from exc


def _replay(file: Path, configuration: Configuration | None) -> int:
    """Has a fresh core hear a recorded run again, with its own configuration unless another is given."""
    from allotment.insight.errors import NoAnswer
    from allotment.scheduler.driver import configured
    from allotment.scheduler.event_log import BrokenLog, configuration_of, replay

    counts = Counter[str]()
    try:
        with file.open(encoding="utf-8") as lines:
            recorded = configuration_of(next(lines, ""))
            core = configured(configuration or recorded)
            difference = replay(_counted(lines, counts), core, first=2)
    except OSError as exc:
        raise NoAnswer(f"{file} cannot be read: {exc.strerror or exc}") from exc
    except (BrokenLog, UnicodeDecodeError) as exc:
        raise NoAnswer(f"{file} cannot be replayed: {exc}") from exc
    if difference is None:
        events, instructions = counts["event"], counts["instruction"]
        click.echo(f"The same: {events:,} events lead to the same {instructions:,} instructions.")
        return 0
    click.echo(f"The decisions differ at line {difference.line}:")
    click.echo(f"recorded: {_one_line(difference.logged)}")
    click.echo(f"now:      {_one_line(difference.said)}")
    return 1


def _counted(lines: Iterable[str], counts: Counter[str]) -> Iterator[str]:
    """The lines of a recording, counted by what they are."""
    for line in lines:
        counts["instruction" if line.startswith('{"instruction"') else "event"] += 1
        yield line


def _one_line(instruction: dict[str, Any] | None) -> str:
    import json

    from allotment.api.text import printable_json

    return (
        "no instruction"
        if instruction is None
        else printable_json(json.dumps(instruction, ensure_ascii=False))
    )
