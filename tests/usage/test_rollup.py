"""Usage of nodes, namespaces and the cluster."""

from __future__ import annotations

from allotment.allocator.pool import PoolID
from allotment.usage.summary import Summary
from allotment.usage.usage import Usage
from tests.allocator.build import DRIVER, device, devices, node, selector, slice_, where
from tests.usage.build import holder, part

CLUSTER = [
    slice_(*devices(2), name="s1", pool="p1", on="n1"),
    slice_(*devices(3), name="s2", pool="p2", on="n2"),
    slice_(
        device("x", on="n1"),
        device("y", on="n2"),
        device("z", everywhere=True),
        name="s3",
        pool="p3",
        per_device=True,
    ),
    slice_(*devices(1), name="s4", pool="p4", on=selector(where("zone", "In", "a"))),
    holder("a", part("d0", pool="p1"), part("x", pool="p3"), namespace="team-a"),
    holder("b", part("d0", pool="p2"), part("gone", pool="p2"), namespace="team-a"),
    holder("c", part("d0", pool="p2", admin=True), namespace="monitoring"),
]


def test_a_device_counts_for_the_one_node_that_reaches_it() -> None:
    nodes = Usage(CLUSTER).nodes()
    assert {name: usage.summary for name, usage in nodes.items()} == {
        "n1": Summary(total=3, allocated=2, available=1),
        "n2": Summary(total=4, allocated=1, available=3),
    }
    assert [pool.id.pool for pool in nodes["n1"].pools] == ["p1", "p3"]


def test_a_node_knows_what_else_it_reaches() -> None:
    usage = Usage([*CLUSTER, node("n1", zone="a"), node("n2", zone="b"), node("n3", zone="b")])
    assert [id.pool for id in usage.node("n1").reaches] == ["p3", "p4"]
    assert [id.pool for id in usage.node("n2").reaches] == ["p3"]
    assert usage.node("n3").summary == Summary()
    assert usage.node("unknown").pools == ()
    usage.change(node("n1"), node("n1", zone="b"))
    assert [id.pool for id in usage.node("n1").reaches] == ["p3"]
    usage.change(node("n1"), None)
    assert usage.node("n1").reaches == ()


def test_a_broken_node_selector_reaches_nobody() -> None:
    broken = slice_(*devices(1), pool="broken", on=selector(where("zone", "Near", "a")))
    assert Usage([broken, node("n1", zone="a")]).node("n1").reaches == ()


def test_namespaces() -> None:
    usage = Usage([*CLUSTER, holder("d", part("d9", pool="nowhere"), namespace="lost")])
    found = usage.namespaces()
    assert list(found) == ["monitoring", "team-a"]
    team = found["team-a"]
    assert (team.claims, team.devices, team.vanished, team.observed) == (2, 3, 1, 0)
    assert dict(team.pools) == {PoolID(DRIVER, pool): 1 for pool in ("p1", "p2", "p3")}
    assert (found["monitoring"].devices, found["monitoring"].observed) == (0, 1)


def test_shares_of_one_device_count_once_for_a_namespace() -> None:
    shares = [holder(name, part("d", share=name)) for name in ("a", "b")]
    (found,) = Usage([slice_(device("d", shared=True)), *shares]).namespaces().values()
    assert (found.claims, found.devices, found.shared) == (2, 1, 1)


def test_the_cluster() -> None:
    incomplete = slice_(*devices(1), name="s5", pool="p5", driver="nic.example.com", of=2)
    cluster = Usage([*CLUSTER, incomplete]).cluster()
    assert (cluster.pools, cluster.incomplete, cluster.invalid, cluster.vanished) == (5, 1, 0, 1)
    assert cluster.summary == Summary(total=10, allocated=3, available=6, unavailable=1)
    assert dict(cluster.drivers) == {
        DRIVER: Summary(total=9, allocated=3, available=6),
        "nic.example.com": Summary(total=1, unavailable=1),
    }
    assert cluster.hidden == 0


def test_an_empty_cluster() -> None:
    assert Usage().cluster().summary == Summary()
