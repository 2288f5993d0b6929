"""Components in the process of the embedded server: no sockets between them, each with an identity and rights of its own."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import yaml

from allotment.apiserver.auth.identity import ADMINISTRATOR, Identity
from allotment.apiserver.server import now
from allotment.cli.components import CONTROLLERS, SCHEDULER, Components, Wanted
from allotment.client.client import Client
from allotment.client.discovery import discover
from allotment.client.in_process import InProcessTransport

if TYPE_CHECKING:
    from allotment.apiserver.server import ApiServer


def components_of(server: ApiServer, wanted: Wanted) -> Components:
    """The components, not running yet. Their numbers are among the server's. The controllers may read all that the
    scheduler reads, so they read for both."""
    controlling = _client(server, CONTROLLERS)
    return Components(
        wanted,
        reading=controlling,
        scheduling=_client(server, SCHEDULER),
        controlling=controlling,
        registry=server.metrics.registry,
    )


def _client(server: ApiServer, user: str) -> Client:
    identity = Identity(user, ("system:authenticated",))
    return Client(InProcessTransport(server.app, {"identity": identity}), manager=user.replace(":", "-"))


def administrator(server: ApiServer) -> Client:
    return Client(InProcessTransport(server.app, {"identity": ADMINISTRATOR}), manager="allot-demo")


async def apply_packaged(server: ApiServer, file: str) -> None:
    """Puts the objects of one of our manifests in, as any client would; what is there already stays as it should be."""
    client = administrator(server)
    served, time = await discover(client), now()
    text = (files("allotment.cli") / file).read_text()
    for obj in yaml.load_all(text, Loader=yaml.CSafeLoader):
        found = served.of_kind(obj["apiVersion"], obj["kind"])
        collection = client.plain(found.api_version, found.plural, namespaced=found.namespaced)
        await collection.apply(obj, force=True)
        if "status" in obj:
            for condition in obj["status"].get("conditions") or ():
                condition.update(lastHeartbeatTime=time, lastTransitionTime=time)
            await collection.apply(obj, force=True, subresource="status")
