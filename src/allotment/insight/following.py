"""What the caller sees of a cluster (``seen``), followed by watch.

Every kind is listed once, as for a single look, and watched from there. Whoever may list a kind and not watch it has it
listed again now and then. Now and then the server is asked too what the caller may do: if that is not what it was,
everything is looked at anew, so that nothing stays that may no longer be seen.
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
"""What usage follows from."""
_CHECK_SECONDS = 30.0
_LIST_SECONDS = 5.0
_LONGEST_SECONDS = 2.0
"""Between two tries to reach a server that is away: somebody looks on."""
_ASKING_SECONDS = 0.05
"""How long pods may be asked about for one picture."""


@dataclass(frozen=True, slots=True)
class _Followed:
    kind: type[ApiStruct]
    place: ResourcePath
    namespace: str
    informer: Informer[Any]

    def rights(self) -> list[Right]:
        group = self.place.api_version.rpartition("/")[0]
        return [Right(verb, group, self.place.plural, self.namespace) for verb in ("list", "watch")]


class Following:
    """See the module. ``begin``, then ``run``; ``overview`` may be asked at any time between and after. ``only`` names the
    namespaces whose pods are of interest; none: all."""

    def __init__(
        self, client: Client, namespaces: Sequence[str], *, insist: bool, only: Sequence[str] = ()
    ) -> None:
        self._client, self._namespaces, self._insist, self._only = client, namespaces, insist, only
        self._followed: list[_Followed] = []
        self._lacking: frozenset[Right] = frozenset()
        self._asked: list[Right] = []
        self._listening = self._changed = False
        self._overview: Overview | None = None

    async def begin(self) -> None:
        """Looks at everything. Raises Failure, and what the client raises."""
        followed: list[_Followed] = []

        async def read(kind: type[Any], where: ResourcePath, namespace: str) -> list[Any]:
            collection = Collection(self._client, where, Typed(kind))
            informer = Informer(collection, namespace, backoff=Backoff(longest=_LONGEST_SECONDS))
            await informer.begin()
            followed.append(_Followed(kind, where, namespace, informer))
            return informer.all()

        seen = await look_at(self._client, KINDS, self._namespaces, insist=self._insist, read=read)
        seen.usage  # noqa: B018  # counted now, and kept up by changes from here on
        asked = [right for each in followed for right in each.rights()]
        asked += [Right("list", "resource.k8s.io", "resourceclaims")]
        self._lacking = await self._lacks(asked)
        self._seen, self._followed, self._asked = seen, followed, asked
        self._waiting = WaitingPods(seen, self._only)
        self._overview, self._listening = None, False
        for each in followed:
            each.informer.on_change(
                partial(self._took, each.kind)
            )  # is told at once of all that was looked at
        self._listening = True

    async def run(self) -> None:
        """Follows until cancelled."""
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

    async def _follow(self, each: _Followed) -> None:
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
            return frozenset()  # it does not answer such questions

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
        """The cluster as it is now; why the ``wanted`` pods wait is found out first."""
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
