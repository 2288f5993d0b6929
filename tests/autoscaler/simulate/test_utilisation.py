"""How much of a node is in use, by what kind of thing it offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import pytest

from allotment.allocator.pool import PoolID
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct
from allotment.autoscaler.errors import NoSuchNode
from allotment.autoscaler.simulate.utilisation import utilisation
from tests.allocator import build
from tests.allocator.build import device, draw
from tests.allocator.trees import DRIVER as TREES
from tests.allocator.trees import card, group, leaf, parameters, resource_class, slice_of, split
from tests.allocator.trees import request as tree_request
from tests.autoscaler.builders import bind, machines, semantic_claim, semantic_pod, simulation, trees
from tests.autoscaler.simulate.test_drain import ADMIN, of
from tests.builders.typed import claim, node, pod, slice_
from tests.scheduler.plugins.device_world import allocated, cards

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
SHARED = device("nic", shared=True, capacity={"bandwidth": "10", "queues": "4"})
UNLIMITED = device("log", shared=True)
PARTS = [
    device("whole", draws=[draw("card", slots="4", memory="40")], size="whole"),
    *[device(f"part{n}", draws=[draw("card", slots="1", memory="20")], size="part") for n in range(2)],
]


def part(name: str, size: str = "part") -> ApiStruct:
    return claim(name, build.request("r", f'{build.mine("size")} == "{size}"'))


@dataclass(frozen=True)
class Case:
    objects: Sequence[ApiStruct]
    pods: Sequence[Pod]  # bound to n1
    used: Fraction | None  # of its pool of v1; None: it has none
    trees: Fraction | None = None  # of its semantic pool


CASES = {
    "no devices": Case([node("n1")], [], None),
    "none in use": Case(machines("n1"), [], Fraction(0)),
    "one of two": Case([*machines("n1"), claim("c")], [pod("p", claims=["c"])], HALF),
    "allocated, and nobody uses it": Case([*machines("n1"), allocated(claim("c"), "d0", on="n1")], [], HALF),
    "admin access takes nothing": Case(
        [*machines("n1"), claim("c", ADMIN)], [pod("p", claims=["c"])], Fraction(0)
    ),
    "a daemon's does not count": Case(
        [*machines("n1"), claim("c")], [of("DaemonSet", pod("p", claims=["c"]))], Fraction(0)
    ),
    "a daemon's counts if others share it": Case(
        [*machines("n1"), claim("c")], [of("DaemonSet", pod("p", claims=["c"])), pod("q", claims=["c"])], HALF
    ),
    "shares, by what is taken most of": Case(
        [
            *machines("n1", devices=[SHARED]),
            claim("c", build.request(capacity={"bandwidth": "4", "queues": "1"})),
            claim("d", build.request(capacity={"bandwidth": "1", "queues": "1"})),
        ],
        [pod("p", claims=["c"]), pod("q", claims=["d"])],
        HALF,
    ),
    "shares without limit take nothing": Case(
        [*machines("n1", devices=[UNLIMITED]), claim("c")], [pod("p", claims=["c"])], Fraction(0)
    ),
    "a part of a card, by the counter that is drawn most": Case(
        [*cards("n1", *PARTS, slots="4", memory="40"), part("c")], [pod("p", claims=["c"])], HALF
    ),
    "both parts of a card": Case(
        [*cards("n1", *PARTS, slots="4", memory="40"), part("c"), part("d")],
        [pod("p", claims=["c"]), pod("q", claims=["d"])],
        Fraction(1),
    ),
    "a card as a whole": Case(
        [*cards("n1", *PARTS, slots="4", memory="40"), part("c", "whole")],
        [pod("p", claims=["c"])],
        Fraction(1),
    ),
    "a card and a device beside it": Case(
        [*cards("n1", *PARTS, device("d", size="other"), slots="4", memory="40"), part("c")],
        [pod("p", claims=["c"])],
        QUARTER,
    ),
    "a pool that others reach does not count": Case(
        [node("n1"), node("n2"), slice_("net", "d0", on=None, everywhere=True), claim("c")],
        [pod("p", claims=["c"])],
        None,
    ),
    "a whole card of a semantic tree": Case(
        [*trees("n1"), semantic_claim("c")], [semantic_pod("c")], None, trees=Fraction(1)
    ),
    "a quarter of one": Case(
        [*trees("n1", wish='quantities["memory"] <= "8Gi"'), semantic_claim("c")],
        [semantic_pod("c")],
        None,
        trees=QUARTER,
    ),
    "a quarter of one that is never whole, beside another": Case(
        [
            resource_class(),
            parameters("p", tree_request('quantities["memory"] <= "8Gi"')),
            node("n1"),
            slice_of(
                split("a", group("quarters", *[leaf(f"q{n}", "8Gi") for n in range(4)])), card("b"), on="n1"
            ),
            semantic_claim("c"),
        ],
        [semantic_pod("c")],
        None,
        trees=QUARTER / 2,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_how_much_of_a_nodes_devices_is_in_use(case: Case) -> None:
    there = simulation(*case.objects)
    for each in case.pods:
        bind(there, each, "n1")
    found = dict(utilisation(there, "n1").pools)
    assert found.pop(PoolID(build.DRIVER, "n1"), None) == case.used
    assert found.pop(PoolID(TREES, "n1"), None) == case.trees
    assert not found


def test_how_much_of_its_resources_is_in_use() -> None:
    there = simulation(node("n1", cpu=8, memory="8Gi"), *machines("n2"), claim("c"))
    bind(there, pod("p", cpu=2, memory="6Gi"), "n1")
    bind(there, of("DaemonSet", pod("q", cpu=4, memory="2Gi")), "n1")
    bind(there, pod("r", cpu=1, claims=["c"]), "n2")
    found = utilisation(there, "n1")
    assert found.resources == {"cpu": QUARTER, "memory": Fraction(3, 4)}
    assert found.most == Fraction(3, 4)
    assert utilisation(there, "n2").most == HALF  # its devices


def test_a_node_that_is_not_there_is_not_used() -> None:
    with pytest.raises(NoSuchNode):
        utilisation(simulation(), "n1")
