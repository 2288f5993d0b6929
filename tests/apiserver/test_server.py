"""The server as a whole: what it says of itself when something below it is wrong."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from allotment.api.status import InternalError
from allotment.apiserver.auth.identity import ADMINISTRATOR
from allotment.apiserver.server import ApiServer, Options
from allotment.client.client import Client
from allotment.client.in_process import InProcessTransport
from allotment.client.transport import Call
from tests.apiserver.store.build import Disk

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}


def test_it_is_not_ready_but_alive_while_writes_do_not_reach_the_disk(tmp_path: Path) -> None:
    async def run() -> None:
        server = ApiServer(Options(tmp_path))
        await server.start()
        client = Client(InProcessTransport(server.app, {"identity": ADMINISTRATOR}))

        async def status(path: str) -> int:
            return (await client.transport.call(Call("GET", path, {}, {}))).status

        try:
            disk = Disk(server.store)
            disk.break_down()
            with pytest.raises(InternalError, match="could not be written"):
                await client.plain("v1", "configmaps").create(CONFIG_MAP)
            assert [await status(path) for path in ("/readyz", "/readyz/store", "/livez")] == [500, 500, 200]
            disk.repair()
            with suppress(
                InternalError
            ):  # the server's own writes may still be failing, and this one with them
                await client.plain("v1", "configmaps").create(CONFIG_MAP)
            await client.plain("v1", "configmaps").apply(CONFIG_MAP)
            assert await status("/readyz") == 200
        finally:
            await server.stop()

    asyncio.run(run())
