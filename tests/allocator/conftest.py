"""Ledgers and fleets that are validated when the test is over, whatever it did with them."""

from collections.abc import Callable, Iterator

import pytest

from allotment.allocator.fleet import Fleet
from allotment.allocator.ledger import Ledger


@pytest.fixture
def make_ledger() -> Iterator[Callable[..., Ledger]]:
    made: list[Ledger] = []

    def make(*arguments: object) -> Ledger:
        made.append(Ledger(*arguments))  # type: ignore[arg-type]  # passed on as they are
        return made[-1]

    yield make
    for ledger in made:
        ledger.validate()


@pytest.fixture
def make_fleet() -> Iterator[Callable[..., Fleet]]:
    made: list[Fleet] = []

    def make(*arguments: object) -> Fleet:
        made.append(Fleet(*arguments))  # type: ignore[arg-type]  # passed on as they are
        return made[-1]

    yield make
    for fleet in made:
        fleet.validate()


@pytest.fixture
def ledger(make_ledger: Callable[..., Ledger]) -> Ledger:
    return make_ledger()
