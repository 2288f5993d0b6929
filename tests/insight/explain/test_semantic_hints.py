"""Selectors of semantic claims that read what no instance has."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.api.resource import ResourceClaim
from allotment.insight.explain.semantic_hints import semantic_hints
from tests.allocator.trees import NICS, attribute, leaf, parameters, request, slice_of
from tests.autoscaler.builders import semantic_claim, simulation

CARD = leaf("a", "32Gi", attribute("runtimeVersion", string="v1.2.3"), attribute("model", string="k80"))
TOLD = {
    'versions["runtimeVersion"].isGreaterThan(semver("1.0.0"))': [
        "no instance has versions.runtimeVersion; there is strings.runtimeVersion"
    ],
    'strings.modle == "k80"': ["no instance has strings.modle; did you mean model?"],
    'strings["model"] == "k80" && quantities["memory"] >= "8Gi"': [],
}


@pytest.mark.parametrize("selector", TOLD)
def test_what_no_instance_has(selector: str) -> None:
    there = simulation(semantic_claim("c"))
    claims = list(there.objects(ResourceClaim).values())
    asked = parameters("p", request(selector))
    asked = replace(asked, metadata=replace(asked.metadata, namespace="ns"))
    assert list(semantic_hints(claims, [asked], [slice_of(CARD)])) == TOLD[selector]


def test_a_driver_that_publishes_nothing() -> None:
    there = simulation(semantic_claim("c"))
    asked = parameters("p", request("true", driver=NICS))
    asked = replace(asked, metadata=replace(asked.metadata, namespace="ns"))
    told = list(semantic_hints(list(there.objects(ResourceClaim).values()), [asked], []))
    assert told == [f"no driver {NICS} publishes anything"]
