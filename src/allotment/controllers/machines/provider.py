"""The interface that a provider of machines implements to launch NodeClaims: three calls, keyed by the claim's uid.

    class Metal:
        name = "metal"

        def __init__(self, surroundings: Surroundings) -> None: ...
        async def launch(self, claim: NodeClaim, machine: Machine) -> Running: ...
        async def terminate(self, claim: str) -> bool: ...
        async def machines(self) -> Sequence[Running]: ...

A package with a provider names its class as an entry point of the group ``allotment.providers``, and ``allot controllers
--provider NAME`` selects it. The calling process may crash before it has recorded an answer, and the next one will call
again. So a provider must remember the claim of each machine, for example in the machine's tags.

    ProviderError
    ├── OutOfStock     there is no such machine there now; another may be
    └── LaunchFailed   something else; it may go better in a while
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol, runtime_checkable

from allotment.api.autoscaling import NodeClaim
from allotment.autoscaler.catalogue.machine import Machine
from allotment.client.client import Client
from allotment.client.form import ResourcePath
from allotment.client.shared_informers import Informers
from allotment.controllers.clock import Now, real_time
from allotment.controllers.controller import Reconciler
from allotment.controllers.machines.market import Market

__all__ = ["LaunchFailed", "OutOfStock", "Provider", "Running", "Surroundings"]

ENTRY_POINTS = "allotment.providers"


class ProviderError(Exception):
    """A machine cannot be launched. The message is for people, and appears in the claim's status."""


class OutOfStock(ProviderError):
    """The machine is not available at this place and time."""


class LaunchFailed(ProviderError):
    """This attempt failed; a later one may succeed."""


@dataclass(frozen=True, slots=True)
class Running:
    """A machine that was launched and not yet terminated, whether its node has joined or not."""

    id: str  # the future ``spec.providerID`` of its node
    claim: str  # the uid of the claim for which it was launched


class Provider(Protocol):
    """The source of machines. Any exception other than ProviderError counts as LaunchFailed, or as "not yet terminated"."""

    @property
    def name(self) -> str: ...

    async def launch(self, claim: NodeClaim, machine: Machine) -> Running:
        """Launches the machine, and returns without waiting for its node. If a machine was already launched for the claim,
        returns that one. Raises OutOfStock or LaunchFailed; then, as far as the provider knows, nothing was launched."""
        ...

    async def terminate(self, claim: str) -> bool:
        """Terminates the machine of the claim with this uid, if there is one. Returns True once there is none. It may be
        called any number of times, also for claims without a machine."""
        ...

    async def machines(self) -> Sequence[Running]:
        """All running machines. Every machine that was launched before this call is included, unless it was terminated."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a provider may need to know. ``claims``, ``groups`` and ``trees`` (NodeResourceSlices) say where the server has
    these kinds."""

    client: Client
    informers: Informers
    market: Market
    claims: ResourcePath
    groups: ResourcePath | None = None
    trees: ResourcePath | None = None
    now: Now = real_time


@runtime_checkable
class ProviderWithControllers(Protocol):
    """A provider that needs controllers of its own beside the lifecycle's."""

    def reconcilers(self) -> Sequence[Reconciler[str]]: ...


Maker = Callable[[Surroundings], Provider]


def installed(name: str) -> Mapping[str, Maker]:
    """The provider of this name, if a package has it. Raises ImportError if it cannot be loaded; other entry points are not
    loaded."""
    found: dict[str, Maker] = {}
    for point in entry_points(group=ENTRY_POINTS):
        if point.name != name:
            continue
        try:
            found[point.name] = point.load()
        except (Exception, SystemExit) as exc:
            raise ImportError(f"provider {point.name} ({point.value}) cannot be loaded: {exc}") from exc
    return found
