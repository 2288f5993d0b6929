"""Writes the demo's fleet, workloads and catalogue to an embedded server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from importlib.resources import files
from typing import TYPE_CHECKING

import yaml

from allotment.api.status import AlreadyExists
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.server import now
from allotment.client.client import Client, Collection
from allotment.client.discovery import discover
from allotment.client.form import Obj
from allotment.client.in_process import InProcessTransport

if TYPE_CHECKING:
    from allotment.apiserver.server import ApiServer


def administrator(server: ApiServer) -> Client:
    return Client(InProcessTransport(server.app, {"identity": ADMINISTRATOR}), manager="allot-demo")


def demo_catalogue() -> str:
    """The file with the machines that can be launched in the demo."""
    return str(files("allotment.daemons") / "demo_catalogue.yaml")


async def bring_fleet(server: ApiServer) -> None:
    """Applies the demo's nodes and devices, as any client would; existing ones are updated."""
    time = now()
    async for collection, obj in _packaged(server, "demo_fleet.yaml"):
        await collection.apply(obj, force=True)
        if "status" in obj:
            for condition in obj["status"].get("conditions") or ():
                condition.update(lastHeartbeatTime=time, lastTransitionTime=time)
            await collection.apply(obj, force=True, subresource="status")


async def bring_workloads(server: ApiServer, *, pause: float = 0.0) -> None:
    """Creates the demo's workloads, with a pause after each; existing ones stay as they are."""
    async for collection, obj in _packaged(server, "demo_workloads.yaml"):
        with suppress(AlreadyExists):
            await collection.create(obj)
        await asyncio.sleep(pause)


async def _packaged(server: ApiServer, file: str) -> AsyncIterator[tuple[Collection[Obj], Obj]]:
    client = administrator(server)
    served = await discover(client)
    text = (files("allotment.daemons") / file).read_text()
    for obj in yaml.load_all(text, Loader=yaml.CSafeLoader):
        found = served.of_kind(obj["apiVersion"], obj["kind"])
        yield client.plain(found.api_version, found.plural, namespaced=found.namespaced), obj
