"""How fast pods with devices are placed, end to end and in the scheduler's core alone: ``make bench``.

**In memory**: the core with the default profile, shown the events of a server that was played before (``rehearsal``), so that
nothing but the core is measured: processor time, best of several rounds; what is compared is measured in turns. A pod costs its events (it, its claim and its
status appear, the claim is written, the pod is bound) and its decision. The first look at all nodes is part of it.

**End to end** (``pipeline``): API server, controllers and scheduler as ``allot up`` runs them, all writes durable; the load
comes over TLS from this process and shares the machine. Pods per second from the first pod's creation to the last one's
binding, as the load's own watch sees it. ``--tool burst.py`` has another load client measured instead.

``--only WORD`` measures the scenarios whose name has the word in it. ``--profile`` prints where a pod's time goes, from
separate runs, which a profiler slows down several times: read shares and not times. Times vary on a shared machine: compare within a run.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from allotment.api.resource import DeviceAttribute, DeviceConstraint
from allotment.scheduler.event import Tick
from allotment.scheduler.instruction import PatchClaim
from benchmarks import fleets, pipeline, stages
from benchmarks.rehearsal import (
    NAMESPACE,
    Asker,
    PlayedServer,
    asker,
    best_replay,
    fresh_core,
    group,
    node,
    replay,
    replay_in_turns,
)

ROUNDS = 3
PODS = 40_000
FLEET, LARGE_FLEET = 5_000, 50_000
DEVICES = 8
GANG = 512
WAITING = 5_000
SHAPES = 100
LOOP_SECONDS = 0.004
"""What the driver's loop takes for sixteen pods, so that pauses of waiting pods end as often as they would."""


@dataclass(slots=True)
class Row:
    """One line of the table."""

    scenario: str
    goal: str
    value: float
    unit: str
    note: str = ""


# --- in memory ---


@dataclass(slots=True, eq=False)
class Rehearsed:
    """A run against the played server, and where in its log the pods came that are to be measured."""

    server: PlayedServer
    start: int
    pods: int

    def cost(self, rounds: int) -> float:
        """Processor seconds a pod."""
        return best_replay(self.server.log, self.start, rounds) / self.pods


def costs(runs: Sequence[Rehearsed], rounds: int) -> list[float]:
    """Processor seconds a pod of each, to be compared with one another."""
    found = replay_in_turns([(run.server.log, run.start) for run in runs], rounds)
    return [seconds / run.pods for seconds, run in zip(found, runs, strict=True)]


def filled(nodes: int, pods: int = PODS) -> Rehearsed:
    server = PlayedServer()
    server.add_nodes(nodes, DEVICES)
    start = len(server.log)
    server.add(asker(f"p{number}") for number in range(pods))
    server.settle()
    server.check()
    assert len(server.bound) == pods, f"{len(server.bound)} of {pods} pods are bound"
    return Rehearsed(server, start, pods)


def filling(rounds: int) -> Iterator[Row]:
    small = filled(FLEET).cost(rounds)
    yield Row(f"core: {FLEET:,} nodes × {DEVICES}, {PODS:,} pods", "≥ 5,000 pods/s", 1 / small, "pods/s")
    large = filled(LARGE_FLEET).cost(min(rounds, 2))
    yield Row(
        f"core: {LARGE_FLEET:,} nodes × {DEVICES}, {PODS:,} pods",
        f"cost ≤ 2 × that at {FLEET:,} nodes",
        1 / large,
        "pods/s",
        f"{large / small:.2f} × the cost",
    )


