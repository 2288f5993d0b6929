"""The embedded server as its components see it: each component is a user with its own rights, and needs no certificate or
token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from allotment.apiserver.auth import users
from allotment.apiserver.auth.identity import Identity
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.client.client import Client
from allotment.client.in_process import InProcessTransport
from allotment.client.transport import Transport
from allotment.daemons.components import Components, WantedComponents
from allotment.daemons.plan_process import plan_through
from allotment.dashboard.dashboard import Dashboard

if TYPE_CHECKING:
    from allotment.apiserver.server import ApiServer


log = logging.getLogger(__name__)


def transports_into(server: ApiServer) -> dict[str, Transport]:
    """The transports into the server, by the user that calls."""
    return {
        user: InProcessTransport(server.app, {"identity": Identity(user, ("system:authenticated",))})
        for user in (users.SCHEDULER, users.CONTROLLERS)
    }


@asynccontextmanager
async def dashboard_of(server: ApiServer, catalogue: Catalogue) -> AsyncIterator[None]:
    """Serves the pages at ``/ui`` while the block runs. If they fail, the failure is logged and nothing else stops."""

    def transport_of(identity: Identity) -> Transport:
        return InProcessTransport(server.app, {"identity": identity})

    def client_of(identity: Identity) -> Client:
        return Client(transport_of(identity), manager="allotment-dashboard")

    async def plan(identity: Identity) -> dict[str, Any]:
        return await plan_through(transport_of(identity), catalogue)

    dashboard = Dashboard(client_of, server.authorization, plan, catalogue)
    task = asyncio.create_task(dashboard.run())
    task.add_done_callback(_log_failure)
    server.app.pages = dashboard
    try:
        yield
    finally:
        server.app.pages = None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (failure := task.exception()) is not None:
        log.error("the dashboard failed", exc_info=failure)


def components_of(server: ApiServer, wanted: WantedComponents) -> Components:
    """The components of this process, not running yet. Their metrics are among the server's."""
    return Components.of_users(wanted, transports_into(server), server.metrics.registry)
