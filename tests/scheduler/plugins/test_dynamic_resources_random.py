"""On small random clusters: the plugin's verdicts are those of a fresh allocator, and what is taken back leaves no trace."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.allocator.allocate import Allocator
from allotment.allocator.held import NOTHING_HELD
from allotment.allocator.outcome import Allocated
from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import Device, DeviceClass, DeviceRequest, ResourceClaim, ResourceSlice
from allotment.scheduler.framework import Cycle, StatusCode
from tests.allocator import build
from tests.allocator.build import device, either, policed, request, sub, taint
from tests.builders.typed import claim, node, pod, slice_
from tests.scheduler.plugins.device_world import World
from tests.thoroughness import examples

MODEL = 'device.attributes["gpu.example.com"].model'
MEMORY = 'device.capacity["gpu.example.com"].memory'
CLASSES = [build.class_("gpu"), build.class_(), build.class_("a", f'{MODEL} == "a"')]

DEVICES: list[Device] = [
    device("a40", capacity={"memory": "40Gi"}, model="a", numa="0"),
    device("a80", capacity={"memory": "80Gi"}, model="a", numa="1"),
    device("b40", capacity={"memory": "40Gi"}, model="b", numa="0"),
    device("shared", capacity={"memory": policed("40Gi", "10Gi")}, shared=True, model="a", numa="1"),
    device("hot", capacity={"memory": "80Gi"}, taints=[taint("hot")], model="b", numa="0"),
    device("half-0", draws=[build.draw("card", memory="20Gi")], model="c", numa="0"),
    device("half-1", draws=[build.draw("card", memory="20Gi")], model="c", numa="1"),
    device("whole", draws=[build.draw("card", memory="40Gi")], model="c", numa="0"),
]

REQUESTS: list[list[DeviceRequest]] = [
    [request()],
    [request(count=2)],
    [request(class_name="a")],
    [request("r", f'{MODEL} == "c"')],
    [request("r", f'{MODEL} == "c"'), request("s", class_name="a")],
    [request(tolerates=[build.toleration("hot", "Exists")], count=3)],
    [request("r", f'{MEMORY}.compareTo(quantity("80Gi")) >= 0')],  # an error on devices without memory
    [request(capacity={"memory": "30Gi"})],
    [either("r", sub("best", f'{MODEL} == "a"', count=2), sub("other", f'{MODEL} == "b"'))],
    [request("r", f'{MODEL} == "a"', all=True)],
    [request(admin=True)],
]


class Chance:
    """One cluster, and pods that come and go."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.nodes: list[Node] = []
        self.slices: list[ResourceSlice] = []
        for number in range(random.randint(1, 4)):
            self._node(f"n{number}")
        if random.random() < 0.3:
            self.slices.append(
                build.slice_(
                    device("net", model="a", numa="0"), name="net", pool="net", on=None, everywhere=True
                )
            )
        self.classes: list[DeviceClass] = CLASSES
        strategy = random.choice(["keep-whole", "first-fit"])
        objects: list[ApiStruct] = [*self.classes, *self.nodes, *self.slices]
        self.world = World(*objects, device_strategy=strategy)
        self.placed: list[tuple[Cycle, str]] = []
        self.count = 0

    def _node(self, name: str) -> None:
        self.nodes.append(node(name))
        devices = self.random.sample(DEVICES, self.random.randint(0, 5))
        self.slices.append(slice_(name, *devices, of=2))
        self.slices.append(
            slice_(name, name=f"c-{name}", counters=[build.counter_set("card", memory="40Gi")], of=2)
        )

    def pod(self) -> tuple[Pod, list[ResourceClaim]]:
        self.count += 1
        claims = []
        for number in range(self.random.randint(1, 2)):
            requests = self.random.choice(REQUESTS)
            related = [build.match("numa")] if self.random.random() < 0.2 else []
            claims.append(claim(f"c{self.count}-{number}", *requests, constraints=related))
        return pod(f"p{self.count}", claims=[each.metadata.name for each in claims]), claims

    def check(self, cycle: Cycle, claims: list[ResourceClaim]) -> list[str]:
        """Compares every node with a fresh allocator; returns those that fit."""
        allocator = Allocator(self.slices, self.classes)
        held = self.world.cluster.fleet.ledger
        fitting = []
        for each in self.nodes:
            info = self.world.cluster.nodes[each.metadata.name]
            status = self.world.plugin.filter(cycle, info)
            fits = isinstance(allocator.allocate(each, claims, held), Allocated)
            assert status.ok == fits, (each.metadata.name, status)
            score = self.world.plugin.score(cycle, info)
            assert 0 <= score <= 100
            if fits:
                fitting.append(each.metadata.name)
            else:
                assert status.words
                assert score == 0
            if status.code is StatusCode.UNRESOLVABLE:
                empty = allocator.allocate(each, claims, NOTHING_HELD)
                assert not isinstance(empty, Allocated), (status, "but the empty node would do")
        return fitting

    def step(self) -> None:
        world = self.world
        if self.placed and self.random.random() < 0.3:
            cycle, name = self.placed.pop(self.random.randrange(len(self.placed)))
            world.plugin.unreserve(cycle, world.cluster.nodes[name])
        else:
            of, claims = self.pod()
            world.show(*claims)
            fitting = self.check(world.cycle(of), claims)
            if fitting:
                name = self.random.choice(fitting)
                before = self.state()
                cycle, _ = world.place(of, name)
                world.plugin.unreserve(cycle, world.cluster.nodes[name])
                assert self.state() == before
                cycle, _ = world.place(of, name)
                self.placed.append((cycle, name))
        world.cluster.validate()

    def state(self) -> object:
        ledger = self.world.cluster.fleet.ledger
        held = {name: ledger.holdings(name) for name in ledger.claims()}
        flights = {key: dict(flight.users) for key, flight in self.world.cluster.claims.flights.items()}
        return held, flights


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32))
def test_verdicts_are_those_of_a_fresh_allocator(seed: int) -> None:
    chance = Chance(Random(seed))
    for _ in range(10):
        chance.step()
    for cycle, name in reversed(chance.placed):
        chance.world.plugin.unreserve(cycle, chance.world.cluster.nodes[name])
    assert chance.state() == ({}, {})
    chance.world.cluster.validate()


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32))
def test_pods_of_one_shape_get_the_same_verdicts(seed: int) -> None:
    chance = Chance(Random(seed))
    first: dict[object, Cycle] = {}
    for _ in range(8):
        of, claims = chance.pod()
        chance.world.show(*claims)
        cycle = chance.world.cycle(of)
        one = first.setdefault(chance.world.plugin.shape(cycle), cycle)
        for info in chance.world.cluster.nodes.values():
            for ask in (chance.world.plugin.filter, chance.world.plugin.score):
                assert ask(one, info) == ask(cycle, info)
        chance.step()
