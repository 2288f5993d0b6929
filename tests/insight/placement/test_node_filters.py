"""Which nodes a pod of a manifest may go to: the scheduler's filters decide, and the words are about this pod and this node."""

from typing import Any

import pytest

from allotment.api.codec import decode
from allotment.api.core import Node, Pod
from allotment.insight.placement.node_filters import NodeFilters
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.pod import PodInfo

Json = dict[str, Any]

A, B = (
    decode(
        Node, {"metadata": {"name": name, "labels": {"zone": name}}, "spec": {"unschedulable": name == "b"}}
    )
    for name in "ab"
)
LEFT_OUT = "the pod's node affinity leaves the node out"
TOLERATES_ALL = [{"operator": "Exists"}]


def filters(**spec: Any) -> NodeFilters:
    cluster = Cluster()
    for node in (A, B):
        cluster.change(None, node)
    return NodeFilters(PodInfo(decode(Pod, {"metadata": {"name": "p"}, "spec": spec})), cluster)


def required(*terms: Json) -> Json:
    within = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"nodeAffinity": within}


def zone(*values: str, operator: str = "In") -> Json:
    return {"matchExpressions": [{"key": "zone", "operator": operator, "values": list(values)}]}


def named(*names: str) -> Json:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}


@pytest.mark.parametrize(
    ("spec", "on_a", "on_b"),
    [
        ({}, "", "the node is cordoned"),
        ({"tolerations": TOLERATES_ALL}, "", ""),
        ({"nodeName": "b"}, "the pod is on node b", ""),  # it is there: a cordon does not matter any more
        (
            {"nodeName": "b", "nodeSelector": {"zone": "a"}},
            "the pod is on node b",
            "the pod's nodeSelector wants zone=a",
        ),
        (
            {"nodeSelector": {"zone": "a", "gpu": "x"}},
            "the pod's nodeSelector wants gpu=x",
            "the node is cordoned",
        ),
        ({"affinity": required(zone("b"))}, LEFT_OUT, "the node is cordoned"),
        ({"affinity": required(zone("b"), zone("a"))}, "", "the node is cordoned"),
        ({"affinity": required(named("b")), "tolerations": TOLERATES_ALL}, LEFT_OUT, ""),
        # no node has two names
        ({"affinity": required(named("a", "b")), "tolerations": TOLERATES_ALL}, LEFT_OUT, LEFT_OUT),
        # a term without a test matches nothing
        ({"affinity": required({}), "tolerations": TOLERATES_ALL}, LEFT_OUT, LEFT_OUT),
    ],
)
def test_each_node_says_what_keeps_the_pod_off(spec: Json, on_a: str, on_b: str) -> None:
    asked = filters(**spec)
    assert (asked.rejection(A), asked.rejection(B)) == (on_a, on_b)


def test_a_broken_term_is_named_where_nothing_else_lets_the_pod_in() -> None:
    """As in the scheduler, a term that nobody can read matches no node, and another may."""
    broken = zone("a", operator="Near")
    assert "operator 'Near' is not one of" in filters(affinity=required(broken)).rejection(A)
    assert filters(affinity=required(broken, zone("a"))).rejection(A) == ""


@pytest.mark.parametrize(
    ("spec", "choosy"),
    [
        ({}, False),
        ({"tolerations": TOLERATES_ALL}, False),
        ({"nodeName": "a"}, True),
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"affinity": required(zone("a", "b"))}, True),
    ],
)
def test_only_pods_that_choose_among_nodes_are_choosy(spec: Json, choosy: bool) -> None:
    assert filters(**spec).choosy is choosy
