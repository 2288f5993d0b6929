"""A transport that answers from a script: for what a real server does only when it fails."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from allotment.client.transport import Call, Reply, Stream

Obj = dict[str, Any]


def config_map(name: str, version: int, uid: str = "", **data: str) -> Obj:
    meta = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def listing(version: int, *items: Obj, token: str = "") -> Reply:
    meta = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
    return reply(200, {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": meta, "items": list(items)})


def reply(code: int, body: Obj, **headers: str) -> Reply:
    return Reply(
        code, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(body).encode()
    )


def refusal(code: int, reason: str, message: str = "no", **headers: str) -> Reply:
    return reply(code, status(code, reason, message), **headers)


def status(code: int, reason: str, message: str = "no") -> Obj:
    return {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code}


def event(type_: str, obj: Obj) -> bytes:
    return json.dumps({"type": type_, "object": obj}).encode()


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"kind": "ConfigMap", "metadata": {"resourceVersion": str(version)}})


class Script:
    """Replies and streams in the order they will be asked for. After the last stream a watch waits for ever."""

    def __init__(self, *replies: Reply | Exception) -> None:
        self.replies = deque(replies)
        self.streams: deque[list[bytes | Exception]] = deque()
        self.calls: list[Call] = []
        self.idle = asyncio.Event()  # set when everything scripted has been used

    def then_watch(self, *lines: bytes | Exception) -> "Script":
        self.streams.append(list(lines))
        return self

    async def call(self, call: Call) -> Reply:
        self.calls.append(call)
        await asyncio.sleep(0)
        answer = self.replies.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        self.calls.append(call)
        lines = self.streams.popleft() if self.streams else None
        if lines and isinstance(lines[0], Exception) and len(lines) == 1:
            raise lines[0]
        yield Stream(200, {}, self._batches(lines))

    async def _batches(self, lines: list[bytes | Exception] | None) -> AsyncIterator[list[bytes]]:
        if lines is None:
            self.idle.set()
            await asyncio.Event().wait()
        for line in lines or ():
            if isinstance(line, Exception):
                raise line
            yield [line]

    async def close(self) -> None:
        """Nothing to close."""
