"""What a provider of machines writes to have NodeClaims launched: three calls, keyed by the claim's uid.

    class Metal:
        name = "metal"

        def __init__(self, surroundings: Surroundings) -> None: ...
        async def launch(self, claim: NodeClaim, machine: Machine) -> Running: ...
        async def terminate(self, claim: str) -> bool: ...
        async def machines(self) -> Sequence[Running]: ...

A package that has one names its class as an entry point of the group ``allotment.providers``; ``allot controllers --provider
NAME`` takes it. Whoever calls may end between a call and the note of its answer, and will call again: a provider has to
remember (in tags of its machines, say) for which claim it launched what.

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
from allotment.client.informers import Informers
from allotment.controllers.clock import Now, real_time
from allotment.controllers.controller import Reconciler
from allotment.controllers.machines.market import Market

__all__ = ["LaunchFailed", "OutOfStock", "Provider", "Running", "Surroundings"]

ENTRY_POINTS = "allotment.providers"


class ProviderError(Exception):
    """A machine cannot be had. The message is for people, and is shown on the claim."""


class OutOfStock(ProviderError):
    """Not there, not now."""


class LaunchFailed(ProviderError):
    """Not this time."""


@dataclass(frozen=True, slots=True)
class Running:
    """A machine that was launched and is not gone yet, whether its node has joined or not."""

    id: str  # as ``spec.providerID`` of its node will be
    claim: str  # the uid of the claim that it was launched for


class Provider(Protocol):
    """Where machines come from. Any other exception than ProviderError is taken for a LaunchFailed, or for "not yet gone"."""

    @property
    def name(self) -> str: ...

    async def launch(self, claim: NodeClaim, machine: Machine) -> Running:
        """Launches the machine, and returns without waiting for its node. For a claim whose machine was launched before, it
        returns that one. Raises OutOfStock or LaunchFailed; then nothing was launched, as far as is known."""
        ...

    async def terminate(self, claim: str) -> bool:
        """Ends the machine of the claim with this uid, if there is one. True once there is none; may be called any number of
        times, also for claims of which nothing was ever launched."""
        ...

    async def machines(self) -> Sequence[Running]:
        """All that run. What was launched before this call is in it unless it is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a provider may want to know. ``claims``, ``groups`` and ``trees`` (NodeResourceSlices) say where the server has these kinds."""

    client: Client
    informers: Informers
    market: Market
    claims: ResourcePath
    groups: ResourcePath | None = None
    trees: ResourcePath | None = None
    now: Now = real_time


@runtime_checkable
class Plays(Protocol):
    """A provider that needs controllers of its own beside the lifecycle's."""

    def reconcilers(self) -> Sequence[Reconciler[str]]: ...


Maker = Callable[[Surroundings], Provider]


def installed(name: str) -> Mapping[str, Maker]:
    """The provider of this name, if a package has it. Raises ImportError if it cannot be had; what others have is not looked at."""
    found: dict[str, Maker] = {}
    for point in entry_points(group=ENTRY_POINTS):
        if point.name != name:
            continue
        try:
            found[point.name] = point.load()
        except (Exception, SystemExit) as exc:
            raise ImportError(f"provider {point.name} ({point.value}) cannot be loaded: {exc}") from exc
    return found
