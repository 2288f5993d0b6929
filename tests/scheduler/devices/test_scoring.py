"""The score of a node for a pod's devices: the formula, part by part."""

from __future__ import annotations

import pytest

from allotment.api.meta import ApiStruct
from allotment.api.resource import DeviceRequest
from allotment.scheduler.config.configuration import DEFAULT
from allotment.scheduler.devices.scoring import DeviceSizes
from allotment.scheduler.placement import Attempt, Placer
from allotment.scheduler.pod import PodInfo
from tests.allocator import build
from tests.allocator.build import device, either, policed, request, sub
from tests.builders.typed import claim, node, pod, slice_
from tests.scheduler.plugins.device_world import World, allocated, cards, fleet

MODEL = 'device.attributes["gpu.example.com"].model'
LARGE: list[ApiStruct] = [slice_("elsewhere", device("x", capacity={"memory": "80Gi"}))]
HALF = [device("d0", capacity={"memory": "40Gi"}), device("d1", capacity={"memory": "40Gi"})]
QUARTERS = [device(f"q{i}", draws=[build.draw("card", memory="10Gi")]) for i in range(4)]
WHOLE = device(
    "whole",
    draws=[build.draw("card", memory="40Gi")],
    capacity={"memory": "40Gi"},
    attributes={"model": "whole"},
)
SHARED = [device("d0", capacity={"memory": policed("80Gi", "1Gi")}, shared=True)]
CHOICE = either(
    "r",
    sub("first", f'{MODEL} == "a"'),
    sub("second", f'{MODEL} == "b"'),
    sub("third", f'{MODEL} == "c"'),
)
SHARE = allocated(claim("old"), "d0", share_id="s", consumed_capacity={"memory": build.quantity("1Gi")})


def two_cards() -> list[ApiStruct]:
    """A node with two cards, each to be had whole or in part."""
    devices = []
    for number, card in enumerate(("card-0", "card-1")):
        for name, memory in (("whole", "40Gi"), ("part", "10Gi")):
            devices.append(
                device(
                    f"{name}-{number}",
                    draws=[build.draw(card, memory=memory)],
                    capacity={"memory": memory},
                    attributes={"model": name},
                )
            )
    sets = [build.counter_set(card, memory="40Gi") for card in ("card-0", "card-1")]
    return [node("n1"), slice_("n1", *devices, of=2), slice_("n1", name="counters-n1", counters=sets, of=2)]


# what there is, what is asked for, 50 × early + 20 × (1 − size) + 10 × (1 − cut) + 20 × filled
SCORES: dict[str, tuple[list[ApiStruct], list[DeviceRequest], float]] = {
    "a device without capacity on an empty node": (fleet("n1"), [request()], 50 + 10),
    "half as large as the largest": ([*LARGE, *fleet("n1", devices=HALF)], [request()], 50 + 10 + 10),
    "half of the node in use": ([*fleet("n1"), allocated(claim("old"), "d0")], [request()], 50 + 10 + 10),
    "a quarter of a whole card": (cards("n1", *QUARTERS, memory="40Gi"), [request()], 50 + 15 + 7.5),
    "a quarter of a broken card": (
        [*cards("n1", *QUARTERS, memory="40Gi"), allocated(claim("old"), "q0")],
        [request()],
        50 + 15 + 7.5 + 20,
    ),
    "a card that could be cut": (
        [*LARGE, *cards("n1", WHOLE, *QUARTERS, memory="40Gi")],
        [request("r", f'{MODEL} == "whole"')],
        50 + 10,
    ),
    "a card that could be cut, beside one that is": (
        [*LARGE, *two_cards(), allocated(claim("old"), "part-0")],
        [request("r", f'{MODEL} == "whole"')],
        50 + 10 + 20 / 4,  # its own counters are untouched
    ),
    "a card that draws on counters of its own": (
        [*LARGE, *cards("n1", WHOLE, memory="40Gi")],
        [request()],
        50 + 10 + 10,
    ),
    "a share of a device nobody shares": (fleet("n1", devices=SHARED), [request()], 50 + 10),
    "a share of a shared device": ([*fleet("n1", devices=SHARED), SHARE], [request()], 50 + 10 + 20),
    "the first alternative": (fleet("n1", devices=[device("d0", model="a")]), [CHOICE], 50 + 10),
    "the second of three": (fleet("n1", devices=[device("d0", model="b")]), [CHOICE], 25 + 10),
    "the last": (fleet("n1", devices=[device("d0", model="c")]), [CHOICE], 0 + 10),
    "for an admin": (fleet("n1"), [request(admin=True)], 100),
}


@pytest.mark.parametrize(("objects", "requests", "expected"), SCORES.values(), ids=SCORES)
def test_what_a_node_scores(objects: list[ApiStruct], requests: list[DeviceRequest], expected: float) -> None:
    world = World(*objects, claim("c", *requests))
    assert world.scores(pod("p", claims=["c"]))["n1"] == round(expected)


def test_sizes_grow_and_what_was_handed_out_does_not() -> None:
    sizes = DeviceSizes()
    assert sizes.add(slice_("n1", *HALF))
    before = sizes.largest
    assert not sizes.add(slice_("n2", *HALF))
    assert sizes.add(slice_("n3", device("x", capacity={"memory": "80Gi"})))
    assert before == {(build.DRIVER, "memory"): build.quantity("40Gi").nanos}
    assert sizes.largest == {(build.DRIVER, "memory"): build.quantity("80Gi").nanos}


def test_a_larger_device_changes_scores_everywhere() -> None:
    """Also those that are remembered."""
    world = World(*fleet("n1", devices=HALF), claim("c"))
    assert world.scores(pod("p", claims=["c"])) == {"n1": 60}
    placer = Placer(world.cluster, DEFAULT.rosters())
    before = verdict(placer, world)
    world.show(node("n2"), *LARGE)
    assert world.scores(pod("p", claims=["c"]))["n1"] == 70
    assert verdict(placer, world) == before + 2 * 10  # by its weight


def verdict(placer: Placer, world: World) -> int:
    """What is remembered of n1."""
    attempt = placer.begin(PodInfo(pod("p", claims=["c"])), 0.0)
    assert isinstance(attempt, Attempt)
    found = attempt.index.verdicts()["n1"]
    assert isinstance(found, int)
    return found


def test_a_pod_that_wants_one_card_leaves_those_alone_that_can_be_cut() -> None:
    plain = fleet("n2", devices=[device("d0", capacity={"memory": "40Gi"}, attributes={"model": "whole"})])
    world = World(*two_cards(), *plain, claim("c", request("r", f'{MODEL} == "whole"')))
    scores = world.scores(pod("p", claims=["c"]))
    assert scores["n2"] > scores["n1"]
