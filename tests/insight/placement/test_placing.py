"""Placing random problems: the books balance, and asking the fleet is the same as asking node by node."""

import copy
import json
from typing import Any

from hypothesis import given, settings

from allotment.allocator.strategy import STRATEGIES
from allotment.api.manifests.manifest import read_manifest
from allotment.cel.expression_check import check_expression
from allotment.insight.errors import BadInput
from allotment.insight.manifest_cluster import ManifestCluster, gather
from allotment.insight.manifest_files import Reading
from allotment.insight.placement.placing import PlacementRun, place
from tests.problems import problems
from tests.thoroughness import examples

KINDS = {"slices": "ResourceSlice", "classes": "DeviceClass", "claims": "ResourceClaim"}


def cluster_of(problem: dict[str, Any]) -> ManifestCluster | None:
    """The problem as manifests, what is in use left out; None if it is not valid."""
    items = [{"apiVersion": "v1", "kind": "Node", **problem["node"]}]
    for part, kind in KINDS.items():
        items += [{"apiVersion": "resource.k8s.io/v1", "kind": kind, **obj} for obj in problem[part]]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    try:
        return gather(Reading(read_manifest(text, "problem")), check_expression)
    except BadInput:
        return None


def outcome(placement: PlacementRun) -> list[tuple[str, str | None, Any]]:
    claims = placement.cluster.claims
    return [
        (decision.need.who, decision.node, [claims[name].status.allocation for name in decision.need.claims])
        for decision in placement.decisions
    ]


@given(problems(all_features=True))
@settings(max_examples=examples(150))
def test_the_books_balance_and_both_ways_of_asking_agree(problem: dict[str, Any]) -> None:
    cluster = cluster_of(problem)
    if cluster is None:
        return
    for strategy in STRATEGIES:
        quick = place(cluster_copy(cluster), strategy=strategy)
        slow = place(cluster_copy(cluster), strategy=strategy, explain=True)
        assert outcome(quick) == outcome(slow)
        quick.after.validate()
        for decision in quick.refused:
            assert decision.rejections
            assert all(rejection.words for rejection in decision.rejections)


def cluster_copy(cluster: ManifestCluster) -> ManifestCluster:
    """Placing writes into claims and notes; everything else is left as it is."""
    fresh = copy.copy(cluster)
    fresh.claims = dict(cluster.claims)
    fresh.notes = []
    return fresh
