"""The paths below ``/ui``.

=====================  ==========================================================================================
``/ui``                the page, for anybody
``/ui/api/fleet``      all that the caller may see, as one document
``/ui/api/changes``    the same as the first line of a stream, then a line for each change that the caller may see
``/ui/api/device``     what a device is (``driver``, ``pool``, ``device``), for whoever may see slices
=====================  ==========================================================================================
"""

from __future__ import annotations

from functools import partial
from typing import Any

from allotment.allocator.pool import PoolID
from allotment.api.status import BadRequest, Forbidden, NotFound, TooManyRequests, Unauthorized
from allotment.apiserver.auth.identity import ANONYMOUS, Authorizer
from allotment.apiserver.http.pages import Who
from allotment.apiserver.http.reply import Reply, Stream
from allotment.apiserver.http.request import Request
from allotment.client.client import Client
from allotment.dashboard.cluster import Cluster, device_document
from allotment.dashboard.document import whole
from allotment.dashboard.page import NOT_KEPT, page_files
from allotment.dashboard.rights import Rights, rights_of
from allotment.dashboard.viewing import Viewing

VIEWERS = 100


class Dashboard:
    """Answers while :meth:`run` runs; before it knows the cluster, its answers wait."""

    root = "/ui"

    def __init__(self, client: Client, authorizer: Authorizer) -> None:
        """``client`` may read all that anybody could be shown."""
        self._cluster = Cluster(client)
        self._authorizer = authorizer
        self._files = page_files()

    async def run(self) -> None:
        """Until cancelled."""
        await self._cluster.run()

    async def answer(self, request: Request, who: Who) -> Reply | Stream:
        path = request.path.removeprefix(self.root).strip("/")
        if path in self._files:
            return self._files[path]
        if path not in ("api/fleet", "api/changes", "api/device"):
            raise NotFound("the server could not find the requested resource")
        self._rights(who)  # nobody waits for an answer that they will not get
        await self._cluster.synced()
        rights = self._rights(who)
        if path == "api/device":
            return self._device(request, rights)
        if path == "api/changes":
            return self._changes(request, who)
        async with self._cluster.seen_by(rights.fleet, lambda _: None) as fleet:
            return _reply(await whole(self._cluster, rights, fleet))

    def _rights(self, who: Who) -> Rights:
        identity = who()
        if identity.name == ANONYMOUS.name:
            raise Unauthorized("log in with a token or a client certificate")
        return rights_of(identity, self._authorizer, self._cluster.namespaces())

    def _changes(self, request: Request, who: Who) -> Stream:
        if len(self._cluster.viewers) >= VIEWERS:
            told = f"{VIEWERS} people look at the dashboard already; try again later"
            raise TooManyRequests(told, {"retryAfterSeconds": 10})
        return Viewing(self._cluster, partial(self._rights, who), request.peer).stream()

    def _device(self, request: Request, rights: Rights) -> Reply:
        if not rights.fleet.slices:
            raise Forbidden("you may not list and watch resourceslices", {})
        driver, pool, name = (request.query.get(each, "") for each in ("driver", "pool", "device"))
        if not driver or not pool or not name:
            raise BadRequest("driver, pool and device say which device is meant; all three are needed")
        device = self._cluster.device(PoolID(driver, pool), name)
        if device is None:
            raise NotFound("no slice publishes this device")
        return _reply(device_document(device))


def _reply(document: dict[str, Any]) -> Reply:
    reply = Reply.of(document)
    reply.headers += NOT_KEPT
    return reply
