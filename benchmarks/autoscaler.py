"""How fast things are tried on a large cluster: ``make bench``.

5,000 nodes with 8 GPUs each, every GPU with a uuid of its own, and 20,000 pods with a claim each, allocated and reserved at random,
so that nodes are in many states. Objects are typed already, as informers have them, and the collector of garbage leaves alone
what was there before, as in ``allot``. Processor time: of a start the best of several, of single calls the median of many, with
the range.

A pod of a shape that was never asked about is judged on every node once. The first such question of all also puts the nodes'
devices together.

Plans are made for pods that find no room on 5,000 nodes, from 144 instance types in 8 offerings each; the problems come from a seeded
generator (``autoscaler_problems``) and have zones, gangs, alternatives of devices and spreading in them.

``--only WORD`` measures the scenarios whose name has the word in it. ``--profile`` prints where the time goes instead, several
times slowed down: read shares and not times.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from msgspec.structs import replace

from allotment.api.codec import decode, to_builtins
from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct
from allotment.api.quantity import Quantity
from allotment.api.resource import ResourceClaim
from allotment.autoscaler.consolidate.consolidation import consolidate
from allotment.autoscaler.provision.provisioner import provision
from allotment.autoscaler.simulate.drain import Drained, drain
from allotment.autoscaler.simulate.simulation import BoundPod, Simulation, start_simulation
from allotment.autoscaler.simulate.utilisation import utilisation
from allotment.daemons.memory import spare_collector
from benchmarks import autoscaler_problems, fleets, rehearsal
from benchmarks.rehearsal import asker

NODES, DEVICES, CLAIMS = 5_000, 8, 20_000
ROUNDS = 3
CALLS = 500
SHAPES = 10


@dataclass(slots=True)
class Row:
    """One line of the table."""

    scenario: str
    goal: str
    value: float
    unit: str
    note: str = ""


# --- the cluster ---


def machines() -> list[ApiStruct]:
    found: list[ApiStruct] = [*fleets.CLASSES]
    for number in range(NODES):
        found += [rehearsal.node(number), rehearsal.slice_(number, DEVICES)]
    return found


def held(seed: int = 1) -> list[ApiStruct]:
    """Bound pods, each with a device of its own."""
    rng = random.Random(seed)
    devices = [(node, index) for node in range(NODES) for index in range(DEVICES)]
    found: list[ApiStruct] = []
    for number, (node, index) in enumerate(rng.sample(devices, CLAIMS)):
        asks, name = asker(f"old{number}"), fleets.node_name(node)
        pod = replace(asks.pod, spec=replace(asks.pod.spec, node_name=name))
        found += [pod, _allocated(asks.claim, pod, name, f"gpu-{index}")]
    return found


def _allocated(claim: ResourceClaim, pod: Pod, node: str, device: str) -> ResourceClaim:
    """As the scheduler leaves a claim behind."""
    result = {"request": "gpu-0", "driver": fleets.DRIVER, "pool": node, "device": device}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    status = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        },
        "reservedFor": [{"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}],
    }
    return decode(ResourceClaim, {**to_builtins(claim), "status": status})


# --- measuring ---


def timed(action: Callable[[], object]) -> float:
    """In milliseconds."""
    start = time.process_time()
    action()
    return 1_000 * (time.process_time() - start)


def row(name: str, goal: str, times: list[float]) -> Row:
    note = f"{min(times):.3g} to {max(times):.3g}"
    return Row(name, goal, statistics.median(times), "ms", note)


def starting(rounds: int) -> Iterator[Row]:
    objects = [*machines(), *held()]
    spare_collector()
    best = min(timed(lambda: start_simulation(objects)) for _ in range(rounds))
    yield Row(f"start: {NODES:,} nodes, {CLAIMS:,} allocated claims", "≤ 1 s", best / 1_000, "s")


def calling(rounds: int) -> Iterator[Row]:
    simulation = start_simulation([*machines(), *held()])
    shapes = [asker(f"shape{number}", cpu=f"{100 + number}m") for number in range(SHAPES)]
    askers = [asker(f"new{number}") for number in range(CALLS)]
    for each in (*shapes, *askers):
        simulation.put_all((each.claim, each.pod))
    spare_collector()
    first, *more = [timed(lambda each=each: simulation.fits(each.pod)) for each in shapes]  # type: ignore[misc]  # bound early
    yield Row("does a pod fit: the first question", "", first, "ms")
    yield row("does a pod fit: the first of its shape", "", more)
    times: dict[str, list[float]] = {name: [] for name in GOALS}
    for each in askers:
        _calls(simulation, each.pod, times)
    for name, goal in GOALS.items():
        yield row(name, goal, times[name])


GOALS = {
    "does a pod fit": "≤ 1 ms",
    "does a pod fit on a node": "≤ 1 ms",
    "fork": "≤ 1 ms",
    f"add a node with {DEVICES} devices": "",
    "bind": "≤ 0.2 ms",
    "evict": "≤ 0.2 ms",
    "remove a node": "",
    "revert all of that": "≤ 1 ms",
    "does a pod fit, after the revert": "≤ 1 ms",
    "drain a node, and revert it": "",
    "how much of a node is in use": "",
    "a node changed": "",
    "a claim changed": "",
}


def _calls(simulation: Simulation, pod: Pod, times: dict[str, list[float]]) -> None:
    def call(name: str, action: Callable[[], object]) -> None:
        times[name].append(timed(action))

    new, slices = rehearsal.node(NODES), [rehearsal.slice_(NODES, DEVICES)]
    call("does a pod fit", lambda: simulation.fits(pod))
    found = simulation.fits(pod)
    assert isinstance(found, str)
    call("does a pod fit on a node", lambda: simulation.fits_on(pod, found))
    call("fork", simulation.fork)
    call(f"add a node with {DEVICES} devices", lambda: simulation.simulate_add_node(new, slices))
    call("bind", lambda: simulation.simulate_bind_pod(pod, found))
    call("evict", lambda: simulation.simulate_evict_pod(pod, found))
    assert isinstance(simulation.simulate_bind_pod(pod, found), BoundPod)
    call("remove a node", lambda: simulation.simulate_remove_node(new.metadata.name))
    call("revert all of that", simulation.revert)
    call("does a pod fit, after the revert", lambda: simulation.fits(pod))
    call("drain a node, and revert it", lambda: _drain(simulation, found))
    call("how much of a node is in use", lambda: utilisation(simulation, found))
    node = simulation.node(found)
    other = replace(node, status=replace(node.status))
    call("a node changed", lambda: simulation.put(other))
    claim = simulation.objects(ResourceClaim)[f"{pod.metadata.namespace}/{pod.metadata.name}-gpu"]
    call("a claim changed", lambda: simulation.put(replace(claim, status=replace(claim.status))))


def _drain(simulation: Simulation, node: str) -> None:
    with simulation.trial():
        assert isinstance(drain(simulation, node), Drained)


def planning(rounds: int) -> Iterator[Row]:
    """Nodes that have no room, and problems of a seeded generator."""
    full = [_full(number) for number in range(NODES)]
    for pods, goal, seeds in ((500, "≤ 3 s", (1, 2, 3)), (5_000, "≤ 10 s", (1, 2, 3))):
        times, gaps = [], []
        for seed in seeds:
            made = autoscaler_problems.problem(seed, pods)
            simulation = start_simulation([*made.objects, *full])
            start = time.process_time()
            plan = provision(simulation, made.machines, made.pods)
            times.append(time.process_time() - start)
            gaps.append(100 * plan.gap if plan.gap is not None else float("inf"))
            assert not plan.pending
        name = f"plan: {pods:,} pods in 20 shapes, {NODES:,} full nodes, {len(made.machines):,} offers"
        yield Row(name, goal, max(times), "s", f"the worst of {len(seeds)} problems, from {min(times):.2g}")
        yield Row(f"plan: {pods:,} pods: price above the lower bound", "≤ 5 %", max(gaps), "%", "the worst")


def growing(rounds: int) -> Iterator[Row]:
    """As many pods in more and more shapes."""
    first = 0.0
    for shapes in (20, 50, 100, 200, 400):
        times, gaps = [], []
        for seed in range(1, rounds + 1):
            made = autoscaler_problems.problem(seed, 1_000, shapes=shapes)
            simulation = start_simulation(made.objects)
            spare_collector()
            start = time.process_time()
            plan = provision(simulation, made.machines, made.pods)
            times.append(time.process_time() - start)
            gaps.append(100 * plan.gap if plan.gap is not None else float("inf"))
            assert not plan.pending
        each = statistics.mean(times) / shapes
        first = first or each
        note = f"a shape takes {each / first:.2g} times as long as with 20; at most {max(gaps):.2g} % above the bound"
        yield Row(f"plan: 1,000 pods in {shapes} shapes", "", statistics.mean(times), "s", note)


def consolidating(rounds: int) -> Iterator[Row]:
    """Clusters of which a fifth of the nodes have next to nothing to do."""
    for nodes in (500, NODES):
        made = autoscaler_problems.cluster(1, nodes)
        candidates = dict.fromkeys(made.there.objects(Node), 0.0)
        spare_collector()
        start = time.process_time()
        found = consolidate(made.there, made.machines, candidates, now=1e6)
        took = time.process_time() - start
        note = f"{len(found.gone):,} nodes go, {len(found.machines)} come, {len(found.moved):,} pods move"
        name = f"consolidate: {nodes:,} nodes, a fifth underused, {len(made.machines):,} offers"
        yield Row(name, "", took, "s", note)


def _full(number: int) -> Node:
    node = rehearsal.node(number)
    room = {
        name: Quantity.parse(amount) for name, amount in (("cpu", "100m"), ("memory", "100Mi"), ("pods", "9"))
    }
    return replace(node, status=replace(node.status, allocatable=room))


SCENARIOS: dict[str, Callable[[int], Iterator[Row]]] = {
    "start": starting,
    "calls": calling,
    "plan": planning,
    "consolidate": consolidating,
    "shapes": growing,
}


def profile(scenario: Callable[[int], Iterator[Row]]) -> None:
    profiler = cProfile.Profile()
    profiler.runcall(lambda: list(scenario(1)))
    pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the rows there as well")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", metavar="WORD", help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--profile", action="store_true", help="print where the time goes instead")
    options = parser.parse_args()
    rows: list[Row] = []
    for name, scenario in SCENARIOS.items():
        if options.only in name:
            print(f"measuring: {name} ...", file=sys.stderr, flush=True)
            if options.profile:
                profile(scenario)
            else:
                rows += scenario(options.rounds)
    print("| scenario | goal | measured |\n|---|---|---:|")
    for each in rows:
        note = f" ({each.note})" if each.note else ""
        print(f"| {each.scenario} | {each.goal} | {each.value:.3g} {each.unit}{note} |")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        found = {"cores": os.cpu_count(), "rows": [asdict(each) for each in rows]}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
