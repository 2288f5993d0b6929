from typing import Any

import pytest
from msgspec.structs import replace

from allotment.scheduler.pod import HostPort, PodInfo
from tests.builders.typed import (
    ZONE,
    container,
    host_port,
    node_affinity,
    pod,
    spread,
    term,
    toleration,
    where,
)


def test_what_a_pod_is() -> None:
    info = PodInfo(pod("a", namespace="team", uid="u", priority=7, node="n", cpu=1))
    assert (info.key, info.namespace, info.name, info.uid) == ("team/a", "team", "a", "u")
    assert (info.node, info.priority, info.finished, info.leaving) == ("n", 7, False, False)
    assert repr(info) == "<pod team/a on n>"


@pytest.mark.parametrize(
    ("phase", "finished"), [(None, False), ("Running", False), ("Failed", True), ("Succeeded", True)]
)
def test_finished(phase: str | None, finished: bool) -> None:
    assert PodInfo(pod(phase=phase)).finished is finished


def test_leaving() -> None:
    assert PodInfo(pod(leaving=True)).leaving


def test_host_ports_of_everything_that_keeps_running() -> None:
    info = PodInfo(
        pod(
            containers=[container(ports=[80, host_port(81, "10.0.0.1", "UDP")])],
            init=[container(ports=[90], sidecar=True), container(ports=[91])],
        )
    )
    assert info.ports == (
        HostPort("0.0.0.0", "TCP", 80),
        HostPort("10.0.0.1", "UDP", 81),
        HostPort("0.0.0.0", "TCP", 90),
    )


@pytest.mark.parametrize(
    "same",
    [
        pytest.param({"name": "other"}, id="name"),
        pytest.param({"namespace": "other"}, id="namespace"),
        pytest.param({"labels": {"app": "web"}}, id="labels"),
        pytest.param({"node": "n"}, id="where it is"),
        pytest.param({"phase": "Running"}, id="status"),
    ],
)
def test_pods_that_differ_in_what_is_not_their_spec_ask_for_the_same(same: dict[str, Any]) -> None:
    assert PodInfo(pod(**same)).asks == PodInfo(pod()).asks


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"cpu": 1}, id="requests"),
        pytest.param({"claims": ["gpu"]}, id="claims"),
        pytest.param({"templates": {"gpu": "one"}}, id="templates"),
        pytest.param({"ports": [80]}, id="ports"),
        pytest.param({"selector": {"disk": "ssd"}}, id="node selector"),
        pytest.param({"affinity": node_affinity(term(where("disk")))}, id="affinity"),
        pytest.param({"tolerations": [toleration("spot")]}, id="tolerations"),
        pytest.param({"spread": [spread(ZONE)]}, id="spreading"),
        pytest.param({"priority": 5}, id="priority"),
        pytest.param({"scheduler": "other"}, id="scheduler"),
    ],
)
def test_pods_that_differ_in_their_spec_ask_for_something_else(other: dict[str, Any]) -> None:
    assert PodInfo(pod(**other)).asks != PodInfo(pod()).asks


def test_what_was_worked_out_is_kept_while_the_spec_stays() -> None:
    waiting = pod(cpu=1, ports=[80])
    before = PodInfo(waiting)
    bound = PodInfo(replace(waiting, spec=replace(waiting.spec, node_name="n")), before)
    assert bound.requests is before.requests
    assert bound.asks is before.asks
    assert bound.ports is before.ports
    resized = PodInfo(pod(cpu=2, ports=[80]), before)
    assert resized.requests == {"cpu": 2 * 10**9}
    assert resized.asks != before.asks


def test_pods_of_one_spec_share_what_was_worked_out_whoever_came_between() -> None:
    one, other, another = PodInfo(pod("a", cpu=1)), PodInfo(pod("b", cpu=2)), PodInfo(pod("c", cpu=1))
    assert another.asks is one.asks
    assert another.requests is one.requests
    assert other.asks is not one.asks
