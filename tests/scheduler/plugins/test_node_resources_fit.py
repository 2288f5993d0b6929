import pytest
from msgspec.structs import replace

from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct, ObjectMeta
from allotment.api.resource import DeviceClass, DeviceClassSpec
from allotment.scheduler.framework import StatusCode
from allotment.scheduler.plugins.node_resources_fit import NodeResourcesFit
from allotment.scheduler.pod import PodInfo
from tests.builders.typed import amounts, cluster, container, cycle, node, node_info, pod

PLUGIN = NodeResourcesFit()
GPU = "example.com/gpu"


def extended_class(name: str, resource: str | None = None) -> DeviceClass:
    return DeviceClass(metadata=ObjectMeta(name=name), spec=DeviceClassSpec(extended_resource_name=resource))


@pytest.mark.parametrize(
    ("wanted", "on", "there", "code", "words"),
    [
        pytest.param(pod(cpu=8), node(), [], StatusCode.SUCCESS, "", id="exactly what is there"),
        pytest.param(
            pod(cpu=9),
            node(),
            [],
            StatusCode.UNRESOLVABLE,
            "have less cpu than 9 in all",
            id="more than there is",
        ),
        pytest.param(
            pod(cpu="4500m"),
            node(),
            [pod("q", cpu=4)],
            StatusCode.UNSCHEDULABLE,
            "have too little cpu left, need 4500m",
            id="more than is left",
        ),
        pytest.param(
            pod(memory="64Gi"),
            node(),
            [],
            StatusCode.UNRESOLVABLE,
            "have less memory than 64Gi in all",
            id="memory is told in binary units",
        ),
        pytest.param(
            pod(),
            node(cpu=1),
            [pod("q", cpu=2)],
            StatusCode.SUCCESS,
            "",
            id="an overfull node, nothing asked",
        ),
        pytest.param(
            pod(cpu=0), node(cpu=1), [pod("q", cpu=2)], StatusCode.SUCCESS, "", id="zero never rejects"
        ),
        pytest.param(pod(more={GPU: 0}), node(), [], StatusCode.SUCCESS, "", id="zero of what is not there"),
        pytest.param(
            pod(more={GPU: 1}),
            node(),
            [],
            StatusCode.UNRESOLVABLE,
            f"have less {GPU} than 1 in all",
            id="not offered",
        ),
        pytest.param(
            pod(more={GPU: 2}), node(more={GPU: 2}), [], StatusCode.SUCCESS, "", id="an extended resource"
        ),
        pytest.param(
            pod(),
            node(pods=1),
            [pod("q")],
            StatusCode.UNSCHEDULABLE,
            "run as many pods as they may",
            id="too many pods",
        ),
        pytest.param(
            pod(), node(pods=None), [], StatusCode.UNRESOLVABLE, "may not run any pods", id="no pods at all"
        ),
        pytest.param(
            pod(cpu=5, memory="64Gi"),
            node(),
            [pod("q", cpu=4)],
            StatusCode.UNRESOLVABLE,
            "have less memory than 64Gi in all",
            id="too small is said before too full",
        ),
        pytest.param(
            pod(init=[container(cpu=9)], cpu=1),
            node(),
            [],
            StatusCode.UNRESOLVABLE,
            "have less cpu than 9 in all",
            id="init containers count",
        ),
    ],
)
def test_filter(wanted: Pod, on: Node, there: list[Pod], code: StatusCode, words: str) -> None:
    attempt = cycle(wanted)
    assert PLUGIN.pre_filter(attempt).ok
    status = PLUGIN.filter(attempt, node_info(on, *there))
    assert (status.code, status.words) == (code, words)


def test_refusals_of_many_nodes_are_one_status() -> None:
    attempt = cycle(pod(cpu=4))
    PLUGIN.pre_filter(attempt)
    first, second = (PLUGIN.filter(attempt, node_info(node(), pod("q", cpu=taken))) for taken in (5, 6))
    assert first is second


def test_what_devices_cost_of_a_node_counts() -> None:
    info = node_info(node())
    info.add(PodInfo(pod("q", cpu=1)), {"cpu": 4 * 10**9})
    attempt = cycle(pod(cpu=4))
    PLUGIN.pre_filter(attempt)
    assert not PLUGIN.filter(attempt, info).ok
    info.remove("default/q")
    assert PLUGIN.filter(attempt, info).ok


