from allotment.scheduler.framework import StatusCode
from allotment.scheduler.plugins.scheduling_gates import SchedulingGates
from allotment.scheduler.pod import PodInfo
from tests.builders.typed import cluster, pod

PLUGIN = SchedulingGates()


def test_a_pod_without_gates_may_be_queued() -> None:
    assert PLUGIN.pre_enqueue(PodInfo(pod()), cluster()).ok


def test_a_pod_with_gates_waits_and_says_for_which() -> None:
    status = PLUGIN.pre_enqueue(PodInfo(pod(gates=["a.io/quota", "b.io/data"])), cluster())
    assert status.code is StatusCode.UNRESOLVABLE
    assert status.words == "waiting for 2 scheduling gates to be removed: a.io/quota, b.io/data"


def test_only_the_pod_itself_without_gates_helps() -> None:
    gated, half, free = (pod(gates=gates) for gates in (["a", "b"], ["a"], []))
    other = pod("other")
    waiting = PodInfo(gated)
    assert PLUGIN.helps(waiting, gated, free, cluster())
    assert not PLUGIN.helps(waiting, gated, half, cluster())
    assert not PLUGIN.helps(waiting, pod("other", gates=["a"]), other, cluster())
    assert PLUGIN.helps_anyone(gated, half)
    assert not PLUGIN.helps_anyone(gated, gated)
