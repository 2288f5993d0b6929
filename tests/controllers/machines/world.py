"""What tests of machines need: a catalogue, claims for its machines, and components that carry them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from allotment.api.autoscaling import NodeClaim, NodeGroup, NodeOverlay, NodePool
from allotment.api.codec import decode, to_builtins
from allotment.api.core import Node
from allotment.api.meta import Condition
from allotment.api.resource import ResourceSlice
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.catalogue.node_claims import ClaimProgress, claim_of, condition, state_of
from allotment.autoscaler.catalogue.overlays import evaluate
from allotment.client.form import resource_of
from allotment.controllers.clock import Now
from allotment.controllers.controller import Reconciler
from allotment.controllers.machines.lifecycle import MachineLifecycle
from allotment.controllers.machines.market import Market
from allotment.controllers.machines.provider import Maker, Provider, ProviderWithControllers, Surroundings
from allotment.controllers.machines.simulated_provider import SimulatedProvider
from allotment.controllers.machines.sweep import ALL, Sweep
from allotment.controllers.simulation.heartbeat import SimulatedHeartbeat
from allotment.controllers.simulation.kubelet import SimulatedKubelet
from tests.autoscaler.build import catalogue, gpus, pool, type_
from tests.controllers.cluster import Cluster, Component
from tests.controllers.failing import Failing

TYPES = catalogue(type_("large", {"a": "2", "b": "2"}, dynamicResources=gpus(2)), type_("small"), pool("p"))
PLACE = resource_of(NodeClaim)
AT_ONCE = {"allotment.dev/boot-seconds": "0", "allotment.dev/publish-seconds": "0"}


@dataclass
class Part:
    """One process, with the provider that it has."""

    component: Component
    machines: MachineLifecycle
    sweep: Sweep
    market: Market
    provider: Provider

    def look_again(self) -> None:
        """As when all timers ring."""
        for each in self.component.reconcilers:
            if each is self.sweep:
                self.sweep.queue.add(ALL)
            elif each.name in ("machines", "simulated-machines"):
                for claim in self.machines._claims.all():
                    each.queue.add(claim.metadata.name)


async def running(
    cluster: Cluster,
    maker: Maker = SimulatedProvider,
    *,
    types: Catalogue = TYPES,
    clock: Now | None = None,
    failing: Failing | None = None,
) -> Part:
    component = cluster.component(through=(failing or Failing()).through)
    client, informers = component.client, component.informers
    market = Market(
        informers,
        types,
        pools=resource_of(NodePool),
        groups=resource_of(NodeGroup),
        overlays=resource_of(NodeOverlay),
    )
    times: Any = {"now": clock} if clock is not None else {}
    provider = maker(Surroundings(client, informers, market, PLACE, resource_of(NodeGroup), **times))
    machines = MachineLifecycle(client, informers, component.recorder, provider, market, place=PLACE, **times)
    sweep = Sweep(client, informers, component.recorder, provider, place=PLACE, **times)
    more: list[Reconciler[Any]] = (
        list(provider.reconcilers()) if isinstance(provider, ProviderWithControllers) else []
    )
    if isinstance(provider, SimulatedProvider):
        more += [
            SimulatedHeartbeat(client, informers, component.recorder),
            SimulatedKubelet(client, informers, component.recorder),
        ]
    await component.start(machines, sweep, *more)
    return Part(component, machines, sweep, market, provider)


def machine(name: str = "large", types: Catalogue = TYPES) -> Machine:
    return next(each for each in evaluate(types).machines if each.type == name)


async def claim(
    cluster: Cluster,
    name: str = "c",
    type_: str = "large",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> NodeClaim:
    """A claim for one of ``TYPES``, with more in its spec."""
    made = to_builtins(claim_of(machine(type_), {}, name=name))
    made["metadata"]["annotations"] |= {**AT_ONCE, **(annotations or {})}
    made["spec"] |= spec
    return await cluster.admin.of(NodeClaim).create(decode(NodeClaim, made))


async def delete(cluster: Cluster, name: str = "c") -> None:
    await cluster.admin.of(NodeClaim).delete(name)


def seen(cluster: Cluster, name: str = "c") -> NodeClaim | None:
    return cluster.seen.of(NodeClaim).get(name)


def state(cluster: Cluster, name: str = "c") -> ClaimProgress | None:
    found = seen(cluster, name)
    return state_of(found) if found is not None else None


def told(cluster: Cluster, type_: str, name: str = "c") -> Condition:
    found = seen(cluster, name)
    assert found is not None
    said = condition(found, type_)
    assert said is not None
    return said


async def until(cluster: Cluster, wanted: ClaimProgress | None, name: str = "c") -> None:
    await follow(cluster)
    await cluster.eventually(lambda: state(cluster, name) is wanted, f"{name} is {wanted}")


async def follow(cluster: Cluster) -> None:
    """The test's own copies of what tests look at."""
    for kind in (NodeClaim, Node, ResourceSlice):
        await cluster.seen.of(kind).synced()
