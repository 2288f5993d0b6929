"""One stream of changes to one reader: everything first, then line by line what is different.

What changed since the last line is a set, so a reader who is slow costs no more than a view has parts, and misses states in
between but never the last. Every few seconds the reader is asked again who they are: a token that has ended ends the stream. When their rights
become others their view is over, and the stream begins anew with all that they may see now.
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
"""How often the reader is asked again who they are, and what goes by the clock goes on."""

V = TypeVar("V", bound=PersonView)
Told = TypeVar("Told", bound=PersonView, contravariant=True)


class Teller(Protocol[Told]):
    """Puts a view into the form that a page reads. One is made for each stream, as it may know what it has told. ``pause`` is the
    least time from one line to the next, in seconds: changes that come in between are told together."""

    pause: float

    async def whole(self, view: Told) -> dict[str, Any]:
        """Everything."""
        ...

    def changes(self, view: Told, parts: Set[Hashable], *, checking: bool) -> dict[str, Any]:
        """What is different now in these parts; nothing, if empty. ``checking`` is true every few seconds."""
        ...


class Viewing(Generic[V]):
    """Made for one request. ``who`` asks anew who the reader is, and raises StatusError if that is nobody."""

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
        """Until the view is over, or nobody reads any more."""
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
        """Whenever something has happened, with a pause between two turns; True when it is also time for a check."""
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
