"""Which nodes can go: what is saved, what keeps a node, and that nothing comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct, OwnerReference
from allotment.autoscaler.consolidation import Consolidation, consolidate
from allotment.autoscaler.machine import node_of
from allotment.autoscaler.overlays import Evaluation
from allotment.autoscaler.simulation import Bound, Simulation
from tests.autoscaler.build import evaluated, pool, type_
from tests.autoscaler.builders import picture, simulation
from tests.scheduler.builders import pod

NOW = 1_800_000_000.0
FREE = {"budgets": [{"nodes": "100%"}]}
SMALL, LARGE = {"cpu": "4", "memory": "16Gi", "pods": "110"}, {"cpu": "8", "memory": "32Gi", "pods": "110"}


def offers(**disruption: Any) -> list[Any]:
    """Small and large machines from one pool."""
    return [
        type_("small", {"a": "1"}, capacity=SMALL),
        type_("large", {"a": "3"}, capacity=LARGE),
        pool("p", disruption={**FREE, **disruption}),
    ]


def owned(who: Pod, kind: str = "ReplicaSet") -> Pod:
    owner = OwnerReference(api_version="apps/v1", kind=kind, name="owner", uid="uid-owner", controller=True)
    return replace(who, metadata=replace(who.metadata, owner_references=(owner,)))


@dataclass
class World:
    """Nodes that were launched from a catalogue, with pods on them."""

    found: Evaluation
    there: Simulation

    def consolidate(self, *, quiet: Mapping[str, float] | None = None, **more: Any) -> Consolidation:
        """Checked: what it says can be done, and done again it says nothing."""
        quiet = quiet or {}
        since = {name: NOW - quiet.get(name, 1e6) for name in self.there.objects(Node)}
        before = picture(self.there)
        found = consolidate(self.there, self.found.machines, since, now=NOW, **more)
        assert picture(self.there) == before, "nothing is left behind"
        self.there.validate()
        assert found.saved >= 0
        assert {each.node for each in found.gone} | found.stays.keys() == since.keys()
        assert not {each.node for each in found.gone} & found.stays.keys()
        return found


def world(
    catalogue: Sequence[Any], nodes: Mapping[str, str], *objects: ApiStruct, pods: Mapping[str, Sequence[Pod]]
) -> World:
    """``nodes`` are names with the machine's source/type/zone/capacity type, or a part of that."""
    found = evaluated(*catalogue)
    there = simulation(*objects)
    for name, what in nodes.items():
        [machine] = [each for each in found.machines if what in each.name]
        there.simulate_add_node(*node_of(machine, name))
    for name, those in pods.items():
        for each in those:
            bound = there.simulate_bind_pod(each, name)
            assert isinstance(bound, Bound), bound
    return World(found, there)


def gone(found: Consolidation) -> list[str]:
    return [each.node for each in found.gone]


def types(found: Consolidation) -> list[str]:
    return sorted(each.machine.type for each in found.machines)


def apply(there: Simulation, found: Consolidation) -> None:
    """Does what was said, from scratch."""
    for each in found.machines:
        there.simulate_add_node(*node_of(each.machine, each.name))
    moved = {each.pod: each for each in found.moved}
    for name in gone(found):
        for each in there.pods(name):
            there.simulate_evict_pod(each, name)
        there.simulate_remove_node(name)
    for key in found.dropped:
        there.drop(there.cluster.pods[key].pod)
    left = list(moved.values())
    while left:
        again = [
            each
            for each in left
            if not isinstance(there.simulate_bind_pod(there.cluster.pods[each.pod].pod, each.node), Bound)
        ]
        assert len(again) < len(left), f"the scheduler refuses {again}"
        left = again
    there.validate()


def test_an_empty_node_goes() -> None:
    found = world(
        offers(), {"n1": "small", "n2": "small"}, pods={"n2": [owned(pod("a", cpu=3))]}
    ).consolidate()
    assert gone(found) == ["n1"]
    assert found.gone[0].reason == "Empty"
    assert found.saved == 1


def test_a_large_node_becomes_a_small_one() -> None:
    found = world(offers(), {"n1": "large"}, pods={"n1": [owned(pod("a", cpu=3))]}).consolidate()
    assert (gone(found), types(found), found.saved) == (["n1"], ["small"], 2)
