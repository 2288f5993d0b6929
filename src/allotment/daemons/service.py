"""A component as a process of its own, for any cluster: it connects, checks its rights, serves its metrics, takes the lead,
and works.

A failure to start is reported in one sentence with the next step. After the start, the process stays: if the server goes
away, it waits; if it loses the lead, it tries to regain it, with a fresh component each time.
"""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.insight.connecting import GRANT

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from allotment.client.client import Client
    from allotment.client.rights import Right

Work = Callable[["CollectorRegistry"], Awaitable[None]]
"""Runs a fresh component until cancelled; the component's metrics go to the registry."""

NAMESPACE = "kube-system"
"""The namespace of the leases."""
_LAG_SECONDS = 0.25
_LAG_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_RIGHTS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Service:
    """How to run a component alone."""

    name: str  # in messages and metrics; the lease is allotment-NAME
    kubeconfig: Path | None
    context: str | None
    leader_elect: bool
    metrics_host: str
    metrics_port: int | None

    @property
    def lease(self) -> str:
        return f"allotment-{self.name}"


async def check_rights(client: Client, name: str, rights: Sequence[Right]) -> None:
    """Raises a Failure that lists the missing rights."""
    from allotment.client.rights import missing, words
    from allotment.insight.errors import Failure

    lacking = words(await missing(client, rights))
    if lacking:
        more = f", and {len(lacking) - _RIGHTS_SHOWN} more" if len(lacking) > _RIGHTS_SHOWN else ""
        raise Failure(f"{name} lacks rights: it may not {'; '.join(lacking[:_RIGHTS_SHOWN])}{more}", GRANT)


async def serve(service: Service, client: Client, work: Work) -> None:
    """Works until a signal ends it. Raises Failure if it cannot go on."""
    from allotment.daemons.components import ComponentFailed
    from allotment.daemons.ending import run_until, told_to_end
    from allotment.insight.errors import Failure

    ended = told_to_end()
    numbers = _Numbers()
    try:
        async with numbers.served(service):
            await run_until(ended, _lead(service, client, lambda: work(numbers.fresh())))
    except ComponentFailed as exc:
        raise Failure(str(exc), "see the lines above for the cause") from exc
    click.echo("stopping ...", err=True)


async def _lead(service: Service, client: Client, work: Callable[[], Awaitable[None]]) -> None:
    from allotment.client.leader import LeaderElection

    async def lead() -> None:
        click.echo(f"{service.name}: at work", err=True)
        await work()

    if not service.leader_elect:
        await lead()
        return
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    click.echo(f"{service.name}: waiting for the lease {NAMESPACE}/{service.lease}", err=True)
    await LeaderElection(client, service.lease, NAMESPACE, identity).run(lead)


class _Numbers:
    """The present component's metrics, and the delay of the event loop."""

    def __init__(self) -> None:
        self._registry = self.fresh()

    def fresh(self) -> CollectorRegistry:
        """An empty registry, which replaces the one that is served."""
        from prometheus_client import CollectorRegistry, Histogram

        self._registry = CollectorRegistry()
        self._lag = Histogram(
            "allotment_event_loop_lag_seconds",
            "How much later than planned the event loop ran.",
            buckets=_LAG_BUCKETS,
            registry=self._registry,
        )
        return self._registry

    @asynccontextmanager
    async def served(self, service: Service) -> AsyncIterator[None]:
        from allotment.daemons.metrics_server import serving_metrics
        from allotment.insight.errors import Failure

        if service.metrics_port is None:
            yield
            return
        measuring = asyncio.ensure_future(self._measure())
        try:
            async with serving_metrics(
                service.metrics_host, service.metrics_port, lambda: self._registry
            ) as port:
                click.echo(f"metrics are at http://{service.metrics_host}:{port}/metrics", err=True)
                yield
        except OSError as exc:
            place = f"{service.metrics_host}:{service.metrics_port}"
            raise Failure(
                f"cannot listen on {place}: {exc.strerror or exc}", "choose another port with --metrics-port"
            ) from exc
        finally:
            measuring.cancel()

    async def _measure(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            planned = loop.time() + _LAG_SECONDS
            await asyncio.sleep(_LAG_SECONDS)
            self._lag.observe(max(loop.time() - planned, 0.0))
