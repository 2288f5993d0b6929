"""The past in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.dashboard.timeline import Timeline
from allotment.usage.summary import Summary


def devices(allocated: int, available: int = 0, unavailable: int = 0) -> Summary:
    return Summary(allocated + available + unavailable, allocated, available, unavailable)


CASES = {
    "nothing noted": ([], []),
    "one sample": ([(0.0, 3)], [3]),
    "a bucket is the mean of its samples": ([(0.0, 2), (0.5, 4), (1.0, 8)], [3, 8]),
    "time without samples is a gap": ([(0.0, 1), (3.2, 5)], [1, None, None, 5]),
    "past the last bucket, neighbours are put together": (
        [(0.0, 2), (1.0, 4), (2.0, 6), (3.0, 8), (4.0, 10)],
        [3, 7, 10],
    ),
    "a neighbour that is a gap takes nothing from the mean": ([(0.0, 2), (2.0, 6), (4.0, 10)], [2, 6, 10]),
    "after a long sleep it halves until it fits": ([(0.0, 2), (1000.0, 4)], [2, None, None, 4]),
}


@pytest.mark.parametrize("case", CASES)
def test_points(case: str) -> None:
    samples, expected = CASES[case]
    line = Timeline(buckets=4, width=1.0)
    for time, allocated in samples:
        line.note(time, devices(allocated))
    assert [None if point is None else point[0] for point in line.points()] == expected


def test_a_point_tells_all_states() -> None:
    line = Timeline()
    line.note(0.0, Summary(10, 4, 5, 1, partially_allocated=2))
    assert line.points() == [(4, 5, 1, 2)]


def test_points_from_one_on_are_those_that_a_reader_does_not_know() -> None:
    line = Timeline(buckets=8)
    line.note(0.0, devices(1))
    known = line.newest
    line.note(0.5, devices(3))
    line.note(1.0, devices(7))
    assert line.points()[:known] + line.points(known) == line.points()
    assert [point and point[0] for point in line.points(known)] == [2, 7]


@given(
    st.lists(st.tuples(st.floats(0, 500), st.integers(0, 1000)), max_size=200),
    st.integers(1, 20).map(lambda half: 2 * half),
)
def test_memory_is_bounded_and_no_sample_is_lost(steps: list[tuple[float, int]], most: int) -> None:
    line = Timeline(buckets=most)
    time, buckets = 0.0, dict[float, list[int]]()
    for wait, allocated in steps:
        time += wait
        line.note(time, devices(allocated))
        buckets[time] = [*buckets.get(time, []), allocated]
        assert len(line.points()) <= most
    expected: dict[int, list[int]] = {}
    for at, samples in buckets.items():
        expected.setdefault(int(at / line.width), []).extend(samples)
    for number, point in enumerate(line.points()):
        mine = expected.get(number)
        assert (point is None) == (mine is None)
        if point is not None and mine is not None:
            assert point[0] == pytest.approx(sum(mine) / len(mine), abs=0.01)
