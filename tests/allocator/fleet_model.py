"""A fleet under random changes, beside a dumb model of it: a fresh allocator, asked node by node.

The model keeps nodes, slices and classes in dicts and remembers nothing else. After every change each of a few demands
is asked of both, and they must agree on everything that can be seen: which node is found first, with which devices,
which nodes fit, and what each node answers. All randomness comes from the generator that is handed in.
"""

import json
import random
from collections.abc import Sequence
from typing import Any

import msgspec

from allotment.allocator.allocate import Allocator
from allotment.allocator.errors import AllocationError
from allotment.allocator.features import Features
from allotment.allocator.fleet import Fleet, named_shares
from allotment.allocator.ledger import Holding, LedgerConflict
from allotment.allocator.outcome import Allocated, InvalidInput, Outcome, Unsatisfiable
from allotment.allocator.pool import DeviceID
from allotment.allocator.strategy import BEST_FIT, FIRST_FIT
from allotment.api.codec import decode
from allotment.api.core import Node
from allotment.api.meta import ObjectMeta
from allotment.api.resource import DeviceClass, ResourceClaim, ResourcePool, ResourceSlice
from tests.problems import random_problem

Demand = tuple[ResourceClaim, ...]
BUDGET = 3_000  # enough for nearly all; running out is compared as well


