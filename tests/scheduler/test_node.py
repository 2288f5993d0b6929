import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.scheduler.node import NodeInfo
from allotment.scheduler.pod import HostPort, PodInfo
from tests.builders.typed import host_port, node, node_info, pod

UNIT = 10**9


def test_a_node_that_is_not_described_offers_nothing_and_has_no_labels() -> None:
    info = NodeInfo("a")
    assert (info.node, info.offered, info.labels) == (None, {}, {})


def test_a_node_offers_what_is_allocatable() -> None:
    info = node_info(node("a", cpu=4, memory=2, pods=3, labels={"disk": "ssd"}))
    assert info.offered == {"cpu": 4 * UNIT, "memory": 2 * UNIT, "pods": 3 * UNIT}
    assert info.labels["disk"] == "ssd"
    info.describe(None)
    assert (info.offered, info.labels) == ({}, {})


def test_pods_take_what_they_request_and_one_of_the_pods_each() -> None:
    info = node_info(node(), pod("1", cpu=1), pod("2", cpu=2, more={"example.com/gpu": 1}))
    assert info.taken == {"cpu": 3 * UNIT, "pods": 2 * UNIT, "example.com/gpu": UNIT}


def test_what_devices_cost_comes_and_goes_with_their_pod() -> None:
    info = NodeInfo("a")
    info.add(PodInfo(pod("1", cpu=1)), {"cpu": 2 * UNIT})
    assert info.taken["cpu"] == 3 * UNIT
    info.remove("default/1")
    assert not any(info.taken.values())
    assert not info.extra


def test_host_ports_are_counted_by_address_protocol_and_number() -> None:
    info = node_info(
        node(), pod("1", ports=[80]), pod("2", ports=[80]), pod("3", ports=[host_port(80, "::1", "UDP")])
    )
    assert info.ports == {HostPort("0.0.0.0", "TCP", 80): 2, HostPort("::1", "UDP", 80): 1}
    info.remove("default/1")
    info.remove("default/3")
    assert info.ports == {HostPort("0.0.0.0", "TCP", 80): 1}


def test_validate_finds_sums_that_are_wrong() -> None:
    info = node_info(node(), pod("1", cpu=1))
    info.validate()
    info.taken["cpu"] += 1
    with pytest.raises(AssertionError, match="sums"):
        info.validate()


PODS = st.builds(
    pod,
    st.sampled_from("abcd"),
    cpu=st.integers(0, 3),
    ports=st.lists(st.sampled_from([80, 81]), max_size=2),
)


@given(st.lists(st.tuples(PODS, st.dictionaries(st.just("cpu"), st.integers(1, 9), max_size=1)), max_size=12))
def test_sums_are_those_of_the_pods_whatever_came_and_went(
    history: list[tuple[object, dict[str, int]]],
) -> None:
    info = NodeInfo("n")
    for shown, extra in history:
        each = PodInfo(shown)  # type: ignore[arg-type]  # of the strategy above
        if each.key in info.pods:
            info.remove(each.key)
        else:
            info.add(each, extra)
        info.validate()
    for key in list(info.pods):
        info.remove(key)
    assert not any(info.taken.values())
    assert not info.ports
