"""One stream of changes to one reader: everything first, then line by line what is different.

What changed since the last line is a set, so a reader who is slow costs no more than there are pools, and misses states in
between but never the last. Every few seconds the reader is asked again who they are: a token that has ended ends the stream. When their rights
become others their view is over, and the stream begins anew with all that they may see now.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from allotment.api.status import StatusError
from allotment.apiserver.http.reply import Stream, encode
from allotment.dashboard.census import Census
from allotment.dashboard.document import whole
from allotment.dashboard.page import NOT_KEPT
from allotment.dashboard.view import View
from allotment.dashboard.views import Views
from allotment.dashboard.waiting import waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allotment.allocator.pool import PoolID
    from allotment.apiserver.auth.identity import Identity
    from allotment.apiserver.http.request import Peer

PAUSE_SECONDS = 0.04
"""The least time from one line to the next: changes that come in between are told together."""
CHECK_SECONDS = 2.0
"""How often the reader is asked again who they are, and the timeline goes on."""


class Viewing:
    """Made for one request. ``who`` asks anew who the reader is, and raises StatusError if that is nobody."""

    def __init__(self, views: Views, census: Census, who: Callable[[], Identity], peer: Peer | None) -> None:
        self._views = views
        self._census = census
        self._who = who
        self._peer = peer
        self._touched: set[PoolID] = set()
        self._pods = self._ended = False
        self._wake = asyncio.Event()

    def stream(self) -> Stream:
        return Stream(self._lines(), self._end, list(NOT_KEPT), content_type=b"application/x-ndjson")

    def _end(self) -> None:
        self._ended = True
        self._wake.set()

    def _told(self, id: PoolID | None) -> None:
        if id is None:
            self._pods = True
        else:
            self._touched.add(id)
        self._wake.set()

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        with self._until_nobody_reads():
            while not self._ended:
                try:
                    async with self._views.of(self._who, self._told) as view:
                        self._touched.clear()
                        self._pods = False
                        line = self._census.timeline
                        known = line.width, line.newest
                        yield _line(await whole(view, self._census))
                        async with aclosing(self._changes(view, known)) as changes:
                            async for each in changes:
                                yield each
                except StatusError as exc:
                    yield _line({"error": exc.to_status()})
                    return

    @contextmanager
    def _until_nobody_reads(self) -> Iterator[None]:
        if self._peer is None:
            yield
            return
        gone = asyncio.ensure_future(self._peer.gone())
        gone.add_done_callback(lambda _: self._end())
        try:
            yield
        finally:
            gone.cancel()

    async def _changes(self, view: View, known: tuple[float, int]) -> AsyncGenerator[bytes, None]:
        """Until the view is over, or nobody reads any more. ``known`` is how far the timeline has been told."""
        line = self._census.timeline
        width, newest = known
        async for checking in self._turns():
            if checking:
                self._who()
            if self._ended or view.over:
                return
            told = self._what_changed(view)
            if checking and view.rights.pools:
                if line.width != width:
                    told["timeline"] = self._census.past()
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

    def _what_changed(self, view: View) -> dict[str, Any]:
        touched, self._touched = self._touched, set()
        pods, self._pods = self._pods, False
        told: dict[str, Any] = {}
        if touched:
            states = {id: view.fleet.told(id) for id in touched}
            told["pools"] = [each for each in states.values() if each is not None]
            told["gone"] = [id for id, each in states.items() if each is None]
        if pods:
            told["waiting"] = waiting(view.pods())
        return told


def _line(document: dict[str, Any]) -> bytes:
    return encode(document) + b"\n"
