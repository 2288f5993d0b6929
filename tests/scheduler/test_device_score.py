"""The score of a node for a pod's devices: the formula, part by part."""

from __future__ import annotations

import pytest

from allotment.api.meta import ApiStruct
from allotment.api.resource import DeviceRequest
from allotment.scheduler.device_score import DeviceSizes
from tests.allocator import build
from tests.allocator.build import device, either, policed, request, sub
from tests.scheduler.builders import claim, node, pod, slice_
from tests.scheduler.plugins.device_world import World, allocated, cards, fleet

MODEL = 'device.attributes["gpu.example.com"].model'
LARGE: list[ApiStruct] = [slice_("elsewhere", device("x", capacity={"memory": "80Gi"}))]
HALF = [device("d0", capacity={"memory": "40Gi"}), device("d1", capacity={"memory": "40Gi"})]
QUARTERS = [device(f"q{i}", draws=[build.draw("card", memory="10Gi")]) for i in range(4)]
SHARED = [device("d0", capacity={"memory": policed("80Gi", "1Gi")}, shared=True)]
CHOICE = either(
    "r",
    sub("first", f'{MODEL} == "a"'),
    sub("second", f'{MODEL} == "b"'),
    sub("third", f'{MODEL} == "c"'),
)
SHARE = allocated(claim("old"), "d0", share_id="s", consumed_capacity={"memory": build.quantity("1Gi")})

# what there is, what is asked for, 50 × early + 30 × (1 − size) + 20 × filled
SCORES: dict[str, tuple[list[ApiStruct], list[DeviceRequest], int]] = {
    "a device without capacity on an empty node": (fleet("n1"), [request()], 50),
    "half as large as the largest": ([*LARGE, *fleet("n1", devices=HALF)], [request()], 50 + 15),
    "half of the node in use": ([*fleet("n1"), allocated(claim("old"), "d0")], [request()], 50 + 10),
    "a quarter of a whole card": (cards("n1", *QUARTERS, memory="40Gi"), [request()], 50 + 22),
    "a quarter of a broken card": (
        [*cards("n1", *QUARTERS, memory="40Gi"), allocated(claim("old"), "q0")],
        [request()],
        50 + 22 + 20,
    ),
    "a share of a device nobody shares": (fleet("n1", devices=SHARED), [request()], 50),
    "a share of a shared device": ([*fleet("n1", devices=SHARED), SHARE], [request()], 50 + 20),
    "the first alternative": (fleet("n1", devices=[device("d0", model="a")]), [CHOICE], 50),
    "the second of three": (fleet("n1", devices=[device("d0", model="b")]), [CHOICE], 25),
    "the last": (fleet("n1", devices=[device("d0", model="c")]), [CHOICE], 0),
    "for an admin": (fleet("n1"), [request(admin=True)], 100),
}


@pytest.mark.parametrize(("objects", "requests", "expected"), SCORES.values(), ids=SCORES)
def test_what_a_node_scores(objects: list[ApiStruct], requests: list[DeviceRequest], expected: int) -> None:
    world = World(*objects, claim("c", *requests))
    assert world.scores(pod("p", claims=["c"]))["n1"] == expected


def test_sizes_grow_and_what_was_handed_out_does_not() -> None:
    sizes = DeviceSizes()
    assert sizes.add(slice_("n1", *HALF))
    before = sizes.largest
    assert not sizes.add(slice_("n2", *HALF))
    assert sizes.add(slice_("n3", device("x", capacity={"memory": "80Gi"})))
    assert before == {(build.DRIVER, "memory"): build.quantity("40Gi").nanos}
    assert sizes.largest == {(build.DRIVER, "memory"): build.quantity("80Gi").nanos}


def test_a_larger_device_changes_scores_everywhere() -> None:
    world = World(*fleet("n1", devices=HALF), claim("c"))
    assert world.scores(pod("p", claims=["c"])) == {"n1": 50}
    position = world.cluster.log.end
    world.show(node("n2"), *LARGE)
    assert "n1" in (world.cluster.log.since(position) or ())
    assert world.scores(pod("p", claims=["c"]))["n1"] == 65
