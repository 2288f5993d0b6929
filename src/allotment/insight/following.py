"""What the caller sees of a cluster (``snapshot``), kept up to date by watches.

Every kind is listed once, as for a single look, and watched from then on. If the caller may list a kind but not watch it, it
is listed again from time to time. The server is also asked from time to time what the caller may do. If that has changed,
everything is read again, so that nothing remains that the caller may no longer see.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from allotment.allocator.pool import PoolID
from allotment.api import semantic
from allotment.api.core import Node
from allotment.api.pools import ResourcePool
from allotment.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.api.status import StatusError
from allotment.client.backoff import Backoff
from allotment.client.client import Client, Collection
from allotment.client.form import ResourcePath, Typed
from allotment.client.informer import Informer
from allotment.client.rights import Right, missing
from allotment.client.transport import Disconnected
from allotment.insight.errors import Failure
from allotment.insight.explain.trial_scheduler import KINDS
from allotment.insight.overview import Overview, overview_of
from allotment.insight.snapshot import judge_counter, look_at
from allotment.insight.waiting_pods import WaitingPods
from allotment.usage.published import published

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct

_COUNTED = (ResourceSlice, semantic.NodeResourceSlice, DeviceTaintRule, ResourceClaim, Node)
"""The kinds from which usage is computed."""
_CHECK_SECONDS = 30.0
_LIST_SECONDS = 5.0
_LONGEST_SECONDS = 2.0
"""Seconds between two attempts to reach a lost server; short, because a person is watching."""
_ASKING_SECONDS = 0.05
"""How long the scheduler may be asked about pods for one picture."""


@dataclass(frozen=True, slots=True)
class _FollowedPlace:
    kind: type[ApiStruct]
    place: ResourcePath
    namespace: str
    informer: Informer[Any]

    def rights(self) -> list[Right]:
        group = self.place.api_version.rpartition("/")[0]
        return [Right(verb, group, self.place.plural, self.namespace) for verb in ("list", "watch")]


class Following:
    """A snapshot of a cluster that watches keep up to date. Call ``begin``, then ``run``; call ``overview`` at any time after
    ``begin``. ``only`` names the namespaces whose pods matter; empty: all."""

    def __init__(
        self, client: Client, namespaces: Sequence[str], *, insist: bool, only: Sequence[str] = ()
    ) -> None:
        self._client, self._namespaces, self._insist, self._only = client, namespaces, insist, only
        self._followed: list[_FollowedPlace] = []
        self._lacking: frozenset[Right] = frozenset()
        self._asked: list[Right] = []
        self._listening = self._changed = False
        self._overview: Overview | None = None

    async def begin(self) -> None:
        """Reads everything. Raises Failure, and the client's errors."""
        followed: list[_FollowedPlace] = []

        async def read(kind: type[Any], where: ResourcePath, namespace: str) -> list[Any]:
            collection = Collection(self._client, where, Typed(kind))
            informer = Informer(collection, namespace, backoff=Backoff(longest=_LONGEST_SECONDS))
            await informer.begin()
            followed.append(_FollowedPlace(kind, where, namespace, informer))
            return informer.all()

        snapshot = await look_at(self._client, KINDS, self._namespaces, insist=self._insist, read=read)
        snapshot.usage  # noqa: B018  # counts now; from here on, changes keep the counts up to date
        asked = [right for each in followed for right in each.rights()]
        asked += [Right("list", "resource.k8s.io", "resourceclaims")]
        self._lacking = await self._lacks(asked)
        self._seen, self._followed, self._asked = snapshot, followed, asked
        self._waiting = WaitingPods(snapshot, self._only)
        self._overview, self._listening = None, False
        for each in followed:
            each.informer.on_change(partial(self._took, each.kind))  # gets everything that was read at once
        self._listening = True

    async def run(self) -> None:
        """Follows the cluster until cancelled."""
        while True:
            tasks = [asyncio.ensure_future(self._follow(each)) for each in self._followed]
            try:
                await self._until_rights_change()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            while not await self._began_anew():
                await asyncio.sleep(_LIST_SECONDS)

    async def _follow(self, each: _FollowedPlace) -> None:
        if not self._lacking.intersection(each.rights()):
            await each.informer.run()
        while True:
            await asyncio.sleep(_LIST_SECONDS)
            with suppress(StatusError, Disconnected):
                await each.informer.begin()

    async def _until_rights_change(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            with suppress(Disconnected):
                before = self._seen.standstill
                await judge_counter(self._client, self._seen)
                self._changed = self._changed or self._seen.standstill != before
                if await self._lacks(self._asked) != self._lacking:
                    return

    async def _began_anew(self) -> bool:
        try:
            await self.begin()
        except (Failure, StatusError, Disconnected):
            return False
        return True

    async def _lacks(self, rights: Sequence[Right]) -> frozenset[Right]:
        try:
            return frozenset(await missing(self._client, rights))
        except StatusError:
            return frozenset()  # the server does not answer such questions

    # --- what is shown ---

    def _took(self, kind: type[ApiStruct], old: Any, new: Any) -> None:
        if not self._listening:
            return
        self._changed = True
        if kind in _COUNTED:
            self._seen.usage.change(old, new)
        elif kind is ResourcePool:
            pool = new if new is not None else old
            counts = published(new) if new is not None else None
            self._seen.usage.set_counts(PoolID(pool.spec.driver, pool.spec.pool_name), counts)
        self._waiting.change(old, new)

    def overview(self, wanted: Sequence[str]) -> Overview:
        """The cluster as it is now. Before that, this finds out why the ``wanted`` pods wait."""
        if self._overview is None or self._changed or self._waiting.behind:
            self._changed = False
            self._renew()
            end = time.monotonic() + _ASKING_SECONDS
            pending = self._waiting.told(datetime.now(UTC), lambda: time.monotonic() < end, wanted)
            self._overview = overview_of(self._seen, pending)
        return self._overview

    def _renew(self) -> None:
        claims: list[Any] = []
        for each in self._followed:
            found = each.informer.all()
            if each.kind is ResourceClaim:
                claims += found
            elif each.namespace:
                self._seen.partly[each.kind][each.namespace] = found
            else:
                self._seen.objects[each.kind] = found
        if self._seen.sees(ResourceClaim):
            self._seen.objects[ResourceClaim] = claims
