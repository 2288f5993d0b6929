"""A refused action is tried once and not a thousand times."""

from __future__ import annotations

import asyncio

import pytest

from allotment.api.status import Forbidden, StatusError
from allotment.controllers.workloads.growing_batches import in_growing_batches

ENDING = {"causes": [{"reason": "NamespaceTerminating"}]}


def run(count: int, bad: dict[int, StatusError]) -> tuple[list[int], list[StatusError], Exception | None]:
    """The numbers that were acted on, the refusals that were reported, and what was raised."""
    done: list[int] = []
    refused: list[StatusError] = []

    async def act(number: int) -> None:
        done.append(number)
        if number in bad:
            raise bad[number]

    try:
        asyncio.run(in_growing_batches(count, act, refused.append))
    except StatusError as exc:
        return done, refused, exc
    return done, refused, None


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10])
def test_everything_is_done_once(count: int) -> None:
    assert run(count, {}) == (list(range(count)), [], None)


def test_after_a_failure_its_batch_is_the_last() -> None:
    """Batches of 1, 2 and 4; the fifth action is in the third."""
    error = Forbidden("quota")
    assert run(1000, {4: error}) == (list(range(7)), [error], error)


def test_all_failures_of_a_batch_are_reported_and_the_first_is_raised() -> None:
    first, second = Forbidden("quota"), Forbidden("rights")
    assert run(1000, {1: first, 2: second}) == ([0, 1, 2], [first, second], first)


def test_a_namespace_that_is_being_deleted_is_no_failure() -> None:
    error = Forbidden("ends", details=ENDING)
    assert run(1000, {0: error}) == ([0], [], None)
