"""How fast the allocator is, beside Kubernetes' own in the same run: ``make bench``.

Prints a table and, with ``--json FILE``, writes it down. *cold* is the first time that a claim of its shape is seen,
*warm* the best of several later ones. Upstream is the Go program that ``make upstream`` builds; where it is absent its
column stays empty. Times on a shared machine vary: compare within a run.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.upstream.oracle import Absent, Oracle, find

from allotment.allocator.allocate import Allocator
from allotment.allocator.fleet import Fleet
from allotment.allocator.outcome import Allocated, Unsatisfiable
from allotment.api.codec import to_builtins
from allotment.api.quantity import Quantity
from allotment.api.resource import (
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCounterConsumption,
    ResourceClaim,
    ResourceSlice,
)
from benchmarks import fleets
from benchmarks.fleets import CLASSES, DRIVER, PCI_ROOT, claim, node, node_slice, request


@dataclass
class Row:
    """One line of the table; times in seconds unless ``unit`` says otherwise."""

    scenario: str
    reach: str
    cold: float | None = None
    warm: float | None = None
    upstream: float | None = None
    unit: str = "ms"
    reached: bool | None = None
    note: str = ""


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def best(action: Callable[[], object], seconds: float = 1.0) -> float:
    """The shortest of as many runs as fit into some time: on a shared machine most are disturbed."""
    end = time.perf_counter() + seconds
    shortest = timed(action)
    while time.perf_counter() < end:
        shortest = min(shortest, timed(action))
    return shortest


def timed_cold(fleet: Fleet, action: Callable[[], object]) -> float:
    """One run on a fleet that knows its devices and has never been asked anything."""
    fleet._start_over()
    for place in fleet.places.values():
        fleet.site(place)
    gc.collect()
    gc.freeze()  # the fleet stays: no need for the collector to look at it in the middle of a measurement
    try:
        return timed(action)
    finally:
        gc.unfreeze()


# --- upstream ---


class Upstream:
    """The real allocator, if it is built."""

    def __init__(self) -> None:
        try:
            self._oracle: Oracle | None = Oracle(find(), timeout=20.0)
        except Absent as exc:
            print(f"upstream column stays empty: {exc}", file=sys.stderr)
            self._oracle = None

    def measure(
        self,
        slices: Iterable[ResourceSlice],
        claims: list[ResourceClaim],
        nodes: int,
        fleet: Fleet | None = None,
    ) -> dict[str, Any] | None:
        if self._oracle is None:
            return None
        held = fleets.held_ids(fleet) if fleet is not None else []
        question = {
            "name": "bench",
            "nodes": [to_builtins(node(n)) for n in range(nodes)],
            "slices": [to_builtins(each) for each in slices],
            "classes": [to_builtins(each) for each in CLASSES],
            "claims": [to_builtins(each) for each in claims],
            "allocatedDevices": [device._asdict() for device in held],
            "repeat": 5,
        }
        answer = self._oracle.bench(question)
        if answer.get("error") and not answer.get("ok"):
            raise RuntimeError(f"upstream: {answer['error']}")
        return answer

    def close(self) -> None:
        if self._oracle is not None:
            self._oracle.close()


# --- one claim, many nodes ---


def many_nodes(upstream: Upstream) -> list[Row]:
    rows = []
    one = claim("one", request("gpu"))
    five = claim("five", *[request(f"gpu-{i}") for i in range(5)], match=PCI_ROOT)
    for name, wanted, reach, devices in (
        ("one device, 500 equal nodes", one, 0.7, 8),
        ("five requests with matchAttribute, 500 nodes", five, 5.0, 16),
    ):
        fleet = fleets.gpu_fleet(500, devices)
        states = fleets.occupy(fleet, 1, spare=1)
        rows += _find_and_survey(name, fleet, wanted, reach, states, upstream)
    fleet = fleets.different_fleet(500)
    states = fleets.occupy(fleet, 2, spare=1)
    selector = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
    rows += _find_and_survey(
        "500 nodes, all different",
        fleet,
        claim("big", request("gpu", selector=selector)),
        None,
        states,
        upstream,
    )
    return rows


def _find_and_survey(
    name: str, fleet: Fleet, wanted: ResourceClaim, reach: float | None, states: int, upstream: Upstream
) -> list[Row]:
    cold = min(timed_cold(fleet, lambda: fleet.find([wanted])) for _ in range(5))
    warm = best(lambda: fleet.find([wanted]))
    survey_cold = min(timed_cold(fleet, lambda: fleet.survey([wanted])) for _ in range(5))
    survey = best(lambda: fleet.survey([wanted]))
    fitting = sum(len(group.nodes) for group in fleet.survey([wanted]) if group.fits)
    theirs = upstream.measure(fleet._slices.values(), [wanted], len(fleet.places), fleet)
    if theirs is not None and theirs["fits"] != fitting:
        raise AssertionError(f"{name}: {fitting} nodes fit here, {theirs['fits']} upstream")
    limit = "no slower than upstream" if reach is None else f"≤ {reach} ms"
    note = f"{states} states of use, {fitting} nodes fit"

    def row(what: str, cold: float, warm: float, other: float | None) -> Row:
        bound = other if reach is None else reach / 1000
        return Row(
            f"{name}: {what}", limit, cold, warm, other, reached=bound is None or warm <= bound, note=note
        )

    first = theirs["ns"] / 1e9 if theirs is not None else None
    every = theirs["allNs"] / 1e9 if theirs is not None else None
    return [row("find a node", cold, warm, first), row("which nodes fit", survey_cold, survey, every)]


# --- one node, hard questions ---


def one_node(upstream: Upstream) -> list[Row]:
    plain = [fleets.gpu(0, i) for i in range(30)]
    cases: list[tuple[str, float, bool, list[ResourceSlice], ResourceClaim]] = [
        ("21 of 20 devices", 5, False, [node_slice(0, plain[:20])], claim("c", request("r", count=21))),
        (
            "10 requests on 9 identical devices",
            5,
            False,
            [node_slice(0, plain[:9])],
            claim("c", *[request(f"r{i}") for i in range(10)]),
        ),
        (
            "31 requests on 30 identical devices",
            5,
            False,
            [node_slice(0, plain)],
            claim("c", *[request(f"r{i}") for i in range(31)]),
        ),
        (
            "8 devices, 7 wanted, one valid set by counters",
            0.3,
            True,
            _counter_slices(),
            claim("c", request("r", count=7)),
        ),
        (
            "64 devices × 32 requests, list attributes",
            14,
            True,
            [node_slice(0, [_listed(i) for i in range(64)])],
            claim("c", *[request(f"r{i}") for i in range(32)], match=f"{DRIVER}/rings"),
        ),
    ]
    rows = []
    for name, reach, fits, slices, wanted in cases:
        allocator = Allocator(slices, CLASSES)
        place = node(0)
        cold = timed(lambda: allocator.allocate(place, [wanted]))  # noqa: B023 - called at once
        warm = best(lambda: allocator.allocate(place, [wanted]))  # noqa: B023 - called at once
        outcome = allocator.allocate(place, [wanted])
        assert isinstance(outcome, Allocated if fits else Unsatisfiable), f"{name}: {outcome}"
        theirs = None
        if "31 requests" not in name:
            theirs = upstream.measure(slices, [wanted], 1)
        other = theirs["allNs"] / 1e9 if theirs is not None and not theirs.get("timeout") else None
        note = "" if fits else "proven unsatisfiable"
        rows.append(Row(name, f"≤ {reach} ms", cold, warm, other, reached=warm <= reach / 1000, note=note))
    return rows


def _counter_slices() -> list[ResourceSlice]:
    """Eight devices of which seven fit into the counter, if the first is left out."""
    counters = CounterSet(name="card", counters={"slices": Counter(value=Quantity.of(7))})
    devices = []
    for index in range(8):
        use = DeviceCounterConsumption(
            counter_set="card", counters={"slices": Counter(value=Quantity.of(2 if index == 0 else 1))}
        )
        base = fleets.gpu(0, index)
        devices.append(
            Device(
                name=base.name, attributes=base.attributes, capacity=base.capacity, consumes_counters=(use,)
            )
        )
    return [node_slice(0, devices, of=2), node_slice(0, [], suffix="-counters", of=2, counters=[counters])]


def _listed(index: int) -> Device:
    base = fleets.gpu(0, index)
    rings = DeviceAttribute(string_values=tuple(f"ring-{(index + step) % 8}" for step in range(5)))
    return Device(name=base.name, attributes={**base.attributes, "rings": rings}, capacity=base.capacity)


# --- filling a fleet ---


def fill(nodes: int) -> tuple[float, Fleet]:
    """Claims per second of filling all devices one by one."""
    fleet = fleets.gpu_fleet(nodes)
    fleets.occupy(fleet, 3)
    free = sum(len(fleet.site(place).devices) for place in fleet.places.values()) - len(
        fleets.held_ids(fleet)
    )
    wanted = [claim(f"c{n}", request("gpu")) for n in range(free)]
    gc.collect()
    gc.freeze()
    start = time.perf_counter()
    for each in wanted:
        found = fleet.find([each])
        assert isinstance(found, Allocated)
        fleet.commit([each], found)
    spent = time.perf_counter() - start
    gc.unfreeze()
    fleet.validate()
    assert not fleet.overdrawn()
    assert not isinstance(fleet.find([claim("one-too-many", request("gpu"))]), Allocated)
    return free / spent, fleet


def filling(quick: bool) -> list[Row]:
    small, _ = fill(5_000)
    rows = [
        Row(
            "fill 5,000 nodes × 8, one by one",
            "≥ 10,000 claims/s",
            warm=small,
            unit="claims/s",
            reached=small >= 10_000,
        )
    ]
    if not quick:
        large, _ = fill(50_000)
        ratio = small / large
        rows.append(
            Row(
                "fill 50,000 nodes × 8 (400,000 devices)",
                "cost per claim ≤ 2 × that at 5,000",
                warm=large,
                unit="claims/s",
                reached=ratio <= 2,
                note=f"{ratio:.2f} × the cost",
            )
        )
    return rows


def mixed() -> list[Row]:
    fleet = fleets.mixed_fleet(2_000)
    shapes = [
        (request("gpu"),),
        (request("part", class_name="mig", selector=f'device.attributes["{DRIVER}"].profile == "2g"'),),
        (request("net", class_name="nic", capacity={"bandwidth": "10G"}),),
        (request("gpu"), request("net", class_name="nic", capacity={"bandwidth": "5G"})),
    ]
    wanted = [claim(f"c{n}", *shapes[n % 4], match=PCI_ROOT if n % 4 == 3 else "") for n in range(12_000)]
    placed = 0
    gc.collect()
    start = time.perf_counter()
    for each in wanted:
        found = fleet.find([each])
        if isinstance(found, Allocated):
            fleet.commit([each], found)
            placed += 1
    rate = len(wanted) / (time.perf_counter() - start)
    fleet.validate()
    assert not fleet.overdrawn()
    note = f"{placed} of {len(wanted)} placed"
    return [
        Row(
            "mixed fleet: 20 node shapes, partitions, shares",
            "≥ 3,000 claims/s",
            warm=rate,
            unit="claims/s",
            reached=rate >= 3_000,
            note=note,
        )
    ]


# --- memory and expressions ---


def memory() -> list[Row]:
    """Measured in a process of its own, interpreter and all."""
    script = "from benchmarks.allocator import resident; print(resident())"
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True
    )
    used = float(done.stdout)
    return [
        Row(
            "memory, 40,000 devices of 6 attributes indexed",
            "≤ 250 MB",
            warm=used,
            unit="MB",
            reached=used <= 250,
        )
    ]


def resident() -> float:
    """MB in use after indexing and one question."""
    fleet = fleets.gpu_fleet(5_000)
    fleet.survey([claim("one", request("gpu"))])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def expressions() -> list[Row]:
    from allotment.cel.device import compile_selector

    device = fleets.gpu(0, 0)
    selector = compile_selector(
        f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "A100" && '
        f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
    )
    assert selector.matches(DRIVER, device.attributes, device.capacity, False)

    def thousand() -> None:
        for _ in range(1000):
            selector.matches(DRIVER, device.attributes, device.capacity, False)

    spent = best(thousand) / 1000 * 1e6
    return [Row("CEL reference expression, metered", "≤ 4 µs", warm=spent, unit="µs", reached=spent <= 4)]


# --- the table ---


def shown(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "ms":
        return f"{value * 1000:,.3f} ms"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:,.2f} {unit}"


def table(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    drawn = Table(title="Allocator benchmarks", title_justify="left")
    for column in ("scenario", "reach", "cold", "warm", "upstream", "", "note"):
        drawn.add_column(column, justify="right" if column in ("cold", "warm", "upstream") else "left")
    for row in rows:
        mark = {True: "ok", False: "MISSED", None: ""}[row.reached]
        drawn.add_row(
            row.scenario,
            row.reach,
            shown(row.cold, row.unit),
            shown(row.warm, row.unit),
            shown(row.upstream, row.unit),
            mark,
            row.note,
        )
    Console(width=None if sys.stdout.isatty() else 170).print(drawn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--quick", action="store_true", help="leave out the fleet of 50,000 nodes")
    options = parser.parse_args()
    upstream = Upstream()
    rows: list[Row] = []
    parts: list[tuple[str, Callable[[], list[Row]]]] = [
        ("expressions", expressions),
        ("hard questions on one node", lambda: one_node(upstream)),
        ("one claim on many nodes", lambda: many_nodes(upstream)),
        ("memory", memory),
        ("mixed fleet", mixed),
        ("filling fleets", lambda: filling(options.quick)),
    ]
    for name, part in parts:
        print(f"measuring: {name} ...", file=sys.stderr)
        rows += part()
    upstream.close()
    table(rows)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(
            json.dumps({"cores": os.cpu_count(), "rows": [asdict(row) for row in rows]}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
