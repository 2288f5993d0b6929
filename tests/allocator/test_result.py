"""What is written into a claim: devices, configuration, node selector."""

import pytest

from allotment.allocator.features import ALL, Features
from allotment.allocator.outcome import Allocated, InvalidInput, Outcome
from allotment.allocator.strategy import BEST_FIT
from allotment.api.codec import to_builtins
from allotment.api.core import NodeSelector
from allotment.api.resource import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from tests.allocator.build import (
    ANY,
    allocate,
    claim,
    class_,
    device,
    either,
    mine,
    node,
    policed,
    request,
    selector,
    selector_of,
    slice_,
    sub,
    toleration,
    where,
)


def written(outcome: Outcome, number: int = 0) -> AllocationResult:
    assert isinstance(outcome, Allocated), f"{outcome}"
    return outcome.results[number]


def configs(outcome: Outcome, number: int = 0) -> list[str]:
    """Each configuration as ``source:name`` and the requests it is limited to."""
    found = []
    for config in written(outcome, number).devices.config:
        assert config.opaque is not None
        limit = f"@{','.join(config.requests)}" if config.requests else ""
        found.append(f"{config.source.removeprefix('From')}:{config.opaque.parameters['name']}{limit}")
    return found


# --- one device ---


def test_a_plain_device_is_named_and_nothing_more() -> None:
    result = written(allocate([slice_(device("d"))], claim(request())))
    assert [to_builtins(each) for each in result.devices.results] == [
        {"request": "r", "driver": "gpu.example.com", "pool": "pool", "device": "d"}
    ]


def test_everything_that_a_result_can_carry() -> None:
    nic = device(
        "nic", shared=True, capacity={"bw": policed("10G", "1G", min="1G", step="1G")}, binding=["up"]
    )
    outcome = allocate(
        [slice_(nic, skips=["NodePrepareResources"])],
        claim(request("r", tolerates=[toleration("t", "Exists")], capacity={"bw": "1500M"}, admin=True)),
        on=node(declares=["DRAOptionalNodeOperations"]),
        share_id=lambda claim, result: f"share-{claim}-{result}",
    )
    (found,) = written(outcome).devices.results
    assert to_builtins(found) == {
        "request": "r",
        "driver": "gpu.example.com",
        "pool": "pool",
        "device": "nic",
        "adminAccess": True,
        "tolerations": [{"key": "t", "operator": "Exists"}],
        "bindingConditions": ["up"],
        "shareID": "share-0-0",
        "consumedCapacity": {"bw": "2G"},
        "skipNodeOperations": ["NodePrepareResources"],
    }


def test_share_ids_are_asked_for_by_claim_and_result() -> None:
    slices = [slice_(device("whole", kind="w"), device("nic", kind="n", shared=True))]
    both = [request("a", f"{mine('kind')} == 'w'"), request("b", f"{mine('kind')} == 'n'")]
    outcome = allocate(
        slices,
        claim(*both),
        claim(both[1], name="second"),
        share_id=lambda claim, result: f"share-{claim}-{result}",
    )
    ids = [[each.share_id for each in written(outcome, number).devices.results] for number in range(2)]
    assert ids == [[None, "share-0-1"], ["share-1-0"]]


def test_the_whole_capacity_of_an_exclusive_device_is_not_written_down() -> None:
    outcome = allocate([slice_(device("d", capacity={"m": "4"}))], claim(request(capacity={"m": "2"})))
    assert written(outcome).devices.results[0].consumed_capacity == {}


def test_a_share_without_request_takes_default_or_all() -> None:
    nic = device("nic", shared=True, capacity={"bw": "10G", "queues": policed("8", "2")})
    (found,) = written(allocate([slice_(nic)], claim(request()))).devices.results
    assert {name: str(amount) for name, amount in found.consumed_capacity.items()} == {
        "bw": "10G",
        "queues": "2",
    }


# --- configuration ---

GPU = class_("gpu", config=["gpu-a", "gpu-b"])
NIC = class_("nic", config=["nic"])
SLICES = [slice_(*[device(f"d{n}") for n in range(4)])]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(
            claim(request(class_name="gpu")), ["Class:gpu-a", "Class:gpu-b"], id="of the class, for all"
        ),
        pytest.param(
            claim(request("a", class_name="gpu"), request("b", class_name="gpu")),
            ["Class:gpu-a", "Class:gpu-b"],
            id="once per class",
        ),
        pytest.param(
            claim(request("a", class_name="nic"), request("b"), request("c", class_name="nic")),
            ["Class:nic@a,c"],
            id="limited to the requests of the class",
        ),
        pytest.param(
            claim(request("a", class_name="nic"), request("b", class_name="gpu")),
            ["Class:nic@a", "Class:gpu-a@b", "Class:gpu-b@b"],
            id="classes in the order of requests",
        ),
        pytest.param(
            claim(request("a"), request("b"), config={"all": [], "one": ["b"], "both": ["b", "a"]}),
            ["Claim:all", "Claim:one@b", "Claim:both"],
            id="of the claim",
        ),
        pytest.param(
            claim(request("a", class_name="nic"), config={"mine": []}),
            ["Class:nic", "Claim:mine"],
            id="the class first",
        ),
        pytest.param(
            claim(
                either("a", sub("x", class_name="gpu"), sub("y", class_name="nic")),
                config={"x": ["a/x"], "y": ["a/y"], "a": ["a"]},
            ),
            ["Class:gpu-a", "Class:gpu-b", "Claim:x", "Claim:a"],
            id="of the alternative that was taken",
        ),
        pytest.param(
            claim(
                either("a", sub("x", "false", class_name="gpu"), sub("y", class_name="nic")),
                request("b"),
                config={"x": ["a/x"], "y": ["a/y"]},
            ),
            ["Class:nic@a/y", "Claim:y@a/y"],
            id="of the second alternative, by its full name",
        ),
    ],
)
def test_configuration(wanted: ResourceClaim, expected: list[str]) -> None:
    assert configs(allocate(SLICES, wanted, classes=[ANY, GPU, NIC])) == expected


