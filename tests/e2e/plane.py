"""A cluster of ours for end-to-end tests: a server, and our scheduler, controllers and simulated nodes on it, each a client.

On the embedded server they call it in the same process, with the rights of the users that they run as; on the real one they come
over HTTPS with a kubeconfig. Everything runs on one event loop in a thread; a test in another thread types kubectl and waits.

``Plane.until`` looks again after each change that the administrator's own informers see, so that what it waits for holds of the
server and not of a component's copy. Nothing here sleeps.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from allotment.api.core import Namespace, Pod
from allotment.api.resource import ResourceClaim
from allotment.api.status import NotFound
from allotment.apiserver.auth.identity import ADMINISTRATOR, Identity
from allotment.client.client import Client, Collection
from allotment.client.connection import load
from allotment.client.discovery import Discovery, discover
from allotment.client.form import Obj
from allotment.client.in_process import InProcessTransport
from allotment.client.over_http import HttpTransport
from allotment.client.recorder import Recorder
from allotment.client.transport import Transport
from allotment.controllers import names, suite
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import DEFAULT, DEFAULT_SCHEDULER, ProfileSpec
from allotment.scheduler.core import Scheduler
from allotment.scheduler.driver import Driver
from tests.contract.embedded import Embedded
from tests.controllers.cluster import Awake
from tests.kubectl.command import Kubectl

T = TypeVar("T")
PATIENCE = 60.0
ADMIN, SCHEDULER, CONTROLLERS = "admin", "scheduler", "controllers"
ONE = (DEFAULT_SCHEDULER,)
_OWNERS = (
    ("apps/v1", "deployments"),
    ("batch/v1", "jobs"),
    ("scheduling.k8s.io/v1beta1", "podgroups"),
    ("scheduling.volcano.sh/v1beta1", "podgroups"),
)
"""What has pods or claims of its own."""


class Part:
    """What one process of ours has, and what runs on it until it is stopped."""

    def __init__(self, transport: Transport, name: str, wake: Callable[[], None]) -> None:
        self.client = Client(transport, manager=name)
        self.informers = Awake(self.client, wake)
        self.recorder = Recorder(self.client, name)
        self._transport, self._wake = transport, wake
        self._tasks: list[asyncio.Task[None]] = []

    def run(self, *work: Coroutine[Any, Any, None]) -> None:
        for each in (self.informers.run(), self.recorder.run(), *work):
            task = asyncio.ensure_future(each)
            task.add_done_callback(lambda _: self._wake())
            self._tasks.append(task)

    async def stop(self) -> None:
        """Ends everything where it stands, as a crash does."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._transport.close()

    def check(self) -> None:
        """Raises what ended a task of this part."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()


class Plane:
    """A control plane for one test. ``connect`` gives a new transport for one of ADMIN, SCHEDULER, CONTROLLERS."""

    def __init__(
        self,
        kubectl: Kubectl,
        loop: asyncio.AbstractEventLoop,
        connect: Callable[[str], Transport],
        real: bool = False,
    ) -> None:
        self.kubectl = kubectl
        self.real = real  # whether the server is Kubernetes' own
        self.cores: list[Scheduler] = []
        self._loop, self._connect = loop, connect
        self._parts: list[Part] = []
        self._news: asyncio.Event

    # --- life, from the test's thread ---

    def start(self, controllers: Sequence[str], schedulers: Sequence[str]) -> None:
        """Starts the administrator's informers, these controllers of the suite, and a scheduler for each of the names."""
        self._call(self._start(controllers, schedulers))

    def stop(self) -> None:
        self._call(self._stop())

    async def _start(self, controllers: Sequence[str], schedulers: Sequence[str]) -> None:
        self._news = asyncio.Event()
        admin = self._part(ADMIN)
        self.admin, self.seen = admin.client, admin.informers
        self.pods, self.claims = self.seen.of(Pod), self.seen.of(ResourceClaim)
        self.events = self.seen.plain("v1", "events")
        self.namespaces = self.seen.of(Namespace)
        admin.run()
        await self.seen.synced()
        part = self._part(CONTROLLERS)
        made = await suite.controllers(controllers, part.client, part.informers, part.recorder)
        part.run(suite.run(made))
        for name in schedulers:
            part = self._part(SCHEDULER)
            configuration = replace(DEFAULT, profiles=(ProfileSpec(name),))
            core = Scheduler(Cluster(), configuration.rosters(), backoff=configuration.backoff)
            self.cores.append(core)
            part.run(Driver(core, part.client, part.informers, part.recorder).run())

    async def _stop(self) -> None:
        for part in reversed(self._parts):
            await part.stop()

    def _part(self, name: str) -> Part:
        part = Part(self._connect(name), name, lambda: self._news.set())
        self._parts.append(part)
        return part

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * PATIENCE)

    # --- what tests do ---

    def until(self, condition: Callable[[], T | None], what: Callable[[], str] | str) -> T:
        """The first true value of a condition, which is asked on the loop. ``what`` says what did not come."""

        async def wait() -> T:
            try:
                async with asyncio.timeout(PATIENCE):
                    while True:
                        self._news.clear()
                        for part in self._parts:
                            part.check()
                        if found := condition():
                            return found
                        await self._news.wait()
            except TimeoutError:
                told = what if isinstance(what, str) else what()
                raise AssertionError(f"not within {PATIENCE} s: {told}") from None

        return self._call(wait())

    def apply(self, objects: Iterable[Obj]) -> None:
        """As the administrator; a status that an object has is written too."""

        async def write() -> None:
            served = await discover(self.admin)
            for obj in objects:
                kind = self._kind(obj, served)
                await kind.apply(obj, force=True)
                if "status" in obj:
                    await kind.apply(obj, force=True, subresource="status")

        self._call(write())

    def create(self, objects: Sequence[Obj]) -> None:
        """Creates many objects as fast as the server takes them."""

        async def write() -> None:
            served = await discover(self.admin)
            await asyncio.gather(*(self._kind(obj, served).create(obj) for obj in objects))

        self._call(write())

    def remove(self, objects: Iterable[Obj]) -> None:
        async def write() -> None:
            served = await discover(self.admin)
            for obj in objects:
                with contextlib.suppress(NotFound):
                    kind, meta = self._kind(obj, served), obj["metadata"]
                    elsewhere = "default" if kind.resource.namespaced else ""
                    await kind.delete(meta["name"], meta.get("namespace", elsewhere))

        self._call(write())

    def clear(self, namespace: str) -> None:
        """Deletes what runs in a namespace and waits until nothing is left of it: no pod, and no claim that holds a device."""

        async def delete() -> None:
            served = await discover(self.admin)
            for api_version, plural in _OWNERS:
                kind = self.admin.plain(api_version, plural)
                if not served.has(api_version, plural):
                    continue
                for each in (await kind.list(namespace)).items:
                    await kind.delete(each["metadata"]["name"], namespace)
            pods = self.admin.of(Pod)

            async def end(pod: Pod) -> None:
                with contextlib.suppress(NotFound):
                    await pods.delete(pod.metadata.name, namespace)

            await asyncio.gather(*(end(pod) for pod in (await pods.list(namespace)).items))

        def left() -> list[str]:
            pods = [
                f"pod {pod.metadata.name}" for pod in self.pods.all() if pod.metadata.namespace == namespace
            ]
            claims = [
                f"claim {claim.metadata.name}"
                for claim in self.claims.all()
                if claim.metadata.namespace == namespace
                and (claim.status.allocation or claim.status.reserved_for or claim.metadata.owner_references)
            ]
            return pods + claims

        self._call(delete())
        self.until(lambda: not left(), lambda: f"{namespace} still has {left()}")

    def delete_namespaces(self, *names: str) -> None:
        """Asks for namespaces to go. Kubernetes takes seconds for each; see ``gone``."""

        async def delete() -> None:
            for name in names:
                with contextlib.suppress(NotFound):
                    await self.admin.of(Namespace).delete(name)

        self._call(delete())

    def gone(self, *names: str) -> None:
        """Waits for the end of namespaces."""
        self.until(
            lambda: not any(self.namespaces.get(name) for name in names), f"the end of namespaces {names}"
        )

    def validate(self) -> None:
        """Each scheduler's own state is what the objects say, and no device of its own is in two claims."""

        async def check() -> None:
            for core in self.cores:
                core.validate()

        self._call(check())

    def _kind(self, obj: Obj, served: Discovery) -> Collection[Obj]:
        found = served.of_kind(obj["apiVersion"], obj["kind"])
        return self.admin.plain(found.api_version, found.plural, namespaced=found.namespaced)


@contextlib.contextmanager
def embedded_plane(program: Path, folder: Path, schedulers: Sequence[str] = ONE) -> Iterator[Plane]:
    """Our server over TLS for kubectl, with all our controllers."""
    with Embedded(folder) as ours:

        def connect(name: str) -> Transport:
            user = Identity(f"allotment:{name}", ("system:authenticated",))
            return InProcessTransport(ours.server.app, {"identity": ADMINISTRATOR if name == ADMIN else user})

        plane = Plane(Kubectl(program, ours.kubeconfig, folder), ours.loop, connect)
        with contextlib.ExitStack() as stack:
            stack.callback(plane.stop)
            plane.start(names.NAMES, schedulers)
            yield plane


@contextlib.contextmanager
def remote_plane(
    program: Path, kubeconfig: Path, folder: Path, controllers: Sequence[str], schedulers: Sequence[str] = ONE
) -> Iterator[Plane]:
    """Our components on a server elsewhere."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="components", daemon=True)
    thread.start()
    plane = Plane(
        Kubectl(program, kubeconfig, folder),
        loop,
        lambda name: HttpTransport(load(kubeconfig), user_agent=name),
        real=True,
    )
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(plane.stop)
            plane.start(controllers, schedulers)
            yield plane
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
