"""Random trees of instances, in use and shrinking, and a dumb allocator that tries everything on them."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from allotment.api.semantic import ResourceInstance, ResourceInstanceGroup
from tests.allocator.trees import group, leaf, split

Situation = tuple[list[ResourceInstance], list[ResourceInstance], list[str]]
"""A forest as it was, what is left of it, and ids of it that are in use without conflict."""


def in_conflict(one: str, other: str) -> bool:
    """Two ids cannot be in use together if they part at a group, or if one is (in) the other."""
    left, right = one.split("/"), other.split("/")
    for depth, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return depth % 2 == 1
    return True


def walk(found: ResourceInstance, path: str = "", amount: int = 0) -> list[tuple[str, int]]:
    """The leaves under an instance: id and memory."""
    path += found.name
    for given_value in found.attributes:
        assert given_value.quantity_value is not None
        amount = given_value.quantity_value.value()
    if not found.partitions:
        return [(path, amount)]
    return [
        pair
        for way in found.partitions
        for part in way.resource_instances
        for pair in walk(part, f"{path}/{way.name}/", amount)
    ]


def dumb(leaves: list[tuple[str, int]], wishes: list[int], used: list[str]) -> list[str] | None:
    """The first choice in order that works, by trying everything."""
    if not wishes:
        return []
    for id, amount in leaves:
        if amount >= wishes[0] and not any(in_conflict(id, other) for other in used):
            rest = dumb(leaves, wishes[1:], [*used, id])
            if rest is not None:
                return [id, *rest]
    return None


SIZES = st.sampled_from([None, "1", "2", "3"])


@cache  # to make a strategy costs more than to draw from it
def instances(name: str, depth: int) -> st.SearchStrategy[ResourceInstance]:
    whole = st.builds(leaf, st.just(name), SIZES)
    if depth == 0:
        return whole
    parts = st.integers(1, 3).flatmap(
        lambda count: st.tuples(*(instances(f"i{number}", depth - 1) for number in range(count)))
    )
    ways = st.lists(parts, min_size=1, max_size=2)
    return whole | st.builds(
        lambda found, amount: split(
            name, *(group(f"g{number}", *each) for number, each in enumerate(found)), amount=amount
        ),
        ways,
        SIZES,
    )


forests = st.integers(1, 3).flatmap(
    lambda count: st.tuples(*(instances(f"c{number}", 2) for number in range(count)))
)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """A forest as it was, what is left of it, and ids of it that are in use without conflict."""
    before = list(draw(forests))
    leaves = [id for tree in before for id, _ in walk(tree)]
    used: list[str] = []
    for id in draw(st.lists(st.sampled_from(leaves), max_size=3)):
        if not any(in_conflict(id, other) for other in used):
            used.append(id)
    return before, [shrunk for tree in before for shrunk in draw(shrinking(tree))], used


@st.composite
def shrinking(draw: st.DrawFn, tree: ResourceInstance) -> list[ResourceInstance]:
    """The tree without some of its branches, or made whole: one instance, or none."""
    change = draw(st.sampled_from(["keep", "keep", "keep", "keep", "drop", "join"]))
    if change == "drop":
        return []
    if change == "join" or not tree.partitions:
        return [ResourceInstance(name=tree.name, attributes=tree.attributes)]
    ways = []
    for way in tree.partitions:
        if draw(st.sampled_from([True, True, True, False])):
            parts = [kept for part in way.resource_instances for kept in draw(shrinking(part))]
            ways.append(ResourceInstanceGroup(name=way.name, resource_instances=tuple(parts)))
    return [ResourceInstance(name=tree.name, attributes=tree.attributes, partitions=tuple(ways))]
