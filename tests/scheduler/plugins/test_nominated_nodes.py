"""A node that was cleared for a pod is kept for it, as far as that pod needs it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from allotment.api.core import Node, Pod
from allotment.scheduler.framework import Status, StatusCode
from allotment.scheduler.plugins.nominated_nodes import NominatedNodes
from allotment.scheduler.pod import PodInfo
from tests.builders.typed import cluster, cycle, node, node_info, pod

PLUGIN = NominatedNodes()


def nominee(to: str | None = "n", **more: Any) -> Pod:
    """A pod that evicted others from a node of 8 cpus."""
    made = pod("nominee", **{"cpu": 6, "priority": 5, **more})
    return replace(made, status=replace(made.status, nominated_node_name=to))


def verdict(asking: Pod, *others: Pod) -> Status:
    return PLUGIN.filter(cycle(asking, *others), node_info(node()))


@pytest.mark.parametrize(
    ("asking", "fits"),
    [
        pytest.param(pod(cpu=2), True, id="both fit"),
        pytest.param(pod(cpu=3), False, id="they do not fit together"),
        pytest.param(pod(cpu=3, priority=5), False, id="equally important: who evicted comes first"),
        pytest.param(pod(cpu=3, priority=6), True, id="a more important pod takes the room"),
        pytest.param(pod(), True, id="it needs nothing that is counted"),
    ],
)
def test_room_is_kept_from_pods_that_are_not_more_important(asking: Pod, fits: bool) -> None:
    status = verdict(asking, nominee())
    assert status.ok is fits
    if not fits:
        assert (status.code, status.words) == (
            StatusCode.UNRESOLVABLE,
            "are kept for a pod that evicted others",
        )


def test_another_node_is_not_kept() -> None:
    assert verdict(pod(cpu=3), nominee("m")).ok


def test_if_both_need_devices_the_whole_node_is_kept() -> None:
    assert not verdict(pod(claims=["c"]), nominee(cpu=None, claims=["d"])).ok
    assert verdict(pod(), nominee(cpu=None, claims=["d"])).ok


def test_members_of_one_gang_share_the_room() -> None:
    assert verdict(pod(cpu=3, group="g"), nominee(group="g")).ok
    assert not verdict(pod(cpu=3, group="h"), nominee(group="g")).ok


def test_only_nodes_without_nominees_look_alike() -> None:
    sight = PLUGIN.sees(cycle(pod(), nominee()))
    assert sight(node_info(node("n"))) is None
    assert sight(node_info(node("a"))) == sight(node_info(node("b"))) is not None


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        pytest.param(nominee(), None, True, id="it is gone"),
        pytest.param(nominee(), nominee("m"), True, id="it waits for another node"),
        pytest.param(nominee(), nominee(None), True, id="it waits for none"),
        pytest.param(nominee(), nominee(node="m"), True, id="it is bound"),
        pytest.param(nominee(), nominee(labels={"a": "b"}), False, id="it still waits for the node"),
        pytest.param(pod("q"), None, False, id="a pod goes that waited for no node"),
        pytest.param(None, node(), True, id="a new node"),
        pytest.param(node(), node(cpu=9), True, id="the node has more"),
        pytest.param(node(), node(labels={"a": "b"}), False, id="the node has another label"),
    ],
)
def test_what_helps(old: Pod | Node | None, new: Pod | Node | None, helps: bool) -> None:
    assert PLUGIN.helps(PodInfo(pod()), old, new, cluster()) is helps
