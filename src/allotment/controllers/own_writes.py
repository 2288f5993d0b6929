"""Waits for a controller's own writes: a controller that decides on a copy must not decide before the copy shows its last
write.

The version in a write's reply says how far the copy must have come. One number per key is enough, because a key is never
worked on twice at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from allotment.api.status import Expired
from allotment.client.informer import Informer

K = TypeVar("K", bound=Hashable)

LOST_WRITE_SECONDS = 300.0
"""Seconds, as for upstream's expectations: a write that is not visible by then was lost when a server was restored."""
_LEAST_ROOM = 1024


class OwnWrites(Generic[K]):
    """The last version written for each key, for objects of one kind.

    What the copy already shows is forgotten, so that deleted objects need no extra call: there are never more entries than
    ``_LEAST_ROOM``, or than writes in flight.
    """

    def __init__(self, informer: Informer[Any], *, longest_wait: float = LOST_WRITE_SECONDS) -> None:
        self._informer = informer
        self._longest_wait = longest_wait
        self._versions: dict[K, int] = {}
        self._room = _LEAST_ROOM

    def wrote(self, key: K, version: str | int) -> None:
        self._versions[key] = max(self._versions.get(key, 0), int(version or 0))
        if len(self._versions) > self._room:
            shown = self._informer.version
            self._versions = {each: wrote for each, wrote in self._versions.items() if wrote > shown}
            self._room = max(_LEAST_ROOM, 2 * len(self._versions))

    async def seen(self, key: K) -> None:
        """Returns when the copy shows everything that was written for the key."""
        version = self._versions.get(key)
        if version is None:
            return
        try:
            async with asyncio.timeout(self._longest_wait):
                await self._informer.reached(version)
        except (
            Expired,
            TimeoutError,
        ):  # the server was restored to an older state, so the copy shows the truth
            pass
        self._versions.pop(key, None)
