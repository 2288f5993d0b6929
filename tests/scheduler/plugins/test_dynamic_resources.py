"""DynamicResources from the pod's claims to the writes: each rule of claims in the cycle, on clusters of a few nodes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from allotment.api.batch import PodGroup, PodGroupSpec, PodGroupStatus
from allotment.api.core import Pod, PodResourceClaim, PodResourceClaimStatus
from allotment.api.meta import Condition, ObjectMeta, OwnerReference
from allotment.api.resource import (
    AllocatedDeviceStatus,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from allotment.scheduler.binding.step import AwaitConditions, WriteClaim
from allotment.scheduler.framework import Status, StatusCode
from tests.allocator import build
from tests.allocator.build import device, request
from tests.builders.typed import claim, node, pod, slice_
from tests.scheduler.plugins.device_world import World, allocated, cards, fleet, going, noted, owned, user

FINALIZER = "resource.kubernetes.io/delete-protection"
GROUP_OWNER = OwnerReference(
    api_version="scheduling.k8s.io/v1beta1", kind="PodGroup", name="team", uid="g", controller=True
)


def writes(steps: object) -> list[WriteClaim]:
    assert isinstance(steps, list)
    return [step for step in steps if isinstance(step, WriteClaim)]


def devices_of(step: WriteClaim) -> list[str]:
    assert step.allocation is not None
    return [result.device for result in step.allocation.devices.results]


# --- which claims ---

MINE = pod("p", templates={"gpu": "t"})

GATES = {
    "a claim by name": ([claim("c")], pod("p", claims={"gpu": "c"}), ""),
    "a claim by name that is missing": ([], pod("p", claims={"gpu": "c"}), "claim default/c does not exist"),
    "a claim of another namespace": (
        [claim("c", namespace="other")],
        pod("p", claims={"gpu": "c"}),
        "claim default/c does not exist",
    ),
    "a template whose claim is noted": ([owned(claim("x"), MINE)], noted(MINE, gpu="x"), ""),
    "a template whose claim is there, but not noted yet": ([owned(claim("x"), MINE)], MINE, ""),
    "a template whose claim is for another entry": (
        [owned(claim("x"), MINE, entry="nic")],
        MINE,
        "gpu has not been made from template t yet",
    ),
    "a template without a claim": ([], MINE, "gpu has not been made from template t yet"),
    "a template that needs no claim": ([], noted(MINE, gpu=None), ""),
    "a template whose claim belongs to somebody else": (
        [owned(claim("x"), pod("q"))],
        noted(MINE, gpu="x"),
        "default/x was not made for this pod",
    ),
    "a template whose claim belongs to an older pod of the name": (
        [owned(claim("x"), pod("p", uid="old"))],
        noted(MINE, gpu="x"),
        "default/x was not made for this pod",
    ),
    "a claim that is being deleted": (
        [going(claim("c"))],
        pod("p", claims={"gpu": "c"}),
        "claim default/c is being deleted",
    ),
    "neither name nor template": (
        [],
        replace(pod("p"), spec=replace(pod("p").spec, resource_claims=(PodResourceClaim(name="gpu"),))),
        "gpu names neither a claim nor a template",
    ),
}


@pytest.mark.parametrize(("claims", "of", "words"), GATES.values(), ids=GATES)
def test_a_pod_enters_the_queue_when_its_claims_are_there_for_it(
    claims: list[ResourceClaim], of: Pod, words: str
) -> None:
    world = World(*fleet("n1"), *claims)
    status = world.gate(of)
    assert status.ok == (not words)
    assert words in status.words
    if words:
        assert status.code is StatusCode.UNRESOLVABLE
        assert words in world.refused(of), "PreFilter says the same"
    else:
        assert world.fitting(of) == ["n1"]


def test_pods_without_claims_are_no_business_of_the_plugin() -> None:
    world = World(*fleet("n1"))
    cycle = world.attempt(pod("p"))
    assert world.plugin.pre_filter(cycle).code is StatusCode.SKIP
    assert world.plugin.shape(cycle) is None
    assert world.plugin.filter(cycle, world.cluster.nodes["n1"]).ok
    assert world.plugin.score(cycle, world.cluster.nodes["n1"]) == 0
    assert world.plugin.reserve(cycle, world.cluster.nodes["n1"]).ok
    assert world.plugin.pre_bind(cycle, world.cluster.nodes["n1"]) == []


def test_a_claim_with_256_users_takes_no_further_one() -> None:
    users = [
        ResourceClaimConsumerReference(resource="pods", name=f"p{i}", uid=f"uid-default-p{i}")
        for i in range(256)
    ]
    world = World(*fleet("n1"), allocated(claim("c"), "d0", users=users))
    assert "maximum of 256 users" in world.refused(pod("late", claims=["c"]))
    assert world.fitting(pod("p7", claims=["c"])) == ["n1"], "it is one of them"


def test_a_class_that_does_not_exist_is_said() -> None:
    world = World(*fleet("n1"), claim("c", request(class_name="tpu")))
    of_a_pod = pod("p", claims={"fast": "fine", "big": "c"})
    world.show(claim("fine"))
    assert world.refused(of_a_pod).startswith(
        "the pod's claims cannot be allocated: claim big, request r: could not retrieve device class tpu"
    )


# --- given claims ---


def test_allocated_claims_leave_the_nodes_that_their_selectors_choose() -> None:
    world = World(*fleet("n1", "n2"), node("n3", zone="east"))
    world.show(allocated(claim("by-name"), "d0", on="n2"))
    cycle = world.cycle(pod("p", claims=["by-name"]))
    assert cycle.names == frozenset({"n2"})
    assert world.verdicts(cycle)["n2"].ok
    east = build.selector(build.where("topology.kubernetes.io/zone", "In", "east"))
    given = allocated(claim("by-label"), "net")
    assert given.status.allocation is not None
    world.show(
        replace(
            given,
            status=replace(given.status, allocation=replace(given.status.allocation, node_selector=east)),
        )
    )
    assert world.fitting(pod("q", claims=["by-label"])) == ["n3"]
    assert set(world.words(pod("q", claims=["by-label"])).values()) == {
        "are not where the pod's allocated claims can be used"
    }
    world.show(allocated(claim("anywhere"), "x", anywhere=True))
    assert world.fitting(pod("r", claims=["anywhere"])) == ["n1", "n2", "n3"]


def test_two_given_claims_on_two_nodes_leave_none() -> None:
    world = World(
        *fleet("n1", "n2"), allocated(claim("a"), "d0", on="n1"), allocated(claim("b"), "d0", on="n2")
    )
    assert world.cycle(pod("p", claims=["a", "b"])).names == frozenset()


def test_devices_that_skip_node_operations_need_a_node_that_declares_it() -> None:
    able = node("n2", features=["DRAOptionalNodeOperations"])
    world = World(*fleet("n1"), able)
    world.show(allocated(claim("c"), "x", anywhere=True, skip_node_operations=("All",)))
    assert world.fitting(pod("p", claims=["c"])) == ["n2"]
    assert "do not declare DRAOptionalNodeOperations" in world.words(pod("p", claims=["c"]))["n1"]


def test_a_given_claim_is_only_reserved() -> None:
    first = pod("first", claims=["c"])
    world = World(*fleet("n1"), allocated(claim("c"), "d0", users=[user(first)]))
    _, steps = world.place(pod("second", claims=["c"]), "n1")
    (write,) = writes(steps)
    assert (write.claim, write.allocation, write.consumer.name) == ("default/c", None, "second")
    _, steps = world.place(first, "n1")
    (write,) = writes(steps)
    assert (write.allocation, write.consumer.name) == (None, "first"), "whoever reserved it may take it back"


# --- pending claims ---


def test_pending_claims_are_allocated_together_and_written_with_their_finalizer() -> None:
    world = World(*fleet("n1", devices=["d0"]), *fleet("n2"), claim("a"), claim("b"))
    of = pod("p", claims=["a", "b"])
    assert world.fitting(of) == ["n2"], "n1 has but one device"
    _, steps = world.place(of, "n2")
    assert [(write.claim, devices_of(write), write.finalizer) for write in writes(steps)] == [
        ("default/a", ["d0"], FINALIZER),
        ("default/b", ["d1"], FINALIZER),
    ]
    assert {write.consumer.uid for write in writes(steps)} == {of.metadata.uid}


def test_what_is_reserved_is_gone_for_the_next_and_back_when_it_is_taken_back() -> None:
    world = World(*fleet("n1", devices=["d0"]), claim("a"), claim("b"))
    first, _ = world.place(pod("p", claims=["a"]), "n1")
    assert world.words(pod("q", claims=["b"])) == {"n1": "have every any in use"}
    world.plugin.unreserve(first, world.cluster.nodes["n1"])
    world.plugin.unreserve(first, world.cluster.nodes["n1"])  # safe where nothing is left
    world.cluster.validate()
    assert not world.cluster.claims.flights
    assert not world.cluster.fleet.ledger.claims()
    assert world.fitting(pod("q", claims=["b"])) == ["n1"]


def test_a_reservation_that_comes_too_late_leaves_nothing_behind() -> None:
    world = World(*fleet("n1", devices=["d0", "d1"]), claim("a"), claim("b"), claim("c"), claim("d"))
    late = world.cycle(pod("late", claims=["a", "b"]))
    world.place(pod("quick", claims=["c"]), "n1")
    status = world.plugin.reserve(late, world.cluster.nodes["n1"])
    assert status.code is StatusCode.UNSCHEDULABLE
    world.plugin.unreserve(late, world.cluster.nodes["n1"])
    world.cluster.validate()
    assert set(world.cluster.claims.flights) == {"default/c"}


def test_a_claim_in_flight_for_another_pod_makes_this_one_wait() -> None:
    world = World(*fleet("n1"), claim("c"))
    world.place(pod("p", claims=["c"]), "n1")
    assert "claim default/c is being allocated for another pod" in world.refused(pod("q", claims=["c"]))


def test_a_claim_whose_allocation_is_shown_need_not_be_waited_for() -> None:
    """Even if the reply to the write is still on its way: no further change of the claim would wake the pod."""
    world = World(*fleet("n1"), claim("c"))
    _, steps = world.place(pod("p", claims=["c"]), "n1")
    (write,) = writes(steps)
    shown = allocated(claim("c"), *devices_of(write), users=[write.consumer])
    world.cluster.change(claim("c"), shown)
    assert "default/c" in world.cluster.claims.flights
    assert world.cycle(pod("q", claims=["c"])).names == frozenset({"n1"})


@pytest.mark.parametrize("volcano", [False, True], ids=["Kubernetes' group", "Volcano's group"])
def test_a_claim_in_flight_for_the_gang_is_reused_with_its_node(volcano: bool) -> None:
    def member(name: str, team: str = "team") -> Pod:
        if volcano:
            return pod(name, claims=["c"], annotations={"scheduling.k8s.io/group-name": team})
        return pod(name, claims=["c"], group=team)

    world = World(*fleet("n1", "n2"), claim("c"))
    world.place(member("a"), "n2")
    cycle = world.cycle(member("b"))
    assert cycle.names == frozenset({"n2"})
    assert world.plugin.reserve(cycle, world.cluster.nodes["n2"]).ok
    (write,) = writes(world.plugin.pre_bind(cycle, world.cluster.nodes["n2"]))
    assert write.allocation is None, "the first writes it"
    assert "is being allocated for another pod" in world.refused(member("x", team="others"))
    world.plugin.unreserve(cycle, world.cluster.nodes["n2"])
    assert set(world.cluster.claims.flights["default/c"].users) == {"uid-default-a"}
    world.cluster.validate()


# --- claims of a group ---


def group(*statuses: PodResourceClaimStatus) -> PodGroup:
    return PodGroup(
        metadata=ObjectMeta(name="team", namespace="default", uid="g"),
        spec=PodGroupSpec(resource_claims=(PodResourceClaim(name="gpu", resource_claim_template_name="t"),)),
        status=PodGroupStatus(resource_claim_statuses=statuses),
    )


def of_group(found: ResourceClaim) -> ResourceClaim:
    return replace(
        found,
        metadata=replace(
            found.metadata,
            owner_references=(GROUP_OWNER,),
            annotations={"resource.kubernetes.io/pod-claim-name": "gpu"},
        ),
    )


@pytest.mark.parametrize(
    "statuses",
    [(PodResourceClaimStatus(name="gpu", resource_claim_name="shared"),), ()],
    ids=["noted in the group's status", "not noted yet"],
)
def test_a_groups_claim_is_used_in_the_groups_name(statuses: tuple[PodResourceClaimStatus, ...]) -> None:
    world = World(*fleet("n1"), group(*statuses), of_group(claim("shared")))
    _, steps = world.place(pod("a", templates={"gpu": "t"}, group="team"), "n1")
    (write,) = writes(steps)
    assert write.consumer == ResourceClaimConsumerReference(
        api_group="scheduling.k8s.io", resource="podgroups", name="team", uid="g"
    )
    cycle, _ = world.place(pod("b", templates={"gpu": "t"}, group="team"), "n1")
    assert cycle.names == frozenset({"n1"})


def test_an_entry_that_differs_from_the_groups_is_the_pods_own() -> None:
    world = World(*fleet("n1"), group(), of_group(claim("shared")))
    other = pod("a", templates={"gpu": "another"}, group="team")
    assert "has not been made from template another yet" in world.gate(other).words


# --- binding conditions ---


def ready(found: ResourceClaim, **conditions: str) -> ResourceClaim:
    (result,) = found.status.allocation.devices.results if found.status.allocation else ()
    status = AllocatedDeviceStatus(
        driver=result.driver,
        pool=result.pool,
        device=result.device,
        conditions=tuple(Condition(type=name, status=value) for name, value in conditions.items()),
    )
    return replace(found, status=replace(found.status, devices=(status,)))


def attaching(at: str | None = "1970-01-01T00:10:00Z") -> ResourceClaim:
    found = allocated(
        claim("c"), "d0", binding_conditions=("Attached",), binding_failure_conditions=("Broken",)
    )
    assert found.status.allocation is not None
    allocation = replace(found.status.allocation, allocation_timestamp=at)
    return replace(found, status=replace(found.status, allocation=allocation))


def test_a_binding_waits_for_the_conditions_of_new_devices() -> None:
    slow = device("d0", binding=["Attached"])
    world = World(*fleet("n1", devices=[slow]), claim("c"), binding_seconds=30)
    _, (write, wait) = world.place(pod("p", claims=["c"]), "n1")
    assert isinstance(write, WriteClaim)
    assert write.allocation is not None
    assert write.allocation.allocation_timestamp == "1970-01-01T00:16:40Z"
    assert wait == AwaitConditions(("default/c",), 30)


CONDITIONS: dict[str, tuple[ResourceClaim, float, bool]] = {
    "nothing reported yet": (attaching(), 700.0, True),
    "attached": (ready(attaching(), Attached="True"), 9999.0, True),
    "not attached in time": (attaching(), 1201.0, False),
    "no time given": (attaching(at=None), 1201.0, True),
    "broken": (ready(attaching(), Attached="True", Broken="True"), 700.0, False),
    "reported as not broken": (ready(attaching(), Attached="False", Broken="False"), 700.0, True),
}


@pytest.mark.parametrize(("found", "now", "usable"), CONDITIONS.values(), ids=CONDITIONS)
def test_devices_that_did_not_become_ready_are_given_back(
    found: ResourceClaim, now: float, usable: bool
) -> None:
    world = World(*fleet("n1"), found, now=now)
    of = pod("p", claims=["c"])
    assert (world.fitting(of) == ["n1"]) == usable
    release = world.plugin.post_filter(world.cycle(of), {})
    if not usable:
        assert release is not None
        assert release.claims == ("default/c",)


# --- PostFilter ---

FULL = Status(StatusCode.UNSCHEDULABLE, "NodeResourcesFit", "have too little cpu")

OWN = pod("p", claims=["given", "pending"])
OTHER = pod("q", claims=["given"])

RELEASES: dict[str, tuple[Callable[[], World], dict[str, Status], tuple[str, ...] | None]] = {
    "the claim keeps the pod from a node where both fit": (
        lambda: World(*fleet("n1", devices=["d0"]), *fleet("n2"), allocated(claim("given"), "d0")),
        {},
        ("default/given",),
    ),
    "another pod uses it": (
        lambda: World(
            *fleet("n1", devices=["d0"]), *fleet("n2"), allocated(claim("given"), "d0", users=[user(OTHER)])
        ),
        {},
        None,
    ),
    "only this pod uses it": (
        lambda: World(
            *fleet("n1", devices=["d0"]), *fleet("n2"), allocated(claim("given"), "d0", users=[user(OWN)])
        ),
        {},
        ("default/given",),
    ),
    "there is no other node": (
        lambda: World(*fleet("n1", devices=["d0"]), allocated(claim("given"), "d0")),
        {},
        None,
    ),
    "another plugin rejects the other node": (
        lambda: World(*fleet("n1", devices=["d0"]), *fleet("n2"), allocated(claim("given"), "d0")),
        {"n2": FULL},
        None,
    ),
    "its own device would do for the other claim, and it may have another": (
        lambda: World(*fleet("n1"), allocated(claim("given"), "d0")),
        {"n1": Status(StatusCode.UNSCHEDULABLE, "DynamicResources", "")},
        ("default/given",),
    ),
}


@pytest.mark.parametrize(("make", "rejections", "released"), RELEASES.values(), ids=RELEASES)
def test_claims_that_nobody_else_uses_are_given_back_where_that_helps(
    make: Callable[[], World], rejections: dict[str, Status], released: tuple[str, ...] | None
) -> None:
    world = make().show(claim("pending"))
    release = world.plugin.post_filter(world.cycle(OWN), rejections)
    assert (release.claims if release is not None else None) == released
    world.cluster.validate()
    assert "default/given" in world.cluster.fleet.ledger, "it is only asked for"


@pytest.mark.parametrize("begun", [False, True], ids=["no member has a node", "a member runs already"])
def test_a_groups_claim_is_given_back_only_before_the_group_has_begun(begun: bool) -> None:
    team = ResourceClaimConsumerReference(
        api_group="scheduling.k8s.io", resource="podgroups", name="team", uid="g"
    )
    shared = allocated(of_group(claim("shared")), "d0", on="n1", users=[team])
    world = World(*fleet("n1", devices=["d0"]), *fleet("n2"), group(), shared, claim("more"))
    if begun:
        world.show(pod("a", group="team", node="n1"))
    member = pod("b", templates={"gpu": "t"}, claims=["more"], group="team")
    release = world.plugin.post_filter(world.cycle(member), {})
    assert (release is None) == begun


# --- shapes ---

SHAPES = {
    "equal claims by other names": (pod("p", claims=["a1"]), pod("q", claims=["a2"]), True),
    "other claims": (pod("p", claims=["a1"]), pod("q", claims=["b"]), False),
    "one more claim": (pod("p", claims=["a1"]), pod("q", claims=["a1", "b"]), False),
    "claims in another order": (pod("p", claims=["a1", "b"]), pod("q", claims=["b", "a1"]), False),
    "given instead of pending": (pod("p", claims=["a1"]), pod("q", claims=["given"]), False),
    "given on another node": (pod("p", claims=["given"]), pod("q", claims=["elsewhere"]), False),
    "no claims": (pod("p"), pod("q"), True),
}


@pytest.mark.parametrize(("one", "other", "equal"), SHAPES.values(), ids=SHAPES)
def test_pods_that_the_plugin_cannot_tell_apart_have_one_shape(one: Pod, other: Pod, equal: bool) -> None:
    world = World(
        *fleet("n1", "n2"),
        claim("a1"),
        claim("a2"),
        claim("b", request(count=2)),
        allocated(claim("given"), "d0"),
        allocated(claim("elsewhere"), "d0", on="n2"),
    )
    first, second = world.cycle(one), world.cycle(other)
    assert (world.plugin.shape(first) == world.plugin.shape(second)) == equal
    hash(world.plugin.shape(first))


# --- scores ---


def scores(world: World, *requests: object) -> dict[str, int]:
    world.show(claim("c", *requests))  # type: ignore[arg-type]  # requests, passed on
    return world.scores(pod("p", claims=["c"]))


def test_small_devices_go_before_large_ones() -> None:
    world = World()
    for name, memory in {"small": "40Gi", "large": "80Gi"}.items():
        world.show(node(name), slice_(name, device("d0", capacity={"memory": memory})))
    found = scores(world)
    assert found["small"] > found["large"]


def test_nodes_in_use_are_filled_before_empty_ones() -> None:
    world = World(*fleet("empty", "begun"), claim("before"))
    world.place(pod("q", claims=["before"]), "begun")
    found = scores(world)
    assert found["begun"] > found["empty"]


def test_cards_that_are_broken_up_already_go_before_whole_ones() -> None:
    world = World(claim("before"))
    for name in ("whole", "broken"):
        halves = [device(f"half-{i}", draws=[build.draw("card", slots="1")]) for i in range(2)]
        world.show(*cards(name, *halves, slots="2"))
    world.place(pod("q", claims=["before"]), "broken")
    found = scores(world)
    assert found["broken"] > found["whole"]


def test_an_earlier_alternative_outweighs_size_and_use() -> None:
    world = World(claim("before"))
    world.show(node("wished"), slice_("wished", device("d0", capacity={"memory": "80Gi"}, model="a")))
    second = [device(f"d{i}", capacity={"memory": "1Gi"}, model="b") for i in range(2)]
    world.show(node("second"), slice_("second", *second))
    world.place(pod("q", claims=["before"]), "second")
    choice = build.either(
        "r",
        build.sub("first", 'device.attributes["gpu.example.com"].model == "a"'),
        build.sub("second", 'device.attributes["gpu.example.com"].model == "b"'),
    )
    found = scores(world, choice)
    assert found["wished"] > found["second"]


def test_scores_are_within_the_range_and_zero_where_nothing_is_asked() -> None:
    world = World(*fleet("n1"), allocated(claim("given"), "d0"))
    assert world.scores(pod("p", claims=["given"])) == {"n1": 0}
    assert 0 < scores(world)["n1"] <= 100


@pytest.mark.parametrize(("strategy", "chosen"), [("keep-whole", "small"), ("first-fit", "big")])
def test_the_profile_says_which_device_of_a_node_goes_first(strategy: str, chosen: str) -> None:
    devices = [device("big", capacity={"memory": "80Gi"}), device("small", capacity={"memory": "40Gi"})]
    world = World(*fleet("n1", devices=devices), claim("c"), device_strategy=strategy)
    _, steps = world.place(pod("p", claims=["c"]), "n1")
    assert devices_of(writes(steps)[0]) == [chosen]


def test_a_strategy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="keep-whole, first-fit"):
        World(device_strategy="biggest")
