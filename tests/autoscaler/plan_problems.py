"""Small random problems for plans, and the cheapest answer to them by trying everything.

What is tried is all sets of machines, and on each all orders in which the scheduler may bind the pods, and all places; so the
answer is the cheapest that the scheduler can bring about at all. Limits of pools and the topology of gangs are part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations_with_replacement
from random import Random
from typing import Any

from allotment.api.autoscaling import InstanceType, NodePool
from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.simulate.node_arrival import arrive
from allotment.autoscaler.simulate.simulation import BoundPod, Simulation, start_simulation
from tests.allocator import build
from tests.autoscaler.build import GPU as DRIVER
from tests.autoscaler.build import NIC, device, devices, evaluated, pool, template, type_
from tests.autoscaler.builders import asking
from tests.autoscaler.simulate.test_node_arrival import daemons
from tests.builders.typed import ZONE, node, pod, spread
from tests.scheduler.gang_builders import group as gang

CLASS = "deviceclass/"


@dataclass(frozen=True, slots=True)
class Problem:
    pods: tuple[Pod, ...]
    offers: tuple[InstanceType | NodePool, ...]
    objects: tuple[ApiStruct, ...]
    near: tuple[str, ...] = ()  # names of pods that must be in one zone
    settled: bool = True  # nothing but the price decides: no pod has to be spread over what there is

    @property
    def machines(self) -> list[Machine]:
        return list(evaluated(*self.offers).machines)


def most_tried(problem: Problem) -> int:
    """Machines in a set: one a pod, and two for their devices alone."""
    return len(problem.pods) + 2


def cheapest(problem: Problem) -> Decimal | None:
    """The lowest price; None if no set of so many machines serves all pods."""
    usable = [each for each in problem.machines if each.offering.available]
    sets = [
        each
        for count in range(most_tried(problem) + 1)
        for each in combinations_with_replacement(usable, count)
        if _within_limits(each)
    ]
    sets.sort(key=lambda each: sum((machine.price for machine in each), Decimal(0)))
    return next((sum((m.price for m in each), Decimal(0)) for each in sets if _serves(each, problem)), None)


def _within_limits(machines: Sequence[Machine]) -> bool:
    for first in machines:
        if first.pool is None:
            continue
        for name, most in first.pool.spec.limits.items():
            if sum(_drawn(each, name) for each in machines if each.source == first.source) > most.nanos:
                return False
    return True


def _drawn(machine: Machine, limit: str) -> int:
    """In billionths. Classes of devices are called as the first part of their driver's name."""
    if limit == "nodes":
        return 10**9
    if not limit.startswith(CLASS):
        return machine.capacity[limit].nanos
    return 10**9 * sum(
        len(each.spec.devices)
        for driver, found in machine.devices.items()
        for each in found.resources.resource_slice_templates
        if each.spec.driver == driver and driver.startswith(f"{limit.removeprefix(CLASS)}.")
    )


def _serves(machines: Sequence[Machine], problem: Problem) -> bool:
    cluster = start_simulation(problem.objects)
    for number, machine in enumerate(machines):
        arrive(cluster, machine, f"try-{number}")
    return _placed(cluster, frozenset(each.metadata.name for each in problem.pods), problem, {})


def _placed(
    cluster: Simulation,
    left: frozenset[str],
    problem: Problem,
    zones: dict[str, str],
) -> bool:
    """Whether the pods that are left can be bound in some order."""
    if not left:
        return len({zones[each] for each in problem.near if each in zones}) <= 1
    for who in problem.pods:
        for name in cluster.objects(Node) if who.metadata.name in left else ():
            cluster.fork()
            if isinstance(cluster.simulate_bind_pod(who, name), BoundPod):
                zone = {who.metadata.name: cluster.node(name).metadata.labels.get(ZONE, "")}
                if _placed(cluster, left - {who.metadata.name}, problem, {**zones, **zone}):
                    return True
            cluster.revert()
    return False


# --- random ones ---


