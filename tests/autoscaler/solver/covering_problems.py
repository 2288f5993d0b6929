"""Small yards to try plans on, and the dumbest solver there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product

from hypothesis import strategies as st

from allotment.autoscaler.solver.covering_problem import (
    CoveringProblem,
    Dimension,
    Offer,
    Pattern,
    pattern_of,
)


def an_offer(
    price: int,
    sizes: Sequence[int],
    needs: Sequence[Sequence[int]],
    *,
    never: Sequence[int] = (),
    kind: str | None = None,
    draws: tuple[int, ...] = (),
) -> Offer:
    """``needs`` by shape, then room."""
    rooms = tuple(Dimension(size, tuple(each[place] for each in needs)) for place, size in enumerate(sizes))
    most = tuple(
        0 if shape in never else min([size // need for size, need in zip(sizes, each, strict=True) if need])
        for shape, each in enumerate(needs)
    )
    return Offer(price, rooms, most, kind, draws)


def brute_force(problem: CoveringProblem) -> tuple[int, int]:
    """(pods left out, price) of the best plan: most pods first, then the price."""

    @cache
    def best(wanted: tuple[int, ...], left: tuple[int, ...]) -> tuple[int, int]:
        shape = next((each for each, count in enumerate(wanted) if count), None)
        if shape is None:
            return 0, 0
        missing, price = best(_less(wanted, ((shape, 1),)), left)
        answer = (missing + 1, price)
        for number, offer in enumerate(problem.offers):
            rest = tuple(a - b for a, b in zip(left, offer.draws, strict=True))
            if min(rest, default=0) < 0:
                continue
            for pattern in _patterns(wanted, shape):
                if offer.admits(pattern) and problem.holds(number, pattern):
                    missing, price = best(_less(wanted, pattern), rest)
                    answer = min(answer, (missing, price + offer.price))
        return answer

    return best(problem.demand, problem.limits)


def _patterns(wanted: tuple[int, ...], first: int) -> Iterator[Pattern]:
    for counts in product(*[range(int(shape == first), count + 1) for shape, count in enumerate(wanted)]):
        yield pattern_of(enumerate(counts))


def _less(wanted: tuple[int, ...], pattern: Pattern) -> tuple[int, ...]:
    rest = list(wanted)
    for shape, count in pattern:
        rest[shape] -= count
    return tuple(rest)


@st.composite
def small_yards(draw: st.DrawFn) -> CoveringProblem:
    """A few shapes and offers; some offers keep a shape off, some patterns are refused, sometimes there is a limit."""
    shapes = draw(st.integers(1, 3))
    few = st.integers(0, 3)
    demand = tuple(draw(st.lists(few, min_size=shapes, max_size=shapes)))
    needs = [(draw(st.integers(1, 5)), draw(few)) for _ in range(shapes)]
    limited = draw(st.booleans())
    offers = [
        an_offer(
            draw(st.integers(0, 30)),
            (draw(st.integers(1, 12)), draw(st.integers(0, 6))),
            needs,
            never=sorted(draw(st.sets(st.integers(0, shapes - 1), max_size=1))),
            draws=(draw(st.integers(0, 3)),) if limited else (),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]
    limits = (draw(st.integers(0, 8)),) if limited else ()
    refused = draw(
        st.lists(st.tuples(st.integers(0, 3), st.lists(few, min_size=shapes, max_size=shapes)), max_size=3)
    )

    def holds(number: int, pattern: Pattern) -> bool:
        counts = dict(pattern)
        return not any(
            number == each and any(least) and all(counts.get(s, 0) >= n for s, n in enumerate(least))
            for each, least in refused
        )

    return CoveringProblem(demand, offers, limits, holds)
