"""One stream of changes for one reader: the first line has everything, each later line has what changed.

The changes since the last line are a set. So a slow reader costs no more than the number of parts in a view, and may miss
intermediate states but never the last one. Every few seconds, the reader's identity is checked again, so that an expired
token ends the stream. If the reader's rights change, their view ends, and the stream begins again with everything that they
may see now.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Set
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from allotment.api.status import StatusError
from allotment.apiserver.http.reply import StreamResponse, encode
from allotment.dashboard.page import NOT_KEPT
from allotment.dashboard.person_view import PersonView
from allotment.dashboard.shared_views import Views

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allotment.apiserver.auth.identity import Identity
    from allotment.apiserver.http.request import Peer

CHECK_SECONDS = 2.0
"""Seconds between two checks of the reader's identity, and between two updates of the parts that depend on the time."""

V = TypeVar("V", bound=PersonView)
Told = TypeVar("Told", bound=PersonView, contravariant=True)


class Teller(Protocol[Told]):
    """Puts a view into the form that a page reads. Each stream has its own, because a teller may remember what it has sent.
    ``pause`` is the least time in seconds from one line to the next; changes in between go into one line."""

    pause: float

    async def whole(self, view: Told) -> dict[str, Any]:
        """Everything."""
        ...

    def changes(self, view: Told, parts: Set[Hashable], *, checking: bool) -> dict[str, Any]:
        """What changed in these parts; empty if nothing did. ``checking`` is true every few seconds."""
        ...


class Viewing(Generic[V]):
    """Serves one request. ``who`` identifies the reader again, and raises StatusError if it cannot."""

    def __init__(
        self, views: Views[V], teller: Teller[V], who: Callable[[], Identity], peer: Peer | None
    ) -> None:
        self._views = views
        self._teller = teller
        self._who = who
        self._peer = peer
        self._touched: set[Hashable] = set()
        self._ended = False
        self._wake = asyncio.Event()

    def stream(self) -> StreamResponse:
        return StreamResponse(self._lines(), self._end, list(NOT_KEPT), content_type=b"application/x-ndjson")

    def _end(self) -> None:
        self._ended = True
        self._wake.set()

    def _told(self, part: Hashable | None) -> None:
        if part is not None:
            self._touched.add(part)
        self._wake.set()

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        with self._until_nobody_reads():
            while not self._ended:
                try:
                    async with self._views.of(self._who, self._told) as view:
                        self._touched.clear()
                        yield _line(await self._teller.whole(view))
                        async with aclosing(self._changes(view)) as changes:
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

    async def _changes(self, view: V) -> AsyncGenerator[bytes, None]:
        """Yields changes until the view ends or the reader leaves."""
        async for checking in self._turns():
            if checking:
                self._who()
            if self._ended or view.over:
                return
            touched, self._touched = self._touched, set()
            told = self._teller.changes(view, touched, checking=checking)
            if told:
                yield _line(told)

    async def _turns(self) -> AsyncIterator[bool]:
        """Yields each time something has happened, with a pause between two turns; True when a check is due."""
        clock = asyncio.get_running_loop().time
        due = clock() + CHECK_SECONDS
        while True:
            await asyncio.sleep(self._teller.pause)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._wake.wait()
            self._wake.clear()
            checking = clock() >= due
            if checking:
                due = clock() + CHECK_SECONDS
            yield checking


def _line(document: dict[str, Any]) -> bytes:
    return encode(document) + b"\n"
