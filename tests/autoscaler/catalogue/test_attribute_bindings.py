"""Bindings are an equivalence relation: random ones against a closure that is worked out step by step."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allotment.api.autoscaling import DynamicResources
from allotment.api.codec import decode
from allotment.autoscaler.catalogue.attribute_bindings import BoundAttribute, classes
from tests.autoscaler.build import GPU, NIC, ROOT, binding, device, devices, template

NUMA = "example.com/numa"
DEVICES = [("gpus", f"gpu-{number}") for number in range(3)] + [
    ("nics", f"nic-{number}") for number in range(3)
]


def resources(keys: dict[tuple[str, str, str], str], bindings: list[Any]) -> DynamicResources:
    def made(place: str, name: str) -> Any:
        own = {each[2]: {"bindingKey": key} for each, key in keys.items() if each[:2] == (place, name)}
        return device(name, attributes=own)

    return decode(
        DynamicResources,
        devices(
            *(
                template(place, driver, *(made(*each) for each in DEVICES if each[0] == place))
                for place, driver in (("gpus", GPU), ("nics", NIC))
            ),
            bindings=bindings,
        ),
    )


def closure(keys: dict[tuple[str, str, str], str], bindings: list[Any]) -> set[frozenset[BoundAttribute]]:
    """Joins any two sets that overlap until none do."""
    position = {"gpus": 0, "nics": 1}
    sets: list[set[Any]] = [
        {key, BoundAttribute(position[place], name, attr)} for (place, name, attr), key in keys.items()
    ]
    sets += [
        {
            BoundAttribute(position[one["resourceSliceTemplate"]], one["device"], attribute)
            for one in each["deviceSelectors"]
        }
        for each in bindings
        for attribute in each["attributes"]
    ]
    while overlap := next(((a, b) for a, b in combinations(sets, 2) if a & b), None):
        sets = [each for each in sets if each is not overlap[0] and each is not overlap[1]]
        sets.append(overlap[0] | overlap[1])
    return {frozenset(member for member in each if isinstance(member, BoundAttribute)) for each in sets}


def partition(resources: DynamicResources) -> set[frozenset[BoundAttribute]]:
    found: dict[int, set[BoundAttribute]] = {}
    for member, number in classes(resources).items():
        found.setdefault(number, set()).add(member)
    return {frozenset(each) for each in found.values()}


PLACES = st.tuples(st.sampled_from(DEVICES), st.sampled_from([ROOT, NUMA])).map(
    lambda pair: (*pair[0], pair[1])
)
KEYS = st.dictionaries(PLACES, st.sampled_from(["k", "l", "m"]), max_size=6)
BINDINGS = st.lists(
    st.builds(
        lambda chosen, attributes: binding(*chosen, attributes=attributes),
        st.lists(st.sampled_from(DEVICES), min_size=2, max_size=3, unique=True),
        st.lists(st.sampled_from([ROOT, NUMA]), min_size=1, max_size=2, unique=True),
    ),
    max_size=5,
)


@given(KEYS, BINDINGS)
def test_classes_are_the_closure(keys: dict[tuple[str, str, str], str], bindings: list[Any]) -> None:
    assert partition(resources(keys, bindings)) == closure(keys, bindings)


@given(KEYS, BINDINGS, st.randoms(use_true_random=False))
def test_the_order_of_bindings_does_not_matter(
    keys: dict[tuple[str, str, str], str], bindings: list[Any], order: random.Random
) -> None:
    shuffled = [{**each, "deviceSelectors": each["deviceSelectors"][::-1]} for each in bindings]
    order.shuffle(shuffled)
    assert classes(resources(keys, bindings)) == classes(resources(keys, shuffled))


def test_a_name_without_a_domain_is_the_drivers() -> None:
    bare, full = (
        resources({("gpus", "gpu-0", "root"): "k"}, []),
        resources({("gpus", "gpu-0", f"{GPU}/root"): "k"}, []),
    )
    assert classes(bare) == classes(full) == {BoundAttribute(0, "gpu-0", f"{GPU}/root"): 0}


def test_attributes_of_one_binding_are_not_equal_to_each_other() -> None:
    both = resources({}, [binding(("gpus", "gpu-0"), ("nics", "nic-0"), attributes=[ROOT, NUMA])])
    assert len(partition(both)) == 2
