"""The slowest request of each kind: every shape is tried as a create at a moderate size, the worst of them at full size with every verb,
and at the largest size that the loop works on itself.

The server runs in the process, without its network: what is measured is the longest step that its loop does, whether in the
request or afterwards (followers, watches, upkeep).
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allotment.apiserver.http.request import MAX_BODY, MAX_VALUES
from allotment.apiserver.http.resources import LARGE_BODY
from allotment.apiserver.registry.catalogue import ServedResource
from tests.apiserver.http.serving import Reply, Serving, serving
from tests.costs.definitions import large_definitions
from tests.costs.hostile import Shape, shapes
from tests.costs.kinds import WIDGETS, kinds, path_of, smallest
from tests.costs.steps import longest_step

Obj = dict[str, Any]

LARGEST = MAX_BODY - 16 * 1024
MODERATE = 64 * 1024
FINALISTS = 3
BAR = 0.1
"""Seconds of the processor that a request may hold the loop at a time, on a quiet machine."""


@dataclass(frozen=True)
class Attempt:
    """One request: how long it held the loop, and what it took in all, both in seconds of the processor."""

    kind: str
    verb: str
    shape: str
    size: int
    status: int
    seconds: float
    work: float  # of all threads


JSON, MERGE, STRATEGIC, APPLY = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


@dataclass(frozen=True)
class Verb:
    """How a body gets to the server, and which object is stored before."""

    name: str
    method: str
    body: Callable[[Obj, Obj], Any]  # of the large object and the small one
    content_type: str = "application/json"
    there: str = "small"
    subresource: str = ""
    kind: str = ""  # that has the subresource
    collection: bool = False
    accept: str = ""
    size: int = LARGEST

    def concerns(self, served: ServedResource) -> bool:
        if self.subresource == "/status":
            return served.resource.status
        return self.kind in ("", served.resource.kind)


def _replacements(large: Obj, small: Obj) -> list[Obj]:
    return [{"op": "add", "path": f"/{name}", "value": value} for name, value in large.items()]


def _whole(large: Obj, small: Obj) -> Obj:
    return large


def _options(large: Obj, small: Obj) -> Obj:
    return {"gracePeriodSeconds": 0}


def _eviction(large: Obj, small: Obj) -> Obj:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": small["metadata"]["name"]}}


def _binding(large: Obj, small: Obj) -> Obj:
    named = {"name": small["metadata"]["name"]}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": named, "target": {"name": "somewhere"}}


def _resized(large: Obj, small: Obj) -> Obj:
    limits = {"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}
    return {"spec": {"containers": [{**small["spec"]["containers"][0], **limits}]}}


def _rescaled(large: Obj, small: Obj) -> Obj:
    return {"spec": {"replicas": 3}}


AT_ONCE = LARGE_BODY - 512
AS_ROWS = "application/json;as=Table;v=v1;g=meta.k8s.io"
VERBS = (
    Verb("create", "POST", _whole, there=""),
    Verb("small", "POST", _whole, there="", size=AT_ONCE),
    Verb("small apply", "PATCH", _whole, APPLY, there="", size=AT_ONCE),
    Verb("rows", "GET", _options, there="large", collection=True, accept=AS_ROWS),
    Verb("select", "GET", _options, there="large", collection=True),
    Verb("update", "PUT", _whole),
    Verb("json", "PATCH", _replacements, JSON),
    Verb("merge", "PATCH", _whole, MERGE),
    Verb("strategic", "PATCH", _whole, STRATEGIC),
    Verb("apply", "PATCH", _whole, APPLY, there=""),
    Verb("apply to it", "PATCH", _whole, APPLY),
    Verb("status", "PUT", _whole, subresource="/status"),
    Verb("delete", "DELETE", _options, there="large"),
    Verb("delete all", "DELETE", _options, there="large", collection=True),
    Verb("evict", "POST", _eviction, there="large", subresource="/eviction", kind="Pod"),
    Verb("bind", "POST", _binding, there="large", subresource="/binding", kind="Pod"),
    Verb("resize", "PATCH", _resized, MERGE, there="large", subresource="/resize", kind="Pod"),
    Verb("scale", "PATCH", _rescaled, MERGE, there="large", subresource="/scale", kind="Deployment"),
)


@asynccontextmanager
async def searching(folder: Path) -> AsyncIterator[Search]:
    """A search on a server of its own, with a custom kind."""
    async with serving(folder) as server:
        await server.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)
        path = "/apis/example.com/v1/namespaces/default/widgets"
        while (await server.call("GET", path)).status != 200:
            await asyncio.sleep(0.01)
        yield Search(server)


class Search:
    """Requests to one server."""

    def __init__(self, server: Serving) -> None:
        self._server = server
        self.kinds = kinds(server.server.catalogue)

    async def candidates(self, served: ServedResource) -> list[tuple[Attempt, Shape]]:
        """Every shape of a kind at a moderate size, the slowest first."""
        found = [
            (await self.attempt(served, VERBS[0], shape, MODERATE), shape) for shape in shapes_of(served)
        ]
        return sorted(found, key=lambda each: -each[0].work)

    async def slowest(
        self,
        served: ServedResource,
        finalists: int = FINALISTS,
        log: Callable[[Attempt], None] = lambda _: None,
    ) -> Attempt:
        """The request of a kind that holds the loop longest."""
        attempts = []
        for _, shape in (await self.candidates(served))[:finalists]:
            for verb in VERBS:
                if not verb.concerns(served):
                    continue
                attempts.append(await self.attempt(served, verb, shape, verb.size))
                log(attempts[-1])
        return max(attempts, key=lambda each: each.seconds)

    async def repeat(self, served: ServedResource, attempt: Attempt) -> Attempt:
        """The same request again."""
        verb = next(each for each in VERBS if each.name == attempt.verb)
        shape = next(each for each in shapes_of(served) if each.name == attempt.shape)
        return await self.attempt(served, verb, shape, verb.size)

    async def attempt(self, served: ServedResource, verb: Verb, shape: Shape, size: int) -> Attempt:
        small = smallest(served)
        path = path_of(served)
        name = small["metadata"]["name"]
        if verb.there == "small":
            await self._server.call("POST", path, small)
        raw = _fitted(shape, small, size, lambda large: verb.body(large, small))
        if verb.there == "large":
            await self._store_largest(path, shape, small, size)
        await self._rest()
        gc.collect()
        where = f"{path}/{name}{verb.subresource}"
        query = {"fieldManager": "fuzz", "force": "true"} if verb.content_type == APPLY else {}
        headers = {"content-type": verb.content_type} | ({"accept": verb.accept} if verb.accept else {})
        if verb.collection:
            query = {"fieldSelector": f"metadata.name={name}"}
        if verb.name == "select":
            query = {"labelSelector": "a!=b"}
        if verb.collection or (verb.method == "POST" and not verb.subresource):
            where = path
        begun = time.process_time()
        with longest_step() as longest:
            call = self._server.call(verb.method, where, raw, headers, **query)
            reply = await asyncio.create_task(call)  # steps of its own
            work = time.process_time() - begun
            await self._rest()
        await self._gone(f"{path}/{name}")
        said = f"{served.resource.kind} {served.version}"
        return Attempt(said, verb.name, shape.name, len(raw), reply.status, longest.seconds, work)

    async def _store_largest(self, path: str, shape: Shape, small: Obj, size: int) -> None:
        """The largest object of a shape that is accepted: half of a body that is not may be."""
        for part in (1, 2, 4):
            large = _fitted(shape, small, size // part, lambda large: large)
            if (await self._server.call("POST", path, large)).status == 201:
                break

    async def _rest(self) -> None:
        """Until what the request set off is done, in threads too: the process does next to nothing."""
        for _ in range(500):
            begun = time.process_time()
            await asyncio.sleep(0.02)
            if time.process_time() - begun < 0.004:
                break

    async def _gone(self, path: str) -> Reply:
        release = {"metadata": {"finalizers": None}}
        await self._server.call("DELETE", path, gracePeriodSeconds="0")
        reply = await self._server.call("PATCH", path, release, {"content-type": MERGE})
        for _ in range(200):
            reply = await self._server.call("GET", path)
            if reply.status == 404:
                break
            await asyncio.sleep(0.01)
        return reply


def shapes_of(served: ServedResource) -> Iterator[Shape]:
    yield from shapes(served.schema)
    if served.resource.kind == "CustomResourceDefinition":
        for name, make in large_definitions():
            yield Shape(f"definition: {name}", make)


def _fitted(shape: Shape, small: Obj, size: int, body: Callable[[Obj], Any]) -> bytes:
    """The body of a shape, with no more than ``size`` bytes and the values that a body may have."""
    wanted = size
    for _ in range(12):
        made = body(shape.make(small, wanted))
        raw = json.dumps(made, separators=(",", ":")).encode()
        scale = min(size / len(raw), MAX_VALUES / _values(made))
        if scale >= 1:
            return raw
        wanted = int(wanted * min(scale, 0.97) * 0.99)
    raise AssertionError(f"{shape.name} cannot be made small enough")


def _values(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 1
    return 1 + sum(map(_values, value.values() if isinstance(value, dict) else value))


def table(attempts: list[Attempt]) -> Iterator[str]:
    yield f"{'kind':34} {'request':11} {'shape':64} {'KiB':>5} {'status':>6} {'held ms':>8} {'work ms':>8}"
    for each in sorted(attempts, key=lambda each: -each.seconds):
        yield (
            f"{each.kind:34} {each.verb:11} {each.shape[:64]:64} {each.size // 1024:5} "
            f"{each.status:6} {each.seconds * 1000:8.0f} {each.work * 1000:8.0f}"
        )
