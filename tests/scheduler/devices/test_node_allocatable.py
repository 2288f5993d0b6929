"""Devices that are part of a node's own resources, or cost some of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from allotment.api.codec import decode
from allotment.api.core import Pod, ResourceRequirements
from allotment.api.resource import Device, NodeAllocatableResource
from allotment.scheduler.binding.step import PatchStatus
from allotment.scheduler.framework import StatusCode
from allotment.scheduler.placement import EXTRA
from tests.allocator.build import device, policed, request
from tests.builders.typed import amounts, claim, container, node, pod, slice_
from tests.scheduler.plugins.device_world import World, allocated, user

UNIT = 10**9


def bearing(name: str, of: Device | None = None, **resources: dict[str, Any]) -> Device:
    """A device with these bearings on the node's resources, as they are written in JSON."""
    found = {key: decode(NodeAllocatableResource, value) for key, value in resources.items()}
    return replace(of or device(name), node_allocatable_resources=found)


def mapping(**fields: str) -> dict[str, Any]:
    return {"mapping": fields}


def overhead(**fields: str) -> dict[str, Any]:
    return {"overhead": fields}


def world(*devices: Device, cpu: int = 8, **options: Any) -> World:
    return World(node("n1", cpu=cpu, memory="8Gi"), slice_("n1", *devices), claim("c"), **options)


USES = pod("p", cpu=1, claims=["c"])

# device, containers that use the claim, what it costs
COSTS: dict[str, tuple[Device, int, dict[str, int]]] = {
    "a device that is so many cpus": (
        bearing("d0", cpu=mapping(deviceMultiplier="2")),
        1,
        {"cpu": 2 * UNIT},
    ),
    "a capacity that is memory": (
        bearing(
            "d0",
            device("d0", capacity={"memory": policed("4Gi", "2Gi")}, shared=True),
            memory=mapping(capacityKey="memory"),
        ),
        1,
        {"memory": 2 * 2**30 * UNIT},
    ),
    "a capacity times a factor": (
        bearing(
            "d0",
            device("d0", capacity={"slots": policed("4", "3")}, shared=True),
            cpu=mapping(capacityKey="slots", capacityMultiplier="500m"),
        ),
        1,
        {"cpu": 3 * UNIT // 2},
    ),
    "a capacity that nothing was taken of": (
        bearing("d0", cpu=mapping(capacityKey="slots")),
        1,
        {},
    ),
    "overhead for the pod": (bearing("d0", memory=overhead(perPod="1Gi")), 1, {"memory": 2**30 * UNIT}),
    "overhead for each container": (bearing("d0", cpu=overhead(perContainer="1")), 2, {"cpu": 2 * UNIT}),
    "all of it": (
        bearing("d0", cpu={**mapping(deviceMultiplier="1"), **overhead(perPod="1", perContainer="1")}),
        2,
        {"cpu": 4 * UNIT},
    ),
    "nothing": (device("d0"), 1, {}),
}


@pytest.mark.parametrize(("found", "containers", "expected"), COSTS.values(), ids=COSTS)
def test_what_devices_cost_of_the_node(found: Device, containers: int, expected: dict[str, int]) -> None:
    users = [container(f"c{number}", claims=["c"]) for number in range(containers)]
    of = replace(USES, spec=replace(USES.spec, containers=(*users, container("idle"))))
    there = world(found)
    cycle, steps = there.place(of, "n1")
    assert cycle.state.get(EXTRA, {}) == expected
    told = [step.patch["status"] for step in steps if isinstance(step, PatchStatus)]
    assert len(told) == bool(expected)
    if told:
        (status,) = told[0]["nodeAllocatableResourceClaimStatuses"]
        assert status["resourceClaimName"] == "c"
        assert status["containers"] == [each.name for each in users]
    there.plugin.unreserve(cycle, there.cluster.nodes["n1"])
    assert EXTRA not in cycle.state


def test_the_node_must_have_what_requests_and_devices_take_together() -> None:
    there = world(
        bearing("d0", cpu=mapping(deviceMultiplier="4")), bearing("d1", cpu=mapping(deviceMultiplier="4"))
    )
    words = "have too little cpu for the pod and what its devices take"
    small = pod("small", cpu=4, claims=["c"])
    large = pod("large", cpu=5, claims=["c"])
    assert there.fitting(small) == ["n1"]
    (status,) = there.verdicts(there.cycle(large)).values()
    assert (status.words, status.code) == (words, StatusCode.UNRESOLVABLE)
    cycle, _ = there.place(small, "n1")
    there.cluster.assume(cycle.pod, "n1", cycle.state[EXTRA])
    there.cluster.validate()
    there.show(claim("d"))
    (status,) = there.verdicts(there.cycle(pod("next", cpu=1, claims=["d"]))).values()
    assert (status.words, status.code) == (words, StatusCode.UNSCHEDULABLE)
    assert there.plugin.helps_anyone(pod("small", node="n1"), None), "cpus come back when pods go"


def whole(cpu: int) -> Pod:
    of = pod("p", claims=["c"], cpu=2)
    return replace(of, spec=replace(of.spec, resources=ResourceRequirements(requests=amounts({"cpu": cpu}))))


def test_what_the_pod_requests_as_a_whole_has_to_cover_its_devices() -> None:
    there = world(bearing("d0", cpu=mapping(deviceMultiplier="2")))
    cycle, _ = there.place(whole(cpu=4), "n1")
    assert EXTRA not in cycle.state, "it is in the pod's request"
    there = world(bearing("d0", cpu=mapping(deviceMultiplier="2")))
    assert there.words(whole(cpu=3)) == {
        "n1": "have devices that take more cpu than the pod requests as a whole"
    }


@pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "overhead only"])
def test_a_claim_that_is_part_of_a_node_is_not_shared(mapped: bool) -> None:
    found = bearing("d0", cpu=mapping(deviceMultiplier="1") if mapped else overhead(perPod="1"))
    there = World(node("n1"), slice_("n1", found))
    there.show(allocated(claim("c"), "d0", users=[user(pod("other"))]))
    assert (there.fitting(USES) == []) == mapped


def test_the_status_of_a_bound_pod_tells_what_its_devices_take() -> None:
    first = world(bearing("d0", cpu=mapping(deviceMultiplier="2")))
    cycle, steps = first.place(USES, "n1")
    (told,) = [step.patch["status"] for step in steps if isinstance(step, PatchStatus)]
    bound = pod("p", cpu=1, claims=["c"], node="n1")
    status = replace(
        bound.status,
        node_allocatable_resource_claim_statuses=decode(
            Pod, {"status": told}
        ).status.node_allocatable_resource_claim_statuses,
    )
    fresh = world(bearing("d0", cpu=mapping(deviceMultiplier="2"))).show(replace(bound, status=status))
    info = fresh.cluster.nodes["n1"]
    assert info.taken["cpu"] == 3 * UNIT
    fresh.cluster.validate()
    first.plugin.unreserve(cycle, first.cluster.nodes["n1"])


def test_given_claims_cost_too() -> None:
    there = World(node("n1", cpu=2), slice_("n1", bearing("d0", cpu=mapping(deviceMultiplier="2"))))
    there.show(allocated(claim("c", request()), "d0"))
    assert there.fitting(pod("p", claims=["c"])) == ["n1"]
    assert there.fitting(USES) == []
