"""The views of all people who use one kind of page. Each person has one view, however many pages they have open.

A view begins with the first page, and ends some time after the last page is closed, or earlier if another person's view needs
the room. Rights are checked whenever a page is opened, and every few seconds for all open pages. If they have changed, the
view ends, its readers are notified, and a reader who returns gets a new view with the new rights.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from allotment.api.status import TooManyRequests, Unavailable
from allotment.apiserver.auth.identity import Identity
from allotment.client.client import Client
from allotment.dashboard.person_view import PersonView, Viewer
from allotment.dashboard.rights import Rights

log = logging.getLogger(__name__)

MOST_VIEWS = 16
"""The largest number of people at a time. Each costs a copy of what they see: 40 MB at 1,000 nodes with 8 devices and 4,000
claims."""
KEPT_SECONDS = 30.0
"""How long a view is kept without readers, so that a reloaded page finds it."""
CHECK_SECONDS = 2.0
"""Seconds between two checks of rights."""
FIRST_PICTURE_SECONDS = 30.0
"""How long a reader waits for the first picture before they get an error."""

V = TypeVar("V", bound=PersonView)
Person = tuple[str, tuple[str, ...]]
"""Name and groups: everything on which rights depend."""


def person_of(identity: Identity) -> Person:
    return identity.name, identity.groups


@dataclass(slots=True, eq=False)
class _OpenView(Generic[V]):
    identity: Identity
    view: V
    task: asyncio.Task[None]
    end: asyncio.TimerHandle | None = None  # while it has no readers


class Views(Generic[V]):
    """The open views, one per person. ``client_of`` reads as a given person, ``rights`` determines what they may read, and
    ``make`` makes a view of it."""

    def __init__(
        self,
        client_of: Callable[[Identity], Client],
        rights: Callable[[Identity], Rights],
        make: Callable[[Client, Rights], V],
    ) -> None:
        self._client_of = client_of
        self._rights = rights
        self._make = make
        self._open: dict[Person, _OpenView[V]] = {}

    @property
    def viewers(self) -> int:
        return sum(len(each.view.viewers) for each in self._open.values())

    async def run(self) -> None:
        """Checks rights again and again until cancelled; then everything ends."""
        try:
            while True:
                await asyncio.sleep(CHECK_SECONDS)
                for each in list(self._open.values()):
                    if self._rights(each.identity) != each.view.rights:
                        self._close(each)
        finally:
            tasks = [each.task for each in self._open.values()]
            for each in list(self._open.values()):
                self._close(each)
            await asyncio.gather(*tasks, return_exceptions=True)

    @asynccontextmanager
    async def of(self, who: Callable[[], Identity], viewer: Viewer) -> AsyncIterator[V]:
        """A person's view, ready, and kept up to date while the context lasts. ``who`` identifies the person as often as
        necessary, and raises StatusError as this does."""
        tries = max(1, round(FIRST_PICTURE_SECONDS / CHECK_SECONDS))
        for _ in range(tries):
            mine = self._view_of(who())
            view = mine.view
            view.viewers.add(viewer)
            try:
                if await view.ready(CHECK_SECONDS):
                    yield view
                    return
            finally:
                view.viewers.discard(viewer)
                if not view.viewers and not view.over:
                    mine.end = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._close, mine)
        raise Unavailable("the cluster could not be read in time; try again later")

    def _view_of(self, identity: Identity) -> _OpenView[V]:
        person, rights = person_of(identity), self._rights(identity)
        mine = self._open.get(person)
        if mine is not None and mine.view.rights != rights:
            self._close(mine)
            mine = None
        if mine is None:
            self._make_room()
            view = self._make(self._client_of(identity), rights)
            mine = self._open[person] = _OpenView(identity, view, asyncio.create_task(view.run()))
            mine.task.add_done_callback(partial(self._failed, mine))
        if mine.end is not None:
            mine.end.cancel()
            mine.end = None
        return mine

    def _make_room(self) -> None:
        if len(self._open) < MOST_VIEWS:
            return
        unused = next((each for each in self._open.values() if not each.view.viewers), None)
        if unused is None:
            told = f"{MOST_VIEWS} people already use the dashboard; try again later"
            raise TooManyRequests(told, {"retryAfterSeconds": 10})
        self._close(unused)

    def _close(self, mine: _OpenView[V]) -> None:
        """Ends a view, and notifies its readers."""
        if mine.end is not None:
            mine.end.cancel()
        mine.task.cancel()
        person = person_of(mine.identity)
        if self._open.get(person) is mine:
            del self._open[person]
        mine.view.over = True
        mine.view.tell(None)

    def _failed(self, mine: _OpenView[V], task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("following the cluster for the dashboard failed", exc_info=failure)
            self._close(mine)
