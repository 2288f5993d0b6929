"""The five calls, one by one: what they change, what they refuse, and that a refusal changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from allotment.api.core import Node, Pod, PodResourceClaim
from allotment.api.meta import ApiStruct, OwnerReference
from allotment.api.resource import ResourceClaim, ResourceSlice
from allotment.autoscaler.errors import (
    NodeExists,
    NodeInUse,
    NoSuchNode,
    NoSuchPod,
    PodBound,
    SimulationError,
)
from allotment.autoscaler.simulate.simulation import BoundPod, Simulation, start_simulation
from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.framework import StatusCode
from tests.allocator import build
from tests.allocator.trees import card, slice_of
from tests.autoscaler.builders import (
    GPU,
    QUARTER,
    asking,
    bind,
    devices_of,
    gpu_class,
    machines,
    picture,
    semantic_claim,
    semantic_pod,
    simulation,
    trees,
    users_of,
)
from tests.builders.typed import (
    ZONE,
    claim,
    namespace,
    near,
    node,
    pod,
    pod_affinity,
    slice_,
    spread,
    taint,
)
from tests.scheduler.gang_builders import group
from tests.scheduler.plugins.device_world import allocated, noted, owned, user
from tests.usage.build import rule

# --- StartSimulation ---


def test_a_simulation_shows_what_there_is() -> None:
    who, wish = asking("p")
    there = simulation(*machines("n1"), who, wish)
    assert there.node("n1").metadata.name == "n1"
    assert [each.metadata.name for each in there.slices("n1")] == ["slice-n1"]
    assert there.pods("n1") == ()
    assert dict(there.objects(Pod)) == {"default/p": who}
    assert dict(there.objects(ResourceClaim)) == {"default/p": wish}
    there.validate()


@pytest.mark.parametrize("reverse", [False, True])
def test_the_order_of_objects_does_not_matter(reverse: bool) -> None:
    who, wish = asking("p")
    objects = [
        build.class_(),
        *machines("n1", "n2"),
        wish,
        allocated(claim("c"), "d0", on="n1", users=[user(pod("q"))]),
        pod("q", claims=["c"], node="n1"),
        rule("r", pool="n2"),
    ]
    there = start_simulation(reversed(objects) if reverse else objects)
    there.validate()
    assert there.fits(who) == "n1"
    assert devices_of(there, bind_key(there, who, "n1")) == ["n1/d1"]


def bind_key(there: Simulation, who: Pod, on: str) -> str:
    (written,) = bind(there, who, on).claims
    return f"{written.metadata.namespace}/{written.metadata.name}"


def test_claims_of_seed_0_may_come_in_their_own_form() -> None:
    there = start_simulation([*trees("n1"), semantic_claim("c")])
    there.validate()
    assert there.fits(semantic_pod("c")) == "n1"
    there.drop(semantic_claim("c"))
    assert isinstance(there.fits(semantic_pod("c")), NoNode)


def test_objects_that_change_are_followed() -> None:
    who, wish = asking("p", cpu=4)
    there = simulation(node("n1", cpu=2), slice_("n1", "d0"), wish)
    refusal = there.fits(who)
    assert isinstance(refusal, NoNode)
    there.put(node("n1", cpu=8))
    assert there.fits(who) == "n1"
    there.drop(slice_("n1", "d0"))
    there.drop(slice_("n1", "d0"))  # it is gone already
    assert isinstance(there.fits(who), NoNode)
    there.validate()


# --- whether a pod fits ---


@dataclass(frozen=True)
class Fit:
    objects: Sequence[ApiStruct]
    pod: Pod
    node: str = ""  # where it fits
    words: str = ""  # or a part of the reason
    on: str = ""  # only there


LABELLED = {"app": "web"}
FITS = {
    "anywhere": Fit([node("n1")], pod("p"), "n1"),
    "where its device is": Fit([node("n1"), *machines("n2"), claim("p")], pod("p", claims=["p"]), "n2"),
    "nowhere, there being no node": Fit([], pod("p"), words="0/0 nodes"),
    "no cpu": Fit([node("n1", cpu=1)], pod("p", cpu=2), words="0/1 nodes: 1 "),
    "a taint of the node": Fit([node("n1", taints=[taint("spot")])], pod("p"), words="0/1 nodes: 1 "),
    "cordoned": Fit([node("n1", cordoned=True)], pod("p"), words="0/1 nodes: 1 "),
    "a port in use": Fit(
        [node("n1"), node("n2"), pod("q", node="n1", ports=[80])], pod("p", ports=[80]), "n2"
    ),
    "away from others": Fit(
        [
            namespace("default"),
            node("n1", zone="a"),
            node("n2", zone="b"),
            pod("q", node="n1", labels=LABELLED),
        ],
        pod("p", affinity=pod_affinity(apart=[near(LABELLED)])),
        "n2",
    ),
    "spread over zones": Fit(
        [node("n1", zone="a"), node("n2", zone="b"), pod("q", node="n1", labels=LABELLED)],
        pod("p", labels=LABELLED, spread=[spread(ZONE, LABELLED)]),
        "n2",
    ),
    "the claim is missing": Fit([node("n1")], pod("p", claims=["c"]), words="does not exist"),
    "a gate": Fit([node("n1")], pod("p", gates=["g"]), words="scheduling gate"),
    "nobody's by name, so the default scheduler's": Fit([node("n1")], pod("p", scheduler=""), "n1"),
    "another scheduler's": Fit([node("n1")], pod("p", scheduler="mine"), words="scheduler mine"),
    "on a node that fits": Fit([node("n1"), node("n2")], pod("p"), "n2", on="n2"),
    "not on a node that is full": Fit(
        [*machines("n1", devices=[]), claim("p")],
        pod("p", claims=["p"]),
        on="n1",
        words="node n1 has no",
    ),
    "not on a node that its claim is not on": Fit(
        [*machines("n1", "n2"), allocated(claim("p"), "d0", on="n2")],
        pod("p", claims=["p"]),
        on="n1",
        words="node n1 is ruled out by the pod's claims",
    ),
    "an extended resource": Fit([gpu_class(), *machines("n1")], pod("p", more={GPU: 2}), "n1"),
    "too much of an extended resource": Fit(
        [gpu_class(), *machines("n1")], pod("p", more={GPU: 3}), words="0/1"
    ),
}


@pytest.mark.parametrize("case", FITS.values(), ids=FITS)
def test_whether_a_pod_fits(case: Fit) -> None:
    there = simulation(*case.objects)
    before = picture(there)
    found = there.fits_on(case.pod, case.on) if case.on else there.fits(case.pod)
    if case.node:
        assert found == case.node
    else:
        assert isinstance(found, NoNode)
        assert case.words in found.words
    assert picture(there) == before
    there.validate()


def test_a_node_that_is_not_there_is_not_asked() -> None:
    with pytest.raises(NoSuchNode, match="no node n2 among the 1 of the simulation"):
        simulation(node("n1")).fits_on(pod("p"), "n2")


def test_a_pod_that_has_its_node_is_not_asked_about() -> None:
    there = simulation(node("n1"), pod("p", node="n1"))
    with pytest.raises(PodBound, match="pod default/p is already on node n1"):
        there.fits(pod("p"))
    with pytest.raises(PodBound, match="pod default/q already has node n1 in its spec"):
        there.fits(pod("q", node="n1"))


def test_room_that_is_kept_for_a_pod_is_kept_here_too() -> None:
    """As soon as the server shows it, also for a pod that was there before."""
    waiting = pod("first", cpu=8, priority=5)
    there = simulation(node("n1", cpu=8), waiting)
    assert there.fits(pod("p", cpu=1)) == "n1"
    there.put(replace(waiting, status=replace(waiting.status, nominated_node_name="n1")))
    assert isinstance(there.fits(pod("p", cpu=1)), NoNode)
    with there.trial():
        bind(there, there.objects(Pod)["default/first"], "n1")
    there.validate()
    assert isinstance(there.fits(pod("p", cpu=1)), NoNode)


# --- SimulateAddNode ---


def test_a_node_that_is_added_has_its_devices() -> None:
    who, wish = asking("p")
    there = simulation(node("n1"), wish)
    assert isinstance(there.fits(who), NoNode)
    there.simulate_add_node(node("new"), [slice_("new", "d0")])
    there.validate()
    assert there.fits(who) == "new"


def test_a_node_that_is_added_has_its_trees() -> None:
    there = simulation(*trees(), semantic_claim("c"))
    there.simulate_add_node(node("new"), [slice_of(card("a"), on="new")])
    there.validate()
    assert there.fits(semantic_pod("c")) == "new"


def test_slices_of_both_kinds_may_have_one_name() -> None:
    there = simulation()
    there.simulate_add_node(
        node("n1"), [slice_("n1", "d0", name="s"), slice_of(card("a"), on="n1", name="s")]
    )
    assert len(there.simulate_remove_node("n1").slices) == 2
    there.validate()


def test_slices_for_several_nodes_come_and_go_with_the_node_that_brings_them() -> None:
    """A switch that is in one machine and that all machines of the zone can use."""
    reach = build.selector(build.where(ZONE, "In", "a"))
    who, wish = asking("p")
    there = simulation(node("n1", zone="a"), wish)
    there.simulate_add_node(node("new", zone="a", cordoned=True), [slice_("new", "d0", on=reach)])
    assert there.fits(who) == "n1"
    bind(there, who, "n1")
    with pytest.raises(NodeInUse, match="by pod default/p: evict first") as caught:
        there.simulate_remove_node("new")
    assert caught.value.pods == ("default/p",)
    there.simulate_evict_pod(who, "n1")
    assert len(there.simulate_remove_node("new").slices) == 1
    assert isinstance(there.fits(who), NoNode)
    there.validate()


ADDED = {
    "the node is there": (node("n1"), [], NodeExists, "node n1 already exists"),
    "a slice is there": (
        node("n2"),
        [slice_("n2", "d0"), slice_("n2", "d0", name="slice-n1")],
        NodeExists,
        "slice slice-n1 of node n2 already exists",
    ),
    "a slice comes twice": (
        node("n2"),
        [slice_("n2", "d0"), slice_("n2", "d1")],
        NodeExists,
        "slice slice-n2 of node n2 already exists",
    ),
    "a slice of another node": (
        node("n2"),
        [slice_("n2", "d0"), slice_("n3", "d0")],
        SimulationError,
        "slice slice-n3 belongs to node n3, not n2",
    ),
}


@pytest.mark.parametrize(("added", "slices", "error", "words"), ADDED.values(), ids=ADDED)
def test_nodes_that_cannot_be_added(
    added: Node, slices: list[ResourceSlice], error: type[SimulationError], words: str
) -> None:
    there = simulation(*machines("n1"))
    before = picture(there)
    with pytest.raises(error, match=words):
        there.simulate_add_node(added, slices)
    assert picture(there) == before
    there.validate()


def test_pods_that_say_they_are_on_a_node_count_once_it_comes() -> None:
    there = simulation(pod("q", node="new", cpu=6))
    there.simulate_add_node(node("new", cpu=8))
    assert isinstance(there.fits_on(pod("p", cpu=4), "new"), NoNode)
    assert there.fits_on(pod("p", cpu=2), "new") == "new"
    there.validate()


# --- SimulateRemoveNode ---


def test_a_node_goes_with_its_slices_and_with_pods_that_use_no_devices() -> None:
    there = simulation(*machines("n1"), pod("q", node="n1"), slice_("n2", "d0"))
    removed = there.simulate_remove_node("n1")
    assert [each.metadata.name for each in removed.pods] == ["q"]
    assert [each.metadata.name for each in removed.slices] == ["slice-n1"]
    assert not there.objects(Pod)
    assert list(there.objects(ResourceSlice)) == ["slice-n2"]
    there.validate()


def test_a_slice_that_a_node_owns_goes_with_it() -> None:
    owner = OwnerReference(api_version="v1", kind="Node", name="n1", uid="uid-n1")
    mine = slice_("net", "d0", on=None, everywhere=True)
    mine = replace(mine, metadata=replace(mine.metadata, owner_references=(owner,)))
    there = simulation(node("n1"), node("n2"), mine, slice_("other", "d0", on=None, everywhere=True))
    there.simulate_remove_node("n1")
    assert list(there.objects(ResourceSlice)) == ["slice-other"]
    there.validate()


def test_a_node_that_is_not_there_cannot_go() -> None:
    with pytest.raises(NoSuchNode, match="no node n2"):
        simulation(node("n1")).simulate_remove_node("n2")


ON_N1 = {
    "a device of it": allocated(claim("c"), "d0", on="n1", users=[user(pod("q"))]),
    "a share of a device": allocated(
        claim("c"), "d0", on="n1", users=[user(pod("q"))], share_id="s", consumed_capacity={}
    ),
    "admin access": allocated(claim("c"), "d0", on="n1", users=[user(pod("q"))], admin_access=True),
    "a device elsewhere": allocated(claim("c"), "d0", pool="net", users=[user(pod("q"))], anywhere=True),
}


@pytest.mark.parametrize("held", ON_N1.values(), ids=ON_N1)
def test_a_node_stays_while_a_pod_on_it_uses(held: ResourceClaim) -> None:
    who = pod("q", node="n1", claims=["c"])
    net = slice_("net", "d0", on=None, everywhere=True)
    there = simulation(*machines("n1"), net, held, who)
    before = picture(there)
    with pytest.raises(
        NodeInUse, match="node n1 cannot be removed while devices are in use there, by pod default/q"
    ):
        there.simulate_remove_node("n1")
    assert picture(there) == before
    there.simulate_evict_pod(who, "n1")
    there.simulate_remove_node("n1")
    assert devices_of(there, "default/c") == []
    there.validate()


def test_of_many_users_a_few_are_named() -> None:
    pods = [pod(f"p{number}", node="n1", claims=["c"]) for number in range(5)]
    held = allocated(claim("c"), "d0", on="n1", users=[user(each) for each in pods])
    there = simulation(*machines("n1"), held, *pods)
    with pytest.raises(NodeInUse, match=r"by pod default/p0, default/p1, default/p2 and 2 more: evict first"):
        there.simulate_remove_node("n1")


def test_claims_that_no_bound_pod_uses_lose_the_devices_of_a_node_that_goes() -> None:
    waiting = pod("waiting", claims=["reserved"])
    there = simulation(
        *machines("n1", "n2"),
        allocated(claim("ahead"), "d0", on="n1"),
        allocated(claim("reserved"), "d1", on="n1", users=[user(waiting)]),
        allocated(claim("elsewhere"), "d1", on="n2"),
        waiting,
    )
    assert there.simulate_remove_node("n1").released == ("default/ahead", "default/reserved")
    assert devices_of(there, "default/elsewhere") == ["n2/d1"]
    assert users_of(there, "default/reserved") == []
    assert there.fits(waiting) == "n2"
    there.validate()


def test_an_immediate_claim_is_stranded_when_its_node_goes() -> None:
    there = simulation(*trees("n1", "n2"), semantic_claim("c", "Immediate"))
    who = semantic_pod("c")
    bind(there, who, "n1")
    with pytest.raises(NodeInUse, match="by pod ns/c"):
        there.simulate_remove_node("n1")
    assert there.simulate_evict_pod(who, "n1").tied == ("ns/c",)
    removed = there.simulate_remove_node("n1")
    assert (removed.stranded, removed.released) == (("ns/c",), ())
    assert isinstance(there.fits(who), NoNode)
    there.validate()


# --- SimulateBindPod ---


def test_a_binding_allocates_reserves_and_protects() -> None:
    who, wish = asking("p", cpu=1)
    there = simulation(*machines("n1"), wish)
    found = bind(there, who, "n1")
    assert found.pod.spec.node_name == "n1"
    assert there.pods("n1") == (found.pod,)
    assert devices_of(there, "default/p") == ["n1/d0"]
    assert users_of(there, "default/p") == ["p"]
    assert found.claims[0].metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    assert there.cluster.nodes["n1"].taken["cpu"] == 10**9


def test_a_second_user_shares_what_a_claim_has() -> None:
    there = simulation(*machines("n1", "n2"), claim("c"))
    bind(there, pod("p", claims=["c"]), "n2")
    assert there.fits(pod("q", claims=["c"])) == "n2"
    bind(there, pod("q", claims=["c"]), "n2")
    assert users_of(there, "default/c") == ["p", "q"]
    assert devices_of(there, "default/c") == ["n2/d0"]


def test_a_claim_that_was_made_from_a_template_is_found() -> None:
    who = noted(pod("p", templates={"gpu": "t"}), gpu="p-gpu")
    there = simulation(*machines("n1"), owned(claim("p-gpu"), who), who)
    bind(there, who, "n1")
    assert users_of(there, "default/p-gpu") == ["p"]


def test_a_claim_of_seed_0_is_allocated_as_its_own_form_says() -> None:
    there = simulation(*trees("n1", wish=QUARTER), semantic_claim("c"))
    found = bind(there, semantic_pod("c"), "n1")
    assert found.claims[0].metadata.finalizers == ("semantic.dra.k8s.io/delete-protection",)
    held = there.cluster.fleet.ledger.holdings("ns/c")
    assert [each.device.device for each in held] == ["a/parts/rest/quarters/q0"]


def test_pods_of_a_group_have_claims_in_its_name() -> None:
    entry = PodResourceClaim(name="c", resource_claim_name="c")
    members = [pod(name, claims=["c"], group="gang") for name in ("p", "q")]
    there = simulation(*machines("n1"), group(claims=[entry]), claim("c"))
    for each in members:
        bind(there, each, "n1")
    assert users_of(there, "default/c") == ["gang"]
    assert there.simulate_evict_pod(members[0], "n1").shared == ("default/c",)
    assert devices_of(there, "default/c") == ["n1/d0"]
    assert there.simulate_evict_pod(members[1], "n1").released == ("default/c",)
    assert users_of(there, "default/c") == []
    there.validate()


def test_pods_without_a_uid_are_told_apart() -> None:
    there = simulation(*machines("n1"), claim("c"))
    for name in ("p", "q"):
        bind(there, pod(name, uid="", claims=["c"]), "n1")
    assert users_of(there, "default/c") == ["p", "q"]
    there.simulate_evict_pod(pod("p", uid=""), "n1")
    assert users_of(there, "default/c") == ["q"]
    there.validate()


def test_a_pod_that_waits_may_come_back_different() -> None:
    there = simulation(node("n1", cpu=4), pod("p", cpu=8))
    assert isinstance(there.simulate_bind_pod(pod("p", cpu=8), "n1"), NoNode)
    assert there.objects(Pod)["default/p"] == pod("p", cpu=8)
    bind(there, pod("p", cpu=2), "n1")
    assert there.cluster.nodes["n1"].taken["cpu"] == 2 * 10**9


REFUSED: dict[str, tuple[Sequence[ApiStruct], Pod, str, StatusCode]] = {
    "cpu": ([node("n1", cpu=1)], pod("p", cpu=2), "node n1 ", StatusCode.UNRESOLVABLE),
    "devices in use": (
        [*machines("n1", devices=["d0"]), allocated(claim("c"), "d0", on="n1"), claim("p")],
        pod("p", claims=["p"]),
        "node n1 has every any in use",
        StatusCode.UNSCHEDULABLE,
    ),
    "a missing claim": (
        [node("n1")],
        pod("p", claims=["c"]),
        "default/c does not exist",
        StatusCode.UNRESOLVABLE,
    ),
    "semantic trees": (
        [*trees(), node("n1"), semantic_claim("c")],
        semantic_pod("c"),
        "node n1 has no cards",
        StatusCode.UNRESOLVABLE,
    ),
}


@pytest.mark.parametrize(("objects", "who", "words", "code"), REFUSED.values(), ids=REFUSED)
def test_what_filter_would_refuse_is_not_bound(
    objects: Sequence[ApiStruct], who: Pod, words: str, code: StatusCode
) -> None:
    there = simulation(*objects)
    before = picture(there)
    found = there.simulate_bind_pod(who, "n1")
    assert isinstance(found, NoNode)
    assert words in found.words
    assert found.resolvable == (code is StatusCode.UNSCHEDULABLE)
    assert picture(there) == before  # the pod did not stay either
    there.validate()


def test_a_pod_is_bound_once_and_to_nodes_that_are_there() -> None:
    there = simulation(node("n1"), node("n2"))
    bind(there, pod("p"), "n1")
    with pytest.raises(PodBound, match="pod default/p is already on node n1"):
        there.simulate_bind_pod(pod("p"), "n2")
    with pytest.raises(NoSuchNode, match="no node n3"):
        there.simulate_bind_pod(pod("q"), "n3")
    there.validate()


def test_schedule_binds_where_the_scheduler_would() -> None:
    who, wish = asking("p")
    there = simulation(node("n1"), *machines("n2"), wish)
    found = there.schedule(who)
    assert isinstance(found, BoundPod)
    assert found.node == "n2"
    refused = there.schedule(pod("q", cpu=100))
    assert isinstance(refused, NoNode)
    assert "default/q" not in there.objects(Pod)
    there.validate()


# --- SimulateEvictPod ---


@dataclass(frozen=True)
class Eviction:
    objects: Sequence[ApiStruct]
    pods: Sequence[Pod]  # bound to n1 in this order; the first is evicted
    released: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    tied: tuple[str, ...] = ()
    left: dict[str, list[str]] = field(default_factory=dict)  # devices that claims keep


EVICTIONS = {
    "no claims": Eviction([node("n1")], [pod("p")]),
    "a claim of its own": Eviction(
        [*machines("n1"), claim("c")], [pod("p", claims=["c"])], ("default/c",), left={"default/c": []}
    ),
    "a claim that another uses": Eviction(
        [*machines("n1"), claim("c")],
        [pod("p", claims=["c"]), pod("q", claims=["c"])],
        shared=("default/c",),
        left={"default/c": ["n1/d0"]},
    ),
    "one of each": Eviction(
        [*machines("n1"), claim("c"), claim("d")],
        [pod("p", claims=["c", "d"]), pod("q", claims=["c"])],
        ("default/d",),
        ("default/c",),
        left={"default/c": ["n1/d0"], "default/d": []},
    ),
    "a claim for extended resources": Eviction(
        [gpu_class(), *machines("n1")],
        [pod("p", more={GPU: 1})],
        ("default/p-extended-resources-78b38b2338",),
    ),
    "semantic, when first used": Eviction(
        [*trees("n1"), semantic_claim("c", "WaitForFirstConsumer")],
        [semantic_pod("c")],
        ("ns/c",),
        left={"ns/c": []},
    ),
    "semantic, immediate": Eviction(
        [*trees("n1"), semantic_claim("c", "Immediate")], [semantic_pod("c")], tied=("ns/c",)
    ),
    "semantic, shared": Eviction(
        [*trees("n1", shareable=True), semantic_claim("c")],
        [semantic_pod("p", "c"), semantic_pod("q", "c")],
        shared=("ns/c",),
    ),
}


@pytest.mark.parametrize("case", EVICTIONS.values(), ids=EVICTIONS)
def test_what_an_eviction_gives_back(case: Eviction) -> None:
    there = simulation(*case.objects)
    for each in case.pods:
        bind(there, each, "n1")
    evicted = there.simulate_evict_pod(case.pods[0], "n1")
    there.validate()
    assert (evicted.released, evicted.shared, evicted.tied) == (case.released, case.shared, case.tied)
    assert {key: devices_of(there, key) for key in case.left} == case.left
    assert not evicted.pod.spec.node_name
    for key in case.tied:
        assert devices_of(there, key)
    assert there.fits(evicted.pod) == "n1"  # and can come back
    bind(there, evicted.pod, "n1")


def test_a_pod_that_was_evicted_can_start_elsewhere() -> None:
    who, wish = asking("p")
    there = simulation(*machines("n1", "n2"), wish)
    bind(there, who, "n1")
    there.put(node("n1", cordoned=True))
    evicted = there.simulate_evict_pod(who, "n1")
    assert there.fits(evicted.pod) == "n2"
    bind(there, evicted.pod, "n2")
    assert devices_of(there, "default/p") == ["n2/d0"]


MISSING: dict[str, tuple[Sequence[ApiStruct], Callable[[], Pod], str]] = {
    "there is no such pod": ([node("n1")], lambda: pod("p"), "default/p is not on node n1: it is on none"),
    "it waits": ([node("n1"), pod("p")], lambda: pod("p"), "default/p is not on node n1: it is on none"),
    "it is elsewhere": ([node("n1"), pod("p", node="n2")], lambda: pod("p"), "it is on node n2"),
    "another of that name": ([pod("p", node="n1")], lambda: pod("p", uid="other"), "is not on node n1"),
    "it ended": ([node("n1"), pod("p", node="n1", phase="Succeeded")], lambda: pod("p"), "it is on none"),
}


@pytest.mark.parametrize(("objects", "who", "words"), MISSING.values(), ids=MISSING)
def test_a_pod_that_is_not_there_cannot_be_evicted(
    objects: Sequence[ApiStruct], who: Callable[[], Pod], words: str
) -> None:
    there = simulation(*objects)
    with pytest.raises(NoSuchPod, match=words):
        there.simulate_evict_pod(who(), "n1")
    there.validate()
