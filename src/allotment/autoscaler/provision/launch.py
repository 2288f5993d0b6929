"""From waiting pods to NodeClaims: which machines to request now, given those on their way.

The name of a claim is derived from its machine and pods. So if the same plan is made once more (after a lost reply, a crash,
or by a second planner), it requests the same claim and not another machine. Equal pods may swap places between two plans, so
a name that is known to be taken gets another one.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.api.meta import key_of
from allotment.api.quantity import Quantity
from allotment.autoscaler.catalogue.node_claims import claim_of, on_offer
from allotment.autoscaler.provision.provisioner import provision
from allotment.autoscaler.simulate.expected_machines import expect
from allotment.autoscaler.simulate.pending_pods import make_claims
from allotment.autoscaler.solver.covering import USUAL_EFFORT, SolverEffort
from allotment.scheduler.config.configuration import DEFAULT_SCHEDULER
from allotment.scheduler.pod import group_key
from allotment.scheduler.resource_requests import requests_of

if TYPE_CHECKING:
    from allotment.api.autoscaling import NodeClaim
    from allotment.api.core import Pod
    from allotment.autoscaler.catalogue.machine import Machine
    from allotment.autoscaler.provision.plan import NewNode, Plan
    from allotment.autoscaler.simulate.simulation import Simulation

_LONGEST_POOL_PART = 40
"""How many characters of the pool's name begin the names of its claims."""
_NANOS = 10**9


@dataclass(frozen=True, slots=True)
class Launch:
    """A machine to request, and its pods."""

    claim: NodeClaim
    machine: Machine
    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class LaunchDecision:
    """What to launch for pods; the plan says which pods stay pending, and why."""

    plan: Plan
    launches: tuple[Launch, ...]

    def told(self) -> Iterator[tuple[Pod, str]]:
        """For each pod, the machines for it or its gang in words: ``2 machines gpu-8 in zone-a are being launched``."""
        gangs: dict[str, list[Launch]] = {}
        for launch in self.launches:
            for group in {group_key(pod) for pod in launch.pods} - {""}:
                gangs.setdefault(group, []).append(launch)
        words = {group: _words(launches) for group, launches in gangs.items()}
        for launch in self.launches:
            alone = _words([launch])
            for pod in launch.pods:
                yield pod, words.get(group_key(pod), alone)


def _words(launches: Sequence[Launch]) -> str:
    counts = Counter((each.machine.type, each.machine.offering.zone) for each in launches)
    parts = [
        f"{count} {'machine' if count == 1 else 'machines'} {type_}{f' in {zone}' if zone else ''}"
        for (type_, zone), count in sorted(counts.items())
    ]
    price = sum(each.machine.price for each in launches)
    return f"{', '.join(parts)} {'is' if len(launches) == 1 else 'are'} being launched, at {price} an hour"


def decide(
    simulation: Simulation,
    machines: Sequence[Machine],
    claims: Sequence[NodeClaim],
    pods: Sequence[Pod],
    *,
    is_new: Callable[[NodeClaim], bool] = lambda claim: False,
    effort: SolverEffort = USUAL_EFFORT,
) -> LaunchDecision:
    """What to launch for these pods, as ``pending`` finds them. ``machines`` are all that exist, ``claims`` all NodeClaims;
    recently failed claims show what is out of stock. Afterwards, the simulation is as it was before."""
    with simulation.trial():
        expect(simulation, claims, machines, is_new)
        asking = [_ours(simulation, pod) for pod in pods]
        make_claims(simulation, asking)
        plan = provision(simulation, to_be_had(machines, claims), asking, effort=effort)
    known = {key_of(pod): pod for pod in pods}
    taken = {each.metadata.name for each in claims}
    return LaunchDecision(plan, tuple(launch_of(each, known, taken) for each in plan.nodes))


def to_be_had(machines: Iterable[Machine], claims: Iterable[NodeClaim]) -> list[Machine]:
    """Machines of pools and groups. A machine whose source is not known to be usable now is unavailable: out of stock, or its
    pool is being deleted."""
    machines = [each for each in machines if each.source]
    offered = {id(each) for each in on_offer(machines, claims)}
    return [each if id(each) in offered and not _is_going(each) else unavailable(each) for each in machines]


def _is_going(machine: Machine) -> bool:
    origin = machine.pool or machine.group
    return origin is not None and origin.metadata.deletion_timestamp is not None


def unavailable(machine: Machine) -> Machine:
    """The same machine, unavailable now: it still gives a price, and identifies machines on their way."""
    return dataclasses.replace(machine, offering=replace(machine.offering, available=False))


def _ours(simulation: Simulation, pod: Pod) -> Pod:
    """The pod with the name of a simulated scheduler; another scheduler is assumed to decide in the same way."""
    name = pod.spec.scheduler_name or ""
    if name in simulation.schedulers or not simulation.obstacles.runs(name):
        return pod
    pod = replace(pod, spec=replace(pod.spec, scheduler_name=DEFAULT_SCHEDULER))
    simulation.put(pod)
    return pod


def launch_of(new: NewNode, pods: Mapping[str, Pod], taken: Container[str]) -> Launch:
    """A machine of a plan as one to request. ``pods`` are by ``namespace/name``; ``taken`` are the existing names of claims."""
    mine = tuple(pods[place.pod] for place in new.places)
    served = tuple(pods[place.pod] for place in new.serves if place.pod in pods)
    drivers = {
        driver
        for place in (*new.places, *new.serves)
        for driver, pool, *_ in (device.split("/") for device in place.devices)
        if pool == new.name or place.node == new.name
    }
    name = claim_name(new.machine, (*mine, *served), taken)
    claim = claim_of(new.machine, requests_for(mine), name=name, pods=len(mine), drivers=drivers)
    return Launch(claim, new.machine, mine)


def claim_name(machine: Machine, pods: Iterable[Pod], taken: Container[str] = ()) -> str:
    """The same name for the same machine and pods, and for no others; but never a taken one."""
    text = "\n".join([machine.name, *sorted(pod.metadata.uid for pod in pods)])
    names = (
        f"{machine.source[:_LONGEST_POOL_PART].rstrip('.-')}-{hashlib.sha256(f'{number} {text}'.encode()).hexdigest()[:10]}"
        for number in count()
    )
    return next(name for name in names if name not in taken)


def requests_for(pods: Sequence[Pod]) -> dict[str, Quantity]:
    """The requests of pods on a node, with the number of pods."""
    total = {"pods": len(pods) * _NANOS}
    for pod in pods:
        for name, amount in requests_of(pod.spec).items():
            total[name] = total.get(name, 0) + amount
    return {name: Quantity.parse(f"{amount}n") for name, amount in sorted(total.items())}
