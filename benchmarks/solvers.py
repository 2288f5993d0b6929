"""Our solver beside HiGHS (scipy) on the same covering problems: ``.venv/bin/python benchmarks/solvers.py``.

Three solvers buy machines for random pods: ours; ours with HiGHS in place of the simplex method; and column generation that leaves
the linear program, the patterns and the choice of whole machines all to HiGHS. Processor time, one run of each problem. scipy is not a dependency: without
it only the first one runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from allotment.autoscaler.solver import relaxation
from allotment.autoscaler.solver.covering import cover
from allotment.autoscaler.solver.covering_problem import CoveringProblem, Dimension, Offer

SCIPY = find_spec("scipy") is not None
optimize: Any = import_module("scipy.optimize") if SCIPY else None
sparse: Any = import_module("scipy.sparse") if SCIPY else None

SIZES = ((20, 500), (20, 5_000), (50, 1_000), (100, 1_000))
"""Shapes and pods."""
TYPES, OFFERINGS = 144, 8
ROUNDS = 200
CLOSE = 1e-4
FINISH_SECONDS = 10.0


@dataclass(frozen=True)
class Answer:
    """A plan's price and what was proved of it."""

    price: float
    bound: float
    seconds: float


def problem(seed: int, shapes: int, pods: int) -> CoveringProblem:
    """Machines with CPUs, memory, sometimes GPUs, at prices about in proportion; pods of shapes that mix these."""
    random = Random(seed)
    needs = [_shape(random) for _ in range(shapes)]
    cuts = sorted(random.sample(range(1, pods), shapes - 1))
    demand = tuple(b - a for a, b in zip([0, *cuts], [*cuts, pods], strict=True))
    offers = []
    for number in range(TYPES):
        cpus, ratio, dear = (
            random.choice((2, 4, 8, 16, 32, 64, 96)),
            random.choice((2, 4, 8)),
            number % 3 == 0,
        )
        gpus = max(1, cpus // 12) if dear else 0
        sizes = (cpus * 1000 - 200, cpus * ratio * 1024 - 700, gpus, 110)
        rooms = tuple(
            Dimension(size, tuple(each[place] for each in needs)) for place, size in enumerate(sizes)
        )
        most = tuple(
            min(size // need for size, need in zip(sizes, each, strict=True) if need) for each in needs
        )
        price = (cpus * 0.03 + cpus * ratio * 0.004 + gpus * 1.5) * random.uniform(0.9, 1.2) * 1e6
        offers += [
            Offer(int(price * random.uniform(0.97, 1.03)), rooms, most, number) for _ in range(OFFERINGS)
        ]
    return CoveringProblem(demand, offers)


def _shape(random: Random) -> tuple[int, ...]:
    cpu = random.choice((250, 500, 1000, 1500, 2000, 3000, 4000, 6000))
    return cpu, cpu * random.choice((1, 2, 3, 4, 6, 8)), random.choice((0, 0, 0, 1, 1, 2, 4)), 1


class HighsProgram:
    """What ``LinearProgram`` does, by a fresh call of HiGHS each time: scipy has no warm start."""

    def __init__(self, wanted: Sequence[float], allowed: Sequence[float], penalty: float) -> None:
        self._sides = [*(-each for each in wanted), *allowed]
        self._covering = len(wanted)
        self._costs: list[float] = []
        self._entries: list[tuple[int, int, float]] = []
        for row in range(len(wanted)):
            self.add(penalty, ((row, 1.0),))
        self.first = len(self._costs)
        self.work = 0
        self.solve()

    def add(self, cost: float, entries: Sequence[tuple[int, float]]) -> int:
        number = len(self._costs)
        self._costs.append(cost)
        self._entries += [
            (row, number, -amount if row < self._covering else amount) for row, amount in entries
        ]
        return number

    def solve(self, pivots: int = 0) -> int:
        rows, columns, amounts = zip(*self._entries, strict=True)
        matrix = sparse.csc_array((amounts, (rows, columns)), shape=(len(self._sides), len(self._costs)))
        found = optimize.linprog(self._costs, A_ub=matrix, b_ub=self._sides, method="highs")
        self.value = float(found.fun)
        self._found = found.x
        marginals = found.ineqlin.marginals
        self.duals = [float(-each if row < self._covering else each) for row, each in enumerate(marginals)]
        return 0

    def amounts(self) -> dict[int, float]:
        return {number: float(x) for number, x in enumerate(self._found) if number >= self.first and x > 1e-9}


def ours(covering: CoveringProblem) -> tuple[float, float]:
    found = cover(covering)
    return found.price, found.bound


def ours_over_highs(covering: CoveringProblem) -> tuple[float, float]:
    with patch.object(relaxation, "LinearProgram", HighsProgram):
        return ours(covering)


def highs(covering: CoveringProblem) -> tuple[float, float]:
    """Column generation as a textbook has it, each part by HiGHS. Of offers with the same rooms the cheapest one counts."""
    kinds: dict[Any, Offer] = {}
    for offer in sorted(covering.offers, key=lambda each: each.price):
        kinds.setdefault(offer.kind, offer)
    dearest = max(offer.price for offer in kinds.values())
    program = HighsProgram(list(map(float, covering.demand)), (), 1000.0 * dearest)
    bound = 0.0
    for _ in range(ROUNDS):
        program.solve()
        worst, taken = 1.0, 0
        for offer in kinds.values():
            counts, worth = _pattern(offer, program.duals, covering.demand)
            worst = max(worst, worth / offer.price)
            if worth > offer.price * (1 + CLOSE):
                program.add(float(offer.price), [(s, float(n)) for s, n in enumerate(counts) if n])
                taken += 1
        bound = max(bound, program.value / worst)
        if not taken:
            break
    return _whole(program, covering.demand), bound


def _pattern(offer: Offer, values: Sequence[float], demand: Sequence[int]) -> tuple[list[int], float]:
    """The pods that are worth most on one machine."""
    rooms = optimize.LinearConstraint(
        [room.needs for room in offer.rooms], ub=[room.size for room in offer.rooms]
    )
    caps = [min(most, wanted) for most, wanted in zip(offer.most, demand, strict=True)]
    found = optimize.milp(
        [-each for each in values],
        constraints=rooms,
        integrality=[1] * len(caps),
        bounds=optimize.Bounds(0, caps),
    )
    return [round(each) for each in found.x], float(-found.fun)


def _whole(program: HighsProgram, demand: Sequence[int]) -> float:
    """The cheapest whole machines of the patterns that there are, as far as ten seconds suffice."""
    rows, columns, amounts = zip(*program._entries, strict=True)
    matrix = sparse.csc_array((amounts, (rows, columns)), shape=(len(demand), len(program._costs)))
    found = optimize.milp(
        program._costs,
        constraints=optimize.LinearConstraint(matrix, ub=[-each for each in demand]),
        integrality=[1] * len(program._costs),
        options={"time_limit": FINISH_SECONDS, "mip_rel_gap": 0.005},
    )
    return float(found.fun)


def measured(solve: Callable[[CoveringProblem], tuple[float, float]], covering: CoveringProblem) -> Answer:
    begun = time.process_time()
    price, bound = solve(covering)
    return Answer(price, bound, time.process_time() - begun)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--problem", type=int, default=1, help="which random problem")
    options.add_argument("--size", nargs=2, type=int, action="append", metavar=("SHAPES", "PODS"))
    options.add_argument(
        "--ours", action="store_true", help="leave out the one that is HiGHS alone, which takes longest"
    )
    chosen = options.parse_args()
    solvers = {"ours": ours}
    if SCIPY:
        solvers |= {"ours, LP by HiGHS": ours_over_highs}
    if SCIPY and not chosen.ours:
        solvers |= {"HiGHS": highs}
    print(
        f"{'shapes':>6} {'pods':>6}  {'solver':18} {'processor':>10} {'price':>10} {'bound':>10} {'gap':>7}"
    )
    for shapes, pods in chosen.size or SIZES:
        for name, solve in solvers.items():
            found = measured(solve, problem(chosen.problem, shapes, pods))
            gap = found.price / found.bound - 1
            figures = f"{found.seconds:8.2f} s {found.price / 1e6:10.2f} {found.bound / 1e6:10.2f} {gap:7.2%}"
            print(f"{shapes:6} {pods:6}  {name:18} {figures}", flush=True)


if __name__ == "__main__":
    main()