def ganging(rounds: int) -> Iterator[Row]:
    server = PlayedServer()
    server.add_nodes(GANG // DEVICES, DEVICES)
    start = len(server.log)
    server.add_group(group("gang", GANG))
    server.add(asker(f"p{number:03d}", group="gang") for number in range(GANG))
    server.settle()
    server.check()
    assert len(server.bound) == GANG, f"{len(server.bound)} of {GANG} members are bound"
    seconds = best_replay(server.log, start, rounds)
    yield Row(f"core: a gang of {GANG} pods on {GANG // DEVICES} nodes × {DEVICES}", "≤ 1 s", seconds, "s")


def beside(waiting: list[Asker], *, releases: bool, nodes: int = 500, pods: int = 3_000) -> Rehearsed:
    """Pods that are placed while others wait that cannot fit; with releases, each that comes takes the place of one."""
    server = PlayedServer()
    server.add_nodes(nodes, DEVICES)
    server.add(asker(f"old{number}") for number in range(pods if releases else 0))
    server.add(waiting)
    server.settle()
    start = len(server.log)
    before = list(server.bound)

    def release() -> None:
        server.now += LOOP_SECONDS
        for name in before[:16]:
            server.remove(name)
        del before[:16]

    server.add(asker(f"new{number}") for number in range(pods))
    server.settle(release)
    server.check()
    assert sum(name.startswith("new") for name in server.bound) == pods
    return Rehearsed(server, start, pods)


def crowd(shapes: int) -> list[Asker]:
    """Pods that ask for more devices than any node has, in so many shapes."""
    return [
        asker(f"big{number}", devices=DEVICES + 1, cpu=f"{100 + number % shapes}m")
        for number in range(WAITING)
    ]


def waiting(rounds: int) -> Iterator[Row]:
    for releases in (False, True):
        words = "others being deleted" if releases else "nothing released"
        crowds = {shapes: crowd(shapes) for shapes in (1, SHAPES)}
        alone, *others = costs([beside(each, releases=releases) for each in ([], *crowds.values())], rounds)
        for shapes, among in zip(crowds, others, strict=True):
            yield Row(
                f"core: {WAITING:,} pods in {shapes} shape{'s' * (shapes > 1)} that cannot fit wait, {words}",
                "others slowed by ≤ 20 %",
                100 * (among / alone - 1),
                "%",
            )


COMPARED: dict[str, dict[str, Any]] = {
    "plain": {},
    "a CEL selector": {"selector": pipeline.SELECTOR},
    "five requests and matchAttribute": {"requests": 5, "match": fleets.PCI_ROOT},
    "half full before": {"before": 5_000},
    "half full before, full after": {"before": 5_000, "pods": 5_000},
}


def compared(*, before: int = 0, pods: int = 2_000, nodes: int = 1_000, **asks: Any) -> Rehearsed:
    """Pods of one shape on nodes with ten devices, of which others have some already."""
    server = PlayedServer()
    server.add_nodes(nodes, 10)
    server.add(asker(f"old{number}", cpu="200m") for number in range(before))
    server.settle()
    start = len(server.log)
    server.add(asker(f"p{number}", **asks) for number in range(pods))
    server.settle()
    server.check()
    assert len(server.bound) == before + pods, f"{len(server.bound)} of {before + pods} pods are bound"
    return Rehearsed(server, start, pods)


def comparing(rounds: int) -> Iterator[Row]:
    runs = {name: compared(**options) for name, options in COMPARED.items()}
    found = dict(zip(runs, costs(list(runs.values()), rounds), strict=True))
    for name, cost in found.items():
        goal, note = "≤ 2 × the plain cost", f"{cost / found['plain']:.2f} × the plain cost"
        yield Row(
            f"core, 1,000 nodes × 10: {name}", goal if name != "plain" else "", 1 / cost, "pods/s", note
        )


# --- fairness ---


def rival(name: str, namespace: str, cpu: int, requests: Sequence[str], distinct: Sequence[str]) -> Asker:
    """A pod with one device for each request, no two of which have an attribute in common."""
    made = asker(name, cpu=f"{cpu}m")
    (first,) = made.claim.spec.devices.requests
    wish = replace(
        made.claim.spec.devices,
        requests=tuple(replace(first, name=each) for each in requests),
        constraints=tuple(
            DeviceConstraint(distinct_attribute=f"{fleets.DRIVER}/{each}") for each in distinct
        ),
    )
    claim = replace(made.claim, spec=replace(made.claim.spec, devices=wish))
    objects = [
        replace(each, metadata=replace(each.metadata, namespace=namespace)) for each in (made.pod, claim)
    ]
    return Asker(*objects)  # type: ignore[arg-type]  # the pod and its claim, in this order


def fair(rounds: int) -> Iterator[Row]:
    """A simple pod that comes when twelve others wait whose claims take long searches, each of its own shape."""
    for words, namespace in (("another namespace", "other"), ("the same namespace", NAMESPACE)):
        random, server = Random(3), PlayedServer()
        server.show(None, node(0))
        attributes = [
            {f"{fleets.DRIVER}/{each}": DeviceAttribute(int_value=random.randrange(13)) for each in "abc"}
            for _ in range(40)
        ]
        bare = [fleets.gpu(0, number) for number in range(40)]
        gpus = [
            replace(gpu, attributes=gpu.attributes | given)
            for gpu, given in zip(bare, attributes, strict=True)
        ]
        server.show(None, fleets.node_slice(0, gpus))
        server.add(
            rival(f"hard{n}", NAMESPACE, n + 1, [f"r{n}-{each}" for each in range(12)], "abc")
            for n in range(12)
        )
        server.add([rival("simple", namespace, 100, ["r"], "")])
        began, turns = time.process_time(), 0
        while not any(isinstance(each, PatchClaim) and each.name == "simple-gpu" for each in server.asked):
            server.core.handle(Tick(server.now))
            server.turn()
            turns += 1
            assert turns < 10_000, "the simple pod is never placed"
        seconds, steps = time.process_time() - began, getattr(server.core, "steps", 0)
        yield Row(
            f"core: a simple pod of {words} beside 12 expensive ones waits",
            "≤ 2 s",
            seconds,
            "s",
            f"{turns} turns, {steps:,} steps",
        )


# --- end to end ---


def bursts(rounds: int) -> Iterator[Row]:
    plain = 0.0
    for name, burst in pipeline.BURSTS.items():
        best = max((pipeline.measure(burst) for _ in range(rounds)), key=lambda outcome: outcome.rate)
        size = f"{burst.nodes:,} nodes × {burst.devices}, {burst.pods:,} pods"
        if burst is pipeline.PLAIN:
            plain = best.rate
            yield Row(f"end to end, {name}: {size}", "≥ 570 pods/s", best.rate, "pods/s", best.note())
            note = f"{best.resident:.0f} MB at the end"
            yield Row(
                "end to end: memory of server, scheduler and controllers", "≤ 500 MB", best.peak, "MB", note
            )
        else:
            note = f"{plain / best.rate:.2f} × the plain time, {best.note()}"
            yield Row(f"end to end, {name}: {size}", "≤ 2 × the plain time", best.rate, "pods/s", note)


def with_tool(tool: Path, rounds: int) -> Iterator[Row]:
    for words, arguments in (("plain", ()), ("with a CEL selector", ("--selector",))):
        found = [pipeline.measure_tool(tool, *arguments) for _ in range(rounds)]
        said, peak = max(found, key=lambda each: float(each[0]["pods_per_second"]))
        note = f"{said['bound']} bound, {said['double_allocated']} promised twice, {peak:.0f} MB"
        yield Row(f"{tool.name}, {words}", "≥ 570 pods/s", float(said["pods_per_second"]), "pods/s", note)


def profile_pipeline() -> None:
    with tempfile.TemporaryDirectory() as folder:
        profiles = Path(folder)
        plain, profiled = pipeline.measure(pipeline.PLAIN), pipeline.measure(pipeline.PLAIN, profiles)
        title = f"end to end: {1000 * plain.server_cpu / plain.pods:.2f} ms of the server a pod without the profiler"
        stages.show(pstats.Stats(*map(str, profiles.iterdir())), profiled.pods, title)


# --- all of it ---

SCENARIOS: dict[str, Callable[[int], Iterator[Row]]] = {
    "core-filling": filling,
    "core-gang": ganging,
    "core-waiting": waiting,
    "core-compared": comparing,
    "core-fairness": fair,
    "end-to-end": bursts,
}


def profile_core() -> None:
    run = filled(1_000, 4_000)
    log, profiler = run.server.log, cProfile.Profile()
    core = fresh_core()
    for event in log[: run.start]:
        core.handle(event)
    profiler.enable()
    for event in log[run.start :]:
        core.handle(event)
    profiler.disable()
    seconds = replay(log[: run.start], log[run.start :])
    stages.show(
        pstats.Stats(profiler),
        run.pods,
        f"core alone: {seconds / run.pods * 1e6:.0f} µs a pod without the profiler",
    )


def shown(row: Row) -> str:
    value = f"{row.value:,.0f}" if abs(row.value) >= 100 else f"{row.value:.3g}"
    return f"{value} {row.unit}" + (f" ({row.note})" if row.note else "")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the rows there as well")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", metavar="WORD", help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument(
        "--tool", type=Path, help="have this load client measured, such as burst.py, and nothing else"
    )
    parser.add_argument("--profile", action="store_true", help="print where the time goes instead")
    options = parser.parse_args()
    if options.profile:
        profile_core()
        profile_pipeline()
        return
    scenarios = SCENARIOS
    if options.tool is not None:
        scenarios = {"tool": lambda rounds: with_tool(options.tool, rounds)}
    rows: list[Row] = []
    for name, scenario in scenarios.items():
        if options.tool is not None or options.only in name:
            print(f"measuring: {name} ...", file=sys.stderr, flush=True)
            rows += scenario(options.rounds)
    print("| scenario | goal | measured |\n|---|---|---:|")
    for row in rows:
        print(f"| {row.scenario} | {row.goal} | {shown(row)} |")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        found = {"cores": os.cpu_count(), "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
