"""A small linear program that grows columns: cover every row at least, or stay within it, at the lowest cost.

    minimise  Σ cost·x   with  Σ column·x ≥ wanted  on covering rows,  ≤ allowed  on limiting rows,  x ≥ 0

This is the revised simplex method. The inverse of the basis is stored as dense rows, of which only the nonzero parts are
touched. It starts from columns that *go without* (one per covering row, at a penalty), so there is always a solution, and
adding a column never invalidates it. The column with the most negative reduced cost enters; the search covers only the few
columns that were best when all were last examined. Among equal ratios, the oldest column leaves. If the value does not change
for long, the first negative column enters (Bland), which cannot cycle. The inverse is recomputed from time to time, so that
rounding errors do not grow.
"""

from __future__ import annotations

from collections.abc import Sequence

Entries = tuple[tuple[int, float], ...]
"""(row, coefficient) of a column."""

TINY = 1e-9
ROUNDING = 1e-13  # smaller numbers in the inverse count as zero
PROMISING_COLUMNS = 40  # columns that are examined before all are
PIVOTS_UNTIL_FRESH = 64
PIVOTS_WITHOUT_GAIN = 50
LEAST_GAIN = -1e-7  # a reduced cost, relative to a column's cost, that is worth a pivot


class LinearProgram:
    """A linear program in solved form. Rows to cover come first, then rows to stay within.

    Invariant, re-derived by ``refresh``: ``_inverse`` is that of the columns in ``basis``, and ``_values`` the amounts of these
    that meet every row exactly.
    """

    def __init__(self, wanted: Sequence[float], allowed: Sequence[float], penalty: float) -> None:
        covering, size = len(wanted), len(wanted) + len(allowed)
        self._sides = [*map(float, wanted), *map(float, allowed)]
        self._costs: list[float] = []
        self._columns: list[Entries] = []
        for row in range(size):  # leaving demand uncovered, or some of a limit unused
            self.add(penalty if row < covering else 0.0, ((row, 1.0),))
        for row in range(covering):  # having more than is wanted
            self.add(0.0, ((row, -1.0),))
        self.first = len(self._columns)  # the caller's columns begin here
        self.basis = list(range(size))
        self._inverse = [[float(i == j) for j in range(size)] for i in range(size)]
        self._values = list(self._sides)
        self.duals = [self._costs[row] for row in range(size)]
        self._promising: list[int] = []
        self._pivots = 0
        self.work = 0  # numbers touched so far, approximately

    def add(self, cost: float, entries: Entries) -> int:
        """Adds a column; returns its number."""
        self._costs.append(cost)
        self._columns.append(entries)
        return len(self._columns) - 1

    @property
    def value(self) -> float:
        return sum(self._costs[column] * x for column, x in zip(self.basis, self._values, strict=True))

    def amounts(self) -> dict[int, float]:
        """The amounts of the caller's columns."""
        return {
            column: x
            for column, x in sorted(zip(self.basis, self._values, strict=True))
            if column >= self.first and x > TINY
        }

    def solve(self, pivots: int = 100_000) -> int:
        """Solves the program over the present columns; returns the number of pivots. Stops after ``pivots`` with the solution
        reached by then."""
        done = still = 0
        while done < pivots:
            entering = self._entering(first=still > PIVOTS_WITHOUT_GAIN)
            if entering is None:
                break
            step = self._enter(entering)
            if step is None:  # rounding error: the column looked as if it brought unlimited gain
                self.refresh()
                break
            still = still + 1 if step <= TINY else 0
            done += 1
        return done

    def _entering(self, *, first: bool) -> int | None:
        if not first:
            best = min(map(self._reduced, self._promising), default=(0.0, -1))
            if best[0] < LEAST_GAIN:
                return best[1]
        found = [each for each in map(self._reduced, range(len(self._columns))) if each[0] < LEAST_GAIN]
        self.work += 4 * len(self._columns)
        if first:
            return found[0][1] if found else None
        best_ones = sorted(found)[:PROMISING_COLUMNS]
        self._promising = [number for _, number in best_ones]
        return self._promising[0] if best_ones else None

    def _reduced(self, number: int) -> tuple[float, int]:
        """What one more of a column would cost, relative to its own cost; negative if it is a gain."""
        duals = self.duals
        cost = reduced = self._costs[number]
        for row, coefficient in self._columns[number]:
            reduced -= duals[row] * coefficient
        return reduced / (1.0 + abs(cost)), number

    def _enter(self, entering: int) -> float | None:
        """One pivot; returns how far the column went in, None if nothing limits it."""
        entries, inverse, values = self._columns[entering], self._inverse, self._values
        direction = [0.0] * len(inverse)
        for row, c in entries:
            direction = [each + c * line[row] for each, line in zip(direction, inverse, strict=True)]
        leaving, least = self._leaving(direction)
        if leaving < 0:
            return None
        reduced = self._costs[entering] - sum([self.duals[row] * c for row, c in entries])
        pivot = direction[leaving]
        line = [each / pivot if abs(each) > ROUNDING else 0.0 for each in inverse[leaving]]
        inverse[leaving] = line
        filled = _filled(line)
        for row, slope in enumerate(direction):
            if row != leaving and slope:
                values[row] -= slope * least
                inverse[row] = _less(inverse[row], slope, line, filled)
                self.work += len(filled)
        values[leaving] = least
        self.basis[leaving] = entering
        for place, each in filled:
            self.duals[place] += reduced * each
        self._pivots += 1
        self.work += len(entries) * len(inverse)
        if self._pivots % max(PIVOTS_UNTIL_FRESH, len(self.basis)) == 0:
            self.refresh()
        return least

    def _leaving(self, direction: Sequence[float]) -> tuple[int, float]:
        """The row that becomes empty first when a column goes in, and how far it went by then; -1 if there is none."""
        leaving, least = -1, 0.0
        for row, slope in enumerate(direction):
            if slope <= TINY:
                continue
            ratio = max(0.0, self._values[row]) / slope
            if (
                leaving < 0
                or ratio < least - TINY
                or (ratio <= least and self.basis[row] < self.basis[leaving])
            ):
                leaving, least = row, ratio
        return leaving, least

    def refresh(self) -> None:
        """Recomputes the inverse, the values and the duals from the basis alone (Gauss-Jordan)."""
        size = len(self.basis)
        left = [[0.0] * size for _ in range(size)]
        for place, column in enumerate(self.basis):
            for row, coefficient in self._columns[column]:
                left[row][place] = coefficient
        inverse = _inverted(left)
        if inverse is None:
            return  # nearly singular: the updated inverse is the better one
        self._inverse = inverse
        self._values = [sum(map(float.__mul__, line, self._sides)) for line in inverse]
        costs = [self._costs[column] for column in self.basis]
        self.duals = [
            sum([cost * line[row] for cost, line in zip(costs, inverse, strict=True) if cost])
            for row in range(size)
        ]


