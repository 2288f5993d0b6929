"""Problems for the provisioner, from a seed: machines to be had, and pods that wait for some.

``cluster`` is one that runs: nodes of such machines with such pods on them, of which some have little to do.

Machines come in families (general, compute, memory, two of GPUs) and sizes, each in several zones on demand and as spot, with
prices about in proportion to what they have. Pods come in shapes that mix CPU, memory and devices; some insist on a zone, some
on machines on demand, some take one of several GPUs (firstAvailable), some spread over zones, and some are gangs.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from msgspec.structs import replace

from allotment.api.autoscaling import CAPACITY_TYPE, ZONE, InstanceType, NodePool
from allotment.api.batch import PodGroup
from allotment.api.codec import decode
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct, OwnerReference
from allotment.api.resource import DeviceClass, ResourceClaim
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.autoscaler.catalogue.machine import Machine, node_of
from allotment.autoscaler.catalogue.overlays import evaluate
from allotment.autoscaler.simulate.simulation import BoundPod, Simulation, start_simulation

DRIVER = "gpu.example.com"
SIZES = (2, 4, 8, 16, 32, 48, 64, 96)
FAMILIES = (
    ("general", 4, ""),
    ("compute", 2, ""),
    ("memory", 8, ""),
    ("l4", 4, "l4"),
    ("h100", 8, "h100"),
    ("lean", 3, ""),
)
"""Name, GiB for each CPU, GPU."""
GPU_PRICE = {"": 0.0, "l4": 0.5, "h100": 2.6}
GPU_MEMORY = {"l4": 24, "h100": 80}


@dataclass(frozen=True)
class Problem:
    """``objects`` belong into the cluster: classes, claims, groups."""

    machines: tuple[Machine, ...]
    objects: tuple[ApiStruct, ...]
    pods: tuple[Pod, ...]


@dataclass(frozen=True)
class Shape:
    """What equal pods ask for."""

    cpu: int  # millis
    memory: int  # MiB
    gpus: int
    wish: str  # a model, "any", or "first" for one model before another
    selector: dict[str, str]
    spread: bool
    gang: int  # members that must start together; 0: each by itself


def problem(
    seed: int, pods: int, *, shapes: int = 20, types: int = 144, zones: int = 4, special: bool = True
) -> Problem:
    """``special`` adds what is more than resources: zones, gangs, alternatives, spreading."""
    random = Random(seed)
    catalogue = Catalogue({each.metadata.name: each for each in _types(random, types, zones)})
    made = [_shape(random, zones, special=special) for _ in range(shapes)]
    cuts = sorted(random.sample(range(1, pods), shapes - 1)) if shapes > 1 else []
    counts = [b - a for a, b in zip([0, *cuts], [*cuts, pods], strict=True)]
    objects: list[ApiStruct] = [_class()]
    waiting: list[Pod] = []
    for number, (shape, count) in enumerate(zip(made, counts, strict=True)):
        for member in range(count):
            group = f"s{number}-g{member // shape.gang}" if shape.gang else ""
            if group and member % shape.gang == 0:
                objects.append(_group(group, min(shape.gang, count - member)))
            pod, claims = _pod(f"s{number}-{member}", shape, group, number)
            waiting.append(pod)
            objects += claims
    return Problem(evaluate(catalogue).machines, tuple(objects), tuple(waiting))


@dataclass(frozen=True)
class Running:
    """Nodes with pods on them, in a simulation, and the machines that can be had."""

    there: Simulation
    machines: tuple[Machine, ...]


def cluster(seed: int, nodes: int, *, idle: float = 0.2, shapes: int = 20, types: int = 144) -> Running:
    """Nodes are of the machines that give most for their price. Each is filled with pods of few shapes, but for a part of them, ``idle``,
    which have one pod or two."""
    random = Random(seed)
    pool = {"metadata": {"name": "pool"}, "spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}}
    known = {each.metadata.name: each for each in _types(random, types, 4)}
    machines = evaluate(Catalogue(known, {"pool": decode(NodePool, pool)})).machines
    by_worth = sorted(machines, key=lambda each: (each.price / each.capacity["cpu"].nanos, each.name))
    cards = [each for each in by_worth if each.devices][: max(3, len(known) // 8)]
    plain = [each for each in by_worth if not each.devices][: max(3, len(known) // 8)]
    made = [_shape(random, 1, special=False) for _ in range(shapes)]
    simulation = start_simulation([_class()])
    for number in range(nodes):
        machine, few = random.choice(random.choice((cards, plain))), random.random() < idle
        fitting = [kind for kind, each in enumerate(made) if bool(each.gpus) <= bool(machine.devices)]
        simulation.simulate_add_node(*node_of(machine, f"node-{number}"))
        _fill(simulation, number, [(kind, made[kind]) for kind in fitting], random, few=few)
    return Running(simulation, machines)


def _fill(
    simulation: Simulation, number: int, shapes: list[tuple[int, Shape]], random: Random, *, few: bool
) -> None:
    left, misses, count = random.randint(1, 2) if few else 10**6, 0, 0
    while left and misses < 12:
        kind, shape = random.choice(shapes)
        count += 1
        pod, claims = _pod(f"p{number}-{count}", shape, "", kind)
        with simulation.trial() as trial:
            simulation.put_all(claims)
            if isinstance(simulation.simulate_bind_pod(_owned(pod), f"node-{number}"), BoundPod):
                trial.keep()
                left -= 1
            else:
                misses += 1


def _owned(pod: Pod) -> Pod:
    owner = OwnerReference(
        api_version="apps/v1", kind="ReplicaSet", name="owner", uid="owner", controller=True
    )
    return replace(pod, metadata=replace(pod.metadata, owner_references=(owner,)))


def _types(random: Random, count: int, zones: int) -> list[InstanceType]:
    made = []
    for number in range(count):
        family, ratio, gpu = FAMILIES[number % len(FAMILIES)]
        cpu = SIZES[number // len(FAMILIES) % len(SIZES)]
        gpus = max(1, cpu // 12) if gpu else 0
        price = (cpu * 0.03 + cpu * ratio * 0.004 + gpus * GPU_PRICE[gpu]) * random.uniform(0.9, 1.2)
        offerings = [
            {
                "zone": f"zone-{zone}",
                "capacityType": kind,
                "price": f"{price * random.uniform(0.97, 1.03) * factor:.4f}",
            }
            for zone in range(zones)
            for kind, factor in (("on-demand", 1.0), ("spot", random.uniform(0.35, 0.7)))
        ]
        spec: dict[str, Any] = {
            "labels": {"example.com/family": family},
            "capacity": {"cpu": str(cpu), "memory": f"{cpu * ratio}Gi", "pods": "110"},
            "overhead": {"cpu": f"{60 + cpu * 2}m", "memory": f"{512 + cpu * ratio * 20}Mi"},
            "offerings": offerings,
        }
        if gpus:
            spec["dynamicResources"] = {"resourceSliceTemplates": [_gpus(gpu, gpus)]}
        made.append(decode(InstanceType, {"metadata": {"name": f"{family}-{cpu}-{number}"}, "spec": spec}))
    return made


def _gpus(model: str, count: int) -> dict[str, Any]:
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"model": {"string": model}, "index": {"int": number}},
            "capacity": {"memory": {"value": f"{GPU_MEMORY[model]}Gi"}},
        }
        for number in range(count)
    ]
    return {"metadata": {"name": "gpus"}, "spec": {"driver": DRIVER, "devices": devices}}


def _shape(random: Random, zones: int, *, special: bool) -> Shape:
    cpu = random.choice((250, 500, 1000, 1500, 2000, 3000, 4000, 6000))
    memory = cpu * random.choice((1, 2, 3, 4, 6, 8))
    gpus = random.choice((0, 0, 0, 1, 1, 2, 4))
    wish = random.choice(("l4", "any", "first") if special else ("l4", "any")) if gpus else ""
    selector = {}
    if special and random.random() < 0.25:
        selector[ZONE] = f"zone-{random.randrange(zones)}"
    if random.random() < 0.2:
        selector[CAPACITY_TYPE] = "on-demand"
    spread = special and ZONE not in selector and random.random() < 0.1
    gang = random.choice((0, 0, 0, 4, 8)) if special else 0
    return Shape(cpu, memory, gpus, wish, selector, spread, gang)


def _pod(name: str, shape: Shape, group: str, number: int) -> tuple[Pod, list[ResourceClaim]]:
    requests = {"cpu": f"{shape.cpu}m", "memory": f"{shape.memory}Mi"}
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "resources": {"requests": requests}}],
        "nodeSelector": shape.selector,
        "schedulerName": "default-scheduler",
    }
    labels = {"app": f"s{number}"}
    claims = []
    if shape.gpus:
        spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": f"s{number}"}]
        claims.append(_claim(name, shape))
    if shape.spread:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels},
            }
        ]
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels}
    made = [{"name": "gpus", "resourceClaimName": name}] if claims else []
    return decode(
        Pod, {"metadata": metadata, "spec": spec, "status": {"resourceClaimStatuses": made}}
    ), claims


def _claim(name: str, shape: Shape) -> ResourceClaim:
    def exactly(model: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {
            "deviceClassName": "gpu",
            "count": shape.gpus,
            "allocationMode": "ExactCount",
        }
        if model:
            test = f"device.attributes['{DRIVER}'].model == '{model}'"
            found["selectors"] = [{"cel": {"expression": test}}]
        return found

    request: dict[str, Any] = {"name": "gpus"}
    if shape.wish == "first":
        request["firstAvailable"] = [{"name": model, **exactly(model)} for model in ("l4", "h100")]
    else:
        request["exactly"] = exactly("" if shape.wish == "any" else shape.wish)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
    metadata = {"name": name, "namespace": "default", "uid": f"claim-{name}", "ownerReferences": [owner]}
    return decode(ResourceClaim, {"metadata": metadata, "spec": {"devices": {"requests": [request]}}})


def _class() -> DeviceClass:
    test = f"device.driver == '{DRIVER}'"
    return decode(
        DeviceClass, {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": test}}]}}
    )


def _group(name: str, minimum: int) -> PodGroup:
    metadata = {"name": name, "namespace": "default", "uid": f"group-{name}"}
    return decode(
        PodGroup, {"metadata": metadata, "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}}}
    )
