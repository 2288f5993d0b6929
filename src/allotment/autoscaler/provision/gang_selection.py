"""Which gangs to leave out of a plan when there is not room for all.

An attempt to plan for all pods may give some gangs fewer places than their minimum: they are *broken*, and their places are
wasted. Choices are compared by whole attempts, each without some of the gangs, because leaving one out makes room for others:

- with few gangs, every choice is tried, and the best attempt wins: the most pods of the highest priority, then of the next,
  and so on; then the lowest price;
- with many gangs, the less important half of the broken ones is left out until none is broken; then some of these are added
  again, the most important first, if that breaks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

EXHAUSTIVE_GANGS = 4
SECOND_CHANCES = 6

Draft = TypeVar("Draft")


@dataclass(frozen=True, slots=True)
class GangSelection(Generic[Draft]):
    """A plan without some gangs: which of the others are broken, with words; and its merit, of which more is better."""

    draft: Draft
    without: frozenset[str]
    broken: Mapping[str, str]
    merit: tuple[int, ...]


def best_attempt(
    gangs: Sequence[str], attempt: Callable[[frozenset[str]], GangSelection[Draft]], *, thorough: bool
) -> GangSelection[Draft]:
    """An attempt in which no gang is broken. ``gangs`` are all candidates, the most important first; ``thorough`` means that
    an attempt is cheap enough to be repeated many times."""
    first = attempt(frozenset())
    if not first.broken:
        return first
    if thorough and len(gangs) <= EXHAUSTIVE_GANGS:
        return _best_of_all(gangs, attempt)
    return _taken_back(gangs, attempt, _thinned(gangs, attempt, first))


def _best_of_all(
    gangs: Sequence[str], attempt: Callable[[frozenset[str]], GangSelection[Draft]]
) -> GangSelection[Draft]:
    """Among equals, the choice that leaves out the fewest gangs, and then the least important ones."""
    choices = [
        frozenset(each) for count in range(1, len(gangs) + 1) for each in combinations(reversed(gangs), count)
    ]
    whole = [found for each in choices if not (found := attempt(each)).broken]
    return max(whole, key=lambda each: each.merit)


def _thinned(
    gangs: Sequence[str],
    attempt: Callable[[frozenset[str]], GangSelection[Draft]],
    found: GangSelection[Draft],
) -> GangSelection[Draft]:
    while found.broken:
        broken = [gang for gang in gangs if gang in found.broken]
        found = attempt(found.without.union(broken[len(broken) // 2 :]))
    return found


def _taken_back(
    gangs: Sequence[str],
    attempt: Callable[[frozenset[str]], GangSelection[Draft]],
    found: GangSelection[Draft],
) -> GangSelection[Draft]:
    for gang in [each for each in gangs if each in found.without][:SECOND_CHANCES]:
        other = attempt(found.without - {gang})
        if not other.broken and other.merit > found.merit:
            found = other
    return found
