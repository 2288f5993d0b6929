"""``allot cel``: which devices an expression selects, and which values it read on the others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from allotment.allocator.pool import PooledDevice
    from allotment.allocator.selector import Criterion
    from allotment.cli.render.screen import Cell, Screen
    from allotment.insight.manifest_cluster import ManifestCluster


@dataclass(frozen=True, slots=True)
class DeviceAnswer:
    """The answer of the expression for one device: yes, no, or an error. ``read`` holds the attributes that it read."""

    device: str
    match: bool
    read: str
    error: str = ""


@click.command(name="cel")
@click.argument("expression", required=False, metavar="EXPR")
@click.option(
    "-f", "--filename", "files", multiple=True, type=click.Path(), metavar="FILE|DIR",
    help="manifests with slices: a file, a folder, or - for standard input; repeatable",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Choice(["table", "yaml", "json"]), default="table", show_default=True
)
@click.option("--lenient", is_flag=True, help="accept unknown fields with a note instead of rejecting them")
@click.option(
    "--ndjson", is_flag=True, help="for programs: read one question per line, write one answer per line"
)
def command(expression: str | None, files: tuple[str, ...], output: str, lenient: bool, ndjson: bool) -> int:
    """Shows which devices EXPR selects, for example

    \b
      allot cel 'device.driver == "gpu.example.com"' -f slices.yaml

    For v1alpha2 slices, the expression sees the typed maps instead: 'quantities["memory"] >= "8Gi"'.

    Exit code: 0 at least one device matches, 1 no device matches, 2 bad input.
    """
    if ndjson:
        from allotment.cli.ndjson.problem_line import cel_line
        from allotment.cli.ndjson.stream import serve

        return serve(cel_line, sys.stdin.buffer, sys.stdout.buffer)
    if expression is None:
        raise click.UsageError("give an expression, such as 'device.driver == \"gpu.example.com\"'")
    if not files:
        raise click.UsageError(
            "no slices given: name a file or folder with -f FILE|DIR, or use -f - for standard input"
        )
    from allotment.cel.expression_check import check_expression
    from allotment.insight.manifest_cluster import gather
    from allotment.insight.manifest_files import read_objects

    cluster = gather(read_objects(files), check_expression, lenient=lenient)
    verdicts = list(judge(expression, cluster))
    if output == "table":
        from allotment.cli.render.screen import open_screen

        _show(verdicts, open_screen())
    else:
        from allotment.cli.render.document import written_out

        click.echo(written_out(_document(expression, verdicts), output))
    return 0 if any(verdict.match for verdict in verdicts) else 1


def judge(expression: str, cluster: ManifestCluster) -> Iterator[DeviceAnswer]:
    """Evaluates the expression on every device, in order. Raises BadInput if it does not compile.

    The expression is a device selector, unless all the slices are v1alpha2.
    """
    from allotment.cel.errors import CelCompileError
    from allotment.cel.expression_check import told
    from allotment.insight.errors import BadInput

    try:
        test, devices = (
            _instances(expression, cluster) if not cluster.slices else _devices(expression, cluster)
        )
    except CelCompileError as exc:
        raise BadInput([told(exc)]) from exc
    for device in devices:
        answer = test.ask(device)
        error = answer if isinstance(answer, str) else ""
        yield DeviceAnswer(str(device.id), answer is True, test.read_by(device), error)


def _devices(expression: str, cluster: ManifestCluster) -> tuple[Criterion, list[PooledDevice]]:
    from allotment.allocator.features import ALL
    from allotment.allocator.pool import PooledDevice, by_pool
    from allotment.allocator.selector import SelectorTest
    from allotment.cel.device import compile_selector

    compile_selector(expression)  # raises here; Selector would answer every device with the error
    devices = []
    for _, slices in sorted(by_pool(cluster.slices).items()):
        newest = max(slice.spec.pool.generation for slice in slices)
        for slice in sorted(slices, key=lambda slice: slice.metadata.name):
            if slice.spec.pool.generation == newest:
                devices += [PooledDevice(spec, slice) for spec in slice.spec.devices]
    return SelectorTest(expression, ALL), devices


def _instances(expression: str, cluster: ManifestCluster) -> tuple[Criterion, list[PooledDevice]]:
    from allotment.allocator.semantic import InstanceTest
    from allotment.allocator.semantic_pools import partition_pools

    devices: list[PooledDevice] = []
    for node in sorted({slice.spec.node_name for slice in cluster.node_slices}):
        for pool in partition_pools(node, cluster.node_slices, ()):
            devices += pool.devices
    return InstanceTest(expression), devices


def _show(verdicts: list[DeviceAnswer], screen: Screen) -> None:
    found = sum(verdict.match for verdict in verdicts)
    screen.line((f"{found} of {len(verdicts)} devices match", "bold"))
    if not verdicts:
        return
    screen.line("")
    rows: list[list[Cell]] = []
    for verdict in verdicts:
        word = ("yes", "green") if verdict.match else ("error", "red") if verdict.error else ("no", "yellow")
        rows.append([word, verdict.device, "; ".join(filter(None, [verdict.read, verdict.error]))])
    screen.table(("match", "device", "read"), rows)


def _document(expression: str, verdicts: list[DeviceAnswer]) -> dict[str, object]:
    return {
        "expression": expression,
        "devices": [
            {"device": each.device, "match": each.match, "read": each.read}
            | ({"error": each.error} if each.error else {})
            for each in verdicts
        ],
    }
