"""A server in a test's own event loop, called in process: small enough to read what a test asks for and gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from allotment.apiserver.auth.identity import ADMINISTRATOR, Identity
from allotment.apiserver.http.reply import Response as Answer
from allotment.apiserver.http.reply import StreamResponse
from allotment.apiserver.http.request import Peer, Request
from allotment.apiserver.server import ApiServer, Options
from tests.apiserver.beginning import begin

PATIENCE = 60.0


@dataclass
class Reply:
    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str:
        return next((value.decode() for key, value in self.headers if key.decode() == name), "")


class Serving:
    """Calls of one server, as one identity."""

    def __init__(self, server: ApiServer, identity: Identity | None = ADMINISTRATOR) -> None:
        self.server = server
        self._identity = identity

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        **query: str,
    ) -> Reply:
        """One request. A body that is no bytes goes as JSON."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        answer = await self.server.app.answer(self._request(method, path, headers, query, raw))
        assert isinstance(answer, Answer)
        return Reply(answer.status, [(b"content-type", answer.content_type), *answer.headers], answer.body)

    @asynccontextmanager
    async def watch(
        self, path: str, headers: dict[str, str] | None = None, **query: str
    ) -> AsyncIterator[Watch]:
        """The events of a watch, until the context is left."""
        watch = Watch()
        request = self._request("GET", path, headers, {"watch": "true", **query}, b"", watch)
        running = asyncio.ensure_future(self.server.app.answer(request, watch.send))
        running.add_done_callback(lambda _: watch.lines.put_nowait(b""))
        try:
            yield watch
        finally:
            watch.left.set()
            await asyncio.wait_for(running, PATIENCE)

    def _request(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None,
        query: dict[str, str],
        body: bytes,
        peer: Peer | None = None,
    ) -> Request:
        sent = {"content-type": "application/json", "user-agent": "test/1", **(headers or {})}
        return Request(
            method,
            path,
            urlencode(query).encode(),
            [(name.lower().encode(), value.encode()) for name, value in sent.items()],
            body,
            peer=peer,
            identity=self._identity,
        )


class Watch:
    """What a watch has sent and was not yet looked at."""

    def __init__(self) -> None:
        self.status = 0
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.left = asyncio.Event()

    async def piece(self) -> tuple[bytes, bool]:
        return b"", False

    async def gone(self) -> None:
        await self.left.wait()

    async def send(self, answer: Answer | StreamResponse) -> None:
        self.status = answer.status
        if isinstance(answer, Answer):
            self.lines.put_nowait(answer.body)
            return
        rest = b""
        async for piece in answer.lines:
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self.lines.put_nowait(line)

    async def event(self) -> Any:
        """The next event; None at the end."""
        line = await asyncio.wait_for(self.lines.get(), PATIENCE)
        return json.loads(line) if line else None

    async def events(self, count: int) -> list[Any]:
        return [await self.event() for _ in range(count)]


@asynccontextmanager
async def serving(folder: Path, **options: Any) -> AsyncIterator[Serving]:
    """A server over a folder, which has what a first start makes if it is not there; stopped at the end."""
    await begin(folder)
    server = ApiServer(Options(folder, **options))
    await server.start()
    try:
        yield Serving(server)
    finally:
        await server.stop()


CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def configmap(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def person(serving: Serving, name: str) -> str:
    """Lets this user do everything, without being an administrator."""
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
    }
    made = await serving.call("POST", f"/apis/{group}/v1/clusterrolebindings", binding)
    assert made.status == 201, made.body
    return name
