"""A random walk over all calls against a model that starts a new simulation for each of them and copies everything to fork.

The model has no history, so whatever a fork or a refused call leaves behind shows as a difference: in what there is, in what a
call answers, word for word, or in what fits afterwards. Beside it, rules that hold whoever decides: no device is promised
twice, who is bound has its claims, and what is allocated is in use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.allocator.ledger import Ledger, holding
from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import ResourceClaim, ResourceSlice
from allotment.autoscaler.errors import SimulationError
from allotment.autoscaler.simulate.forkable_cluster import Slice
from allotment.autoscaler.simulate.simulation import Simulation, start_simulation
from allotment.scheduler.devices.semantic_claim import carried, carried_holdings
from tests.allocator import build
from tests.allocator.build import device, mine
from tests.allocator.trees import card, leaf, parameters, resource_class, slice_of
from tests.allocator.trees import request as tree_request
from tests.autoscaler.builders import GPU, QUARTER, gpu_class, picture, semantic_claim, semantic_pod
from tests.builders.typed import claim, near, node, pod, pod_affinity, slice_
from tests.thoroughness import examples
from tests.usage.build import rule

Picture = dict[tuple[type[ApiStruct], str], ApiStruct]
Call = Callable[[Simulation], object]


# --- the world ---


def model(name: str) -> str:
    return f'{mine("model")} == "{name}"'


def slices(name: str) -> list[Slice]:
    """Whole GPUs, a network card to be shared, a card that can be cut, and a semantic tree."""
    whole = [device(f"gpu{number}", model="gpu") for number in range(2)]
    nic = device("nic", model="nic", shared=True, capacity={"bandwidth": "10"})
    parts = [
        device(f"part{number}", model="part", draws=[build.draw("card", slots="1")]) for number in range(3)
    ]
    return [
        slice_(name, *whole, nic, *parts, of=2),
        slice_(name, name=f"counters-{name}", counters=[build.counter_set("card", slots="2")], of=2),
        slice_of(card("a"), leaf("b", "8Gi"), on=name, name=f"tree-{name}"),
    ]


SPARE = {"n3": "a", "n4": "b"}
CLASSES = [
    build.class_("any"),
    build.class_("whole", model("gpu")),
    replace(gpu_class(), spec=replace(gpu_class().spec, selectors=build.cel(model("gpu")))),
    resource_class(),
    parameters("p", tree_request(QUARTER)),
    parameters("shareable", tree_request(QUARTER), shareable=True),
]
NET = slice_("net", device("switch", model="net"), on=None, everywhere=True)
RULE = rule("broken", pool="n1", device="gpu0")


def wish(name: str, text: str, **more: Any) -> ResourceClaim:
    return claim(name, build.request("r", model(text), **more))


CLAIMS: list[Any] = [
    *[wish(f"w{number}", "gpu") for number in range(3)],
    wish("shared", "gpu"),
    wish("admin", "gpu", admin=True),
    *[wish(f"nic{number}", "nic", capacity={"bandwidth": "4"}) for number in range(3)],
    *[wish(f"part{number}", "part") for number in range(3)],
    wish("net", "net"),
    claim(
        "either", build.either("r", build.sub("two", model("gpu"), count=2), build.sub("one", model("part")))
    ),
    semantic_claim("t0"),
    semantic_claim("t1", "WaitForFirstConsumer"),
    semantic_claim("now", "Immediate"),
    semantic_claim("ours", ref="shareable"),
]
APART = pod_affinity(apart=[near({"app": "apart"})])
PODS = [
    *[pod(name, claims=[name], cpu=1) for name in ("w0", "w1", "w2", "admin", "nic0", "nic1", "nic2")],
    *[pod(name, claims=[name]) for name in ("part0", "part1", "part2", "net", "either")],
    *[pod(f"shares{number}", claims=["shared"]) for number in range(3)],
    pod("both", claims=["w0", "shared"]),
    *[pod(f"extended{number}", more={GPU: 1}) for number in range(2)],
    *[semantic_pod(name, name) for name in ("t0", "t1", "now")],
    *[semantic_pod(f"ours{number}", "ours") for number in range(2)],
    *[pod(f"apart{number}", labels={"app": "apart"}, affinity=APART) for number in range(2)],
    pod("large", cpu=7),
]


def start() -> list[ApiStruct]:
    found: list[ApiStruct] = [*CLASSES, NET, *CLAIMS]
    for name in ("n1", "n2"):
        found += [node(name, zone="a"), *slices(name)]
    return [*found, *PODS[::2]]  # the others are not known before they are bound


# --- the model ---


class Naive:
    """Objects, and a copy of all of them for each fork."""

    def __init__(self, objects: list[ApiStruct]) -> None:
        self.now = picture(start_simulation(objects))
        self.forks: list[Picture] = []

    def call(self, call: Call) -> object:
        fresh = start_simulation(self.now.values())
        answer = answered(fresh, call)
        self.now = picture(fresh)
        return answer


def answered(there: Simulation, call: Call) -> object:
    try:
        return call(there)
    except SimulationError as exc:
        return type(exc), str(exc)


# --- the steps ---


def calls(who: Pod, where: str) -> dict[str, Call]:
    zone = SPARE.get(where, "a")

    def flip(there: Simulation) -> None:
        there.drop(RULE) if "broken" in there.objects(type(RULE)) else there.put(RULE)

    def cordon(there: Simulation) -> None:
        if where in there.objects(Node):
            now = there.node(where)
            there.put(replace(now, spec=replace(now.spec, unschedulable=not now.spec.unschedulable)))

    def shrink(there: Simulation) -> None:
        if f"counters-{where}" in there.objects(ResourceSlice):
            there.drop(slice_(where, name=f"counters-{where}"))

    return {
        "bind": lambda there: there.simulate_bind_pod(who, where),
        "schedule": lambda there: there.schedule(who),
        "evict": lambda there: there.simulate_evict_pod(who, where),
        "evict from where it is": lambda there: there.simulate_evict_pod(who, home(there, who)),
        "fits": lambda there: there.fits(who),
        "fits on": lambda there: there.fits_on(who, where),
        "add": lambda there: there.simulate_add_node(node(where, zone=zone), slices(where)),
        "remove": lambda there: there.simulate_remove_node(where),
        "flip": flip,
        "cordon": cordon,
        "shrink": shrink,
    }


def home(there: Simulation, who: Pod) -> str:
    known = there.cluster.pods.get(f"{who.metadata.namespace}/{who.metadata.name}")
    return known.node if known is not None else ""


COMMON = ("schedule", "bind", "evict from where it is", "remove")
steps = st.tuples(
    st.sampled_from(["fork", "fork", "commit", "revert", *COMMON, *COMMON, *calls(PODS[0], "n1")]),
    st.sampled_from(PODS),
    st.sampled_from(["n1", "n2", "n3", "n4"]),
)


@given(st.lists(steps, max_size=40))
@settings(max_examples=examples(150))
def test_a_walk_gives_what_starting_over_would(walk: list[tuple[str, Pod, str]]) -> None:
    there, naive = start_simulation(start()), Naive(start())
    for step, who, where in walk:
        if step == "fork":
            there.fork()
            naive.forks.append(dict(naive.now))
        elif step in ("commit", "revert"):
            if naive.forks:
                getattr(there, step)()
                before = naive.forks.pop()
                naive.now = before if step == "revert" else naive.now
        else:
            call = calls(who, where)[step]
            assert answered(there, call) == naive.call(call), (step, who.metadata.name, where)
        assert picture(there) == naive.now
        check(there)
    there.validate()
    fresh = start_simulation(naive.now.values())
    for who in PODS:
        ask: Call = lambda each, who=who: each.fits(who)  # type: ignore[misc]  # noqa: E731  # bound early, and used at once
        assert answered(there, ask) == answered(fresh, ask)
    while there.depth:
        there.revert()
        there.validate()
        assert picture(there) == naive.forks.pop()


def check(there: Simulation) -> None:
    """The rules that hold whoever decides."""
    claims, pods, ledger = there.objects(ResourceClaim), there.objects(Pod), Ledger()
    bound = {pod.metadata.uid: pod for pod in pods.values() if pod.spec.node_name}
    for key, each in claims.items():
        users, allocation = [user.uid for user in each.status.reserved_for], each.status.allocation
        assert (allocation is not None) or not users, f"{key} is reserved and not allocated"
        assert set(users) <= bound.keys(), f"{key} is reserved for a pod that is not bound"
        found = carried(each)
        immediate = found is not None and found.spec.allocation_mode == "Immediate"
        assert users or allocation is None or immediate, f"{key} is allocated and nobody uses it"
        if allocation is not None:
            ledger.hold(key, carried_holdings(each) or tuple(map(holding, allocation.devices.results)))
    for who in bound.values():
        assert who.spec.node_name in there.objects(Node), f"{who.metadata.name} is on a node that is gone"
        for entry in who.spec.resource_claims:
            used = claims[f"{who.metadata.namespace}/{entry.resource_claim_name}"]
            assert who.metadata.uid in [user.uid for user in used.status.reserved_for], who.metadata.name
        if who.metadata.name.startswith("extended"):
            noted = who.status.extended_resource_claim_status
            assert noted is not None
            assert f"default/{noted.resource_claim_name}" in claims
