"""What a node is said to lack, in a few words that many nodes can have in common."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from allotment.api.meta import ApiStruct
from allotment.api.resource import Device, DeviceConstraint, DeviceRequest
from allotment.scheduler.devices.wording import unjudged
from allotment.scheduler.diagnosis import folded, refused_everywhere
from allotment.scheduler.framework import Status, StatusCode
from tests.allocator import build
from tests.allocator.build import device, policed, request, sub, taint
from tests.builders.typed import claim, node, pod, slice_
from tests.scheduler.plugins.device_world import World, allocated, cards, fleet

MODEL = 'device.attributes["gpu.example.com"].model'
MEMORY = 'device.capacity["gpu.example.com"].memory'
AT_LEAST_80 = f'{MEMORY}.compareTo(quantity("80Gi")) >= 0'


def gpu(name: str, memory: str = "40Gi", **attributes: str) -> Device:
    return device(name, capacity={"memory": memory}, attributes=attributes)


def wanted(*expressions: str, **more: object) -> DeviceRequest:
    return request("r", *expressions, class_name="gpu", **more)  # type: ignore[arg-type]  # passed on


def hot(name: str, memory: str = "40Gi") -> Device:
    return device(name, capacity={"memory": memory}, taints=[taint("hot", "very", "NoExecute")])


TWO = [gpu("d0"), gpu("d1")]
SHARED = [device("d0", capacity={"memory": policed("40Gi", "1Gi")}, shared=True)]

Case = tuple[Sequence[ApiStruct], Sequence[DeviceRequest], str, bool]

# objects, requests, words, whether preemption may help
WORDS: dict[str, Case] = {
    "all in use": (
        [*fleet("n1", devices=TWO), allocated(claim("a"), "d0", "d1")],
        [wanted()],
        "have every gpu in use",
        True,
    ),
    "some in use": (
        [*fleet("n1", devices=TWO), allocated(claim("a"), "d0")],
        [wanted(count=2)],
        "have 1 free gpu, need 2",
        True,
    ),
    "those that match are in use, others are free": (
        [*fleet("n1", devices=[gpu("d0", "80Gi"), gpu("d1")]), allocated(claim("a"), "d0")],
        [wanted(AT_LEAST_80)],
        "have every matching gpu in use",
        True,
    ),
    "too few of those that match are free": (
        [
            *fleet("n1", devices=[gpu("d0", "80Gi"), gpu("d1", "80Gi"), gpu("d2")]),
            allocated(claim("a"), "d0"),
        ],
        [wanted(AT_LEAST_80, count=2)],
        "have 1 free matching gpu, need 2",
        True,
    ),
    "too few match": (
        fleet("n1", devices=[gpu("d0", "80Gi"), gpu("d1")]),
        [wanted(AT_LEAST_80, count=2)],
        "have 1 matching gpu, need 2",
        False,
    ),
    "too few at all": (fleet("n1", devices=TWO), [wanted(count=9)], "have 2 gpu, need 9", False),
    "too few at all, and in use besides": (
        [*fleet("n1", devices=TWO), allocated(claim("a"), "d0", "d1")],
        [wanted(count=9)],
        "have 2 gpu, need 9",
        False,
    ),
    "no devices": ([node("n1")], [wanted()], "have no gpu", False),
    "no device of the class": (
        fleet("n1", devices=TWO),
        [request("r", class_name="nic")],
        "have no nic",
        False,
    ),
    "too small by a selector": (
        fleet("n1", devices=TWO),
        [wanted(AT_LEAST_80)],
        "have only 40Gi gpu, need 80Gi",
        False,
    ),
    "too small, in use or not": (
        [*fleet("n1", devices=TWO), allocated(claim("a"), "d0", "d1")],
        [wanted(AT_LEAST_80)],
        "have only 40Gi gpu, need 80Gi",
        False,
    ),
    "too small by a capacity request": (
        fleet("n1", devices=TWO),
        [wanted(capacity={"memory": "80Gi"})],
        "have only 40Gi gpu, need 80Gi",
        False,
    ),
    "without the capacity": (
        fleet("n1", devices=TWO),
        [wanted(capacity={"bandwidth": "1"})],
        "have gpu without bandwidth",
        False,
    ),
    "another model": (
        fleet("n1", devices=[gpu("d0", model="t4")]),
        [wanted(f'{MODEL} == "a100"')],
        f'have no gpu with `{MODEL} == "a100"` (model=t4)',
        False,
    ),
    "a selector that fails": (
        fleet("n1", devices=TWO),
        [wanted(f'{MODEL} == "a100"')],
        "cannot judge the pod's claims: claim #1: selector #0: CEL runtime error: no such key: model",
        False,
    ),
    "tainted": (
        fleet("n1", devices=[device("d0", taints=[taint("hot")])]),
        [wanted()],
        "have every matching gpu tainted (1 with taint hot:NoSchedule)",
        False,
    ),
    "tainted, among others that do not match": (
        fleet("n1", devices=[gpu("d0"), gpu("d1"), hot("d2", "80Gi")]),
        [wanted(AT_LEAST_80)],
        "have every matching gpu tainted (1 with taint hot=very:NoExecute)",
        False,
    ),
    "too few without taints": (
        fleet("n1", devices=[gpu("d0"), hot("d1"), hot("d2"), device("d3", taints=[taint("old")])]),
        [wanted(count=2)],
        "have 1 gpu, need 2 (besides 2 with taint hot=very:NoExecute, 1 with taint old:NoSchedule)",
        False,
    ),
    "in use, and tainted what is free": (
        [*fleet("n1", devices=[gpu("d0"), hot("d1"), hot("d2")]), allocated(claim("a"), "d0", "d1")],
        [wanted()],
        "have every gpu in use (besides 1 with taint hot=very:NoExecute)",
        True,
    ),
    "more taints than are told": (
        fleet("n1", devices=[device(f"d{number}", taints=[taint(f"t{number}")]) for number in range(5)]),
        [wanted()],
        "have every matching gpu tainted (1 with taint t0:NoSchedule, 1 with taint t1:NoSchedule,"
        " 1 with taint t2:NoSchedule, 2 with other taints)",
        False,
    ),
    "shares taken": (
        [
            *fleet("n1", devices=SHARED),
            allocated(claim("a"), "d0", share_id="s", consumed_capacity={"memory": build.quantity("30Gi")}),
        ],
        [wanted(capacity={"memory": "20Gi"})],
        "have at most 10Gi memory left of a gpu, need 20Gi",
        True,
    ),
    "an incomplete pool": (
        [node("n1"), slice_("n1", "d0", of=2)],
        [wanted()],
        "have a pool of devices that is incomplete",
        False,
    ),
    "the nearest alternative": (
        [*fleet("n1", devices=TWO), allocated(claim("a"), "d0", "d1")],
        [build.either("r", sub("big", AT_LEAST_80, class_name="gpu"), sub("any", class_name="gpu"))],
        "have every gpu in use",
        True,
    ),
    "together too many": (
        fleet("n1", devices=[gpu("d0")]),
        [request("a", class_name="gpu"), request("b", class_name="gpu")],
        "have too few gpu for all 2 requests together",
        False,
    ),
}


def refusal(
    objects: Sequence[ApiStruct], requests: Sequence[DeviceRequest], *relations: DeviceConstraint
) -> Status:
    world = World(build.class_("nic", 'device.driver == "nic.example.com"'), *objects)
    world.show(claim("c", *requests, constraints=relations))
    (status,) = world.verdicts(world.cycle(pod("p", claims=["c"]))).values()
    return status


@pytest.mark.parametrize(("objects", "requests", "words", "resolvable"), WORDS.values(), ids=WORDS)
def test_what_a_node_lacks(
    objects: Sequence[ApiStruct], requests: Sequence[DeviceRequest], words: str, resolvable: bool
) -> None:
    status = refusal(objects, requests)
    assert status.words == words
    assert status.code is (StatusCode.UNSCHEDULABLE if resolvable else StatusCode.UNRESOLVABLE)


def test_counters_that_run_short_are_named_with_what_is_missing() -> None:
    whole = wanted(f'{MODEL} == "whole"')
    devices = [
        device("whole", draws=[build.draw("card", memory="40Gi")], model="whole"),
        device("half", draws=[build.draw("card", memory="20Gi")], model="half"),
    ]
    objects = [*cards("n1", *devices, memory="40Gi"), allocated(claim("a"), "half")]
    assert refusal(objects, [whole]).words == "are short of counter memory by 20Gi for gpu"


def test_constraints_are_named_where_each_request_could_be_met() -> None:
    devices = [gpu("d0", numa="0"), gpu("d1", numa="1")]
    status = refusal(fleet("n1", devices=devices), [wanted(count=2)], build.match("numa"))
    assert status.words == "have no choice of devices with one value of gpu.example.com/numa"
    assert status.code is StatusCode.UNRESOLVABLE


def test_a_selector_that_fails_is_told_in_the_same_words_whether_devices_are_in_use_or_not() -> None:
    objects = [*fleet("n1", "n2", devices=[gpu("d0")]), allocated(claim("a"), "d0", on="n2")]
    world = World(*objects, claim("c", wanted(f'{MODEL} == "a100"')))
    free, in_use = world.verdicts(world.cycle(pod("p", claims=["c"]))).values()
    assert free.words == in_use.words
    assert "CEL runtime error" in free.words


def test_each_node_is_said_to_have_its_own_taints() -> None:
    objects = [
        *fleet("n1", devices=[device("d0", taints=[taint("hot")])]),
        *fleet("n2", devices=[device("d0", taints=[taint("old")])]),
    ]
    world = World(*objects, claim("c", wanted()))
    assert world.words(pod("p", claims=["c"])) == {
        name: f"have every matching gpu tainted (1 with taint {key}:NoSchedule)"
        for name, key in (("n1", "hot"), ("n2", "old"))
    }


def test_nobody_elses_claim_is_named() -> None:
    objects = [*fleet("n1", devices=TWO), allocated(claim("secret", namespace="other"), "d0", "d1")]
    assert "secret" not in refusal(objects, [wanted()]).words


def test_the_sentence_of_a_pod_that_fits_nowhere() -> None:
    objects: list[ApiStruct] = []
    for number in range(12):
        name = f"n{number:02}"
        memory = "80Gi" if number < 8 else "40Gi"
        objects += fleet(name, devices=[gpu("d0", memory), gpu("d1", memory)])
        if number < 10:  # those of the small ones that are in use are too small all the same
            objects.append(allocated(claim(f"c{number}"), "d0", "d1", on=name))
    world = World(*objects, claim("c", wanted(AT_LEAST_80)))
    counts: dict[Status, int] = {}
    for status in world.verdicts(world.cycle(pod("p", claims=["c"]))).values():
        counts[status] = counts.get(status, 0) + 1
    assert (
        refused_everywhere(counts, 12).words
        == "0/12 nodes: 8 have every gpu in use; 4 have only 40Gi gpu, need 80Gi"
    )


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        (
            {"have only 40Gi gpu, need 96Gi": 5, "have only 80Gi gpu, need 96Gi": 4, "have no gpu": 3},
            {"have only 40Gi to 80Gi gpu, need 96Gi": 9, "have no gpu": 3},
        ),
        ({"have 1 gpu, need 9": 1, "have 4 gpu, need 9": 2}, {"have 1 to 4 gpu, need 9": 3}),
        (
            {f"have no gpu with `x` (model=m{n})": 1 for n in range(5)},
            {"have no gpu with `x` (model=m0; model=m1; model=m2; 2 more)": 5},
        ),
        (
            {f"have every matching gpu tainted ({n + 1} with taint t=v{n}:NoSchedule)": 1 for n in range(4)},
            {"have every matching gpu tainted (1 to 4 with taint t=v0; v1; v2; 1 more:NoSchedule)": 4},
        ),
        # what a class is called is no value
        ({"have no a100-80gb": 1, "have no a100-40gb": 1}, {"have no a100-80gb": 1, "have no a100-40gb": 1}),
        (
            {"have too little memory": 2, "have too little cpu": 1},
            {"have too little memory": 2, "have too little cpu": 1},
        ),
    ],
)
def test_reasons_that_differ_only_in_values_are_one(counts: dict[str, int], told: dict[str, int]) -> None:
    assert folded(counts) == told


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("selector #0 on device d/n1/gpu-0: no such key", "selector #0: no such key"),
        ("request r: checking capacity for device d/n1/gpu-0: bad", "request r: checking capacity: bad"),
        ("evaluate derived attribute a on device d/n1/g failed: x", "evaluate derived attribute a failed: x"),
        (
            "derived attribute a on device d/n1/g cannot be known yet: x",
            "derived attribute a cannot be known yet: x",
        ),
        ("cannot add device d/n1/g because it would not", "cannot add a device because it would not"),
        ("all, but resource pool d/n1 is invalid", "all, but a resource pool is invalid"),
        (
            "asks for all devices, and device d/n1/g may not fit",
            "asks for all devices, and a device may not fit",
        ),
    ],
)
def test_errors_are_told_without_the_names_of_one_node(error: str, told: str) -> None:
    assert unjudged(error) == f"cannot judge the pod's claims: {told}"
