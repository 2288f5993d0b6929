import pytest

from allotment.api.core import ContainerPort, Node, Pod
from allotment.scheduler.framework import SKIP, StatusCode
from allotment.scheduler.plugins.node_ports import NodePorts
from allotment.scheduler.pod import PodInfo
from tests.builders.typed import cluster, container, cycle, host_port, node, node_info, pod

PLUGIN = NodePorts()
LOCAL = "127.0.0.1"


def test_a_pod_without_host_ports_is_of_no_interest() -> None:
    assert PLUGIN.pre_filter(cycle(pod(ports=[ContainerPort(container_port=80)]))) is SKIP


@pytest.mark.parametrize(
    ("wanted", "taken", "fits"),
    [
        pytest.param([host_port(80)], [], True, id="nothing taken"),
        pytest.param([host_port(80)], [host_port(80)], False, id="the same"),
        pytest.param([host_port(80)], [host_port(81)], True, id="another number"),
        pytest.param([host_port(80)], [host_port(80, protocol="UDP")], True, id="another protocol"),
        pytest.param([host_port(80)], [host_port(80, protocol="TCP")], False, id="no protocol is TCP"),
        pytest.param([host_port(80, LOCAL)], [host_port(80, "10.0.0.1")], True, id="another address"),
        pytest.param([host_port(80, LOCAL)], [host_port(80)], False, id="every address is taken"),
        pytest.param([host_port(80)], [host_port(80, LOCAL)], False, id="every address is wanted"),
        pytest.param([host_port(80, "0.0.0.0")], [host_port(80, LOCAL)], False, id="every address by name"),
        pytest.param(
            [host_port(1), host_port(80)], [host_port(2), host_port(80)], False, id="one of several"
        ),
    ],
)
def test_filter(wanted: list[ContainerPort], taken: list[ContainerPort], fits: bool) -> None:
    attempt = cycle(pod(ports=wanted))
    assert PLUGIN.pre_filter(attempt).ok
    status = PLUGIN.filter(attempt, node_info(node(), pod("q", ports=taken)))
    assert status.ok is fits
    if not fits:
        assert status.code is StatusCode.UNSCHEDULABLE  # preemption can help


def test_ports_of_sidecars_count_and_those_of_other_init_containers_do_not() -> None:
    attempt = cycle(pod(ports=[80]))
    sidecar = pod("q", init=[container(ports=[80], sidecar=True)])
    passing = pod("q", init=[container(ports=[80])])
    assert not PLUGIN.filter(attempt, node_info(node(), sidecar)).ok
    assert PLUGIN.filter(attempt, node_info(node(), passing)).ok


def test_a_port_is_free_again_when_its_last_user_has_left() -> None:
    info = node_info(node(), pod("q", ports=[80]), pod("r", ports=[host_port(80, LOCAL)]))
    attempt = cycle(pod(ports=[80]))
    info.remove("default/q")
    assert not PLUGIN.filter(attempt, info).ok
    info.remove("default/r")
    assert PLUGIN.filter(attempt, info).ok


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        pytest.param(None, node(), True, id="a new node"),
        pytest.param(pod("q", node="n", ports=[80]), None, True, id="the port is free"),
        pytest.param(pod("q", node="n", ports=[81]), None, False, id="another port is free"),
        pytest.param(pod("q", node="n"), None, False, id="a pod without ports left"),
    ],
)
def test_what_helps(old: Pod | None, new: Node | None, helps: bool) -> None:
    assert PLUGIN.helps(PodInfo(pod(ports=[80])), old, new, cluster()) is helps
    assert PLUGIN.helps_anyone(old, new) or not helps


def test_a_pod_that_was_on_no_node_helps_nobody() -> None:
    assert not PLUGIN.helps_anyone(pod("q", ports=[80]), None)
