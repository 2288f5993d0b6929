import pytest

from allotment.api.core import Node, Pod
from allotment.scheduler.framework import SKIP, StatusCode
from allotment.scheduler.plugins.node_unschedulable import NodeUnschedulable
from allotment.scheduler.pod import PodInfo
from tests.builders.typed import cluster, cycle, node, node_info, pod, toleration

PLUGIN = NodeUnschedulable()
CORDON = "node.kubernetes.io/unschedulable"


def test_a_cordoned_node_takes_no_pods() -> None:
    attempt = cycle(pod())
    assert PLUGIN.pre_filter(attempt).ok
    assert PLUGIN.filter(attempt, node_info(node())).ok
    refusal = PLUGIN.filter(attempt, node_info(node(cordoned=True)))
    assert (refusal.code, refusal.words) == (StatusCode.UNRESOLVABLE, "are cordoned")


@pytest.mark.parametrize(
    "tolerates", [toleration(CORDON), toleration(), toleration(CORDON, effect="NoSchedule")]
)
def test_pods_that_tolerate_the_cordon_are_not_judged(tolerates: object) -> None:
    assert PLUGIN.pre_filter(cycle(pod(tolerations=[tolerates]))) is SKIP  # type: ignore[list-item]  # a table


def test_another_toleration_does_not_help_against_a_cordon() -> None:
    assert PLUGIN.pre_filter(cycle(pod(tolerations=[toleration(CORDON, effect="NoExecute")]))).ok


WAITING = pod()
TOLERANT = pod(tolerations=[toleration(CORDON)])


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        pytest.param(None, node(), True, id="a new node"),
        pytest.param(None, node(cordoned=True), False, id="a new node that is cordoned"),
        pytest.param(node(cordoned=True), node(), True, id="a node is uncordoned"),
        pytest.param(node(), node(cordoned=True), False, id="a node is cordoned"),
        pytest.param(node(), node(cpu=100), False, id="a node that was free all the time"),
        pytest.param(WAITING, TOLERANT, True, id="the pod tolerates it now"),
        pytest.param(
            WAITING, pod(tolerations=[toleration("x")]), False, id="the pod tolerates something else"
        ),
        pytest.param(pod("q"), pod("q", tolerations=[toleration(CORDON)]), False, id="another pod does"),
    ],
)
def test_what_helps(old: Node | Pod | None, new: Node | Pod, helps: bool) -> None:
    assert PLUGIN.helps(PodInfo(WAITING), old, new, cluster()) is helps
    assert PLUGIN.helps_anyone(old, new) or not helps
