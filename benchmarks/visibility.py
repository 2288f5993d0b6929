"""How fast usage of pools is computed, kept up and shown, and how long it takes to say how many more claims fit: ``make bench``.

Prints a table and, with ``--json FILE``, writes it down. Pools have 7 GPUs and a shared network card, and ten claims each: six on
GPUs, four on shares of the card. *wall* is the best of several runs, and what goals are held against; *cpu* is the least processor
time of any, which on a machine that others use too says more. What is served (``served_usage``) is measured once, commands five times.

Whether work grows with the number of pools and no faster is told by counting: the calls that it takes are the same in every run.
Its time grows a little faster, since what is worked on stops fitting the processor's caches. ``--only`` measures one part.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from msgspec.structs import replace

from allotment.api.meta import ObjectMeta
from allotment.api.quantity import Quantity
from allotment.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from allotment.daemons.memory import spare_collector
from allotment.usage.remaining import remaining
from allotment.usage.usage import Usage
from benchmarks import served_usage
from benchmarks.fleets import CLASSES, DRIVER, claim, gpu, nic, node, node_name, node_slice, request

GPUS, CLAIMS, DEVICES = 7, 10, 8
GIGABIT = Quantity.parse("1G")


@dataclass
class Row:
    """One line of the table. ``wall`` is in the unit, ``cpu`` in seconds."""

    scenario: str
    goal: str
    wall: float
    cpu: float | None = None
    reached: bool | None = None
    note: str = ""
    unit: str = "s"


def measured(action: Callable[[], object], runs: int = 5) -> tuple[float, float]:
    """The best wall and processor time of several runs."""
    walls, cpus = [], []
    for _ in range(runs):
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        action()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return min(walls), min(cpus)


def slices_of(pools: int) -> list[ResourceSlice]:
    return [node_slice(n, [*[gpu(n, index) for index in range(GPUS)], nic(n, 0)]) for n in range(pools)]


def held(number: int, pools: int) -> ResourceClaim:
    """The claims go round the pools: each pool gets six GPUs taken, then shares of its card."""
    pool, turn = number % pools, number // pools
    whole = turn < GPUS - 1
    result = DeviceRequestAllocationResult(
        request="device",
        driver=DRIVER,
        pool=node_name(pool),
        device=f"gpu-{turn}" if whole else "nic-0",
        share_id=None if whole else f"share-{turn}",
        consumed_capacity={} if whole else {"bandwidth": GIGABIT},
    )
    return ResourceClaim(
        metadata=ObjectMeta(name=f"claim-{number}", namespace=f"team-{number % 50}", uid=f"uid-{number}"),
        status=ResourceClaimStatus(
            allocation=AllocationResult(devices=DeviceAllocationResult(results=(result,)))
        ),
    )


def cluster(pools: int) -> tuple[list[ResourceSlice], list[ResourceClaim]]:
    return slices_of(pools), [held(number, pools) for number in range(pools * CLAIMS)]


# --- computing all, and one change ---


def full() -> list[Row]:
    """Everything computed from its objects, with Python's collector as it is and as processes that run long have it."""
    rows: list[Row] = []
    first: dict[bool, tuple[float, int]] = {}
    for pools in (1_000, 5_000):
        slices, claims = cluster(pools)
        work = calls(lambda all=[*slices, *claims]: Usage(all).pools())  # type: ignore[misc]  # bound to this turn's
        for spared in (False, True):
            wall, cpu = computed(slices, claims, spared)
            before, size = first.setdefault(spared, (cpu, work)), pools / 1_000
            small = pools == 1_000
            rows.append(
                Row(
                    f"{pools:,} pools of {DEVICES} devices, {len(claims):,} claims: all{', collector spared' if spared else ''}",
                    "≤ 0.5 s" if small else "at most linear",
                    wall,
                    cpu,
                    wall <= 0.5 if small else work <= before[1] * size * 1.001,
                    ""
                    if small
                    else f"{work / before[1] / size:.3f} of five times the calls of the first, {cpu / before[0] / size:.2f} of its time",
                )
            )
        rows += changes(Usage([*slices, *claims]), pools)
    return rows


