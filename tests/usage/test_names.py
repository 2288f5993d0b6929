"""Names of ResourcePool objects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.allocator.pool import PoolID
from allotment.api.names import dns_subdomain_problem
from allotment.usage.names import pool_object_name


def test_the_seeds_name_where_it_does() -> None:
    assert pool_object_name(PoolID("gpu.example.com", "node-1")) == "gpu.example.com.node-1"


def test_of_two_pools_with_one_name_the_second_gets_a_hash() -> None:
    first, second = PoolID("a.b", "c.d"), PoolID("a.b.c", "d")
    plain = pool_object_name(first)
    assert plain == pool_object_name(second) == "a.b.c.d"
    assert pool_object_name(second, {plain}) == "a.b.c.d-bbf0aa6cba"
    assert pool_object_name(first, {plain}) != pool_object_name(second, {plain})


@pytest.mark.parametrize(
    ("pool", "start"),
    [
        (PoolID("gpu.example.com", "rack-1/node-1"), "gpu.example.com.rack-1-node-1-"),
        (PoolID("GPU.example.com", "node-1"), "gpu.example.com.node-1-"),
        (PoolID("gpu.example.com", "p" * 253), "gpu.example.com.ppp"),
        (
            PoolID("gpu.example.com", "a-.-b"),
            "gpu.example.com.a.b-",
        ),  # no driver may, but names come from outside
        (PoolID("", "/"), ""),
        (PoolID("", "ä"), ""),
    ],
)
def test_what_is_no_name_gets_a_hash(pool: PoolID, start: str) -> None:
    name = pool_object_name(pool)
    assert dns_subdomain_problem(name) is None, name
    assert name.startswith(start)
    assert len(name) <= 253


def test_a_pool_that_is_named_like_anothers_hash_is_not_taken_for_it() -> None:
    pool = PoolID("d", "a/b")
    hashed = pool_object_name(pool)
    assert hashed.startswith("d.")
    imitation = PoolID("d", hashed.removeprefix("d."))
    assert pool_object_name(imitation) == hashed
    second = pool_object_name(pool, {hashed})
    assert second not in (hashed, pool_object_name(imitation, {second}))
    assert dns_subdomain_problem(second) is None


def test_there_is_an_end_to_it() -> None:
    class Everything:
        def __contains__(self, name: object) -> bool:
            return True

    with pytest.raises(ValueError, match="every name for the pool d/p is taken"):
        pool_object_name(PoolID("d", "p"), Everything())


PARTS = st.text(alphabet="aB.-/é", max_size=300)


@given(st.lists(st.tuples(PARTS, PARTS), unique=True, max_size=8))
def test_names_are_valid_and_different(pools: list[tuple[str, str]]) -> None:
    taken: set[str] = set()
    for driver, pool in pools:
        name = pool_object_name(PoolID(driver, pool), taken)
        assert name not in taken
        assert dns_subdomain_problem(name) is None, name
        taken.add(name)
