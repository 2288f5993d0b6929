"""Which pods want a machine, and the claims that are still to be made for them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from allotment.api.claim_marks import POD_CLAIM_NAME
from allotment.api.core import Pod, PodCondition, PodResourceClaimStatus
from allotment.api.meta import ObjectMeta, OwnerReference
from allotment.api.resource import ResourceClaimTemplate, ResourceClaimTemplateSpec
from allotment.autoscaler.simulate.pending_pods import missing_claims, pending, wants_machine
from tests.autoscaler.builders import simulation
from tests.builders.typed import claim, pod
from tests.scheduler.gang_builders import group


def refused(who: Pod, reason: str = "Unschedulable", **status: Any) -> Pod:
    """A pod that the scheduler has found no place for."""
    told = PodCondition(type="PodScheduled", status="False", reason=reason)
    return replace(who, status=replace(who.status, conditions=(told,), **status))


def owned(who: Pod, kind: str) -> Pod:
    owner = OwnerReference(api_version="v1", kind=kind, name="o", uid="o", controller=True)
    return replace(who, metadata=replace(who.metadata, owner_references=(owner,)))


CASES = {
    "refused": (refused(pod()), True),
    "one of a ReplicaSet": (refused(owned(pod(), "ReplicaSet")), True),
    "not looked at yet": (pod(), False),
    "has a node": (refused(pod(node="n")), False),
    "is leaving": (refused(pod(leaving=True)), False),
    "has ended": (refused(pod(phase="Failed")), False),
    "held by a gate": (refused(pod(gates=["g"])), False),
    # The API server's own word for it, which schedulers leave.
    "held by a gate, and says so": (refused(pod(), "SchedulingGated"), False),
    "an error, which no machine helps": (refused(pod(), "SchedulerError"), False),
    "room is being made for it": (refused(pod(), nominated_node_name="n"), False),
    "goes with nodes that are there": (refused(owned(pod(), "DaemonSet")), False),
    "static": (refused(owned(pod(), "Node")), False),
}


@pytest.mark.parametrize("name", CASES)
def test_who_wants_a_machine(name: str) -> None:
    who, wants = CASES[name]
    assert wants_machine(who) is wants
    assert [each.metadata.name for each in pending(simulation(who))] == (["p"] if wants else [])


def test_of_a_gang_all_who_wait_are_meant_when_one_is_refused() -> None:
    members = [pod(f"g{number}", group="gang") for number in range(3)]
    there = simulation(
        group("gang", 4),
        refused(members[1]),
        members[0],
        pod("placed", group="gang", node="n"),
        pod("gated", group="gang", gates=["g"]),
        members[2],
        pod("stranger"),
        pod("other", group="another"),
    )
    assert [each.metadata.name for each in pending(there)] == ["g0", "g1", "g2"]


def template(name: str) -> ResourceClaimTemplate:
    spec = ResourceClaimTemplateSpec(metadata=ObjectMeta(labels={"a": "b"}), spec=claim("c").spec)
    return ResourceClaimTemplate(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


TEMPLATES = {"default/t": template("t")}
ASKING = pod("p", templates={"one": "t", "two": "t", "three": "absent"}, claims=["named"])


def missing(who: Pod = ASKING, made: set[str] | None = None, taken: set[str] | None = None) -> list[str]:
    found = missing_claims(who, TEMPLATES, made=made or set(), taken=taken or set())
    return [each.metadata.name for each in found]


def test_claims_are_made_of_templates_that_there_are() -> None:
    assert missing() == ["p-one", "p-two"]


def test_claims_that_there_are_are_not_made_again() -> None:
    noted = PodResourceClaimStatus(name="one", resource_claim_name="p-one-xyz")
    who = replace(ASKING, status=replace(ASKING.status, resource_claim_statuses=(noted,)))
    assert missing(who) == ["p-two"]
    assert missing(made={"two"}) == ["p-one"]


def test_a_name_that_another_claim_has_keeps_none_from_being_made() -> None:
    """What the controller makes has an end that follows from the pod's uid."""
    assert missing(taken={"default/p-one"}) == ["p-one-2", "p-two"]
    both = pod("p", templates={"one": "t", "one-2": "t"})
    assert missing(both, taken={"default/p-one"}) == ["p-one-2", "p-one-2-2"]


def test_a_claim_made_of_a_template_is_the_pods() -> None:
    made = next(missing_claims(ASKING, TEMPLATES, made=(), taken=()))
    assert made.metadata.labels == {"a": "b"}
    assert made.metadata.annotations[POD_CLAIM_NAME] == "one"
    assert [owner.uid for owner in made.metadata.owner_references] == [ASKING.metadata.uid]
