"""What DaemonSets run on a new node takes its room there before anybody else's: resources and devices."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from allotment.api.apps import DaemonSet, DaemonSetSpec, PodTemplateSpec
from allotment.api.batch import PriorityClass
from allotment.api.meta import ApiStruct, ObjectMeta
from allotment.api.resource import ResourceClaimTemplate, ResourceClaimTemplateSpec
from allotment.autoscaler.provision.provisioner import provision
from allotment.autoscaler.simulate.drain import drain
from allotment.autoscaler.simulate.node_arrival import add_node, arrive
from allotment.autoscaler.simulate.simulation import Simulation
from tests.allocator import build
from tests.autoscaler.build import evaluated, gpus, machine, pool, type_
from tests.autoscaler.builders import asking, picture, simulation
from tests.builders.typed import ZONE, claim, node, pod, slice_, taint, toleration


def daemons(name: str = "agent", **spec: Any) -> DaemonSet:
    """Its pods are those of ``pod``."""
    made = pod("unnamed", **spec)
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"app": name}), spec=made.spec)
    meta = ObjectMeta(name=name, namespace="kube-system", uid=f"uid-{name}")
    return DaemonSet(metadata=meta, spec=DaemonSetSpec(template=template))


def with_a_device(name: str = "probe", **spec: Any) -> list[ApiStruct]:
    """A DaemonSet of which every pod has a device."""
    wanted = claim("unnamed", build.request("r")).spec
    template = ResourceClaimTemplate(
        metadata=ObjectMeta(name="one", namespace="kube-system"), spec=ResourceClaimTemplateSpec(spec=wanted)
    )
    return [template, daemons(name, templates={"gpu": "one"}, **spec)]


def on(there: Simulation, name: str) -> list[str]:
    return [each.metadata.name for each in there.pods(name)]


# --- who comes ---

ONES = [
    (daemons(), ["agent-new"]),
    (daemons(selector={ZONE: "a"}), ["agent-new"]),
    (daemons(selector={ZONE: "b"}), []),
    (daemons(cpu=8), ["agent-new"]),
    (daemons(cpu=9), []),  # does not fit, and takes nothing
]


@pytest.mark.parametrize(("daemon_set", "expected"), ONES)
def test_a_pod_comes_with_a_node_that_its_template_allows(daemon_set: DaemonSet, expected: list[str]) -> None:
    there = simulation(daemon_set)
    arrive(there, machine(type_("t")), "new")
    assert on(there, "new") == expected
    there.validate()


@pytest.mark.parametrize(
    ("key", "tolerated", "comes"),
    [
        ("team", False, False),
        ("team", True, True),
        ("node.kubernetes.io/unschedulable", False, True),  # keeps no pod of a DaemonSet off
    ],
)
def test_taints_keep_it_off_unless_it_tolerates_them(key: str, tolerated: bool, comes: bool) -> None:
    there = simulation(daemons(tolerations=[toleration(key)] if tolerated else []))
    add_node(there, node("n", taints=[taint(key)]), [])
    assert bool(on(there, "n")) is comes


def test_the_more_important_come_first() -> None:
    there = simulation(daemons("a", cpu=6), daemons("b", cpu=6, priority=5))
    arrive(there, machine(type_("t")), "new")
    assert on(there, "new") == ["b-new"]


@pytest.mark.parametrize(
    ("name", "first"),
    [("system-node-critical", "b-new"), ("mine", "b-new"), ("unknown", "a-new"), (None, "a-new")],
)
def test_the_class_that_a_template_names_says_how_important_it_is(name: str | None, first: str) -> None:
    """No template has the priority itself: only pods get it, when they are created."""
    classes = [PriorityClass(metadata=ObjectMeta(name="mine"), value=7)]
    there = simulation(*classes, daemons("a", cpu=6), daemons("b", cpu=6, priority_class_name=name))
    arrive(there, machine(type_("t")), "new")
    assert on(there, "new") == [first]


def test_one_that_goes_comes_nowhere() -> None:
    going = daemons()
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    there = simulation(going)
    arrive(there, machine(type_("t")), "new")
    assert on(there, "new") == []


def test_it_gets_its_devices_from_a_template_and_goes_with_its_node() -> None:
    there = simulation(*with_a_device())
    before = picture(there)
    add_node(there, node("n"), [slice_("n", "d0", "d1")])
    who, wanted = asking("p", build.request("r", count=2))
    there.put(wanted)
    assert on(there, "n") == ["probe-n"]
    assert "has 1 free any, need 2" in str(there.fits(who))
    there.drop(wanted)
    drain(there, "n")
    assert picture(there) == before


# --- plans ---


def test_a_pod_that_fits_a_machine_only_without_its_daemons_gets_a_larger_one() -> None:
    there = simulation(daemons(cpu=2))
    small, large = (
        type_("small"),
        type_("large", {"a": "3"}, capacity={"cpu": "16", "memory": "9Gi", "pods": "9"}),
    )
    found = provision(there, evaluated(small, large).machines, [pod("p", cpu=7)])
    assert [(each.machine.type, [place.pod for place in each.places]) for each in found.nodes] == [
        ("large", ["default/p"])
    ]
    assert found.exact


def test_where_none_is_large_enough_no_machine_comes() -> None:
    found = provision(simulation(daemons(cpu=2)), evaluated(type_("t")).machines, [pod("p", cpu=7)])
    assert not found.nodes
    assert found.pending[0].types == {"t": "has too little cpu left, need 7"}


def test_devices_of_daemons_are_not_planned_with() -> None:
    who, wanted = asking("p", build.request("r"), cpu=1)
    there = simulation(*with_a_device(), wanted)
    before = picture(there)
    one, two = type_("one", dynamicResources=gpus(1)), type_("two", {"a": "5"}, dynamicResources=gpus(2))
    found = provision(there, evaluated(one, two).machines, [who])
    assert [each.machine.type for each in found.nodes] == ["two"]
    assert (found.bound, found.exact) == (Decimal(5), True)
    assert picture(there) == before


def test_a_machine_without_daemons_is_preferred_if_that_makes_room() -> None:
    """They are for one pool only, so machines of one type differ."""
    there = simulation(daemons(cpu=2, selector={"pool": "p"}))
    offers = (type_("t"), pool("p", labels={"pool": "p"}), pool("q", labels={"pool": "q"}))
    found = provision(there, evaluated(*offers).machines, [pod("p", cpu=7)])
    assert [each.machine.source for each in found.nodes] == ["q"]


def test_many_pods_share_what_daemons_leave() -> None:
    there = simulation(daemons(cpu=2))
    found = provision(there, evaluated(type_("t")).machines, [pod(f"p{n}", cpu=2) for n in range(6)])
    assert [len(each.places) for each in found.nodes] == [3, 3]
    assert (found.price, found.exact) == (Decimal(2), True)
