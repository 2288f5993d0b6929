"""One stream of changes to one reader: everything first, then line by line what is different.

What changed since the last line is a set, so a reader who is slow costs no more than there are pools, and misses states in
between but never the last. The reader's rights are looked at again every few seconds: with others it begins anew with all that
they may see now, and it ends, saying why, when there are none any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from allotment.api.status import StatusError
from allotment.apiserver.http.reply import Stream, encode
from allotment.dashboard.cluster import Cluster
from allotment.dashboard.document import past, whole
from allotment.dashboard.fleet import Fleet
from allotment.dashboard.page import NOT_KEPT
from allotment.dashboard.rights import Rights
from allotment.dashboard.waiting import waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allotment.allocator.pool import PoolID
    from allotment.apiserver.http.request import Peer

PAUSE_SECONDS = 0.04
"""The least time from one line to the next: changes that come in between are told together."""
CHECK_SECONDS = 2.0
"""How often the reader's rights are looked at again, and the timeline goes on."""


class Viewing:
    """Made for one request. ``rights`` asks anew what the reader may see, and raises StatusError if that is nothing."""

    def __init__(self, cluster: Cluster, rights: Callable[[], Rights], peer: Peer | None) -> None:
        self._cluster = cluster
        self._rights = rights
        self._peer = peer
        self._touched: set[PoolID] = set()
        self._pods = self._ended = False
        self._wake = asyncio.Event()

    def stream(self) -> Stream:
        return Stream(self._lines(), self._end, list(NOT_KEPT), content_type=b"application/x-ndjson")

    def _end(self) -> None:
        self._ended = True
        self._wake.set()

    def _pool_touched(self, id: PoolID) -> None:
        self._touched.add(id)
        self._wake.set()

    def _pods_touched(self) -> None:
        self._pods = True
        self._wake.set()

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        with self._told_of_what_happens():
            while not self._ended:
                try:
                    rights = self._rights()
                    async with self._cluster.seen_by(rights.fleet, self._pool_touched) as fleet:
                        self._touched.clear()
                        self._pods = False
                        known = self._cluster.timeline.width, self._cluster.timeline.newest
                        yield _line(await whole(self._cluster, rights, fleet))
                        async with aclosing(self._changes(rights, fleet, known)) as changes:
                            async for line in changes:
                                yield line
                except StatusError as exc:
                    yield _line({"error": exc.to_status()})
                    return

    @contextmanager
    def _told_of_what_happens(self) -> Iterator[None]:
        gone = asyncio.ensure_future(self._peer.gone()) if self._peer is not None else None
        if gone is not None:
            gone.add_done_callback(lambda _: self._end())
        self._cluster.viewers.add(self._pods_touched)
        try:
            yield
        finally:
            self._cluster.viewers.discard(self._pods_touched)
            if gone is not None:
                gone.cancel()

    async def _changes(
        self, rights: Rights, fleet: Fleet, known: tuple[float, int]
    ) -> AsyncGenerator[bytes, None]:
        """Until the rights are others, or nobody reads any more. ``known`` is how far the timeline has been told."""
        line = self._cluster.timeline
        width, newest = known
        async for checking in self._turns():
            if self._ended or (checking and self._rights_now() != rights):
                return
            told = self._what_changed(rights, fleet)
            if checking and rights.fleet.counts:
                if line.width != width:
                    told["timeline"] = past(self._cluster, rights)
                else:
                    told["points"] = {"from": newest, "points": line.points(newest)}
                width, newest = line.width, line.newest
            if told:
                yield _line(told)

    async def _turns(self) -> AsyncIterator[bool]:
        """Whenever something has happened, with a pause between two turns; True when it is also time for a check."""
        clock = asyncio.get_running_loop().time
        due = clock() + CHECK_SECONDS
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._wake.wait()
            self._wake.clear()
            checking = clock() >= due
            if checking:
                due = clock() + CHECK_SECONDS
            yield checking

    def _rights_now(self) -> Rights | None:
        try:
            return self._rights()
        except StatusError:
            return None  # told when the stream begins anew

    def _what_changed(self, rights: Rights, fleet: Fleet) -> dict[str, Any]:
        touched, self._touched = self._touched, set()
        pods, self._pods = self._pods, False
        told: dict[str, Any] = {}
        if touched:
            states = {id: fleet.told(id) for id in touched}
            told["pools"] = [each for each in states.values() if each is not None]
            told["gone"] = [id for id, each in states.items() if each is None]
        if pods:
            told["waiting"] = waiting(self._cluster.pods.all(), rights.pods)
        return told


def _line(document: dict[str, Any]) -> bytes:
    return encode(document) + b"\n"
