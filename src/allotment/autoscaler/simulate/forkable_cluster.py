"""The scheduler's cluster as objects that come and go, with forks.

The state is the scheduler's own (``scheduler.cluster``), which gets typed objects as if from informers. Every trial ends in
changed objects: a claim with its allocation, a pod with its node. So a fork records a list of such changes, and reverting it
applies the old objects in reverse order. A fork costs as much as its changes, and nothing is ever copied. Verdicts that the
scheduler remembers per shape of pod stay valid, as after any change, for all untouched nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from allotment.allocator.features import ALL, Features
from allotment.allocator.ledger import Fork
from allotment.api import semantic
from allotment.api.codec import decode, to_builtins
from allotment.api.conversion.v1alpha2 import to_v1
from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct, key_of
from allotment.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.autoscaler.errors import NoFork, NoSuchNode
from allotment.scheduler.cluster import Cluster

if TYPE_CHECKING:
    from allotment.scheduler.devices.scoring import Sizes

Slice = ResourceSlice | semantic.NodeResourceSlice
K = TypeVar("K", bound=ApiStruct)

_FIRST: tuple[type[ApiStruct], ...] = (DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice, Node)
"""Kinds in the order in which loading many objects is fastest while there are no queries; all others come after them."""


class ObjectChange(NamedTuple):
    """An object before and after. ``sizes`` are those by which devices were scored: applying the old object does not restore
    them."""

    key: str
    old: ApiStruct | None
    new: ApiStruct | None
    sizes: Sizes


class ForkableCluster:
    """The simulated cluster with its forks. Outside of forks it can follow a live cluster: call ``put`` and ``drop`` for an
    informer's events. In a fork, they are part of the fork."""

    def __init__(self, features: Features = ALL) -> None:
        self.cluster = Cluster(features)
        self._objects: defaultdict[type[Any], dict[str, Any]] = defaultdict(dict)
        # by the node that publishes them, kind and name
        self._slices: dict[str, dict[tuple[str, str], Slice]] = {}
        # by driver and pool: claims that have devices of it
        self._holders: dict[tuple[str, str], dict[str, None]] = {}
        self._changes: list[ObjectChange] = []
        self.shown = 0  # how often any object was applied to the cluster
        self._forks: list[int] = []  # how many changes there were before each fork

    # --- what there is ---

    def objects(self, kind: type[K]) -> Mapping[str, K]:
        """All objects of a kind, by ``name`` or ``namespace/name``. Do not change or keep it: it follows the simulation."""
        return self._objects[kind]

    def all(self) -> Iterator[ApiStruct]:
        """All objects of all kinds: another simulation could start with them."""
        for objects in self._objects.values():
            yield from objects.values()

    def node(self, name: str) -> Node:
        found = self.objects(Node).get(name)
        if found is None:
            raise NoSuchNode(f"there is no node {name} among the {self.cluster.known} of the simulation")
        return found

    def slices(self, node: str) -> tuple[Slice, ...]:
        """The slices that a node publishes, by name."""
        mine = self._slices.get(node, {})
        return tuple([mine[key] for key in sorted(mine)])

    def pods(self, node: str) -> tuple[Pod, ...]:
        """The pods on a node, by name."""
        info = self.cluster.nodes.get(node)
        return tuple([info.pods[key].pod for key in sorted(info.pods)]) if info is not None else ()

    def load(self, objects: Iterable[ApiStruct]) -> None:
        """Adds many objects, given in any order, in a fast order."""
        found: defaultdict[type[ApiStruct], list[ApiStruct]] = defaultdict(list)
        for each in objects:
            found[type(each)].append(each)
        for kind in (*_FIRST, *found):
            for each in found.pop(kind, ()):
                self.put(each)

    def put(self, obj: ApiStruct) -> None:
        """Adds or replaces an object."""
        if isinstance(obj, semantic.ResourceClaim):
            obj = decode(ResourceClaim, to_v1(to_builtins(obj)))
        key = key_of(obj)
        self._change(key, self._objects[type(obj)].get(key), obj)

    def put_all(self, objects: Iterable[ApiStruct]) -> None:
        """Like ``put`` of each, but if one fails, none is changed."""
        self.fork()
        try:
            for each in objects:
                self.put(each)
        except BaseException:
            self.revert()
            raise
        self.commit()

    def drop(self, obj: ApiStruct) -> None:
        """Removes an object, if it exists. Nothing else is removed with it."""
        key = key_of(obj)
        old = self._objects[ResourceClaim if isinstance(obj, semantic.ResourceClaim) else type(obj)].get(key)
        if old is not None:
            self._change(key, old, None)

    def _change(self, key: str, old: ApiStruct | None, new: ApiStruct | None) -> None:
        if self._forks:
            self._changes.append(ObjectChange(key, old, new, self.cluster.sizes.largest))
        self._show(key, old, new)

    def _show(self, key: str, old: Any, new: Any) -> None:
        kind = type(new if new is not None else old)
        self.shown += 1
        if new is None:
            del self._objects[kind][key]
        else:
            self._objects[kind][key] = new
        if kind is ResourceClaim:
            self._file_claim(key, old, new)
        elif kind is ResourceSlice or kind is semantic.NodeResourceSlice:
            self._file_slice(old, new)
        self.cluster.change(old, new)
        if isinstance(new, Pod) and not new.spec.node_name:
            kept = new.status.nominated_node_name or ""
            if self.cluster.nominated.get(key, "") != kept:
                self.cluster.nominate(key, kept)

    def _file_claim(self, key: str, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Keeps ``_holders`` correct."""
        before = old.status.allocation if old is not None else None
        after = new.status.allocation if new is not None else None
        if before is after:
            return
        for result in before.devices.results if before is not None else ():
            pool = (result.driver, result.pool)
            held = self._holders.get(pool, {})
            held.pop(key, None)
            if not held:
                self._holders.pop(pool, None)
        for result in after.devices.results if after is not None else ():
            self._holders.setdefault((result.driver, result.pool), {})[key] = None

    def _file_slice(self, old: Slice | None, new: Slice | None) -> None:
        """Keeps ``_slices`` correct."""
        for each in (old, new):
            home = publisher(each) if each is not None else ""
            if each is None or not home:
                continue
            if each is new:
                self._slices.setdefault(home, {})[each.kind, each.metadata.name] = each
            else:
                mine = self._slices[home]
                del mine[each.kind, each.metadata.name]
                if not mine:
                    del self._slices[home]

    def claims_on(self, slices: Sequence[Slice]) -> list[ResourceClaim]:
        """The claims that have devices of these slices, including by admin access; by name."""
        found: dict[str, ResourceClaim] = {}
        for each in slices:
            pool, names = _devices(each)
            for key in self._holders.get(pool, ()):
                claim = self.objects(ResourceClaim)[key]
                allocation = claim.status.allocation
                assert allocation is not None
                if any(
                    (result.driver, result.pool) == pool and (names is None or result.device in names)
                    for result in allocation.devices.results
                ):
                    found[key] = claim
        return [found[key] for key in sorted(found)]

    # --- forks ---

    @property
    def depth(self) -> int:
        """How many forks are open."""
        return len(self._forks)

    def fork(self) -> None:
        """From here on, ``revert`` returns to this state. Forks nest."""
        self._forks.append(len(self._changes))

    def commit(self) -> None:
        """Closes the innermost fork and keeps its changes. An outer fork can still revert them."""
        self._close()
        if not self._forks:
            self._changes.clear()

    def revert(self) -> None:
        """Closes the innermost fork and reverts all of its changes."""
        start = self._close()
        while len(self._changes) > start:
            self._undo(self._changes.pop())

    def _close(self) -> int:
        if not self._forks:
            raise NoFork("there is no fork to close")
        return self._forks.pop()

    def _undo(self, change: ObjectChange) -> None:
        self._show(change.key, change.new, change.old)
        self.cluster.measure_by(change.sizes)

    @contextmanager
    def trial(self) -> Iterator[Fork]:
        """``with simulation.trial() as trial: …`` is a fork that is reverted at the end, unless ``trial.keep()`` is called."""
        depth, trial = self.depth, Fork()
        self.fork()
        try:
            yield trial
        except BaseException:
            trial.kept = False
            raise
        finally:
            while self.depth > depth + 1:
                self.revert()
            if trial.kept:
                self.commit()
            else:
                self.revert()

    def validate(self) -> None:
        """Re-derives the whole state from the objects. Raises AssertionError on a difference."""
        self.cluster.validate()
        assert not self.cluster.assumed, "pods are decided about and not shown"
        assert not self.cluster.claims.flights, "claims are decided about and not shown"
        assert not self.cluster.storage.assumptions, "volumes are decided about and not shown"
        assert self._forks == sorted(self._forks), "forks"
        assert self._forks or not self._changes, "changes are remembered that nothing can revert"
        fresh = ForkableCluster(self.cluster.fleet.features)
        fresh.load(self.all())
        ours, theirs = self.cluster, fresh.cluster
        assert self._slices == fresh._slices, "slices of nodes"
        assert self._holders == fresh._holders, "claims that have devices of pools"
        assert ours.pods.keys() == theirs.pods.keys(), "pods"
        assert ours.nodes.keys() == theirs.nodes.keys(), "nodes"
        assert ours.nominated == theirs.nominated, "nodes that are kept for pods"
        for name, info in ours.nodes.items():
            other = theirs.nodes[name]
            assert info.node is other.node, f"node {name}"
            assert info.pods.keys() == other.pods.keys(), f"node {name}: pods"
            assert info.extra == other.extra, f"node {name}: what devices take of it"
        ledger = ours.fleet.ledger
        for key in {*ledger.claims(), *theirs.fleet.ledger.claims()}:
            assert ledger.holdings(key) == theirs.fleet.ledger.holdings(key), f"claim {key}"


def publisher(slice: Slice) -> str:
    """The node with which a slice comes and goes, if any: the one whose devices it has, or that owns it."""
    if slice.spec.node_name:
        return slice.spec.node_name
    for owner in slice.metadata.owner_references:
        if owner.kind == "Node":
            return owner.name
    return ""


def _devices(slice: Slice) -> tuple[tuple[str, str], frozenset[str] | None]:
    """Driver and name of the pool of a slice, and the names of its devices; None: it is the whole pool."""
    if isinstance(slice, semantic.NodeResourceSlice):
        return (slice.spec.driver_name, slice.spec.node_name), None
    names = frozenset([device.name for device in slice.spec.devices])
    return (slice.spec.driver, slice.spec.pool.name), names
