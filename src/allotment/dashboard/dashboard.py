"""The paths below ``/ui``.

============================  ==========================================================================================
``/ui``                       the page of the fleet, for anybody
``/ui/machines``              the page of machines, for anybody
``/ui/api/fleet``             all devices that the caller may see, as one document
``/ui/api/changes``           the same as the first line of a stream, then a line for each change that the caller may see
``/ui/api/device``            a device (``driver``, ``pool``, ``device``), for users who may see slices
``/ui/api/pod``               why a pod (``namespace``, ``name``) has no node, from what the caller may see
``/ui/api/machines``          pools, machines, overlays and machine types that the caller may see
``/ui/api/machines/changes``  the same as a stream
``/ui/api/plan``              which machines to add for waiting pods, for users who may see everything that it depends on
============================  ==========================================================================================
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from allotment.allocator.pool import PoolID
from allotment.api.status import BadRequest, Forbidden, NotFound, TooManyRequests, Unauthorized
from allotment.apiserver.auth import users
from allotment.apiserver.auth.identity import ANONYMOUS, Authorizer, Identity
from allotment.apiserver.http.pages import Who
from allotment.apiserver.http.reply import Response, StreamResponse
from allotment.apiserver.http.request import Request
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.client.client import Client
from allotment.dashboard.census import Census
from allotment.dashboard.event_stream import Teller, V, Viewing
from allotment.dashboard.fleet_document import FleetTeller
from allotment.dashboard.fleet_view import FleetView, device_document
from allotment.dashboard.machine_document import MachineTeller
from allotment.dashboard.machine_view import MachineView
from allotment.dashboard.page import NOT_KEPT, page_files
from allotment.dashboard.person_view import Viewer
from allotment.dashboard.plans import Planner, Plans
from allotment.dashboard.rights import Rights, rights_of
from allotment.dashboard.shared_views import Views
from allotment.insight.explain.answer import explained

MOST_VIEWERS = 100
MOST_OPEN_QUESTIONS = 8
"""How many questions about pods may wait for answers at a time; they are answered one after the other."""
OWN = Identity(users.DASHBOARD, ("system:authenticated",))
"""The user who counts, and reads no claims."""


class Dashboard:
    """Answers requests while :meth:`run` runs."""

    root = "/ui"

    def __init__(
        self,
        client_of: Callable[[Identity], Client],
        authorizer: Authorizer,
        plan: Planner,
        catalogue: Catalogue,
    ) -> None:
        """``client_of`` returns clients that call the server as a given user; ``catalogue`` has the machines that can be
        launched."""
        self._client_of = client_of
        self._authorizer = authorizer
        self._census = Census(client_of(OWN))
        self.views = Views(client_of, self._rights, FleetView)
        self.machine_views = Views(client_of, self._rights, partial(MachineView, catalogue=catalogue))
        self._plans = Plans(plan)
        self._files = page_files()
        self._asked = 0
        self._answering = asyncio.Lock()

    async def run(self) -> None:
        """Runs until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._census.run())
                tasks.create_task(self.views.run())
                tasks.create_task(self.machine_views.run())
        finally:
            await self._plans.close()

    async def answer(self, request: Request, who: Who) -> Response | StreamResponse:
        path = request.path.removeprefix(self.root).strip("/")
        if path in self._files:
            return self._files[path]
        answers: dict[str, Callable[[Request, Who], Awaitable[Response | StreamResponse]]] = {
            "api/fleet": self._fleet,
            "api/changes": self._changes,
            "api/device": self._device,
            "api/pod": self._pod,
            "api/machines": self._machines,
            "api/machines/changes": self._machine_changes,
            "api/plan": self._plan,
        }
        if path not in answers:
            raise NotFound("the server could not find the requested resource")

        def person() -> Identity:
            identity = who()
            if identity.name == ANONYMOUS.name:
                raise Unauthorized("log in with a token or a client certificate")
            return identity

        person()  # nobody should wait for an answer that never comes
        await self._census.synced()
        return await answers[path](request, person)

    def _rights(self, identity: Identity) -> Rights:
        return rights_of(identity, self._authorizer, self._census.namespaces())

    async def _fleet(self, request: Request, who: Who) -> Response:
        async with self.views.of(who, _nobody()) as view:
            return _reply(await FleetTeller(self._census).whole(view))

    async def _changes(self, request: Request, who: Who) -> StreamResponse:
        return self._stream(self.views, FleetTeller(self._census), request, who)

    async def _machines(self, request: Request, who: Who) -> Response:
        async with self.machine_views.of(who, _nobody()) as view:
            return _reply(await MachineTeller().whole(view))

    async def _machine_changes(self, request: Request, who: Who) -> StreamResponse:
        return self._stream(self.machine_views, MachineTeller(), request, who)

    def _stream(self, views: Views[V], teller: Teller[V], request: Request, who: Who) -> StreamResponse:
        if self.views.viewers + self.machine_views.viewers >= MOST_VIEWERS:
            told = f"{MOST_VIEWERS} pages of the dashboard are open already; try again later"
            raise TooManyRequests(told, {"retryAfterSeconds": 10})
        return Viewing(views, teller, who, request.peer).stream()

    async def _plan(self, request: Request, who: Who) -> Response:
        """The plan with the version of its input, so that the page can tell when the input has changed."""
        async with self.machine_views.of(who, _nobody()) as view:
            version = view.version()
        return _reply({**await self._plans.of(who(), version), "version": version})

    async def _device(self, request: Request, who: Who) -> Response:
        driver, pool, name = _given(request, "driver", "pool", "device")
        async with self.views.of(who, _nobody()) as view:
            if not view.rights.slices:
                raise Forbidden("you may not list and watch resourceslices", {})
            device = view.device(PoolID(driver, pool), name)
        if device is None:
            raise NotFound("no slice publishes this device")
        return _reply(device_document(device))

    async def _pod(self, request: Request, who: Who) -> Response:
        namespace, name = _given(request, "namespace", "name")
        if self._asked >= MOST_OPEN_QUESTIONS:
            raise TooManyRequests(
                "too many questions about pods are already waiting; try again", {"retryAfterSeconds": 2}
            )
        self._asked += 1
        try:
            async with self._answering:
                return _reply(await explained(self._client_of(who()), namespace, name))
        finally:
            self._asked -= 1


def _nobody() -> Viewer:
    """A viewer for one request that needs no notices; each call returns a distinct one."""
    return lambda part: None


def _given(request: Request, *names: str) -> list[str]:
    values = [request.query.get(each, "") for each in names]
    if not all(values):
        raise BadRequest(f"{', '.join(names)}: all of these parameters are required")
    return values


def _reply(document: dict[str, Any]) -> Response:
    reply = Response.of(document)
    reply.headers += NOT_KEPT
    return reply