class Rig:
    """One fleet, its model, and the demands that are asked of both."""

    def __init__(self, rng: random.Random, nodes: int = 4, demands: int = 3) -> None:
        self.rng = rng
        self.nodes: dict[str, Node] = {}
        self.slices: dict[str, ResourceSlice] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.story: list[str] = []  # what happened, for whoever reads a failure
        self._named = 0
        first = random_problem(rng, all_features=rng.random() < 0.8)
        self.features = Features.of(first.get("features"))
        self.fleet = Fleet(features=self.features)
        for each in first["classes"]:
            self.set_class(decode(DeviceClass, each))
        self.demands = [_claims(random_problem(rng)) for _ in range(demands)]
        self._seeds = [rng.randrange(10**6) for _ in range(2)]  # few, so that some nodes are alike
        for number in range(1, nodes + 1):
            self.add_node(number)

    # --- what can happen ---

    def add_node(self, number: int) -> None:
        problem = random_problem(random.Random(self.rng.choice(self._seeds)))
        # Half of the pools are the node's own; the others meet those of other nodes in one pool.
        private = self.rng.random() < 0.5
        text = json.dumps([problem["node"], problem["slices"]])
        text = text.replace('"node-2"', '"node-x"').replace('"node-1"', f'"node-{number}"')
        text = text.replace('"node-x"', f'"node-{number % 4 + 1}"')
        if private:
            text = text.replace("pool-", f"p{number}-")
        else:
            text = text.replace('"dev-', f'"dev-{number}').replace('"set-', f'"set-{number}')
        node, slices = json.loads(text)
        self.set_node(decode(Node, node))
        for each in slices:
            if not private:
                each["metadata"]["name"] += f"-{number}"
            self.set_slice(decode(ResourceSlice, each))
        if not private:
            self._complete_pool()

    def set_node(self, node: Node) -> None:
        self.story.append(f"set node {node.metadata.name} {node.metadata.labels}")
        self.nodes[node.metadata.name] = node
        self.fleet.set_node(node)

    def remove_node(self, name: str) -> None:
        self.story.append(f"remove node {name}")
        del self.nodes[name]
        self.fleet.remove_node(name)

    def set_slice(self, slice: ResourceSlice) -> None:
        self.story.append(f"set slice {slice.metadata.name}")
        self.slices.pop(slice.metadata.name, None)
        self.slices[slice.metadata.name] = slice
        self.fleet.set_slice(slice)

    def remove_slice(self, name: str) -> None:
        self.story.append(f"remove slice {name}")
        del self.slices[name]
        self.fleet.remove_slice(name)

    def set_class(self, found: DeviceClass) -> None:
        self.classes[found.metadata.name] = found
        self.fleet.set_class(found)

    def change(self, depth: int = 0) -> None:
        """One random change."""
        changes = [
            self._commit_found, self._commit_found, self._commit_found, self._commit_somewhere, self._hold,
            self._release, self._release, self._alter_slice, self._alter_slice, self._drop_slice, self._alter_node,
            self._come_or_go, self._complete_pool,
        ]  # fmt: skip
        if depth < 2 and self.rng.random() < 0.15:
            self._fork(depth)
        else:
            self.rng.choice(changes)()

    def _commit_found(self) -> None:
        claims = self._renamed(self.rng.choice(self.demands))
        found = self.fleet.find(claims, strategy=self.rng.choice([FIRST_FIT, BEST_FIT]), budget=BUDGET)
        if isinstance(found, Allocated):
            self._commit(claims, found)

    def _commit_somewhere(self) -> None:
        if not self.nodes:
            return
        claims = self._renamed(self.rng.choice(self.demands))
        outcome = self.fleet.allocate(self.rng.choice(sorted(self.nodes)), claims)
        if isinstance(outcome, Allocated):
            self._commit(claims, outcome)

    def _commit(self, claims: Demand, allocated: Allocated) -> None:
        self.story.append(f"commit {claims[0].metadata.name} on {allocated.node}")
        self.fleet.commit(claims, allocated)

    def _hold(self) -> None:
        """Someone holds devices whatever the allocator thinks of it: drivers change under what is allocated."""
        ids = [
            DeviceID(each.spec.driver, each.spec.pool.name, device.name)
            for each in self.slices.values()
            for device in each.spec.devices
        ]
        self._named += 1
        held = tuple(
            Holding(id, "share", (("memory", self.rng.choice([0, 10**9 * 2**30])),), False)
            if self.rng.random() < 0.4
            else Holding(id, None, (), self.rng.random() < 0.1)
            for id in self.rng.sample(ids, min(len(ids), self.rng.randint(1, 3)))
        )
        before = dict(self.fleet.ledger._claims)
        try:
            self.fleet.ledger.hold(f"held-{self._named}", held)
            self.story.append(f"hold {[str(each.device) for each in held]}")
        except LedgerConflict:
            assert self.fleet.ledger._claims == before

    def _release(self) -> None:
        names = sorted(self.fleet.ledger._claims)
        if names:
            name = self.rng.choice(names)
            self.story.append(f"release {name}")
            self.fleet.ledger.release(name)

    def _alter_slice(self) -> None:
        if not self.slices:
            return
        old = self.slices[self.rng.choice(sorted(self.slices))]
        spec = old.spec
        where = self.rng.choice(["same", "same", "node", "all"])
        if where != "same":
            name = f"node-{self.rng.randint(1, 4)}" if where == "node" else None
            spec = msgspec.structs.replace(
                spec,
                node_name=name,
                all_nodes=None if name else True,
                node_selector=None,
                per_device_node_selection=None,
            )
        devices = list(spec.devices)
        if devices and self.rng.random() < 0.6:
            index = self.rng.randrange(len(devices))
            change = self.rng.choice(["name", "drop", "taints", "attributes"])
            if change == "name":
                devices[index] = msgspec.structs.replace(devices[index], name=f"dev-{self.rng.randint(0, 9)}")
            elif change == "drop":
                del devices[index]
            else:
                other = self.rng.choice(devices)
                devices[index] = msgspec.structs.replace(devices[index], **{change: getattr(other, change)})
        self.set_slice(
            msgspec.structs.replace(old, spec=msgspec.structs.replace(spec, devices=tuple(devices)))
        )

    def _complete_pool(self) -> None:
        """A driver gets its slices in order: all of one pool are of one generation and know their number."""
        pools = sorted({(each.spec.driver, each.spec.pool.name) for each in self.slices.values()})
        if not pools:
            return
        chosen = self.rng.choice(pools)
        slices = [s for s in self.slices.values() if (s.spec.driver, s.spec.pool.name) == chosen]
        pool = ResourcePool(name=chosen[1], generation=5, resource_slice_count=len(slices))
        for each in slices:
            spec = msgspec.structs.replace(each.spec, pool=pool)
            self.set_slice(msgspec.structs.replace(each, spec=spec))

    def _drop_slice(self) -> None:
        if self.slices:
            self.remove_slice(self.rng.choice(sorted(self.slices)))

    def _alter_node(self) -> None:
        if self.nodes:
            name = self.rng.choice(sorted(self.nodes))
            labels = {"zone": self.rng.choice(["z1", "z2"]), "tier": self.rng.choice(["1", "3"])}
            meta = ObjectMeta(name=name, labels=labels)
            self.set_node(msgspec.structs.replace(self.nodes[name], metadata=meta))

    def _come_or_go(self) -> None:
        number = self.rng.randint(1, 5)
        if f"node-{number}" in self.nodes:
            self.remove_node(f"node-{number}")
        else:
            self.add_node(number)

    def _fork(self, depth: int) -> None:
        before = dict(self.fleet.ledger._claims)
        keep = self.rng.random() < 0.4
        self.story.append("fork")
        with self.fleet.ledger.fork() as fork:
            for _ in range(self.rng.randint(1, 3)):
                self.change(depth + 1)
            self.check_one()
            if keep:
                fork.keep()
        self.story.append("keep" if keep else "undo")
        if not keep:
            assert self.fleet.ledger._claims == before

    def _renamed(self, claims: Demand) -> Demand:
        self._named += 1
        return tuple(
            msgspec.structs.replace(
                claim, metadata=ObjectMeta(name=f"c{self._named}-{number}", namespace="ns")
            )
            for number, claim in enumerate(claims)
        )

    # --- whether both agree ---

    def check(self) -> None:
        """Everything, for every demand."""
        for claims in self.demands:
            self.check_demand(claims, FIRST_FIT)
        self.check_demand(self.rng.choice(self.demands), BEST_FIT)
        self.fleet.validate()

    def check_one(self) -> None:
        self.check_demand(self.rng.choice(self.demands), FIRST_FIT)
        self.fleet.validate()

    def check_demand(self, claims: Demand, strategy: str) -> None:
        allocator = Allocator(list(self.slices.values()), self.classes.values(), self.features)
        expected = {
            name: allocator.allocate(
                node,
                claims,
                self.fleet.ledger,
                strategy=strategy,
                budget=BUDGET,
                share_id=named_shares(claims),
            )
            for name, node in sorted(self.nodes.items())
        }
        self._check_find(claims, strategy, expected)
        self._check_survey(claims, strategy, expected)
        for name, outcome in expected.items():
            answer = self.fleet.allocate(name, claims, strategy=strategy)
            assert summary(answer) == summary(outcome), f"node {name}"

    def _check_find(self, claims: Demand, strategy: str, expected: dict[str, Outcome]) -> None:
        found = self.fleet.find(claims, strategy=strategy, budget=BUDGET)
        first = next((outcome for outcome in expected.values() if isinstance(outcome, Allocated)), None)
        if first is None:
            assert not isinstance(found, Allocated), f"found {found.node}, where nothing fits"
        else:
            assert isinstance(found, Allocated), f"found nothing, where {first.node} fits"
            assert summary(found) == summary(first)

    def _check_survey(self, claims: Demand, strategy: str, expected: dict[str, Outcome]) -> None:
        groups = self.fleet.survey(claims, strategy=strategy, budget=BUDGET)
        listed = [name for group in groups for name in group.nodes]
        assert sorted(listed) == sorted(expected)
        fits = {name for group in groups if group.fits for name in group.nodes}
        assert fits == {name for name, outcome in expected.items() if isinstance(outcome, Allocated)}
        wordy = {name for group in groups if group.words for name in group.nodes}
        assert wordy == {
            name for name, each in expected.items() if not isinstance(each, Allocated | Unsatisfiable)
        }


def summary(outcome: Outcome) -> Sequence[Any]:
    """What of an outcome must be equal, however it was come by. Steps are not."""
    if isinstance(outcome, Allocated):
        return ["fits", outcome.node, outcome.results]
    if isinstance(outcome, Unsatisfiable):
        return ["no", outcome.node, str(outcome.reasons())]
    if isinstance(outcome, InvalidInput):
        assert isinstance(outcome.error, AllocationError)
        return ["error", outcome.node, str(outcome.error)]
    return ["gave up", outcome.node]


def _claims(problem: dict[str, Any]) -> Demand:
    return tuple(decode(ResourceClaim, claim) for claim in problem["claims"])


def run(rng: random.Random, changes: int) -> None:
    """A whole life of a fleet. Raises AssertionError, with the story so far, where fleet and model differ."""
    rig = Rig(rng)
    try:
        rig.check()
        for _ in range(changes):
            rig.change()
            rig.check()
    except Exception as exc:
        exc.add_note("\n".join(rig.story))
        raise
