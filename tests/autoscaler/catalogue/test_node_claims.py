"""Machines that were chosen, as claims: what a claim says, which machine it means, how far it has come."""

from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace

from allotment.api.autoscaling import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODE_GROUP,
    NODE_POOL,
    ZONE,
    NodeClaim,
    NodeClaimStatus,
)
from allotment.api.codec import decode
from allotment.api.meta import Condition
from allotment.api.quantity import Quantity
from allotment.api.validation import validate_node_claim
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.catalogue.node_claims import (
    DRIVERS,
    PODS,
    TERMINATION,
    ClaimProgress,
    claim_of,
    drivers_of,
    foreseen,
    machine_of,
    on_offer,
    state_of,
)
from tests.autoscaler.build import Json, evaluated, gpus, group, is_type, machine, pool, type_, where

MACHINES = evaluated(
    type_("large", {"a": "2", "b": "2", "a+": "1"}, dynamicResources=gpus(2)),
    type_("small", {"a": "1", "b": "1"}, requirements=[where("rack", "In", "r", "s")]),
    pool("one"),
    pool("two", where("rack", "In", "r"), labels={"team": "x"}, weight=5),
    group("racks", {"rack": "r"}),
    group("halls"),
).machines


def written(labels: dict[str, str] | None = None, *requirements: Json) -> NodeClaim:
    meta = {"name": "c", "labels": labels or {}}
    return decode(NodeClaim, {"metadata": meta, "spec": {"requirements": requirements}})


def told(claim: NodeClaim, *conditions: str, going: bool = False) -> NodeClaim:
    """With conditions, each ``Type=Status``."""
    made = tuple(Condition(type=text.split("=")[0], status=text.split("=")[1]) for text in conditions)
    meta = replace(claim.metadata, deletion_timestamp="2030-01-01T00:00:00Z" if going else None)
    return replace(claim, metadata=meta, status=NodeClaimStatus(conditions=made))


@pytest.mark.parametrize("wanted", MACHINES, ids=lambda each: each.name)
def test_a_claim_means_the_machine_that_it_was_made_for(wanted: Machine) -> None:
    claim = claim_of(wanted, {}, name="c")
    assert validate_node_claim(claim) == []
    assert machine_of(claim, MACHINES) is wanted


def test_a_claim_says_what_its_pool_says() -> None:
    template = {
        "metadata": {"labels": {"team": "x"}, "annotations": {"note": "hello"}},
        "spec": {
            "taints": [{"key": "gpu", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "cni", "effect": "NoExecute"}],
            "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
            "expireAfter": "720h",
            "terminationGracePeriod": "1h",
            "requirements": [],
        },
    }
    origin = pool("p", template=template)
    origin = replace(origin, metadata=replace(origin.metadata, uid="u1"))
    found = machine(type_("large", dynamicResources=gpus(1)), origin)
    claim = claim_of(found, {"cpu": Quantity.parse("3")}, name="c", pods=4)
    labels = {INSTANCE_TYPE: "large", ZONE: "a", CAPACITY_TYPE: "on-demand", NODE_POOL: "p", "team": "x"}
    assert claim.metadata.labels == labels
    assert {each.key: each.values for each in claim.spec.requirements} == {
        key: (value,) for key, value in labels.items()
    }
    assert claim.metadata.annotations == {"note": "hello", PODS: "4", DRIVERS: "gpu.example.com"}
    assert claim.metadata.finalizers == (TERMINATION,)
    [owner] = claim.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid) == ("NodePool", "p", "u1")
    spec, said = claim.spec, origin.spec.template.spec
    assert (spec.taints, spec.startup_taints, spec.node_class_ref) == (
        said.taints,
        said.startup_taints,
        said.node_class_ref,
    )
    assert (spec.expire_after, spec.termination_grace_period) == ("720h", "1h")
    assert spec.resources.requests == {"cpu": Quantity.parse("3")}


def test_a_claim_of_a_group_names_the_group() -> None:
    claim = claim_of(machine(group("racks", {"rack": "r"})), {}, name="c")
    assert claim.metadata.labels == {NODE_GROUP: "racks", "rack": "r"}
    assert drivers_of(claim) == []


def test_a_claim_has_no_more_requirements_than_it_may_have() -> None:
    many = {f"label-{number:03}": "x" for number in range(150)}
    found = machine(type_("large"), pool("p", labels=many))
    claim = claim_of(found, {}, name="c")
    assert validate_node_claim(claim) == []
    assert machine_of(claim, [found]) is found


