"""Scheduler and controllers, put together over clients. They run until something ends them.

Both read through one set of informers, so that each kind is listed, watched and decoded once. A component should never end by
itself. If one does, the others are stopped, the log has the details, and ``ComponentFailed`` gives the reason in a sentence.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from allotment.apiserver.auth import users
from allotment.client.client import Client
from allotment.client.recorder import Recorder
from allotment.client.shared_informers import Informers
from allotment.client.transport import Transport
from allotment.controllers import suite
from allotment.daemons.event_recording import recorded
from allotment.insight.catalogue_files import read_files
from allotment.insight.catalogue_following import follow_files, state_of
from allotment.scheduler.config.configuration import DEFAULT, Configuration
from allotment.scheduler.driver import Driver, configured
from allotment.scheduler.metrics import SchedulerMetrics

log = logging.getLogger(__name__)


class ComponentFailed(Exception):
    """A component ended, which it should never do."""


@dataclass(frozen=True, slots=True)
class WantedComponents:
    """What to run. Without a configuration, there is no scheduler."""

    scheduler: Configuration | None = None
    controllers: tuple[str, ...] = ()
    catalogue: tuple[str, ...] = ()  # files with the machines that can be launched
    provider: str = "simulated"  # the provider of the machines
    foreseen: Configuration = DEFAULT  # of the scheduler whose decisions plans simulate
    record: Path | None = None  # where the scheduler records its events and instructions

    def __bool__(self) -> bool:
        return self.scheduler is not None or bool(self.controllers)


class Components:
    """The components of one process. The controllers may read everything that the scheduler reads, so they read for both."""

    def __init__(
        self, wanted: WantedComponents, scheduling: Client, controlling: Client, registry: CollectorRegistry
    ) -> None:
        self._wanted = wanted
        self._scheduling, self._controlling = scheduling, controlling
        self._registry = registry
        self.informers = Informers(controlling)

    @classmethod
    def of_users(
        cls, wanted: WantedComponents, server: Mapping[str, Transport], registry: CollectorRegistry
    ) -> Components:
        """Each component with its own user on the embedded server; ``server`` has the transports into it by user."""
        scheduling, controlling = (
            Client(server[user], manager=user.replace(":", "-"))
            for user in (users.SCHEDULER, users.CONTROLLERS)
        )
        return cls(wanted, scheduling, controlling, registry)

    async def run(self, begun: Callable[[], Awaitable[None]] | None = None) -> None:
        """Runs until cancelled. Calls ``begun`` when everything runs and has read the cluster. Raises ComponentFailed, what
        ``begun`` raises, or the server's answer to the first requests."""
        told = Recorder(self._controlling, "allotment-controllers")
        names, files = self._wanted.controllers, self._wanted.catalogue
        readers: list[suite.Reader] = []
        try:
            before = state_of(files)
            catalogue = read_files(files)
            made = await suite.controllers(
                names,
                self._controlling,
                self.informers,
                told,
                self._registry,
                catalogue,
                self._wanted.provider,
                self._wanted.foreseen,
                readers,
            )
        except ImportError as exc:
            raise ComponentFailed(str(exc)) from exc
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_never_ending("following the server", self.informers.run()))
                if self._wanted.scheduler is not None:
                    tasks.create_task(self._schedule(self._wanted.scheduler))
                await self.informers.synced()
                if made:
                    tasks.create_task(_never_ending("writing events", told.run()))
                    tasks.create_task(_never_ending("the controllers", suite.run(made)))
                if files and readers:
                    following = follow_files(files, before, readers)
                    tasks.create_task(_never_ending("following the catalogue", following))
                if begun is not None:
                    await begun()
        except ExceptionGroup as group:
            raise first_of(group) from None

    async def _schedule(self, configuration: Configuration) -> None:
        core = configured(configuration)
        told = Recorder(self._scheduling, next(iter(core.profiles)))
        metrics = SchedulerMetrics(self._registry)
        with recorded(self._wanted.record, configuration) as hear:
            driver = Driver(core, self._scheduling, self.informers, told, metrics=metrics, hear=hear)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_never_ending("writing events", told.run()))
                tasks.create_task(_never_ending("the scheduler", driver.run()))


async def _never_ending(name: str, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception as exc:
        log.exception("%s failed", name)
        first = first_of(exc)
        raise ComponentFailed(f"{name} failed: {type(first).__name__}: {first}") from exc
    raise ComponentFailed(f"{name} ended")


def first_of(exc: BaseException) -> BaseException:
    """The first error that is not a group of others."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc
