"""A bound is one in every model, and "exact" means that no set of machines is cheaper, held against trying everything."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.api.autoscaling import InstanceType, NodePool
from allotment.autoscaler.provision.plan import Plan
from allotment.autoscaler.provision.provisioner import provision
from allotment.autoscaler.simulate.simulation import start_simulation
from tests.allocator import build
from tests.autoscaler.build import GPU, NIC, Json, device, devices, evaluated, pool, template, type_
from tests.autoscaler.builders import asking, picture
from tests.autoscaler.plan_problems import Problem, cheapest, most_tried, random_problem
from tests.autoscaler.simulate.test_node_arrival import daemons
from tests.builders.typed import ZONE, claim, pod

EVERYWHERE = {"allNodes": True}
IN_THE_ZONE = {"nodeSelector": {"nodeSelectorTerms": [{"matchLabelKeys": [ZONE]}]}}


def planned(problem: Problem) -> Plan:
    cluster = start_simulation(problem.objects)
    before = picture(cluster)
    found = provision(cluster, problem.machines, problem.pods, cheapest_alternative=True)
    assert picture(cluster) == before, "planning leaves nothing behind"
    return found


def holds(problem: Problem) -> None:
    """The plan serves who can be served, for no less than its bound, and for what it should if it says that it is exact."""
    found, best = planned(problem), cheapest(problem)
    if best is None:
        assert found.pending or len(found.nodes) > most_tried(problem)
        return
    if problem.settled:
        assert not found.pending
        assert found.exact, "the problem is small, and nothing but the price decides"
    if not found.pending:
        assert found.bound is None or found.bound <= best <= found.price
        assert found.price == best or not found.exact


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**9))
def test_small_problems_with_shared_devices_limits_gangs_and_spreading(number: int) -> None:
    holds(random_problem(Random(number)))


@pytest.mark.soak
@settings(max_examples=1500, deadline=None)
@given(st.integers(0, 10**9))
def test_many_small_problems(number: int) -> None:
    holds(random_problem(Random(number)))


# --- devices that other machines reach ---


def nics(count: int, reach: Json) -> Json:
    return devices(template("nics", NIC, *(device(f"nic-{n}") for n in range(count)), **reach))


def problem(pods: int, *offers: InstanceType | NodePool, count: int = 1, cpu: int = 2) -> Problem:
    made = [pod(f"p{n}", claims={"nics": f"c{n}"}, cpu=cpu) for n in range(pods)]
    claims = [claim(f"c{n}", build.request("n", count=count)) for n in range(pods)]
    return Problem(tuple(made), tuple(offers), (build.class_(), *claims))


@pytest.mark.parametrize("reach", [EVERYWHERE, IN_THE_ZONE])
def test_one_host_of_devices_and_cheap_machines_beside_it_are_the_cheapest(reach: Json) -> None:
    """Looked at one by one, three hosts would be needed."""
    small = {"cpu": "2", "memory": "8Gi", "pods": "9"}
    host = type_("host", {"a": "2"}, capacity=small, dynamicResources=nics(4, reach))
    found = planned(problem(3, host, type_("plain", {"a": "0.15"}, capacity=small)))
    assert (found.price, found.bound, found.exact) == (Decimal("2.30"), Decimal("2.30"), True)
    assert sum(len(each.serves) for each in found.nodes if each.machine.type == "host") == 2


def test_a_machine_may_come_for_its_devices_alone() -> None:
    """No machine has both the room and the devices."""
    host = type_(
        "host", capacity={"cpu": "1", "memory": "1Gi", "pods": "9"}, dynamicResources=nics(2, EVERYWHERE)
    )
    found = planned(problem(1, host, type_("plain", {"a": "3"}), cpu=4))
    assert [(each.machine.type, len(each.places), len(each.serves)) for each in found.nodes] == [
        ("host", 0, 1),
        ("plain", 1, 0),
    ]
    assert (found.price, found.exact) == (Decimal(4), True)


def test_limits_count_for_machines_that_come_for_their_devices() -> None:
    host = type_("host", {"a": "1"}, dynamicResources=nics(1, EVERYWHERE))
    found = planned(problem(3, host, type_("plain"), pool("p", limits={"cpu": "16"})))
    assert len(found.pending) == 1
    assert [each.machine.type for each in found.nodes] == ["host", "host"]


def test_more_pods_than_can_be_tried_exactly_have_a_bound_that_holds_and_a_price_that_is_near() -> None:
    """One host and five plain ones do for 24; three hosts and twelve plain ones for 60."""
    host = type_("host", {"a": "5"}, dynamicResources=nics(24, EVERYWHERE))
    for pods, best in ((24, Decimal(10)), (60, Decimal(27))):
        found = planned(problem(pods, host, type_("plain", {"a": "1"})))
        assert not found.pending
        assert found.bound is not None
        assert found.bound <= best <= found.price <= best * Decimal("1.1")


def test_devices_of_a_driver_that_nobody_asks_for_do_not_make_it_inexact() -> None:
    host = type_("host", {"a": "1"}, dynamicResources=nics(1, EVERYWHERE))
    machines = evaluated(host).machines
    found = provision(start_simulation([]), machines, [pod(f"p{n}", cpu=4) for n in range(12)])
    assert (found.price, found.exact) == (Decimal(6), True)


# --- on one machine ---

LARGE = f'device.attributes["{GPU}"].size == "l"'
SMALL = f'device.attributes["{GPU}"].size == "s"'


def sized(*sizes: str) -> Json:
    return devices(template("gpus", GPU, *(device(f"gpu-{n}", size=size) for n, size in enumerate(sizes))))


def test_pods_share_a_machine_in_the_order_in_which_they_fit() -> None:
    """Bound first, the one that takes any device would have one that the other needs."""
    modest, wanted = asking("p0", build.request("g"), cpu=1)
    demanding, more = asking("p1", build.request("g", LARGE, count=2), cpu=1)
    found = planned(
        Problem(
            (modest, demanding),
            (type_("t", dynamicResources=sized("l", "s", "l")),),
            (build.class_(), wanted, more),
        )
    )
    assert (found.price, found.bound, found.exact) == (Decimal(1), Decimal(1), True)


def test_what_was_not_tried_in_all_orders_is_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.autoscaler.provision.machine_trials.ORDER_STEPS", 0)
    modest, wanted = asking("p0", build.request("g"), cpu=1)
    demanding, more = asking("p1", build.request("g", LARGE, count=2), cpu=1)
    offers = (type_("t", dynamicResources=sized("l", "s", "l")),)
    found = planned(Problem((modest, demanding), offers, (build.class_(), wanted, more)))
    assert (found.price, found.bound, found.exact) == (Decimal(2), Decimal(1), False)


@pytest.mark.parametrize(("by_price", "price"), [(False, Decimal(2)), (True, Decimal(1))])
def test_alike_pods_may_get_different_alternatives_where_the_price_decides(
    by_price: bool, price: Decimal
) -> None:
    """A machine has one device of each kind; that both pods get the better one takes two machines."""
    wish = build.either("g", build.sub("x", LARGE), build.sub("y", SMALL))
    pods, claims = zip(*(asking(f"p{n}", wish, cpu=1) for n in range(2)), strict=True)
    there = start_simulation([build.class_(), *claims])
    machines = evaluated(type_("t", dynamicResources=sized("l", "s"))).machines
    found = provision(there, machines, pods, cheapest_alternative=by_price)
    assert (found.price, found.bound, found.exact) == (price, price, True)


def test_daemons_for_some_machines_of_a_type_tell_them_apart_around_shared_devices() -> None:
    """Spot machines are cheaper, but a daemon takes their room."""
    host = type_(
        "host",
        {"a+": "1", "a": "1.5"},
        capacity={"cpu": "4", "pods": "9"},
        dynamicResources=nics(2, EVERYWHERE),
    )
    spot = daemons(cpu=2, selector={"karpenter.sh/capacity-type": "spot"})
    made = problem(2, host, cpu=2)
    found = planned(replace(made, objects=(*made.objects, spot)))
    assert (found.price, found.exact) == (Decimal("1.5"), True)
