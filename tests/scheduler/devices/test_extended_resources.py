"""Extended resources as claims: which requests, for which containers, and on which nodes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from allotment.api.claim_marks import EXTENDED
from allotment.api.core import Container, Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import DeviceClass
from allotment.scheduler.binding.step import MakeClaim, PatchStatus
from allotment.scheduler.devices.extended_resources import extended_claim, served
from allotment.scheduler.pod import PodInfo
from tests.allocator import build
from tests.builders.typed import claim, container, node, pod
from tests.scheduler.plugins.device_world import World, allocated, fleet, going, owned, user

GPU = "vendor.com/gpu"
BY_CLASS = "deviceclass.resource.kubernetes.io/any"
CLASSES = {GPU: "gpu", "vendor.com/nic": "nic"}


def gpu_class(name: str = "gpu", resource: str = GPU) -> DeviceClass:
    found = build.class_(name)
    return replace(found, spec=replace(found.spec, extended_resource_name=resource))


def wants(name: str, gpus: int = 0, **more: int) -> Container:
    resources: dict[str, str | int] = {"cpu": 1}
    if gpus:
        resources[GPU] = gpus
    return container(name, more={**resources, **{f"vendor.com/{key}": count for key, count in more.items()}})


def sidecar(name: str, gpus: int) -> Container:
    return container(name, more={GPU: gpus}, sidecar=True)


# containers, init containers, requests with their counts, which request serves which container
REQUESTS: dict[str, tuple[Sequence[Container], Sequence[Container], dict[str, int], list[str]]] = {
    "one container": ([wants("a", 2)], [], {"container-0-request-1": 2}, ["a: container-0-request-1"]),
    "two containers": (
        [wants("a", 1), wants("b", 3)],
        [],
        {"container-0-request-1": 1, "container-1-request-1": 3},
        ["a: container-0-request-1", "b: container-1-request-1"],
    ),
    "one of two": (
        [wants("a"), wants("b", 1)],
        [],
        {"container-1-request-1": 1},
        ["b: container-1-request-1"],
    ),
    "an init container uses what the others have later": (
        [wants("a", 2)],
        [wants("init", 2)],
        {"container-1-request-1": 2},
        ["a: container-1-request-1", "init: container-1-request-1"],
    ),
    "an init container that wants more gets the rest": (
        [wants("a", 2)],
        [wants("init", 5)],
        {"container-0-request-1": 3, "container-1-request-1": 2},
        ["a: container-1-request-1", "init: container-1-request-1", "init: container-0-request-1"],
    ),
    "init containers share the largest rest": (
        [wants("a")],
        [wants("i", 1), wants("j", 4)],
        {"container-1-request-1": 4},
        ["i: container-1-request-1", "j: container-1-request-1"],
    ),
    "a sidecar keeps what it has": (
        [wants("a", 1)],
        [sidecar("side", 2)],
        {"container-0-request-0": 2, "container-1-request-1": 1},
        ["side: container-0-request-0", "a: container-1-request-1"],
    ),
    "a sidecar that started before lends nothing": (
        [wants("a")],
        [sidecar("side", 2), wants("init", 1)],
        {"container-0-request-0": 2, "container-1-request-1": 1},
        ["side: container-0-request-0", "init: container-1-request-1"],
    ),
}


@pytest.mark.parametrize(("containers", "init", "counts", "mappings"), REQUESTS.values(), ids=REQUESTS)
def test_requests_and_the_containers_that_they_serve(
    containers: Sequence[Container], init: Sequence[Container], counts: dict[str, int], mappings: list[str]
) -> None:
    made = extended_claim(PodInfo(pod("p", containers=containers, init=init)), [GPU], CLASSES)
    requests = {each.name: each.exactly for each in made.claim.spec.devices.requests}
    assert {name: exactly.count for name, exactly in requests.items() if exactly} == counts
    assert {exactly.device_class_name for exactly in requests.values() if exactly} == {"gpu"}
    assert [f"{each.container_name}: {each.request_name}" for each in made.mappings] == mappings


def test_a_limit_without_a_request_stands_for_one() -> None:
    of = pod("p", containers=[container("a", limits={GPU: 2, "cpu": 1})])
    (request,) = extended_claim(PodInfo(of), [GPU], CLASSES).claim.spec.devices.requests
    assert request.name == "container-0-request-1"
    assert request.exactly is not None
    assert request.exactly.count == 2


def test_several_resources_are_one_claim_of_the_pods() -> None:
    of = pod("p", containers=[wants("a", 1, nic=2)])
    made = extended_claim(PodInfo(of), [GPU, "vendor.com/nic"], CLASSES).claim
    assert [each.name for each in made.spec.devices.requests] == [
        "container-0-request-1",
        "container-0-request-2",
    ]
    (owner,) = made.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Pod", "p", "uid-default-p", True)
    assert made.metadata.annotations == {EXTENDED: "true"}
    assert made.metadata.name.startswith("p-extended-resources-")


def test_names_are_short_enough_and_the_pods_own() -> None:
    names = {
        extended_claim(PodInfo(pod("x" * 240, uid=uid, more={GPU: 1})), [GPU], CLASSES).claim.metadata.name
        for uid in "ab"
    }
    assert len(names) == 2
    assert max(map(len, names)) <= 68


def test_only_what_a_class_serves_counts() -> None:
    of = PodInfo(pod("p", more={GPU: 1, "vendor.com/other": 1, "vendor.com/nic": 0}))
    assert served(of, CLASSES) == {GPU: "gpu"}


# --- in the cycle ---


def asking(name: str = "p", gpus: int = 1, resource: str = GPU, **more: object) -> Pod:
    return pod(name, more={resource: gpus}, **more)  # type: ignore[arg-type]  # passed on


@pytest.mark.parametrize("resource", [GPU, BY_CLASS], ids=["by its own name", "by the class's name"])
def test_the_claim_is_made_written_and_told(resource: str) -> None:
    world = World(gpu_class(), *fleet("n1"))
    cycle, (make, told) = world.place(asking(gpus=2, resource=resource), "n1")
    assert isinstance(make, MakeClaim)
    assert make.manifest["metadata"]["name"] == make.claim.partition("/")[2]
    assert make.write.allocation is not None
    assert [each.device for each in make.write.allocation.devices.results] == ["d0", "d1"]
    assert make.write.finalizer == "resource.kubernetes.io/delete-protection"
    assert isinstance(told, PatchStatus)
    status = told.patch["status"]["extendedResourceClaimStatus"]
    assert status == {
        "resourceClaimName": make.manifest["metadata"]["name"],
        "requestMappings": [
            {"containerName": "main", "resourceName": resource, "requestName": "container-0-request-0"}
        ],
    }
    assert set(world.cluster.claims.flights) == {make.claim}
    world.plugin.unreserve(cycle, world.cluster.nodes["n1"])
    world.cluster.validate()
    assert not world.cluster.claims.flights


def test_nodes_whose_device_plugin_has_the_resource_need_no_claim() -> None:
    plugged = node("plugged", more={GPU: 4})
    world = World(gpu_class(), *fleet("claimed"), plugged, node("bare"))
    assert world.fitting(asking()) == ["claimed", "plugged"]
    assert world.words(asking()) == {"bare": "have no gpu"}
    _, steps = world.place(asking(), "plugged")
    assert steps == []
    assert not world.cluster.claims.flights


def test_pods_with_claims_of_their_own_get_both_at_once() -> None:
    world = World(gpu_class(), *fleet("small", devices=["d0"]), *fleet("n1"), claim("c"))
    of = asking(claims=["c"])
    assert world.fitting(of) == ["n1"]
    _, steps = world.place(of, "n1")
    assert [type(step).__name__ for step in steps] == ["WriteClaim", "MakeClaim", "PatchStatus"]


def test_resources_that_no_class_serves_are_left_to_others() -> None:
    world = World(*fleet("n1"))
    assert world.fitting(asking()) == ["n1"]
    assert world.place(asking(), "n1")[1] == []


def test_equal_pods_have_one_shape_and_other_containers_another() -> None:
    world = World(gpu_class(), *fleet("n1"))
    one, two = world.cycle(asking("p")), world.cycle(asking("q"))
    assert world.plugin.shape(one) == world.plugin.shape(two)
    by_class = world.cycle(asking("r", resource=BY_CLASS))
    assert world.plugin.shape(one) != world.plugin.shape(by_class)


def test_a_claim_that_an_earlier_attempt_left_is_deleted_first() -> None:
    of = asking()
    left = owned(claim("left"), of, **{EXTENDED: "true"})
    world = World(gpu_class(), *fleet("n1"), allocated(left, "d0", users=[user(of)]))
    cycle = world.cycle(of)
    assert world.words(of) == {"n1": "have to wait until a claim of an earlier attempt is deleted"}
    release = world.plugin.post_filter(cycle, {})
    assert release is not None
    assert release.claims == ("default/left",)
    world.cluster.change(None, going(left))
    assert "is being deleted" in world.refused(of)
    world.cluster.change(left, None)
    assert world.fitting(of) == ["n1"]
    assert world.plugin.helps(world.cluster.pods["default/p"], left, None, world.cluster)


@pytest.mark.parametrize(
    ("times", "serves"),
    [
        (("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"), "a-gpu"),
        (("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"), "b-gpu"),
        (("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"), "a-gpu"),
    ],
    ids=["made together", "the second is newer", "the first is newer"],
)
def test_the_newest_class_serves_a_resource_that_two_name(times: tuple[str, str], serves: str) -> None:
    classes: list[ApiStruct] = []
    for name, time in zip(("a-gpu", "b-gpu"), times, strict=True):
        found = gpu_class(name)
        classes.append(replace(found, metadata=replace(found.metadata, creation_timestamp=time)))
    _, (make, _) = World(*classes, *fleet("n1")).place(asking(), "n1")
    assert isinstance(make, MakeClaim)
    (request,) = make.manifest["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == serves
