from allotment.scheduler.framework import SKIP, StatusCode
from allotment.scheduler.plugins.node_name import NodeName
from allotment.scheduler.pod import PodInfo
from tests.builders.typed import cluster, cycle, node, node_info, pod

PLUGIN = NodeName()


def test_a_pod_that_names_no_node_is_of_no_interest() -> None:
    assert PLUGIN.pre_filter(cycle(pod())) is SKIP


def test_a_pod_that_names_a_node_goes_there_or_nowhere() -> None:
    attempt = cycle(pod(node="a"))
    assert PLUGIN.pre_filter(attempt).ok
    assert attempt.names == frozenset({"a"})
    assert PLUGIN.filter(attempt, node_info(node("a"))).ok
    assert PLUGIN.filter(attempt, node_info(node("b"))).code is StatusCode.UNRESOLVABLE


def test_the_node_of_that_name_helps() -> None:
    waiting = PodInfo(pod(node="a"))
    assert PLUGIN.helps(waiting, None, node("a"), cluster())
    assert not PLUGIN.helps(waiting, None, node("b"), cluster())
