"""The embedded server as its components see it: each is a user of its own, with that user's rights, without certificate or token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import yaml

from allotment.api.status import AlreadyExists
from allotment.apiserver.auth.identity import ADMINISTRATOR, Identity
from allotment.apiserver.server import now
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.cli.answer import explained
from allotment.cli.components import CONTROLLERS, SCHEDULER, Components, Wanted
from allotment.cli.plan_process import plan_through
from allotment.client.client import Client, Collection
from allotment.client.discovery import discover
from allotment.client.form import Obj
from allotment.client.in_process import InProcessTransport
from allotment.client.transport import Transport
from allotment.dashboard.dashboard import Dashboard

if TYPE_CHECKING:
    from allotment.apiserver.server import ApiServer


log = logging.getLogger(__name__)


def transports_into(server: ApiServer) -> dict[str, Transport]:
    """Into the server, by the user that calls."""
    return {
        user: InProcessTransport(server.app, {"identity": Identity(user, ("system:authenticated",))})
        for user in (SCHEDULER, CONTROLLERS)
    }


@asynccontextmanager
async def dashboard_of(server: ApiServer, catalogue: Catalogue) -> AsyncIterator[None]:
    """The pages at ``/ui``, while the block runs. If they fail, that is logged and takes nothing else with it."""

    def transport_of(identity: Identity) -> Transport:
        return InProcessTransport(server.app, {"identity": identity})

    def client_of(identity: Identity) -> Client:
        return Client(transport_of(identity), manager="allotment-dashboard")

    async def plan(identity: Identity) -> dict[str, Any]:
        return await plan_through(transport_of(identity), catalogue)

    dashboard = Dashboard(client_of, server.authorization, explained, plan, catalogue)
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


def components_of(server: ApiServer, wanted: Wanted) -> Components:
    """The components, for this process, not running yet. Their numbers are among the server's."""
    return Components.of_users(wanted, transports_into(server), server.metrics.registry)


def administrator(server: ApiServer) -> Client:
    return Client(InProcessTransport(server.app, {"identity": ADMINISTRATOR}), manager="allot-demo")


def demo_catalogue() -> str:
    """The file with the machines that can be had in the demo."""
    return str(files("allotment.cli") / "demo_catalogue.yaml")


async def bring_fleet(server: ApiServer) -> None:
    """The demo's nodes and devices, as any client would apply them: what is there already becomes as it should be."""
    time = now()
    async for collection, obj in _packaged(server, "demo_fleet.yaml"):
        await collection.apply(obj, force=True)
        if "status" in obj:
            for condition in obj["status"].get("conditions") or ():
                condition.update(lastHeartbeatTime=time, lastTransitionTime=time)
            await collection.apply(obj, force=True, subresource="status")


async def bring_workloads(server: ApiServer, *, pause: float = 0.0) -> None:
    """The demo's workloads, with a pause after each; those that are there already stay as they are."""
    async for collection, obj in _packaged(server, "demo_workloads.yaml"):
        with suppress(AlreadyExists):
            await collection.create(obj)
        await asyncio.sleep(pause)


async def _packaged(server: ApiServer, file: str) -> AsyncIterator[tuple[Collection[Obj], Obj]]:
    client = administrator(server)
    served = await discover(client)
    text = (files("allotment.cli") / file).read_text()
    for obj in yaml.load_all(text, Loader=yaml.CSafeLoader):
        found = served.of_kind(obj["apiVersion"], obj["kind"])
        yield client.plain(found.api_version, found.plural, namespaced=found.namespaced), obj
