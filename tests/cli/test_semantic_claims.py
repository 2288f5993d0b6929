"""What ``describe`` and ``explain`` say of claims of v1alpha2: the instances asked for, those that were given, and what would help."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from allotment.api import semantic
from allotment.api.codec import to_builtins
from allotment.api.conversion.v1alpha2 import to_v1
from allotment.api.meta import ApiStruct
from tests.allocator import build
from tests.allocator.trees import DRIVER
from tests.autoscaler.builders import semantic_claim, semantic_pod, trees
from tests.command_line import Allot

NATIVE, CARRIED = "v1alpha2", "v1"


def given(name: str, node: str, *ids: str) -> semantic.ResourceClaim:
    """A claim that has these instances."""
    instances = tuple(semantic.AllocatedResourceInstance(id=each) for each in ids)
    result = semantic.PartitionableAllocationResult(instances=instances)
    data = semantic.SemanticResourceHandle(node_name=node, partitionable=result)
    handle = semantic.ResourceHandle(driver_name=DRIVER, semantic_data=data)
    allocation = semantic.AllocationResult(resource_handles=(handle,))
    claim = semantic_claim(name)
    return replace(claim, status=semantic.ResourceClaimStatus(driver_name=DRIVER, allocation=allocation))


def written(form: str, *objects: ApiStruct) -> str:
    """As a server would show them: claims of v1alpha2 in one of its versions."""
    plain: list[Any] = [to_builtins(each) for each in objects]
    items = [to_v1(each) if form == CARRIED and each["kind"] == "ResourceClaim" else each for each in plain]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def asked(allot: Allot, *arguments: str, form: str = NATIVE) -> Any:
    held = (given("x", "n1", "a"), given("y", "n2", "a"))
    world = written(form, *trees("n1", "n2"), *held, semantic_claim("c"), semantic_pod("c"))
    return json.loads(allot(*arguments, "-n", "ns", "--offline", "-", "-o", "json", stdin=world).out)


@pytest.mark.parametrize("form", [NATIVE, CARRIED])
def test_describe_shows_the_instances_asked_for_and_those_given(allot: Allot, form: str) -> None:
    told = asked(allot, "describe", "claim", "x", form=form)
    assert told["requests"] == [
        "resources of class cards, by ResourceClaimParameters p",
        f'r0: one instance with driver == "{DRIVER}" where quantities["memory"] >= "32Gi"',
    ]
    assert [(each["pool"], each["device"]) for each in told["devices"]] == [("n1", "a")]
    waiting = asked(allot, "describe", "claim", "c", form=form)
    assert waiting["requests"] == told["requests"]
    assert waiting["devices"] == []


def test_what_a_claim_refers_to_in_vain_is_said(allot: Allot) -> None:
    world = written(NATIVE, *trees("n1"), semantic_claim("c", ref="nowhere"))
    told = json.loads(
        allot("describe", "claim", "c", "-n", "ns", "--offline", "-", "-o", "json", stdin=world).out
    )
    assert "there is no ResourceClaimParameters ns/nowhere" in told["requests"][1]


@pytest.mark.parametrize("form", [NATIVE, CARRIED])
@pytest.mark.parametrize("what", ["pod", "claim"])
def test_explain_says_why_no_instance_will_do_and_what_would_help(allot: Allot, what: str, form: str) -> None:
    told = asked(allot, "explain", what, "c", form=form)
    [alike] = told["nodes"]
    assert alike["nodes"] == ["n1", "n2"]
    [request] = alike["requests"]
    assert (request["request"], request["needed"], request["fitting"], request["devices"]) == ("r0", 1, 0, 5)
    assert "is locked, as another way to split the same device is in use" in alike["reason"]
    words = [each["words"] for each in told["remedies"]]
    assert "fits if claim ns/x is released" in words
    assert "fits if claim ns/y is released" in words


def test_a_selector_that_no_instance_passes_is_named_and_leaving_it_out_helps(allot: Allot) -> None:
    wish = 'quantities["memory"] >= "99Gi"'
    world = written(NATIVE, *trees("n1", wish=wish), semantic_claim("c"), semantic_pod("c"))
    told = json.loads(
        allot("explain", "pod", "c", "-n", "ns", "--offline", "-", "-o", "json", stdin=world).out
    )
    assert wish in told["nodes"][0]["reason"]
    [remedy] = told["remedies"]
    assert remedy["words"].startswith(f"fits without the selector `{wish}` of request r0")


def hints_for(allot: Allot, form: str, claim: semantic.ResourceClaim) -> list[str]:
    """Beside device classes, in which the class of such a claim is not to be looked for."""
    world = written(form, build.class_(), *trees("n1", wish='quantities["memory"] >= "99Gi"'), claim)
    who = written(form, semantic_pod("c"))
    items = [each for text in (world, who) for each in json.loads(text)["items"]]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    told = json.loads(
        allot("explain", "pod", "c", "-n", "ns", "--offline", "-", "-o", "json", stdin=text).out
    )
    assert told["state"] != "Fits"
    found: list[str] = told["hints"]
    return found


@pytest.mark.parametrize("form", [NATIVE, CARRIED])
def test_explain_takes_the_class_of_a_claim_for_what_it_is(allot: Allot, form: str) -> None:
    assert hints_for(allot, form, semantic_claim("c")) == []


@pytest.mark.parametrize("form", [NATIVE, CARRIED])
def test_explain_says_what_is_called_like_a_class_or_parameters(allot: Allot, form: str) -> None:
    claim = semantic_claim("c", ref="pp")
    known = claim.spec.resource_class_name
    claim = replace(claim, spec=replace(claim.spec, resource_class_name=f"{known}x"))
    assert hints_for(allot, form, claim) == [
        f"there is no resource class {known}x; did you mean {known}?",
        "there is no ResourceClaimParameters ns/pp; did you mean p?",
    ]
