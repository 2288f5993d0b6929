"""Plans for pods that wait: the cheapest machines, and nothing that the scheduler would refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from itertools import combinations, combinations_with_replacement
from random import Random
from typing import Any

import pytest
from benchmarks.autoscaler_problems import problem
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.api.autoscaling import NODE_POOL
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct, ObjectMeta
from allotment.api.resource import DeviceTaintRule, DeviceTaintRuleSpec, DeviceTaintSelector
from allotment.autoscaler.catalogue.machine import Machine, node_of
from allotment.autoscaler.provision.plan import Plan
from allotment.autoscaler.provision.provisioner import provision
from allotment.autoscaler.simulate.node_arrival import foresee_drivers
from allotment.autoscaler.simulate.simulation import BoundPod, Simulation, start_simulation
from tests.allocator import build
from tests.autoscaler.build import (
    GPU,
    ROOT,
    device,
    devices,
    evaluated,
    gpus,
    group,
    overlay,
    pool,
    template,
    type_,
    where,
)
from tests.autoscaler.builders import GPU as EXTENDED
from tests.autoscaler.builders import (
    asking,
    gpu_class,
    picture,
    semantic_claim,
    semantic_pod,
    simulation,
    trees,
)
from tests.builders.typed import HOSTNAME, ZONE, claim, near, node, pod, pod_affinity, spread, toleration
from tests.scheduler.gang_builders import group as gang

RACK = "example.com/rack"
SMALL, LARGE = {"cpu": "4", "memory": "16Gi", "pods": "110"}, {"cpu": "16", "memory": "64Gi", "pods": "110"}


def plan_for(
    pods: Sequence[Pod], *offers: Any, there: Sequence[ApiStruct] = (), **options: Any
) -> tuple[Plan, Simulation]:
    """A plan, checked: its nodes, once created, are accepted by the scheduler for exactly those pods."""
    cluster = simulation(*there)
    before = picture(cluster)
    found = provision(cluster, evaluated(*offers).machines, pods, **options)
    assert picture(cluster) == before, "planning leaves nothing behind"
    cluster.validate()
    check(found, pods, [build.class_(), *there])
    return found, cluster


def check(found: Plan, pods: Sequence[Pod], objects: Sequence[ApiStruct]) -> None:
    fresh = start_simulation(objects)
    for each in found.nodes:
        fresh.simulate_add_node(*node_of(each.machine, each.name))
        foresee_drivers(fresh, each.name)
    places = {place.pod: place for new in found.nodes for place in new.places}
    places |= {place.pod: place for place in found.existing}
    by_key = {f"{pod.metadata.namespace}/{pod.metadata.name}": pod for pod in pods}
    assert {*places, *(each.pod for each in found.pending)} == set(by_key)
    assert not places.keys() & {each.pod for each in found.pending}
    waiting = list(places.values())
    while waiting:  # spreading allows one order and not another
        left = [
            place
            for place in waiting
            if not isinstance(_bound(fresh, by_key[place.pod], place.node), BoundPod)
        ]
        assert len(left) < len(waiting), f"the scheduler refuses {left}"
        waiting = left
    assert found.bound is None or found.bound <= found.price
    fresh.validate()


def _bound(there: Simulation, who: Pod, on: str) -> object:
    known = there.cluster.pods.get(f"{who.metadata.namespace}/{who.metadata.name}")
    return there.simulate_bind_pod(known.pod if known is not None else who, on)


def types_of(found: Plan) -> dict[str, int]:
    return dict(Counter(each.machine.type for each in found.nodes))


# --- price ---


@pytest.mark.parametrize(("small", "large", "price"), [("a", "b", 3), ("b", "a", 1)])
def test_exact_is_said_of_the_machines_and_not_of_who_gets_the_room_on_nodes(
    small: str, large: str, price: int
) -> None:
    """As docs/autoscaling.md says: by name the first one is placed first, on the node that has room for either of them."""
    few, many = {"cpu": "1", "memory": "1Gi", "pods": "9"}, {"cpu": "2", "memory": "1Gi", "pods": "9"}
    offers = type_("few", {"a": "1"}, capacity=few), type_("many", {"a": "3"}, capacity=many)
    pods = [pod(small, cpu=1), pod(large, cpu=2)]
    found, _ = plan_for(pods, *offers, there=[node("n", cpu=2)])
    assert [each.pod for each in found.existing] == ["default/a"]
    assert found.exact
    assert found.price == found.bound == price


def test_pods_go_to_existing_nodes_first() -> None:
    found, _ = plan_for([pod("a", cpu=2), pod("b", cpu=7)], type_("t"), there=[node("n", cpu=8)])
    assert [(each.pod, each.node) for each in found.existing] == [("default/a", "n")]
    assert [[place.pod for place in each.places] for each in found.nodes] == [["default/b"]]


def test_two_pods_with_a_device_each_get_two_small_machines_if_these_are_cheaper() -> None:
    pods, claims = zip(*(asking(name, cpu=1) for name in ("a", "b")), strict=True)
    small = type_("small", {"z": "1"}, dynamicResources=gpus(1))
    large = type_("large", {"z": "2.5"}, dynamicResources=gpus(4))
    found, _ = plan_for(pods, small, large, there=claims)
    assert types_of(found) == {"small": 2}
    assert found.price == found.bound == 2
    assert found.exact
    devices = [place.devices for each in found.nodes for place in each.places]
    assert devices == [("gpu.example.com/new-1/gpu-0",), ("gpu.example.com/new-2/gpu-0",)]


def test_they_share_one_where_that_is_cheaper() -> None:
    pods, claims = zip(*(asking(name, cpu=1) for name in ("a", "b")), strict=True)
    small = type_("small", {"z": "1"}, dynamicResources=gpus(1))
    large = type_("large", {"z": "1.5"}, dynamicResources=gpus(4))
    found, _ = plan_for(pods, small, large, there=claims)
    assert types_of(found) == {"large": 1}


def test_each_type_is_looked_at_in_each_zone_for_itself() -> None:
    """The cheapest zone of one type is the dearest of the other."""
    left, right = type_("l", {"a": "3", "b": "1"}), type_("r", {"a": "2", "b": "4"})
    found, _ = plan_for([pod("p", selector={ZONE: "a"}), pod("q", selector={ZONE: "b"})], left, right)
    assert {(each.machine.type, each.machine.offering.zone) for each in found.nodes} == {
        ("l", "b"),
        ("r", "a"),
    }


@pytest.mark.parametrize("zone", ["a", "b"])
def test_an_overlay_may_give_devices_to_one_offering_of_a_type_only(zone: str) -> None:
    who, wanted = asking("p", cpu=1)
    disks = overlay("disks", where(ZONE, "In", zone), dynamicResources=gpus(1))
    found, _ = plan_for([who], type_("t", {"a": "1", "b": "2"}), disks, there=[wanted])
    assert [each.machine.offering.zone for each in found.nodes] == [zone]


@pytest.mark.parametrize("zone", ["a", "b"])
def test_an_overlay_may_give_a_resource_to_one_offering_of_a_type_only(zone: str) -> None:
    fuse = overlay("fuse", where(ZONE, "In", zone), capacity={"example.com/fuse": "2"})
    pods = [pod(name, cpu=1, more={"example.com/fuse": 1}) for name in "abc"]
    found, _ = plan_for(pods, type_("t", {"a": "1", "b": "2"}), fuse)
    assert [each.machine.offering.zone for each in found.nodes] == [zone, zone]


def brute_force(
    pods: Sequence[Pod], offers: Sequence[Machine], objects: Sequence[ApiStruct]
) -> Decimal | None:
    """The lowest price, None if not all can be served, by trying all sets of up to as many machines as there are pods, and all ways to put pods on them."""

    def goes(chosen: Sequence[Machine]) -> bool:
        cluster = start_simulation(objects)
        names = []
        for number, machine in enumerate(chosen):
            names.append(f"try-{number}")
            cluster.simulate_add_node(*node_of(machine, names[-1]))
        return placed(cluster, list(pods), names)

    def placed(cluster: Simulation, left: list[Pod], names: Sequence[str]) -> bool:
        if not left:
            return True
        for name in names:
            cluster.fork()
            if isinstance(cluster.simulate_bind_pod(left[0], name), BoundPod) and placed(
                cluster, left[1:], names
            ):
                return True
            cluster.revert()
        return False

    sets = [each for count in range(len(pods) + 1) for each in combinations_with_replacement(offers, count)]
    sets.sort(key=lambda each: sum((machine.price for machine in each), Decimal(0)))
    return next((sum((m.price for m in each), Decimal(0)) for each in sets if goes(each)), None)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_the_price_is_that_of_brute_force_on_small_catalogues(seed: int) -> None:
    random = Random(seed)
    offers = [
        type_(
            f"t{number}",
            {zone: str(random.randint(1, 9)) for zone in random.sample("ab", random.randint(1, 2))},
            capacity={"cpu": str(random.choice((2, 4, 8))), "memory": "32Gi", "pods": "10"},
            dynamicResources=gpus(random.randint(1, 3)),
        )
        for number in range(2)
    ]
    pods: list[Pod] = []
    objects: list[ApiStruct] = [build.class_()]
    for number in range(random.randint(1, 4)):
        where = {ZONE: "a"} if random.random() < 0.3 and any("a" in _zones(each) for each in offers) else {}
        name, cpu = f"p{number}", random.choice((1, 2))
        if random.random() < 0.5:
            made, wanted = asking(name, cpu=cpu, selector=where)
            objects.append(wanted)
            pods.append(made)
        else:
            pods.append(pod(name, cpu=cpu, selector=where))
    found = provision(start_simulation(objects), evaluated(*offers).machines, pods)
    assert not found.pending
    assert found.price == brute_force(pods, evaluated(*offers).machines, objects)
    assert found.exact


def _zones(each: Any) -> set[str]:
    return {offering.zone for offering in each.spec.offerings}


# --- order and repetition ---


def test_the_plan_does_not_depend_on_the_order_of_anything() -> None:
    made = problem(5, 40, shapes=6, types=12, zones=2)
    turned = Random(1)
    plans = []
    for _ in range(3):
        pods, offers, objects = list(made.pods), list(made.machines), list(made.objects)
        for each in (pods, offers, objects):
            turned.shuffle(each)
        plans.append(provision(start_simulation(objects), offers, pods))
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_generated_problem_is_solved_within_five_percent_and_the_scheduler_accepts_it(seed: int) -> None:
    made = problem(seed, 120, shapes=10, types=48, zones=2)
    found = provision(start_simulation(made.objects), made.machines, made.pods)
    check(found, made.pods, made.objects)
    assert not found.pending
    assert found.gap is not None
    assert found.gap <= 0.05


# --- what pods insist on ---


def test_a_pool_s_taints_keep_off_pods_that_do_not_tolerate_them() -> None:
    tainted = pool("p", template={"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})
    pods = [pod("in", cpu=1, tolerations=[toleration("gpu")]), pod("out", cpu=1)]
    found, _ = plan_for(pods, type_("t"), tainted)
    assert [(each.pod, each.types) for each in found.pending] == [
        ("default/out", {"t": "has the taint gpu that the pod does not tolerate"})
    ]


def test_limits_of_a_pool_count_what_it_has_and_leave_out_the_rest() -> None:
    limited = pool("p", limits={"cpu": "20"})
    has = node("old", cpu=8, labels={NODE_POOL: "p"}, cordoned=True)
    found, _ = plan_for([pod(name, cpu=6) for name in "abc"], type_("t"), limited, there=[has])
    assert types_of(found) == {"t": 1}
    assert len(found.pending) == 2
    assert found.pending[0].types == {
        "t": "would fit, but the limits of NodePool p are reached (cpu: 4 left, it has 8)"
    }


def _open(least: int, key: str = "node.kubernetes.io/instance-type") -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "minValues": least}


def test_min_values_of_a_pool_keep_off_what_only_few_types_hold() -> None:
    """Three pods would be cheapest on the large one, but nothing else holds three, or two."""
    small = type_("small", {"z": "2"}, capacity={**SMALL, "cpu": "2"})
    other = type_("other", {"z": "3"}, capacity={**SMALL, "cpu": "3"})
    large = type_("large", {"z": "4"}, capacity={**SMALL, "cpu": "6"})
    pods = [pod(f"p{n}", cpu=2) for n in range(3)]
    free, _ = plan_for(pods, small, other, large, pool("p"))
    assert types_of(free) == {"large": 1}
    found, _ = plan_for(pods, small, other, large, pool("p", _open(3)))
    assert types_of(found) == {"small": 3}
    assert found.exact


def test_pods_of_a_pool_that_cannot_leave_enough_open_say_so_or_go_to_another() -> None:
    heavy, light = pool("heavy", _open(2), weight=9), pool("light")
    found, _ = plan_for([pod("p")], type_("t"), heavy)
    expected = "would fit, but minValues: heavy must leave 2 values of node.kubernetes.io/instance-type open"
    assert found.pending[0].types == {"t": expected}
    found, _ = plan_for([pod("p")], type_("t"), heavy, light)
    assert [each.machine.source for each in found.nodes] == ["light"]


def test_min_values_count_zones_that_can_be_had() -> None:
    zoned = pool("p", _open(2, ZONE))
    found, _ = plan_for([pod("p")], type_("t", {"a": "1", "b": "2"}), zoned)
    assert found.price == 1
    found, _ = plan_for([pod("p", selector={ZONE: "a"})], type_("t", {"a": "1", "b": "2"}), zoned)
    assert len(found.pending) == 1  # only one zone would do


def test_a_group_has_no_more_nodes_than_its_maximum() -> None:
    found, _ = plan_for([pod(name, cpu=3) for name in "abcde"], group("g", max=3, template=_of_cpu(4)))
    assert len(found.nodes) == 3
    assert len(found.pending) == 2


def _of_cpu(cpu: int) -> dict[str, Any]:
    return {"status": {"capacity": {"cpu": str(cpu), "memory": "8Gi", "pods": "110"}}}


def test_the_heavier_pool_serves_first_and_the_lighter_one_what_its_limits_leave() -> None:
    heavy = pool("heavy", limits={"cpu": "8"}, weight=10)
    light = pool("light")
    found, _ = plan_for([pod(name, cpu=6) for name in "ab"], type_("t"), heavy, light)
    assert sorted(each.machine.source for each in found.nodes) == ["heavy", "light"]


def test_pods_spread_over_zones_get_machines_in_each() -> None:
    rule = spread(ZONE, {"app": "web"})
    pods = [pod(f"p{n}", cpu=1, labels={"app": "web"}, spread=[rule]) for n in range(6)]
    found, _ = plan_for(pods, type_("t", {"a": "1", "b": "2", "c": "3"}))
    counts = Counter(each.machine.offering.zone for each in found.nodes for _ in each.places)
    assert counts == {"a": 2, "b": 2, "c": 2}


def test_pods_that_keep_apart_get_a_machine_each() -> None:
    apart = pod_affinity(apart=[near({"app": "db"}, HOSTNAME)])
    pods = [pod(f"p{n}", cpu=1, labels={"app": "db"}, affinity=apart) for n in range(3)]
    found, _ = plan_for(pods, type_("t"))
    assert types_of(found) == {"t": 3}


def test_pods_that_want_to_be_near_each_other_get_machines_in_one_zone() -> None:
    """Each type is cheaper in another zone; together they are cheapest in b."""
    close = pod_affinity(near=[near({"app": "x"})])
    pods = [
        *(pod(f"c{n}", cpu=6, labels={"app": "x"}, affinity=close) for n in range(2)),
        pod("g", labels={"app": "x"}, affinity=close, claims=["c"]),
    ]
    cpu = type_("cpu", {"a": "1", "b": "1.5"})
    gpu = type_("gpu", {"a": "9", "b": "5"}, dynamicResources=gpus(1))
    found, _ = plan_for(pods, cpu, gpu, there=[claim("c")])
    assert not found.pending
    assert {each.machine.offering.zone for each in found.nodes} == {"b"}


def test_pods_that_want_to_be_near_others_go_to_the_zone_of_these() -> None:
    there = [node("n", cpu=1, zone="b"), pod("db", cpu=1, node="n", labels={"app": "db"})]
    pods = [pod("p", cpu=2, affinity=pod_affinity(near=[near({"app": "db"})]))]
    found, _ = plan_for(pods, type_("t", {"a": "1", "b": "2"}), there=there)
    assert [each.machine.offering.zone for each in found.nodes] == ["b"]


def test_a_gang_that_must_be_in_one_zone_gets_its_machines_there() -> None:
    members = [pod("x", cpu=6, group="gang"), pod("y", cpu=6, group="gang", claims=["c"])]
    cpu = type_("cpu", {"a": "1", "b": "2"})
    gpu = type_("gpu", {"b": "5"}, dynamicResources=gpus(1))
    found, _ = plan_for(members, cpu, gpu, there=[gang("gang", 2, topology=[ZONE]), claim("c")])
    assert {each.machine.offering.zone for each in found.nodes} == {"b"}
    assert not found.pending


def test_pods_that_must_be_on_one_node_get_a_machine_that_holds_them_all() -> None:
    """Two small machines would be cheaper."""
    close = pod_affinity(near=[near({"app": "x"}, HOSTNAME)])
    pods = [pod(f"p{n}", cpu=3, labels={"app": "x"}, affinity=close) for n in range(4)]
    small, large = type_("small", {"a": "1"}, capacity=SMALL), type_("large", {"a": "9"}, capacity=LARGE)
    found, _ = plan_for(pods, small, large)
    assert types_of(found) == {"large": 1}
    assert not found.pending


def test_a_pod_that_must_be_beside_another_that_waits_gets_a_machine_with_it() -> None:
    close = pod_affinity(near=[near({"app": "web"}, HOSTNAME)])
    pods = [
        *(pod(f"a{n}", cpu=1, affinity=close) for n in range(3)),
        *(pod(f"w{n}", cpu=2, labels={"app": "web"}) for n in range(3)),
    ]
    found, _ = plan_for(pods, type_("t", capacity={**SMALL, "cpu": "3"}))
    assert not found.pending
    assert [len(each.places) for each in found.nodes] == [2, 2, 2]


def test_a_pod_that_must_be_beside_one_that_runs_gets_no_machine_and_says_why() -> None:
    there = [node("n", cpu=1), pod("db", cpu=1, node="n", labels={"app": "db"})]
    beside = pod("p", cpu=1, affinity=pod_affinity(near=[near({"app": "db"}, HOSTNAME)]))
    found, _ = plan_for([beside], type_("t"), there=there)
    assert not found.nodes
    assert found.pending[0].types == {"t": "is not near the pods that the pod must be near"}


def test_two_pods_that_wait_for_each_other_stay_out() -> None:
    """Neither may be the first: the scheduler would refuse both for ever."""
    beside_b, beside_a = (pod_affinity(near=[near({"app": name}, HOSTNAME)]) for name in "ba")
    pods = [
        pod("a", labels={"app": "a"}, affinity=beside_b),
        pod("b", labels={"app": "b"}, affinity=beside_a),
    ]
    found, _ = plan_for(pods, type_("t"))
    assert not found.nodes
    assert len(found.pending) == 2


def test_pods_on_one_node_go_to_one_that_exists_where_it_has_room() -> None:
    close = pod_affinity(near=[near({"app": "x"}, HOSTNAME)])
    pods = [pod(f"p{n}", cpu=3, labels={"app": "x"}, affinity=close) for n in range(2)]
    found, _ = plan_for(pods, type_("t"), there=[node("n", cpu=8)])
    assert not found.nodes
    assert {each.node for each in found.existing} == {"n"}


def _racks() -> list[Any]:
    """Groups of machines in two racks, and one that is in none."""
    made = []
    for name, labels, price in (("r1", {RACK: "1"}, "2"), ("r2", {RACK: "2"}, "3"), ("bare", {}, "1")):
        capacity = {"status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
        made.append(group(name, price=price, max=9, template={"metadata": {"labels": labels}, **capacity}))
    return made


def test_pods_near_each_other_by_a_rack_get_machines_of_one_that_have_the_label() -> None:
    close = pod_affinity(near=[near({"app": "x"}, RACK)])
    pods = [pod(f"p{n}", cpu=3, labels={"app": "x"}, affinity=close) for n in range(3)]
    found, _ = plan_for(pods, *_racks())
    assert {each.machine.source: 3 for each in found.nodes} == {"r1": 3}
    assert not found.pending


def test_pods_near_one_that_runs_in_a_rack_get_machines_there() -> None:
    there = [node("n", cpu=1, labels={RACK: "2"}), pod("db", cpu=1, node="n", labels={"app": "db"})]
    found, _ = plan_for(
        [pod("p", cpu=2, affinity=pod_affinity(near=[near({"app": "db"}, RACK)]))], *_racks(), there=there
    )
    assert [each.machine.source for each in found.nodes] == ["r2"]


def test_pods_spread_over_racks_get_machines_in_each() -> None:
    rule = spread(RACK, {"app": "web"})
    pods = [pod(f"p{n}", cpu=1, labels={"app": "web"}, spread=[rule]) for n in range(4)]
    found, _ = plan_for(pods, *_racks())
    assert {each.machine.source: len(each.places) for each in found.nodes} == {"r1": 2, "r2": 2}


def test_a_gang_of_one_rack_gets_its_machines_there() -> None:
    members = [pod(f"m{n}", cpu=3, group="gang") for n in range(3)]
    found, _ = plan_for(members, *_racks(), there=[gang("gang", 3, topology=[RACK])])
    assert {each.machine.source for each in found.nodes} == {"r1"}
    assert not found.pending


def test_machines_without_the_label_that_a_rule_looks_at_say_so() -> None:
    close = pod_affinity(near=[near({"app": "x"}, RACK)])
    found, _ = plan_for([pod("p", labels={"app": "x"}, affinity=close)], type_("t"))
    expected = f"has no label {RACK}, by which the pod must be near others or apart"
    assert found.pending[0].types == {"t": expected}


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6))
def test_pods_with_company_on_nodes_or_in_racks_are_served_where_brute_force_serves_them(seed: int) -> None:
    """The same price too, where company is of one kind: which of several it is, is chosen before the machines."""
    random = Random(seed)
    key = random.choice((HOSTNAME, RACK))
    close = pod_affinity(near=[near({"app": "x"}, key)])
    pods = [
        pod(f"p{n}", cpu=random.choice((1, 2)), labels={"app": "x"}, affinity=close)
        for n in range(random.randint(1, 3))
    ]
    pods += [pod("other", cpu=random.choice((1, 3)))] if random.random() < 0.5 else []
    offers = [
        group(
            f"g{number}",
            price=str(random.randint(1, 9)),
            max=4,
            template={
                "metadata": {"labels": {RACK: str(number)} if random.random() < 0.8 else {}},
                "status": {"capacity": {"cpu": str(random.choice((2, 4, 6))), "memory": "9Gi", "pods": "9"}},
            },
        )
        for number in range(3)
    ]
    machines = evaluated(*offers).machines
    found = provision(start_simulation([]), machines, pods)
    best = brute_force(pods, machines, [])
    assert (None if found.pending else found.price) == best


def test_users_of_one_claim_go_to_one_machine() -> None:
    """Two machines of one CPU would be cheaper."""
    pods = [pod("a", cpu=2, claims={"gpu": "shared"}), pod("b", cpu=2, claims={"gpu": "shared"})]
    small = type_("small", {"z": "1"}, capacity={**SMALL, "cpu": "2"}, dynamicResources=gpus(1))
    large = type_("large", {"z": "5"}, capacity=SMALL, dynamicResources=gpus(1))
    found, _ = plan_for(pods, small, large, there=[claim("shared")])
    assert types_of(found) == {"large": 1}


def test_a_constraint_over_bound_attributes_is_met_on_one_machine() -> None:
    """Which root it will be is not known, only that two devices will have the same."""
    wanted = claim("pair", build.request("r", count=2), constraints=[build.match(ROOT)])
    root = {"bindingKey": "switch"}
    apart = devices(template("t", GPU, *(device(f"d{n}", attributes={ROOT: f"r{n}"}) for n in range(4))))
    pair = devices(
        template(
            "t", GPU, *(device(f"d{n}", attributes={ROOT: at}) for n, at in enumerate((root, "y", root)))
        )
    )
    cheap = type_("cheap", {"z": "1"}, dynamicResources=apart)
    dear = type_("dear", {"z": "9"}, dynamicResources=pair)
    found, _ = plan_for([pod("p", claims=["pair"])], cheap, dear, there=[wanted])
    assert types_of(found) == {"dear": 1}


def test_devices_asked_for_as_an_extended_resource_count() -> None:
    """Three pods with one device each: a machine holds two."""
    pods = [pod(name, cpu=1, more={EXTENDED: 1}) for name in "abc"]
    found, _ = plan_for(pods, type_("t", dynamicResources=gpus(2)), there=[gpu_class()])
    assert sorted(len(each.places) for each in found.nodes) == [1, 2]
    assert all(len(place.devices) == 1 for each in found.nodes for place in each.places)


def test_a_claim_of_v1alpha2_stays_out_where_no_machine_has_a_tree() -> None:
    there = [*trees("n"), semantic_claim("one"), semantic_claim("two")]
    found, _ = plan_for([semantic_pod("one"), semantic_pod("two")], type_("t"), there=there)
    assert [each.pod for each in found.existing] == ["ns/one"]
    assert [each.pod for each in found.pending] == ["ns/two"]
    assert found.pending[0].types == {"t": "has no cards"}


def test_a_device_taint_rule_keeps_claims_off_new_machines_too() -> None:
    rule = DeviceTaintRule(
        metadata=ObjectMeta(name="r"),
        spec=DeviceTaintRuleSpec(
            device_selector=DeviceTaintSelector(driver=GPU), taint=build.taint("broken", effect="NoSchedule")
        ),
    )
    made, wanted = asking("p", cpu=1)
    found, _ = plan_for([made], type_("t", dynamicResources=gpus(1)), there=[rule, wanted])
    assert "broken" in found.pending[0].types["t"]


# --- alternatives ---


def _either() -> ApiStruct:
    best = build.sub("best", f"device.attributes['{GPU}'].model == 'good'")
    return claim("c", build.either("r", best, build.sub("rest")))


@pytest.mark.parametrize(("by_price", "expected"), [(False, "good"), (True, "plain")])
def test_alternatives_are_taken_in_order_unless_price_is_to_decide(by_price: bool, expected: str) -> None:
    good = type_("good", {"z": "9"}, dynamicResources=gpus(1, model="good"))
    plain = type_("plain", {"z": "1"}, dynamicResources=gpus(1, model="plain"))
    found, _ = plan_for(
        [pod("p", claims=["c"])], good, plain, there=[_either()], cheapest_alternative=by_price
    )
    assert types_of(found) == {expected: 1}


# --- gangs ---


def test_a_gang_is_planned_whole_or_not_at_all() -> None:
    """Three of four would fit within the limit; the other pod gets the room then."""
    members = [pod(f"m{n}", cpu=6, group="gang") for n in range(4)]
    other = pod("z", cpu=6)
    found, _ = plan_for(
        [*members, other], type_("t"), pool("p", limits={"cpu": "24"}), there=[gang("gang", 4)]
    )
    assert [place.pod for each in found.nodes for place in each.places] == ["default/z"]
    assert "of its gang default/gang have a place, and 4 must" in found.pending[0].why


def test_of_two_gangs_the_first_is_planned_when_there_is_room_for_one() -> None:
    first = [pod(f"a{n}", cpu=6, group="one", priority=5) for n in range(2)]
    second = [pod(f"b{n}", cpu=6, group="two") for n in range(2)]
    found, _ = plan_for(
        [*second, *first],
        type_("t"),
        pool("p", limits={"cpu": "24"}),
        there=[gang("one", 2), gang("two", 2)],
    )
    assert sorted(place.pod for each in found.nodes for place in each.places) == ["default/a0", "default/a1"]


def _gangs(random: Random) -> tuple[list[Pod], list[ApiStruct]]:
    """Up to three gangs and up to two pods by themselves."""
    pods: list[Pod] = []
    groups: list[ApiStruct] = []
    for number in range(random.randint(1, 3)):
        size, priority = random.randint(1, 3), random.choice((0, 0, 5))
        pods += [pod(f"g{number}-{n}", cpu=2, group=f"g{number}", priority=priority) for n in range(size)]
        groups.append(gang(f"g{number}", size))
    pods += [pod(f"single{n}", cpu=2, priority=random.choice((0, 5))) for n in range(random.randint(0, 2))]
    return pods, groups


def _most_served(pods: Sequence[Pod], places: int) -> list[int]:
    """Of each priority, the highest first, how many pods there are at most on so many places, gangs whole."""
    units = Counter((each.metadata.name.split("-")[0], each.spec.priority or 0) for each in pods)
    best = [0, 0]
    for count in range(len(units) + 1):
        for chosen in combinations(units.items(), count):
            if sum(size for _, size in chosen) <= places:
                served = [sum(size for (_, p), size in chosen if p == priority) for priority in (5, 0)]
                best = max(best, served)
    return best


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_of_gangs_within_a_limit_those_are_left_out_that_leave_most_served(seed: int) -> None:
    random = Random(seed)
    pods, groups = _gangs(random)
    places = random.randint(1, 6)
    two = type_("t", capacity={"cpu": "2", "memory": "8Gi", "pods": "9"})
    found, _ = plan_for(pods, two, pool("p", limits={"cpu": str(2 * places)}), there=groups)
    served = {place.pod for each in found.nodes for place in each.places}
    counts = Counter(each.spec.priority or 0 for each in pods if f"default/{each.metadata.name}" in served)
    assert [counts[5], counts[0]] == _most_served(pods, places)


# --- reasons ---


def test_every_pod_left_out_has_a_reason_for_each_type() -> None:
    wanted = claim("nine", build.request("r", count=9))
    none, four = type_("none"), type_("four", dynamicResources=gpus(4))
    found, _ = plan_for([pod("p", claims=["nine"])], none, four, there=[wanted])
    (left,) = found.pending
    assert left.types == {"four": "has 4 any, need 9", "none": "has no any"}
    assert left.why == "none of 2 instance types fits: has 4 any, need 9 (1); has no any (1)"


def test_a_pod_whose_claim_is_missing_says_so() -> None:
    found, _ = plan_for([pod("p", claims=["nowhere"])], type_("t", dynamicResources=gpus(1)))
    assert "nowhere" in found.pending[0].why


def test_an_offering_that_is_out_of_stock_is_not_planned_with() -> None:
    made = type_("t", {"a": "1", "b": "2"})
    first, second = made.spec.offerings
    gone = replace(made, spec=replace(made.spec, offerings=(replace(first, available=False), second)))
    found, _ = plan_for([pod("p", cpu=1)], gone)
    assert found.price == 2


def test_nothing_to_do_is_a_plan() -> None:
    found, _ = plan_for([], type_("t"))
    assert found == Plan((), (), (), Decimal(0), exact=True)
