"""A cluster for tests of controllers: the embedded server in this process, and controllers that run against it as they would
in production, with their own client, rights, informers and queues.

    async def scenario(cluster: Cluster) -> None:
        part = cluster.component()
        await part.start(Claims(part.client, part.informers, part.recorder))
        await cluster.admin.plain("v1", "pods").create({...})
        claim = await cluster.eventually(lambda: cluster.seen.of(ResourceClaim).get("c", "default"))

    in_cluster(tmp_path, scenario)

Tests read through ``seen``, informers of the test's own, so that a condition holds of the server and not of a controller's
copy; what no test before it has asked for is empty until its first list. ``eventually`` looks again after each change that any of them sees, and fails after ``PATIENCE`` seconds. ``quiet`` is
for what must not happen: it returns when no controller has anything left to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim
from allotment.apiserver.auth.identity import ADMINISTRATOR, Identity
from allotment.apiserver.server import ApiServer, Options
from allotment.client.client import Client, Collection
from allotment.client.form import Obj
from allotment.client.in_process import InProcessTransport
from allotment.client.informer import Informer
from allotment.client.recorder import Recorder
from allotment.client.shared_informers import Informers
from allotment.client.transport import Transport
from allotment.controllers.controller import Controller, Reconciler
from tests.apiserver.beginning import begin

T = TypeVar("T")
PATIENCE = 60.0
CONTROLLERS = Identity("allotment:controllers", ("system:authenticated",))
_SOON = 2.0
"""A key that comes back within so many seconds is work that is left; later ones are for the clock."""


class Awake(Informers):
    """Informers that say of each change of anything that there was one."""

    def __init__(self, client: Client, wake: Callable[[], None]) -> None:
        super().__init__(client)
        self._wake = wake

    def _of(self, collection: Collection[T], type_: type[Any]) -> Informer[T]:
        known = (collection.resource, type_) in self._informers
        informer = super()._of(collection, type_)
        if not known:
            informer.on_change(lambda _old, _new: self._wake())
        return informer

    def followed(self) -> list[Informer[Any]]:
        return list(self._informers.values())


class Component:
    """What one process of controllers has; :meth:`stop` is its crash, after which another may start."""

    def __init__(self, client: Client, wake: Callable[[], None]) -> None:
        self.client = client
        self.informers = Awake(client, wake)
        self.recorder = Recorder(client, "controllers")
        self.reconcilers: list[Reconciler[Any]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._wake = wake

    async def start(self, *reconcilers: Reconciler[Any], workers: int = 4) -> None:
        """Runs reconcilers once the informers have their first lists. May be called again for more of them."""
        if not self._tasks:
            self._spawn(self.informers.run())
            self._spawn(self.recorder.run())
        async with asyncio.timeout(PATIENCE):
            await self.informers.synced()
        for reconciler in reconcilers:
            self.reconcilers.append(reconciler)
            self._spawn(Controller(reconciler, workers=workers).run())

    async def stop(self) -> None:
        """Ends everything where it stands. Nothing waits for this component any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def check(self) -> None:
        """Raises what ended a task of this component."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    def idle(self) -> bool:
        """Whether no key waits, is worked on, or comes back soon."""
        soon = asyncio.get_running_loop().time() + _SOON
        queues = [reconciler.queue for reconciler in self.reconcilers]
        busy = any(len(queue) or queue._working for queue in queues)
        return not busy and all(due > soon for queue in queues for due, _ in queue._timers.values())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._wake())
        self._tasks.append(task)


class Cluster:
    """The server, an administrator who may do everything, and what the test sees."""

    strangers: frozenset[str] = frozenset()  # uids of objects that were there before

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self._news = asyncio.Event()
        self.admin = Client(InProcessTransport(server.app, {"identity": ADMINISTRATOR}), manager="test")
        self.seen = Awake(self.admin, self._news.set)
        self._components: list[Component] = []

    def component(
        self,
        identity: Identity = CONTROLLERS,
        through: Callable[[Transport], Transport] = lambda transport: transport,
    ) -> Component:
        """A process with its own rights and connection; ``through`` may put something between it and the server."""
        transport = through(InProcessTransport(self.server.app, {"identity": identity}))
        component = Component(Client(transport, manager="controllers"), self._news.set)
        self._components.append(component)
        return component

    async def eventually(self, condition: Callable[[], T], what: str = "") -> T:
        """The first true value of a condition. ``what`` says in the failure what did not come."""
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    self._news.clear()
                    for component in self._components:
                        component.check()
                    if found := condition():
                        return found
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"not within {PATIENCE} s: {what or 'the condition'}") from None

    async def quiet(self) -> None:
        """Returns when all informers have seen all there is, no controller has work, and that did not change meanwhile."""
        async with asyncio.timeout(PATIENCE):
            while True:
                before = self.server.store.revision
                if await self._caught_up() and before == self.server.store.revision:
                    return
                await asyncio.sleep(0)

    async def _caught_up(self) -> bool:
        running = [component for component in self._components if component._tasks]
        for component in running:
            component.check()
            if not component.idle():  # before all is read in vain
                return False
            await component.recorder.flush()  # events have time; a test has not
        for informers in (self.seen, *(component.informers for component in running)):
            for informer in informers.followed():
                identity = informer._collection.form.identity
                listing = await self.client_of(informer).list(limit=0)
                if sorted(map(identity, listing.items)) != sorted(map(identity, informer.all())):
                    return False
        return all(component.idle() for component in running)

    def client_of(self, informer: Informer[T]) -> Collection[T]:
        """The administrator's view of what an informer follows: not through a component's connection."""
        return Collection(self.admin, informer._collection.resource, informer._collection.form)

    # --- short ways for what most tests do ---

    async def create(self, *objects: Obj) -> list[Obj]:
        """Creates plain objects as the administrator, in the namespace ``default`` unless they name another."""
        made = []
        for obj in objects:
            plural = cast(str, obj["kind"]).lower() + ("es" if obj["kind"].endswith("Class") else "s")
            kind = self.admin.plain(obj["apiVersion"], plural)
            namespace = obj["metadata"].get("namespace", "default")
            made.append(await kind.create(obj, "" if obj["kind"] in _OF_THE_CLUSTER else namespace))
        return made

    def events(self, name: str) -> list[str]:
        """What was said about an object of this name: ``Reason: message``, in order of time."""
        told = [
            event
            for event in self.seen.plain("v1", "events").all()
            if event["involvedObject"]["name"] == name
        ]
        told.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [f"{event['reason']}: {event['message']}" for event in told]


_OF_THE_CLUSTER = frozenset(
    (
        "Node",
        "Namespace",
        "DeviceClass",
        "DeviceTaintRule",
        "ResourceSlice",
        "NodeResourceSlice",
        "ResourceClass",
    )
)


@asynccontextmanager
async def running_cluster(folder: Path, port: int | None = None) -> AsyncIterator[Cluster]:
    """A cluster that ends, with its components, when the context does. With port 0 it listens, for other programs."""
    await begin(folder / "data")
    server = ApiServer(Options(folder / "data", port=port))
    await server.start()
    cluster = Cluster(server)
    for type_ in (Pod, ResourceClaim):  # most tests look at these
        cluster.seen.of(type_)
    cluster.seen.plain("v1", "events")
    seeing = asyncio.create_task(cluster.seen.run())
    try:
        await cluster.seen.synced()
        yield cluster
    finally:
        for component in cluster._components:
            await component.stop()
        seeing.cancel()
        await asyncio.gather(seeing, return_exceptions=True)
        await server.stop()


def in_cluster(folder: Path, scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    """Runs a scenario in a cluster of its own. Every informer's copy is checked at the end."""

    async def run() -> None:
        async with running_cluster(folder) as cluster:
            await scenario(cluster)
            for component in cluster._components:
                component.check()
                component.informers.validate()
            cluster.seen.validate()

    asyncio.run(run())
