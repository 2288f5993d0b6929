"""Repeats an action in growing batches: a few at first, so that a refused action is tried once and not a thousand times."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from allotment.api.status import StatusError


async def in_growing_batches(
    count: int, act: Callable[[int], Awaitable[None]], refused: Callable[[StatusError], None]
) -> None:
    """Acts ``count`` times (numbered from 0), in batches of 1, 2, 4, … that run at once, until a batch has a failure.

    ``refused`` is called with each failure. Raises the first failure; none if the namespace is being deleted, where nothing
    can be created.
    """
    begun, size = 0, 1
    while begun < count:
        batch = range(begun, min(begun + size, count))
        results = await asyncio.gather(*(act(number) for number in batch), return_exceptions=True)
        failures = [each for each in results if isinstance(each, BaseException) and not _namespace_goes(each)]
        for failure in failures:
            if isinstance(failure, StatusError):
                refused(failure)
        if failures:
            raise failures[0]
        if any(isinstance(each, BaseException) for each in results):
            return
        begun, size = begun + len(batch), size * 2


def _namespace_goes(error: BaseException) -> bool:
    causes = error.details.get("causes") or () if isinstance(error, StatusError) else ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