def calls(action: Callable[[], object]) -> int:
    """How many functions are called, Python's own included."""
    count = 0

    def called(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def computed(slices: list[ResourceSlice], claims: list[ResourceClaim], spared: bool) -> tuple[float, float]:
    before = gc.get_threshold()
    if spared:
        spare_collector()
    try:
        return measured(lambda: Usage([*slices, *claims]).pools())
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def changes(usage: Usage, pools: int) -> list[Row]:
    """A claim gives its device back and gets it again; after each change the pool is read."""
    usage.pools()
    usage.drain()
    times = 400

    def action() -> None:
        for number in range(times):
            mine = held(number // 2, pools)
            free = replace(mine, status=ResourceClaimStatus())
            usage.change(mine, free if number % 2 == 0 else mine)
            for id in usage.drain():
                usage.pool(id)

    wall, cpu = measured(action)
    return [Row(f"{pools:,} pools: one claim changes, its pool is read", "", wall / times, cpu / times)]


# --- how many more fit ---


def how_many_more() -> list[Row]:
    rows = []
    for pools in (1_000, 5_000):
        slices, claims = cluster(pools)
        nodes = [node(number) for number in range(pools)]
        for shape in (
            claim("one GPU", request("gpu")),
            claim("10G of a card", request("nic", class_name="nic", capacity={"bandwidth": "10G"})),
        ):
            answers: list[str] = []

            def action(shape: ResourceClaim = shape, into: list[str] = answers) -> None:
                found = remaining(shape, nodes=nodes, slices=slices, classes=CLASSES, claims=claims)  # noqa: B023  # called before the next turn
                into[:] = [str(found.cluster)]

            wall, cpu = measured(action, runs=2)
            name = f"{pools:,} nodes: how many more claims for {shape.metadata.name} fit"
            rows.append(Row(name, "", wall, cpu, note=f"{answers[0]} do"))
    return rows


# --- served ---


def served() -> list[Row]:
    found = served_usage.measure()
    size = f"{served_usage.POOLS:,} pools, {served_usage.POOLS * served_usage.CLAIMS:,} claims served"
    slow, middle = found.slow, statistics.median(found.seen)
    return [
        Row(
            f"{size}: a claim's change in its pool's status, 95th percentile at {served_usage.RATE} changes a second",
            "≤ 1 s",
            slow,
            reached=slow <= 1,
            note=f"median {middle:.2f} s, slowest {max(found.seen):.2f} s of {len(found.seen):,}",
        ),
        Row(
            f"{size}: memory of the controller",
            "≤ 200 MB",
            found.memory,
            None,
            found.memory <= 200,
            unit="MB",
        ),
        Row(
            f"{size}: writes while nothing changes, in {served_usage.IDLE_SECONDS:.0f} s",
            "none",
            found.idle_writes,
            reached=found.idle_writes == 0,
            unit="",
        ),
        Row(f"{size}: allot pools", "≤ 1.5 s", *found.pools, found.pools[0] <= 1.5),
        Row(f"{size}: allot top --once", "", *found.top),
    ]


def table(rows: list[Row]) -> None:
    width = max(len(row.scenario) for row in rows)
    print(f"{'scenario':{width}}  {'goal':14}  {'wall':>10}  {'cpu':>10}")
    for row in rows:
        verdict = {True: "reached", False: "MISSED", None: ""}[row.reached]
        rest = ", ".join(word for word in (verdict, row.note) if word)
        print(
            f"{row.scenario:{width}}  {row.goal:14}  {shown(row.wall, row.unit):>10}  {shown(row.cpu):>10}  {rest}"
        )


def shown(value: float | None, unit: str = "s") -> str:
    if value is None:
        return ""
    if unit != "s":
        return f"{value:.0f} {unit}".rstrip()
    return f"{value:.3f} s" if value >= 0.01 else f"{value * 1e6:.0f} µs"


PARTS = {"computed": full, "remaining": how_many_more, "served": served}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--only", choices=PARTS, help="measure this part alone")
    options = parser.parse_args()
    rows = [row for name, part in PARTS.items() if options.only in (None, name) for row in part()]
    table(rows)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(
            json.dumps({"cores": os.cpu_count(), "rows": [asdict(row) for row in rows]}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
