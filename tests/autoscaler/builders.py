"""Small clusters to simulate on, and what a test wants to know of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from allotment.api import semantic
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct, ObjectMeta
from allotment.api.resource import DeviceClass, ResourceClaim
from allotment.autoscaler.simulate.simulation import BoundPod, Simulation, start_simulation
from tests.allocator import build
from tests.allocator.trees import card, parameters, resource_class, slice_of
from tests.allocator.trees import claim as tree_claim
from tests.allocator.trees import request as tree_request
from tests.builders.typed import claim, node, pod, slice_

GPU = "vendor.com/gpu"
WHOLE = 'quantities["memory"] >= "32Gi"'
QUARTER = 'quantities["memory"] <= "8Gi"'


def simulation(*objects: ApiStruct, **more: Any) -> Simulation:
    """A simulation with the class ``any``."""
    return start_simulation([build.class_(), *objects], **more)


def machines(*names: str, devices: Iterable[Any] = ("d0", "d1"), **more: Any) -> list[ApiStruct]:
    """Nodes, each with these devices."""
    return [each for name in names for each in (node(name, **more), slice_(name, *devices))]


def gpu_class() -> DeviceClass:
    """A class that serves an extended resource."""
    found = build.class_("gpu")
    return replace(found, spec=replace(found.spec, extended_resource_name=GPU))


def trees(*names: str, wish: str = WHOLE, shareable: bool | None = None) -> list[ApiStruct]:
    """The semantic side of a cluster: nodes with a card each, a class, and parameters ``p``."""
    made: list[ApiStruct] = [resource_class(), parameters("p", tree_request(wish), shareable=shareable)]
    for name in names:
        made += [node(name), slice_of(card("a"), on=name, name=f"tree-{name}")]
    return made


def semantic_claim(name: str, mode: str | None = None, ref: str = "p") -> semantic.ResourceClaim:
    found = tree_claim(name, ref)
    meta = ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}")
    return replace(found, metadata=meta, spec=replace(found.spec, allocation_mode=mode))


def semantic_pod(name: str, *claims: str) -> Pod:
    return pod(name, namespace="ns", claims=list(claims or (name,)))


def asking(name: str, *requests: Any, **more: Any) -> tuple[Pod, ResourceClaim]:
    """A pod and the claim of its own that it uses."""
    return pod(name, claims=[name], **more), claim(name, *requests)


def bind(there: Simulation, who: Pod, on: str) -> BoundPod:
    """Binds a pod, which must work."""
    found = there.simulate_bind_pod(who, on)
    assert isinstance(found, BoundPod), found
    there.validate()
    return found


def devices_of(there: Simulation, claim: str) -> list[str]:
    """``pool/device`` of what a claim has."""
    allocation = there.objects(ResourceClaim)[claim].status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return [f"{each.pool}/{each.device}" for each in results]


def users_of(there: Simulation, claim: str) -> list[str]:
    return [user.name for user in there.objects(ResourceClaim)[claim].status.reserved_for]


def picture(there: Simulation) -> dict[tuple[type[ApiStruct], str], ApiStruct]:
    """All objects, to be compared."""
    return {
        (type(each), f"{each.metadata.namespace}/{each.metadata.name}"): each  # type: ignore[attr-defined]  # all have it
        for each in there.all()
    }
