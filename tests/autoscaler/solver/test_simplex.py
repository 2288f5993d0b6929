"""A small linear program that grows columns. What proves an optimum is its dual: it is checked, not another solver trusted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.autoscaler.solver.simplex import Entries, LinearProgram

PENALTY = 1e6


def check(
    program: LinearProgram, wanted: list[int], allowed: list[int], columns: list[tuple[int, Entries]]
) -> None:
    """The values meet every row, and the duals prove that nothing costs less."""
    amounts = program.amounts()
    rows = [0.0] * (len(wanted) + len(allowed))
    for number, amount in amounts.items():
        for row, coefficient in columns[number - program.first][1]:
            rows[row] += coefficient * amount
    for row, most in enumerate(allowed):
        assert rows[len(wanted) + row] <= most + 1e-6
    without = sum(max(0.0, want - got) for want, got in zip(wanted, rows, strict=False))
    price = sum(columns[number - program.first][0] * amount for number, amount in amounts.items())
    assert price + PENALTY * without == pytest.approx(program.value, rel=1e-6, abs=1e-4)
    duals = program.duals
    assert all(-1e-6 <= dual <= PENALTY + 1e-3 for dual in duals[: len(wanted)])
    assert all(dual <= 1e-6 for dual in duals[len(wanted) :])
    for cost, entries in columns:
        assert sum(duals[row] * coefficient for row, coefficient in entries) <= cost + 1e-3
    proven = sum(dual * side for dual, side in zip(duals, [*wanted, *allowed], strict=True))
    assert proven == pytest.approx(program.value, rel=1e-6, abs=1e-4)


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[int], list[int], list[tuple[int, Entries]]]:
    wanted = draw(st.lists(st.integers(0, 20), min_size=1, max_size=5))
    allowed = draw(st.lists(st.integers(0, 15), max_size=2))
    columns = []
    for _ in range(draw(st.integers(0, 12))):
        counts = [draw(st.integers(0, 4)) for _ in (*wanted, *allowed)]
        entries = tuple((row, float(count)) for row, count in enumerate(counts) if count)
        columns.append((draw(st.integers(1, 30)), entries))
    return wanted, allowed, columns


@settings(max_examples=100, deadline=None)
@given(programs())
def test_the_duals_prove_the_optimum(given: tuple[list[int], list[int], list[tuple[int, Entries]]]) -> None:
    wanted, allowed, columns = given
    program = LinearProgram(wanted, allowed, PENALTY)
    for cost, entries in columns:
        program.add(float(cost), entries)
        program.solve()  # a column at a time, as they are found
    check(program, wanted, allowed, columns)
    before = program.value
    program.refresh()
    assert program.value == pytest.approx(before, rel=1e-6, abs=1e-4)


def test_without_columns_everything_is_gone_without() -> None:
    program = LinearProgram([2, 3], [], 10.0)
    program.solve()
    assert program.value == 50.0
    assert program.amounts() == {}


def test_a_limit_has_a_price_when_it_binds() -> None:
    program = LinearProgram([6], [2], 100.0)
    small = program.add(1.0, ((0, 1.0), (1, 1.0)))
    large = program.add(50.0, ((0, 3.0), (1, 1.0)))
    program.solve()
    assert program.amounts() == pytest.approx({large: 2.0})
    assert program.duals[1] < 0
    assert small not in program.amounts()