CHOICES = {
    "anything: the cheapest": (written({NODE_POOL: "two"}), "two/small/a/on-demand"),
    "of the pool in its label": (written({NODE_POOL: "one"}), "one/large/a/spot"),
    "one type": (written({NODE_POOL: "one"}, is_type("small")), "one/small/a/on-demand"),
    "one zone": (written({NODE_POOL: "one"}, where(ZONE, "In", "b")), "one/small/b/on-demand"),
    "a label of the pool's": (written({}, where("team", "Exists")), "two/small/a/on-demand"),
    "a group": (written({NODE_GROUP: "halls"}), "halls/halls//on-demand"),
    "no such type": (written({}, is_type("none")), None),
    "no such pool": (written({NODE_POOL: "three"}), None),
    "a contradiction": (written({NODE_POOL: "one"}, where(NODE_POOL, "In", "two")), None),
}


@pytest.mark.parametrize("case", CHOICES)
def test_a_claim_that_leaves_a_choice_means_the_cheapest(case: str) -> None:
    claim, expected = CHOICES[case]
    found = machine_of(claim, MACHINES)
    assert (found.name if found is not None else None) == expected


def test_what_can_be_had_is_chosen_before_what_cannot() -> None:
    cheap = {"zone": "a", "capacityType": "on-demand", "price": "1", "available": False}
    dear = {"zone": "b", "capacityType": "on-demand", "price": "9"}
    machines = evaluated(type_("large", offerings=[cheap, dear])).machines
    found = machine_of(written(), machines)
    assert found is not None
    assert found.price == Decimal(9)


def test_the_foreseen_node_is_that_of_the_claim() -> None:
    found = machine(type_("large", dynamicResources=gpus(2)), pool("p"))
    claim = claim_of(found, {}, name="c")
    node, slices = foreseen(claim, found)
    assert node.metadata.name == "c"
    assert [each.spec.node_name for each in slices] == ["c"]
    running = replace(claim, status=NodeClaimStatus(node_name="ip-1"))
    node, slices = foreseen(running, found)
    assert node.metadata.labels["kubernetes.io/hostname"] == "ip-1"
    assert [each.spec.pool.name for each in slices] == ["ip-1"]


STATES = {
    "new": ((), False, ClaimProgress.LAUNCHING),
    "being retried": (("Launched=Unknown",), False, ClaimProgress.LAUNCHING),
    "out of stock": (("Launched=False",), False, ClaimProgress.FAILED),
    "launched": (("Launched=True", "Registered=Unknown"), False, ClaimProgress.LAUNCHED),
    "registered": (
        ("Launched=True", "Registered=True", "Initialized=Unknown"),
        False,
        ClaimProgress.REGISTERED,
    ),
    "initialized": (
        ("Launched=True", "Registered=True", "Initialized=True"),
        False,
        ClaimProgress.INITIALIZED,
    ),
    "going": (("Launched=True", "Registered=True", "Initialized=True"), True, ClaimProgress.GOING),
}


@pytest.mark.parametrize("case", STATES)
def test_conditions_tell_how_far_a_claim_has_come(case: str) -> None:
    conditions, going, expected = STATES[case]
    state = state_of(told(claim_of(MACHINES[0], {}, name="c"), *conditions, going=going))
    assert state is expected
    assert state.is_coming == (
        expected in (ClaimProgress.LAUNCHING, ClaimProgress.LAUNCHED, ClaimProgress.REGISTERED)
    )


def test_what_a_claim_failed_to_get_is_not_on_offer_for_any_pool() -> None:
    by_name = {each.name: each for each in MACHINES}
    lost = ["one/small/a/on-demand", "racks/racks//on-demand"]
    failed = [told(claim_of(by_name[name], {}, name="c"), "Launched=False") for name in lost]
    retried = told(claim_of(by_name["one/small/b/on-demand"], {}, name="c"), "Launched=Unknown")
    left = on_offer(MACHINES, [*failed, retried])
    assert {each.name for each in MACHINES} - {each.name for each in left} == {
        "one/small/a/on-demand",
        "two/small/a/on-demand",
        "racks/racks//on-demand",
    }
    assert on_offer(MACHINES, [retried]) == list(MACHINES)
