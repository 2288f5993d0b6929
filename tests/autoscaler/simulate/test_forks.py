"""Fork, commit and revert: what stands, what is taken back, in any depth, and what is remembered of it."""

from __future__ import annotations

import pytest

from allotment.api.core import Pod
from allotment.autoscaler.errors import NoFork, PodBound
from allotment.autoscaler.simulate.simulation import Simulation
from allotment.scheduler.diagnosis import NoNode
from tests.allocator import build
from tests.autoscaler.builders import bind, devices_of, machines, picture, simulation
from tests.builders.typed import claim, node, pod, slice_


def there() -> Simulation:
    return simulation(*machines("n1"), claim("c"), claim("d"))


def one(where: Simulation) -> None:
    bind(where, pod("p", claims=["c"]), "n1")


def two(where: Simulation) -> None:
    where.simulate_add_node(node("n2"), [slice_("n2", "d0")])
    bind(where, pod("q", claims=["d"]), "n2")


def test_a_fork_that_is_reverted_leaves_nothing() -> None:
    where = there()
    before = picture(where)
    where.fork()
    one(where)
    two(where)
    where.revert()
    assert picture(where) == before
    assert where.depth == 0
    where.validate()


def test_a_fork_that_is_committed_is_as_if_there_had_been_none() -> None:
    forked, plain = there(), there()
    forked.fork()
    one(forked)
    forked.commit()
    one(plain)
    assert picture(forked) == picture(plain)
    forked.validate()


def test_what_an_inner_fork_commits_an_outer_one_can_revert() -> None:
    where = there()
    before = picture(where)
    where.fork()
    one(where)
    where.fork()
    two(where)
    where.commit()
    assert where.depth == 1
    assert "default/q" in where.objects(Pod)
    where.revert()
    assert picture(where) == before
    where.validate()


def test_an_inner_fork_that_is_reverted_leaves_the_outer_one_as_it_was() -> None:
    where = there()
    where.fork()
    one(where)
    between = picture(where)
    where.fork()
    two(where)
    where.revert()
    assert picture(where) == between
    where.commit()
    assert picture(where) == between
    where.validate()


def test_without_a_fork_there_is_nothing_to_close() -> None:
    where = there()
    with pytest.raises(NoFork):
        where.commit()
    with pytest.raises(NoFork):
        where.revert()
    where.fork()
    where.revert()
    with pytest.raises(NoFork):
        where.revert()


def test_a_trial_is_reverted_unless_it_is_kept() -> None:
    where = there()
    before = picture(where)
    with where.trial():
        one(where)
    assert picture(where) == before
    with where.trial() as trial:
        one(where)
        trial.keep()
    assert devices_of(where, "default/c") == ["n1/d0"]
    assert where.depth == 0
    where.validate()


def test_a_trial_is_reverted_by_an_error_with_all_that_was_forked_in_it() -> None:
    where = there()
    one(where)
    before = picture(where)
    with pytest.raises(PodBound), where.trial() as trial:  # noqa: PT012  # what comes before the error is the point
        two(where)
        trial.keep()
        where.fork()
        where.simulate_add_node(node("n3"))
        one(where)
    assert picture(where) == before
    assert where.depth == 0
    where.validate()


def test_every_kind_of_object_can_be_put_back() -> None:
    """A resized pool, a class, a taint rule, a namespace: whatever a scenario changes."""
    where = simulation(*machines("n1", devices=["d0"]), claim("c"))
    who = pod("p", claims=["c"])
    with where.trial():
        where.drop(build.class_())
        assert isinstance(where.fits(who), NoNode)
        where.validate()
    assert where.fits(who) == "n1"
    with where.trial():
        where.put(slice_("n1"))
        assert isinstance(where.fits(who), NoNode)
        where.put(slice_("n1", "d7"))
        assert where.fits(who) == "n1"
        where.validate()
    bind(where, who, "n1")
    assert devices_of(where, "default/c") == ["n1/d0"]


def test_a_larger_device_that_never_came_is_no_measure() -> None:
    """Devices are scored by how large they are beside the largest. After a revert that is what it was."""
    small, large = (
        build.device("small", capacity={"memory": "40Gi"}),
        build.device("a", capacity={"memory": "80Gi"}),
    )
    where = simulation(*machines("n1", devices=[small]), claim("c"))
    known = where.cluster.sizes.largest
    assert where.fits(pod("p", claims=["c"])) == "n1"
    with where.trial():
        where.simulate_add_node(node("n2"), [slice_("n2", large)])
        assert where.fits(pod("p", claims=["c"])) == "n1"  # the smaller one goes first
        assert where.cluster.sizes.largest is not known
        where.validate()
    assert where.cluster.sizes.largest is known
    where.validate()


@pytest.mark.parametrize("nodes", [2, 50])
def test_a_fork_costs_what_changed_in_it_however_large_the_cluster_is(nodes: int) -> None:
    """Nodes that have to be asked again afterwards are those that were touched."""
    where = simulation(*machines(*[f"m{number}" for number in range(nodes)]), claim("c"))
    who = pod("p", claims=["c"])
    assert where.fits(who) == "m0"
    log, fleet = where.cluster.log.end, len(where.cluster.fleet.log)
    with where.trial():
        where.simulate_add_node(node("n2"), [slice_("n2", "d0")])
        bind(where, who, "m1")
    assert set(where.cluster.log.since(log) or ()) == {"n2", "m1"}
    assert set(where.cluster.fleet.log[fleet:]) == {"n2", "m1"}
    assert where.fits(who) == "m0"


def test_without_a_fork_nothing_is_remembered() -> None:
    where = there()
    one(where)
    two(where)
    where.validate()  # which checks it
