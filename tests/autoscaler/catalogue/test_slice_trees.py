"""Machines that publish NodeResourceSlices: planned with for claims of KEP-4381 semantic parameters, and compared with what came."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from allotment.api.autoscaling import DynamicResources
from allotment.api.codec import decode, to_builtins
from allotment.api.core import Pod
from allotment.api.fields import FieldPath
from allotment.api.meta import ApiStruct
from allotment.api.semantic import NodeResourceSlice
from allotment.api.validation.dynamic_resources import check_dynamic_resources
from allotment.autoscaler.catalogue.machine import trees_of
from allotment.autoscaler.catalogue.overlays import evaluate
from allotment.autoscaler.catalogue.prediction import awaited, tree_differences
from allotment.autoscaler.provision.provisioner import provision
from allotment.autoscaler.simulate.node_arrival import arrive
from tests.allocator.trees import DRIVER, card, slice_of
from tests.autoscaler.build import Json, catalogue, evaluated, gpus, machine, overlay, pool, template, type_
from tests.autoscaler.builders import (
    QUARTER,
    WHOLE,
    bind,
    devices_of,
    picture,
    semantic_claim,
    semantic_pod,
    simulation,
    trees,
)


def cards(*names: str, driver: str = DRIVER) -> Json:
    """Dynamic resources of a machine with these cards, each of which can be split."""
    whole: Any = to_builtins(slice_of(*(card(each) for each in names), on="n", name="s").spec)
    spec = {"driverName": driver, "partitionable": whole["partitionable"]}
    return {"nodeResourceSliceTemplates": [{"metadata": {"name": "cards"}, "spec": spec}]}


def waiting(count: int, wish: str = WHOLE) -> tuple[list[Pod], list[ApiStruct]]:
    claims = [semantic_claim(f"c{n}") for n in range(count)]
    return [semantic_pod(f"c{n}") for n in range(count)], [*trees(wish=wish), *claims]


# --- plans ---


def test_a_machine_with_a_tree_is_planned_for_a_claim() -> None:
    pods, objects = waiting(1)
    there = simulation(*objects)
    before = picture(there)
    found = provision(
        there, evaluated(type_("plain"), type_("gpu", {"a": "3"}, dynamicResources=cards("a"))).machines, pods
    )
    assert [each.machine.type for each in found.nodes] == ["gpu"]
    assert (found.price, found.exact) == (Decimal(3), True)
    assert found.nodes[0].places[0].devices[0].startswith(f"{DRIVER}/new-1/a")
    assert picture(there) == before


@pytest.mark.parametrize(("wish", "machines"), [(WHOLE, 4), (QUARTER, 2)])
def test_partitions_of_one_card_serve_several_pods(wish: str, machines: int) -> None:
    pods, objects = waiting(4, wish)
    found = provision(
        simulation(*objects), evaluated(type_("gpu", dynamicResources=cards("a"))).machines, pods
    )
    assert (len(found.nodes), found.pending) == (machines, ())


def test_limits_bind_and_the_reason_says_so() -> None:
    pods, objects = waiting(2)
    offers = (type_("gpu", dynamicResources=cards("a")), pool("p", limits={"cpu": "8"}))
    found = provision(simulation(*objects), evaluated(*offers).machines, pods)
    assert len(found.nodes) == len(found.pending) == 1
    assert "limits of NodePool p" in found.pending[0].types["gpu"]


def test_what_arrives_can_be_bound_to() -> None:
    pods, objects = waiting(1)
    there = simulation(*objects)
    arrive(there, machine(type_("gpu", dynamicResources=cards("a"))), "new")
    bind(there, pods[0], "new")
    assert devices_of(there, "ns/c0")[0].startswith("new/a")


# --- overlays ---


def test_an_overlay_replaces_a_driver_s_trees_by_weight_and_equal_weights_conflict() -> None:
    base = type_("t", dynamicResources=cards("a"))
    light, heavy = (
        overlay("light", dynamicResources=cards("b"), weight=1),
        overlay("heavy", dynamicResources=cards("c"), weight=2),
    )
    [found] = evaluated(base, light, heavy).machines
    resources = [each.spec.partitionable for each in trees_of(found, "n")]
    assert [root.name for each in resources if each is not None for root in each.resource_instances] == ["c"]
    tied = evaluate(catalogue(base, light, replace(heavy, spec=replace(heavy.spec, weight=1))))
    assert not tied.machines[0].devices
    assert [str(each) for each in tied.findings["heavy"].conflicts] == [
        f"t: driver {DRIVER}: overlay light has the same weight"
    ]


# --- rules ---

WRONG = [
    ({}, "resourceSliceTemplates: is required"),
    (
        {
            "nodeResourceSliceTemplates": [
                {"spec": {"driverName": DRIVER, "nodeName": "n", "partitionable": {}}}
            ]
        },
        "nodeName: must not be set",
    ),
    ({"nodeResourceSliceTemplates": [{"spec": {"driverName": DRIVER}}]}, "has no model that is known here"),
    ({"nodeResourceSliceTemplates": [{"spec": {"partitionable": {}}}]}, "driverName: is required"),
    (
        {**cards("a"), "resourceSliceTemplates": [template("t", DRIVER, {"name": "d"})]},
        "must not be a driver of resourceSliceTemplates",
    ),
    (
        {
            "nodeResourceSliceTemplates": [
                *cards("a")["nodeResourceSliceTemplates"],
                {"spec": cards("a")["nodeResourceSliceTemplates"][0]["spec"]},
            ]
        },
        "resourceInstances[0].name",
    ),
]


@pytest.mark.parametrize(("given", "expected"), WRONG)
def test_what_a_template_may_not_say(given: Json, expected: str) -> None:
    errors = list(check_dynamic_resources(decode(DynamicResources, given), FieldPath("dynamicResources")))
    assert expected in "; ".join(map(str, errors))


@pytest.mark.parametrize("given", [cards("a"), cards("a", "b"), {**cards("a"), **gpus()}])
def test_what_it_may(given: Json) -> None:
    assert not list(check_dynamic_resources(decode(DynamicResources, given), FieldPath("x")))


# --- what came of it ---


def _published(*names: str) -> list[NodeResourceSlice]:
    return [slice_of(*(card(each) for each in names), on="n", name="s")]


def test_a_driver_is_awaited_until_its_tree_is_there() -> None:
    assert awaited([DRIVER], [], []) == [DRIVER]
    assert awaited([DRIVER], [], _published("a")) == []


def test_trees_are_compared_instance_by_instance() -> None:
    predicted = trees_of(machine(type_("t", dynamicResources=cards("a", "b"))), "n")
    assert tree_differences(predicted, _published("a", "b")) == []
    words = {each.words for each in tree_differences(predicted, _published("a", "c"))}
    assert words == {"is missing", "was not predicted"}
