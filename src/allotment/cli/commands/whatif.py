"""``allot whatif``: tries the steps of a scenario on a simulated copy of a cluster, and shows what each step changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.options.catalog import catalog_option
from allotment.cli.options.source_options import TABLE, WIDE, source_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allotment.autoscaler.catalogue.machine import Machine
    from allotment.autoscaler.scenario.scenario import CheckedScenario
    from allotment.insight.scenario_input import ScenarioInput
    from allotment.insight.source import ClusterSource


@click.command(name="whatif")
@click.argument("scenario", metavar="SCENARIO.yaml")
@catalog_option
@click.option(
    "--empty", is_flag=True, help="use no cluster: start with nothing but the scenario's own nodes and pods"
)
@click.option(
    "--stop", is_flag=True, help="stop after the first step that is refused or does not meet its expectations"
)
@source_options(TABLE, WIDE)
def command(
    scenario: str, catalog: tuple[str, ...], empty: bool, stop: bool, source: ClusterSource, output: str
) -> int:
    """Simulates the steps of a scenario on a cluster, and shows what each step changes. Nothing is written to the cluster.

    Steps add, remove and drain nodes, submit, scale and delete work, taint devices and resize pools. After each step, the
    waiting pods are placed as the scheduler would place them. A step that cannot be done changes nothing, and the next step
    is tried.

    \b
    Examples:  allot whatif scenario.yaml
               allot whatif scenario.yaml --offline cluster.yaml
               allot whatif scenario.yaml --catalog types.yaml --empty -o json

    \b
    A scenario:
      apiVersion: allotment.dev/v1
      kind: Scenario
      steps:
      - addNodes: {type: gpu-h100-8, zone: zone-a, count: 3}
      - addNodes: {like: node-1}  # or {file: nodes.yaml}
      - submit: {file: pods.yaml}
      - drainNode: node-1
        expect: {running: ["team/trainer-*"], counts: {pending: 0}}
      - taintDevice: {driver: gpu.example.com, pool: node-2, device: gpu-0,
                    effect: NoExecute}
    docs/autoscaling.md describes all verbs.

    Exit code: 0 every step met its expectations, 1 a step was refused or did not meet its expectations, 2 no answer could be
    given.
    """
    if empty and (source.offline or source.kubeconfig or source.context):
        raise click.UsageError("--empty uses no cluster: leave out --offline, --kubeconfig, --context")
    from allotment.autoscaler.scenario.scenario_run import rehearse
    from allotment.cli.render.screen import open_screen
    from allotment.cli.render.whatif_table import Report, document
    from allotment.insight.scenario_input import look_at_scene

    tried = _read(scenario)
    scene = look_at_scene(source, empty=empty)
    machines = _machines(catalog, scene)
    outcomes = rehearse(scene.simulation(), tried, machines, stop=stop)
    if output not in (TABLE, WIDE):
        from allotment.cli.render.document import written_out

        found = list(outcomes)
        click.echo(written_out(document(tried, found, scene.notes), output))
        return 0 if all(each.ok for each in found) else 1
    report = Report(open_screen(), wide=output == WIDE)
    report.begin(tried, scene.notes)
    for each in outcomes:
        report.show(each)
    report.end(len(tried.steps))
    return 0 if report.ok else 1


def _read(name: str) -> CheckedScenario:
    """Reads the scenario from a file. The files that its steps name are relative to the scenario's folder. Raises BadInput."""
    from allotment.api.manifests.manifest import Located, read_manifest
    from allotment.autoscaler.scenario.scenario import ScenarioError, read_scenario
    from allotment.cel.expression_check import check_expression
    from allotment.insight.errors import BadInput
    from allotment.insight.manifest_files import reason, text

    folder = Path() if name == "-" else Path(name).parent

    def read(file: str) -> list[Located]:
        place = str(folder / file)
        return read_manifest(text(place), place)

    try:
        written = text(name)
    except (OSError, ValueError) as exc:
        raise BadInput([f"{name}: {reason(exc)}"]) from exc
    try:
        return read_scenario(written, "stdin" if name == "-" else name, read, check_expression)
    except ScenarioError as exc:
        raise BadInput(exc.complaints) from exc


def _machines(catalog: Sequence[str], scene: ScenarioInput) -> Sequence[Machine]:
    from allotment.autoscaler.catalogue.overlays import evaluate
    from allotment.insight.catalogue_files import read_files, with_own

    if not catalog:
        return ()
    found = evaluate(with_own(read_files(catalog), scene.sources))
    scene.notes += [each for each in found.notes if each not in scene.notes]
    return found.machines