def _inverted(left: list[list[float]]) -> list[list[float]] | None:
    size = len(left)
    right = [[float(i == j) for j in range(size)] for i in range(size)]
    for place in range(size):
        best = max(range(place, size), key=lambda row: abs(left[row][place]))
        if abs(left[best][place]) < 1e-12:
            return None
        left[place], left[best] = left[best], left[place]
        right[place], right[best] = right[best], right[place]
        pivot = left[place][place]
        if pivot != 1.0:
            left[place] = [each / pivot for each in left[place]]
            right[place] = [each / pivot for each in right[place]]
        line, other = left[place], right[place]
        of_line, of_other = _filled(line), _filled(other)
        for row in range(size):
            factor = left[row][place]
            if row != place and factor:
                left[row] = _less(left[row], factor, line, of_line)
                right[row] = _less(right[row], factor, other, of_other)
    return right


def _filled(line: Sequence[float]) -> list[tuple[int, float]]:
    return [(place, each) for place, each in enumerate(line) if each]


def _less(
    line: list[float], times: float, other: list[float], filled: list[tuple[int, float]]
) -> list[float]:
    """A row minus a multiple of another one, by the faster method; the given row is consumed."""
    if 3 * len(filled) > len(line):
        return [a - times * b for a, b in zip(line, other, strict=True)]
    for place, each in filled:
        line[place] -= times * each
    return line
