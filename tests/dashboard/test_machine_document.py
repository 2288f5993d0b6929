"""What the page of machines shows: pools and groups, machines that were asked for, overlays, what there is to choose from."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.api.autoscaling import NodeClaim, NodeGroup, NodeOverlay, NodePool
from allotment.api.codec import decode, to_builtins
from allotment.autoscaler.catalogue.catalogue_summary import assortment
from allotment.autoscaler.catalogue.node_claims import claim_of
from allotment.autoscaler.catalogue.overlays import evaluate
from allotment.dashboard.machine_choice import MachineChoice
from allotment.dashboard.machine_choice_document import overlay_document, type_document
from allotment.dashboard.machine_document import ROWS_LISTED, claims_document, notes
from allotment.dashboard.rights import Namespaces, Rights
from allotment.dashboard.source_document import sources_document
from tests.autoscaler.build import GPU, catalogue, evaluated, gpus, group, is_type, overlay, pool, type_

LARGE = type_("large", {"a": "4.5", "b+": "1"}, dynamicResources=gpus(2))
POOL = pool("p", limits={"cpu": "32", "memory": "64Gi"})
GROUP = group("g", price="2")
FOUND = evaluated(LARGE, POOL, GROUP)
CHOICE = MachineChoice(FOUND)


def node_claim(name: str, *conditions: str, machine: str = "p/large/a/on-demand", **status: Any) -> NodeClaim:
    """Conditions are ``Type=Status`` or ``Type=Status/Reason: message``."""
    made = to_builtins(claim_of(next(each for each in FOUND.machines if each.name == machine), {}, name=name))
    told = []
    for text in conditions:
        head, _, message = text.partition(": ")
        (type_, _, state), (state, _, reason) = head.partition("="), head.partition("=")[2].partition("/")
        told.append({"type": type_, "status": state, "reason": reason, "message": message})
    return decode(NodeClaim, {**made, "status": {"conditions": told, **status}})


DONE = ("Launched=True", "Registered=True", "Initialized=True")


def sources(*claims: NodeClaim, pools: Any = (POOL,), groups: Any = ()) -> Any:
    return sources_document(pools, groups, claims, CHOICE)


# --- pools and groups ---


def test_a_pool_tells_its_machines_their_price_and_how_much_of_its_limits_is_used() -> None:
    failed = node_claim("x", "Launched=False/InsufficientCapacity: none left")
    told = sources(
        node_claim("a", *DONE, capacity={"cpu": "8", "memory": "64Gi"}),
        node_claim("b", machine="p/large/b/spot"),
        failed,
    )
    assert (told["machines"], told["price"]) == (2, "5.50")
    [row] = told["rows"]
    assert (row["kind"], row["name"], row["machines"], row["price"], row["inFile"]) == (
        "NodePool",
        "p",
        2,
        "5.50",
        True,
    )
    assert row["limits"] == [
        {"name": "cpu", "used": "8", "limit": "32", "part": 0.25},
        {"name": "memory", "used": "64Gi", "limit": "64Gi", "part": 1.0},
    ]
    assert (row["unpriced"], row["problems"]) == (0, [])


def test_the_pools_own_status_counts_before_what_can_be_summed_up() -> None:
    status = {"resources": {"cpu": "16"}, "nodes": 3}
    busy = decode(NodePool, {**to_builtins(POOL), "status": status})
    [row] = sources(pools=[busy])["rows"]
    assert (row["machines"], row["limits"][0]["used"]) == (3, "16")


def test_a_machine_that_is_in_no_catalogue_has_no_price() -> None:
    strange = decode(
        NodeClaim,
        {
            "metadata": {"name": "s", "labels": {"karpenter.sh/nodepool": "p"}},
            "spec": {"requirements": [is_type("other")]},
        },
    )
    [row] = sources(strange)["rows"]
    assert (row["machines"], row["price"], row["unpriced"]) == (1, "0.00", 1)
    assert claims_document([strange], CHOICE)["rows"][0]["price"] == ""


def test_a_group_tells_its_size_of_its_most() -> None:
    sized = decode(NodeGroup, {**to_builtins(GROUP), "status": {"size": 2}})
    [row] = sources(pools=(), groups=[sized])["rows"]
    assert (row["kind"], row["machines"], row["price"]) == ("NodeGroup", 2, "4.00")
    assert row["limits"] == [{"name": "machines", "used": "2", "limit": "3", "part": 0.667}]


def test_a_size_that_makes_no_sense_costs_nothing() -> None:
    absurd = decode(NodeGroup, {**to_builtins(GROUP), "status": {"size": 2**31 - 1}})
    assert sources(pools=(), groups=[absurd])["machines"] == 2**31 - 1


def test_what_is_wrong_with_a_pool_is_told() -> None:
    condition = {"type": "Ready", "status": "False", "reason": "NodeClassNotReady", "message": "none"}
    broken = {"conditions": [{**condition, "lastTransitionTime": "2030-01-01T00:00:00Z"}]}
    status = decode(NodePool, {**to_builtins(POOL), "status": broken})
    assert sources(pools=[status])["rows"][0]["problems"] == ["NodeClassNotReady: none"]
    invalid = pool("q", weight=-1)
    assert "spec.weight" in sources(pools=[invalid])["rows"][0]["problems"][0]


# --- machines that were asked for ---

# conditions; state, steps, whether something is wrong, what is said
CLAIMS: dict[str, tuple[tuple[str, ...], str, list[bool], bool, str]] = {
    "just asked for": ((), "launching", [False] * 3, False, ""),
    "out of stock": (
        ("Launched=False/InsufficientCapacity: large is out of stock",),
        "failed",
        [False] * 3,
        True,
        "InsufficientCapacity: large is out of stock",
    ),
    "on its way": (
        ("Launched=True", "Registered=Unknown/NodeNotFound: not there"),
        "launched",
        [True, False, False],
        False,
        "NodeNotFound: not there",
    ),
    "there": (DONE, "initialized", [True] * 3, False, ""),
    "there with other devices": (
        (*DONE, "DevicesAsPredicted=False/Different: gpu-1 is missing"),
        "initialized",
        [True] * 3,
        True,
        "Different: gpu-1 is missing",
    ),
}


@pytest.mark.parametrize("case", CLAIMS)
def test_a_machine_tells_how_far_it_has_come(case: str) -> None:
    conditions, state, steps, wrong, message = CLAIMS[case]
    [row] = claims_document([node_claim("c", *conditions)], CHOICE)["rows"]
    assert (row["state"], row["steps"], row["wrong"], row["message"]) == (state, steps, wrong, message)
    assert (row["type"], row["zone"], row["capacityType"], row["source"]) == ("large", "a", "on-demand", "p")
    assert row["price"] == ("" if state == "failed" else "4.50"), "what does not run costs nothing"


def test_machines_with_something_wrong_come_first_then_those_on_their_way() -> None:
    claims = [node_claim("ready", *DONE), node_claim("coming"), node_claim("broken", "Launched=False")]
    told = claims_document(claims, CHOICE)
    assert [row["name"] for row in told["rows"]] == ["broken", "coming", "ready"]
    assert told["states"] == {"launching": 1, "failed": 1, "initialized": 1}


def test_of_many_machines_the_first_are_told() -> None:
    told = claims_document([node_claim(f"c-{number}") for number in range(ROWS_LISTED + 5)], CHOICE)
    assert (told["count"], len(told["rows"])) == (ROWS_LISTED + 5, ROWS_LISTED)


# --- overlays and types ---


def test_an_overlay_tells_what_it_says_where_it_applies_and_with_whom_it_is_in_conflict() -> None:
    overlays = [overlay("a", price="1", weight=3), overlay("b", is_type("large"), price="2", weight=3)]
    found = evaluate(catalogue(LARGE, type_("small")), overlays)
    rows = {name: overlay_document(each) for name, each in found.findings.items()}
    assert (rows["b"]["says"], rows["b"]["types"], rows["b"]["wrong"]) == (["price 2"], ["large"], False)
    assert (rows["a"]["weight"], rows["a"]["types"], rows["a"]["machines"]) == (3, ["large", "small"], 3)
    assert (rows["a"]["wrong"], rows["a"]["reason"]) == (True, "Conflict")
    assert rows["a"]["problems"] == ["large: price: overlay b has the same weight"]


def test_what_its_status_says_counts_where_nothing_is_found_here() -> None:
    """Whoever wrote it may have a catalogue, which the page may not."""
    condition = {"type": "ValidationSucceeded", "status": "False", "reason": "Conflict", "message": "with x"}
    told = decode(
        NodeOverlay, {**to_builtins(overlay("a", price="1")), "status": {"conditions": [condition]}}
    )
    row = overlay_document(evaluate(catalogue(), [told]).findings["a"])
    assert (row["wrong"], row["reason"], row["problems"]) == (True, "Conflict", ["Conflict: with x"])
    assert row["types"] == []


def test_a_type_tells_what_overlays_make_of_it() -> None:
    cheap = overlay("cheap", is_type("large"), priceAdjustment="-50%", capacity={"example.com/fuse": "2"})
    [line] = assortment(evaluate(catalogue(LARGE, POOL), [cheap]))
    told = type_document(line)
    assert (told["source"], told["type"], told["zones"]) == ("p", "large", ["a", "b"])
    assert told["capacityTypes"] == ["on-demand", "spot"]
    assert (told["prices"], told["listed"]) == (["0.50", "2.25"], ["1.00", "4.50"])
    assert (told["capacity"]["example.com/fuse"], told["devices"], told["overlays"]) == (
        "2",
        [(GPU, 2, "")],
        ["cheap"],
    )
    assert not told["soldOut"]


def test_what_may_not_be_seen_is_said() -> None:
    everywhere = Namespaces(everywhere=True)
    assert (
        notes(Rights(pods=everywhere, node_pools=True, node_groups=True, node_claims=True, overlays=True))
        == []
    )
    missing, pods = notes(Rights(node_pools=True))
    assert "nodegroups, nodeclaims, nodeoverlays" in missing
    assert pods == "You may see no pods."
