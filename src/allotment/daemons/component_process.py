"""The scheduler and controllers of ``allot up`` in a process of their own, so that they and the API server have a processor
each, and a long search for a place never delays a client (docs/decisions/0007). Autoscaling runs in another process, so that
a long plan delays neither of them.

Each process is connected to the server by a pipe. Over it, the components call the server as their users, and the server asks
for their metrics. No side outlives the other: components end when their pipe closes, and when they end the server learns why.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
import uvloop
from prometheus_client import CollectorRegistry, generate_latest

from allotment.apiserver.auth import users
from allotment.client.over_pipe import Pipe
from allotment.client.transport import Call, Disconnected, Reply, Stream, Transport
from allotment.controllers.names import AUTOSCALING
from allotment.daemons.components import ComponentFailed, Components, WantedComponents, first_of
from allotment.daemons.log import set_up
from allotment.daemons.memory import spare_collector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ENDING_SECONDS = 10.0
"""How long the process may take to end before it is killed."""

_COMPONENTS = "components"
_BEGUN = b"begun"


class ComponentProcess:
    """The process, as the server sees it. ``server`` has the transports into the server by user."""

    def __init__(self, wanted: WantedComponents, server: Mapping[str, Transport]) -> None:
        self._wanted = wanted
        self._server = server
        self._pipe: Pipe | None = None

    async def run(self, begun: Callable[[], Awaitable[None]]) -> None:
        """Runs until cancelled. Calls ``begun`` when everything runs and has read the cluster. Raises ComponentFailed, or
        what ``begun`` raises."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", __name__, str(theirs.fileno())),
                msgspec.json.encode(self._wanted).decode(),
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the server; the pipe tells this process to end
            )
        self._pipe = await Pipe.over(ours, self._server)
        try:
            await self._follow(self._pipe, begun)
        except Disconnected:
            code = await process.wait()
            raise ComponentFailed(f"the process of {_named(self._wanted)} ended with {code}") from None
        finally:
            await self._pipe.close()
            await _end(process)

    async def _follow(self, pipe: Pipe, begun: Callable[[], Awaitable[None]]) -> None:
        async with pipe.to(_COMPONENTS).stream(Call("GET", "/story", timeout=None)) as story:
            async for line in story.lines():
                if line != _BEGUN:
                    raise ComponentFailed(line.decode())
                await begun()
        raise Disconnected("the story ended")

    async def metrics(self) -> bytes:
        """The metrics in Prometheus' form; empty while the process does not answer."""
        if self._pipe is None:
            return b""
        with suppress(Disconnected):
            return (await self._pipe.to(_COMPONENTS).call(Call("GET", "/metrics", timeout=5.0))).body
        return b""


class ComponentProcesses:
    """Several component processes as one: long work in one of them does not delay the others."""

    def __init__(self, wanted: Iterable[WantedComponents], server: Mapping[str, Transport]) -> None:
        self._processes = [ComponentProcess(each, server) for each in wanted if each]

    async def run(self, begun: Callable[[], Awaitable[None]]) -> None:
        """Runs all of them. Calls ``begun`` once, when all have begun; if there are none, at once."""
        starting = len(self._processes)
        if not starting:
            await begun()
            return

        async def one_begun() -> None:
            nonlocal starting
            starting -= 1
            if not starting:
                await begun()

        try:
            async with asyncio.TaskGroup() as tasks:
                for each in self._processes:
                    tasks.create_task(each.run(one_begun))
        except ExceptionGroup as group:
            raise first_of(group) from None

    async def metrics(self) -> bytes:
        return b"".join([await each.metrics() for each in self._processes])


def _named(wanted: WantedComponents) -> str:
    return "autoscaling" if wanted.controllers == (AUTOSCALING,) else "scheduler and controllers"


async def _end(process: asyncio.subprocess.Process) -> None:
    """Waits until the process has ended, and kills it if necessary."""
    try:
        await asyncio.wait_for(process.wait(), ENDING_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


# --- the process itself ---


class _Offered:
    """What the server may ask for: ``/metrics`` and, as a stream, ``/story``: that everything has begun, and why it ended."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.story: asyncio.Queue[bytes] = asyncio.Queue()

    async def call(self, call: Call) -> Reply:
        return Reply(200, {}, generate_latest(self._registry))

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        yield Stream(200, {}, self._batches())

    async def _batches(self) -> AsyncIterator[list[bytes]]:
        while True:
            yield [await self.story.get()]

    async def close(self) -> None:
        """Nothing is held open."""


async def _run(end: socket.socket, wanted: WantedComponents) -> int:
    registry = CollectorRegistry()
    offered = _Offered(registry)
    pipe = await Pipe.over(end, {_COMPONENTS: offered})
    server = {user: pipe.to(user) for user in (users.SCHEDULER, users.CONTROLLERS)}
    components = Components.of_users(wanted, server, registry)

    async def begun() -> None:
        spare_collector()
        offered.story.put_nowait(_BEGUN)

    running = asyncio.create_task(components.run(begun))
    gone = asyncio.create_task(pipe.gone())
    await asyncio.wait({running, gone}, return_when=asyncio.FIRST_COMPLETED)
    if gone.done():
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return 0
    why = running.exception()
    offered.story.put_nowait(str(why or f"{_named(wanted)} ended").encode())
    await gone  # the server has read the reason
    return 1


def main(descriptor: str, wanted: str) -> int:
    set_up(logging.WARNING)
    end = socket.socket(fileno=int(descriptor))
    return uvloop.run(_run(end, msgspec.json.decode(wanted, type=WantedComponents)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