@pytest.mark.parametrize(
    ("resource", "offered", "fits"),
    [
        pytest.param(GPU, {}, True, id="served by a class"),
        pytest.param(GPU, {GPU: 0}, True, id="offered as zero by the node"),
        pytest.param(GPU, {GPU: 1}, False, id="the node offers it itself, but too little"),
        pytest.param(GPU, {GPU: 2}, True, id="the node offers it itself"),
        pytest.param("deviceclass.resource.kubernetes.io/gpus", {}, True, id="a class by its own name"),
        pytest.param("other.com/gpu", {}, False, id="no class serves it"),
    ],
)
def test_extended_resources_of_device_classes_are_left_to_them(
    resource: str, offered: dict[str, int], fits: bool
) -> None:
    attempt = cycle(pod(more={resource: 2}), extended_class("gpus", GPU))
    PLUGIN.pre_filter(attempt)
    assert PLUGIN.filter(attempt, node_info(node(more=offered))).ok is fits


def test_a_class_may_come_after_the_shape_was_prepared() -> None:
    attempt = cycle(pod(more={GPU: 1}))
    PLUGIN.pre_filter(attempt)
    assert not PLUGIN.filter(attempt, node_info(node())).ok
    attempt.cluster.change(None, extended_class("gpus", GPU))
    assert PLUGIN.filter(attempt, node_info(node())).ok


def scaled(of: Pod, cpu: str) -> Pod:
    only = of.spec.containers[0]
    resources = replace(only.resources, requests=amounts({"cpu": cpu}))
    return replace(of, spec=replace(of.spec, containers=(replace(only, resources=resources),)))


WAITING = pod(cpu=6, more={GPU: 1})
ROOM = {"more": {GPU: 1}}
BOUND = pod("q", node="n", cpu=4)


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        pytest.param(None, node(more={GPU: 1}), True, id="a new node that is large enough"),
        pytest.param(None, node(cpu=4, more={GPU: 1}), False, id="a new node that is too small"),
        pytest.param(node(cpu=6, more={GPU: 1}), node(cpu=8, more={GPU: 1}), True, id="a node grows"),
        pytest.param(
            node(cpu=2, more={GPU: 1}), node(cpu=4, more={GPU: 1}), False, id="a node grows too little"
        ),
        pytest.param(
            node(more={GPU: 1}),
            node(memory="64Gi", more={GPU: 1}),
            False,
            id="it grows in something not asked for",
        ),
        pytest.param(
            node(pods=10, more={GPU: 1}), node(pods=20, more={GPU: 1}), True, id="it may run more pods"
        ),
        pytest.param(node(cpu=8, more={GPU: 1}), node(cpu=7, more={GPU: 1}), False, id="it shrinks"),
        pytest.param(BOUND, None, True, id="a pod leaves"),
        pytest.param(BOUND, scaled(BOUND, "1"), True, id="a pod is scaled down"),
        pytest.param(BOUND, scaled(BOUND, "5"), False, id="a pod is scaled up"),
        pytest.param(WAITING, scaled(WAITING, "1"), True, id="the pod itself is scaled"),
        pytest.param(None, extended_class("gpus", GPU), True, id="a class serves the resource"),
        pytest.param(None, extended_class("gpus", "other.com/gpu"), False, id="a class serves another one"),
        pytest.param(
            extended_class("gpus"), extended_class("gpus", GPU), True, id="a class starts serving it"
        ),
        pytest.param(
            extended_class("gpus", GPU), extended_class("gpus", GPU), False, id="a class served it before"
        ),
    ],
)
def test_what_helps(old: ApiStruct | None, new: ApiStruct | None, helps: bool) -> None:
    assert PLUGIN.helps(PodInfo(WAITING), old, new, cluster()) is helps
    assert PLUGIN.helps_anyone(old, new) or not helps


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(node(), node(labels={"a": "b"}), id="a node offers the same"),
        pytest.param(node(), node(cpu=4), id="a node offers less"),
        pytest.param(pod("q"), None, id="a pod that was on no node leaves"),
        pytest.param(BOUND, pod("q", node="n", cpu=4, phase="Running"), id="a pod asks for the same"),
    ],
)
def test_what_helps_nobody(old: ApiStruct, new: ApiStruct | None) -> None:
    assert not PLUGIN.helps_anyone(old, new)


def test_a_resource_that_a_class_serves_does_not_make_a_node_too_small() -> None:
    served = cluster(extended_class("gpus", GPU))
    assert PLUGIN.helps(PodInfo(WAITING), None, node(), served)
    assert not PLUGIN.helps(PodInfo(WAITING), None, node(), cluster())