def test_each_claim_has_its_own_configuration() -> None:
    classes: list[DeviceClass] = [ANY, GPU, NIC]
    outcome = allocate(
        SLICES,
        claim(request(class_name="nic"), config={"one": []}),
        claim(request(), name="second", config={"two": []}),
        classes=classes,
    )
    assert [configs(outcome, number) for number in range(2)] == [["Class:nic", "Claim:one"], ["Claim:two"]]


# --- where the devices can be used ---

ON_NODE = selector(fields=[where("metadata.name", "In", "node-1")])
ZONE, TIER = where("zone", "In", "z1", "z2"), where("tier", "Exists")


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        pytest.param([slice_(device("d"))], ON_NODE, id="on the node that has it"),
        pytest.param([slice_(device("d"), everywhere=True)], None, id="everywhere"),
        pytest.param([slice_(device("d", binds=True), everywhere=True)], ON_NODE, id="bound to the node"),
        pytest.param([slice_(device("d", binds=False), everywhere=True)], None, id="not bound"),
        pytest.param([slice_(device("d"), on=selector(ZONE))], selector(ZONE), id="where the selector holds"),
        pytest.param(
            [slice_(device("d", on="node-1"), per_device=True)], ON_NODE, id="the device's own node"
        ),
        pytest.param(
            [slice_(device("d", on=selector(TIER)), per_device=True)],
            selector(TIER),
            id="the device's own selector",
        ),
        pytest.param(
            [slice_(device("d", everywhere=True), per_device=True)], None, id="the device is everywhere"
        ),
    ],
)
def test_where_one_device_can_be_used(slices: list[ResourceSlice], expected: NodeSelector | None) -> None:
    here = node("node-1", zone="z1", tier="3")
    assert written(allocate(slices, claim(request()), on=here)).node_selector == expected


def pair(first: NodeSelector, second: NodeSelector | str | None) -> list[ResourceSlice]:
    return [
        slice_(device("d"), name="a", pool="a", on=first),
        slice_(device("d"), name="b", pool="b", on=second, everywhere=None if second else True),
    ]


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        pytest.param(pair(selector(ZONE), selector(TIER)), selector(ZONE, TIER), id="both hold"),
        pytest.param(pair(selector(ZONE), selector(ZONE)), selector(ZONE), id="the same once"),
        pytest.param(
            pair(selector(ZONE), selector(where("zone", "In", "z2", "z1"))),
            selector(ZONE),
            id="values are a set",
        ),
        pytest.param(pair(selector(ZONE), "node-1"), ON_NODE, id="one node says it all"),
        pytest.param(pair(selector(ZONE), None), selector(ZONE), id="everywhere adds nothing"),
    ],
)
def test_where_two_devices_can_be_used_together(slices: list[ResourceSlice], expected: NodeSelector) -> None:
    here = node("node-1", zone="z1", tier="3")
    assert written(allocate(slices, claim(request(count=2)), on=here)).node_selector == expected


def test_a_selector_of_several_terms_cannot_be_written_down() -> None:
    terms = (*selector(ZONE).node_selector_terms, *selector(TIER).node_selector_terms)
    outcome = allocate(
        [slice_(device("d"), on=selector_of(*terms))], claim(request()), on=node("node-1", zone="z1")
    )
    assert isinstance(outcome, InvalidInput)
    assert "its nodeSelector has 2 terms" in str(outcome.error)


def test_a_claim_that_got_nothing_can_be_used_everywhere() -> None:
    assert written(allocate(SLICES, claim(request(count=0)))) == AllocationResult()


# --- features and strategies ---


def test_without_the_feature_binding_conditions_are_not_written() -> None:
    """Such devices are not chosen then; failure conditions alone do no harm, and are left out as well."""
    outcome = allocate(SLICES, claim(request()), features=Features(DeviceBindingAndStatus=False))
    assert written(outcome).devices.results[0].binding_conditions == ()
    assert ALL.DeviceBindingAndStatus


def test_another_order_of_devices_writes_the_right_names() -> None:
    slices = [slice_(device("big", capacity={"m": "9"}), device("small", capacity={"m": "1"}))]
    outcome = allocate(slices, claim(request("a"), request("b")), strategy=BEST_FIT)
    assert [each.device for each in written(outcome).devices.results] == ["small", "big"]
