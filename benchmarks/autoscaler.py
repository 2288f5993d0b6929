"""How fast things are tried on a large cluster: ``make bench`` measures it too.

**The cluster**: 5,000 nodes with 8 GPUs each, each GPU with a uuid of its own, and 20,000 pods with a claim each, allocated and
reserved, spread so that nodes are in many states. Objects are typed already, as informers have them. Processor time of single
calls, the median of many; for starting, the best of several.

``--only WORD`` measures the scenarios whose name has the word in it; ``--profile`` prints where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import json
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

from allotment.api.core import Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import ResourceClaim
from allotment.autoscaler.simulation import Bound, Simulation, start_simulation
from allotment.cli.memory import spare_collector
from benchmarks import fleets, rehearsal
from benchmarks.rehearsal import asker

NODES, DEVICES, CLAIMS = 5_000, 8, 20_000
ROUNDS = 3
CALLS = 500
MILLI = 1_000


@dataclass(slots=True)
class Row:
    """One line of the table."""

    scenario: str
    goal: str
    value: float
    unit: str
    note: str = ""


# --- the cluster ---


def machines(nodes: int = NODES) -> list[ApiStruct]:
    found: list[ApiStruct] = [*fleets.CLASSES]
    for number in range(nodes):
        found += [rehearsal.node(number), rehearsal.slice_(number, DEVICES)]
    return found


def held(nodes: int = NODES, claims: int = CLAIMS, seed: int = 1) -> list[ApiStruct]:
    """Bound pods, each with a device of its own, on any nodes that have one left."""
    rng = random.Random(seed)
    slots = [(node, index) for node in range(nodes) for index in range(DEVICES)]
    found: list[ApiStruct] = []
    for number, (node, index) in enumerate(rng.sample(slots, claims)):
        asks, name = asker(f"old{number}"), fleets.node_name(node)
        pod = replace(asks.pod, spec=replace(asks.pod.spec, node_name=name))
        found += [pod, _allocated(asks.claim, pod, name, index)]
    return found


def _allocated(claim: ResourceClaim, pod: Pod, node: str, index: int) -> ResourceClaim:
    """As the scheduler leaves it behind."""
    from allotment.api.codec import decode, to_builtins

    result = {"request": "gpu-0", "driver": fleets.DRIVER, "pool": node, "device": f"gpu-{index}"}
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
    start = time.process_time()
    action()
    return time.process_time() - start


def median(times: list[float]) -> float:
    return statistics.median(times) * MILLI


def starting(rounds: int) -> Iterator[Row]:
    objects = [*machines(), *held()]
    best = min(timed(lambda: start_simulation(objects)) for _ in range(rounds))
    yield Row(f"start: {NODES:,} nodes, {CLAIMS:,} allocated claims", "≤ 1 s", best, "s")


def calling(rounds: int) -> Iterator[Row]:
    simulation = start_simulation([*machines(), *held()])
    askers = [asker(f"new{number}") for number in range(CALLS)]
    for each in askers:
        simulation.put(each.claim)
    first = timed(lambda: simulation.fits(askers[0].pod)) * MILLI
    yield Row("does a pod fit: the first of its shape", "", first, "ms")
    times: dict[str, list[float]] = {name: [] for name in GOALS}
    for each in askers:
        _round(simulation, each.pod, times)
    for name, goal in GOALS.items():
        low, high = min(times[name]) * MILLI, max(times[name]) * MILLI
        yield Row(name, goal, median(times[name]), "ms", f"{low:.3f} to {high:.3f}")


GOALS = {
    "does a pod fit": "≤ 1 ms",
    "does a pod fit on one node": "≤ 1 ms",
    "fork": "≤ 1 ms",
    "add a node with 8 devices": "",
    "bind": "≤ 0.2 ms",
    "evict": "≤ 0.2 ms",
    "remove a node": "",
    "revert of all that": "≤ 1 ms",
    "does a pod fit, after the revert": "≤ 1 ms",
    "an object changed": "",
}


def _round(simulation: Simulation, pod: Pod, times: dict[str, list[float]]) -> None:
    def call(name: str, action: Callable[[], object]) -> None:
        times[name].append(timed(action))

    number = NODES + 1
    new, slices = rehearsal.node(number), [rehearsal.slice_(number, DEVICES)]
    name = fleets.node_name(number)
    call("does a pod fit", lambda: simulation.fits(pod))
    found = simulation.fits(pod)
    assert isinstance(found, str)
    call("does a pod fit on one node", lambda: simulation.fits_on(pod, found))
    call("fork", simulation.fork)
    call("add a node with 8 devices", lambda: simulation.simulate_add_node(new, slices))
    call("bind", lambda: simulation.simulate_bind_pod(pod, found))
    assert found in [each.spec.node_name for each in (simulation.objects(Pod)[f"bench/{pod.metadata.name}"],)]
    call("evict", lambda: simulation.simulate_evict_pod(pod, found))
    assert isinstance(simulation.simulate_bind_pod(pod, found), Bound)
    call("remove a node", lambda: simulation.simulate_remove_node(name))
    call("revert of all that", simulation.revert)
    call("does a pod fit, after the revert", lambda: simulation.fits(pod))
    other = simulation.node(found)
    call("an object changed", lambda: simulation.put(replace(other, status=replace(other.status))))


SCENARIOS = {"start": starting, "calls": calling}


def profiled(name: str) -> None:
    profile = cProfile.Profile()
    profile.enable()
    list(SCENARIOS[name](1))
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(35)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="measure only scenarios whose name has this in it")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--profile", action="store_true", help="print where the time goes instead")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    spare_collector()
    rows: list[Row] = []
    for name, scenario in SCENARIOS.items():
        if options.only not in name:
            continue
        if options.profile:
            profiled(name)
            continue
        for row in scenario(options.rounds):
            rows.append(row)
            print(f"{row.scenario:<60} {row.value:>10.3f} {row.unit:<4} {row.goal:<10} {row.note}", flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