def random_problem(random: Random) -> Problem:
    """Up to three pods, some with claims, some of these with alternatives; types in two zones with devices of their own, or that others reach;
    limits, gangs, spreading, daemons."""
    zones = random.choice((("a",), ("a", "b")))
    offers: list[InstanceType | NodePool] = [
        _type(number, zones, random) for number in range(random.randint(1, 3))
    ]
    if random.random() < 0.4:
        offers.append(pool("main", limits=_limits(random)))
    objects: list[ApiStruct] = [build.class_(), build.class_("gpu", f'device.driver == "{DRIVER}"')]
    objects += [build.class_("nic", f'device.driver == "{NIC}"')]
    if random.random() < 0.3:
        objects.append(node("old", cpu=random.choice((1, 4)), labels={ZONE: "a"}))
    if random.random() < 0.2:
        only = random.choice(({}, {ZONE: "a"}, {"karpenter.sh/capacity-type": "spot"}))
        objects.append(daemons(cpu=1, selector=only))
    count, kind = random.randint(1, 3), random.choice(("alone", "alone", "gang", "spread"))
    pods = []
    for number in range(count):
        made, more = _pod(f"p{number}", kind, random)
        pods.append(made)
        objects += more
    near = tuple(each.metadata.name for each in pods) if kind == "gang" else ()
    if kind == "gang":
        objects.append(gang("together", count, topology=[ZONE]))
    return Problem(tuple(pods), tuple(offers), tuple(objects), near, kind != "spread")


def _type(number: int, zones: Sequence[str], random: Random) -> InstanceType:
    offered = {
        zone + random.choice(("", "", "+")): str(random.randint(1, 30) / 10)
        for zone in random.sample(zones, random.randint(1, len(zones)))
    }
    capacity = {"cpu": str(random.choice((2, 3, 4, 6))), "memory": "32Gi", "pods": "10"}
    made = list(_templates(random))
    return type_(
        f"t{number}", offered, capacity=capacity, **({"dynamicResources": devices(*made)} if made else {})
    )


def _limits(random: Random) -> dict[str, str]:
    found = {"cpu": str(random.choice((6, 8, 12, 24)))}
    for name in ("nodes", f"{CLASS}gpu", f"{CLASS}nic"):
        if random.random() < 0.3:
            found[name] = str(random.randint(1, 4))
    return found


def _templates(random: Random) -> Iterator[dict[str, Any]]:
    if random.random() < 0.5:
        sizes = [device(f"gpu-{n}", size=random.choice(("s", "l"))) for n in range(random.randint(1, 3))]
        yield template("gpus", DRIVER, *sizes)
    if random.random() < 0.6:
        nics = [device(f"nic-{n}") for n in range(random.randint(1, 4))]
        yield template("nics", NIC, *nics, **random.choice(_REACHES))


_REACHES: Sequence[dict[str, Any]] = (
    {},
    {"allNodes": True},
    {"nodeSelector": {"nodeSelectorTerms": [{"matchLabelKeys": [ZONE]}]}},
    {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}]}},
)


def _pod(name: str, kind: str, random: Random) -> tuple[Pod, list[ApiStruct]]:
    more: dict[str, Any] = {"labels": {"app": "x"}}
    if kind == "gang":
        more["group"] = "together"
    if kind == "spread":
        more["spread"] = [spread(ZONE, {"app": "x"}, skew=random.choice((1, 2)))]
    cpu = random.choice((1, 2, 2))
    requests = []
    if random.random() < 0.5:
        large, small = (f'device.attributes["{DRIVER}"].size == "{size}"' for size in "ls")
        either = [build.sub("x", large, class_name="gpu"), build.sub("y", small, class_name="gpu")]
        requests.append(
            random.choice(
                (
                    build.request("g", class_name="gpu"),
                    build.request("g", large, class_name="gpu", count=random.choice((1, 2))),
                    build.either("g", *either),
                )
            )
        )
    if random.random() < 0.6:
        requests.append(build.request("n", class_name="nic", count=random.choice((1, 1, 2))))
    if not requests:
        return pod(name, cpu=cpu, **more), []
    who, wanted = asking(name, *requests, cpu=cpu, **more)
    return who, [wanted]
