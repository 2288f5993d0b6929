"""Tries machines one at a time: what each would take, according to the scheduler, on a node that does not exist.

A machine is added in a fork of the cluster, pods are bound to it, and the fork is reverted. So taints, labels, devices, ports
and everything else count as they will in reality. Several facts reduce the number of trials. Offerings of one type in one
pool differ only in labels, so an answer holds for all of them that agree on the labels that a lot reads. For pods for which
only resources matter, one pod is tried, and the rest is arithmetic. Among lots that differ only in resources, one is tried if
there is room for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.api.codec import encode
from allotment.api.meta import key_of
from allotment.api.resource import ResourceSlice
from allotment.autoscaler.catalogue.machine import Machine, is_local, node_of
from allotment.autoscaler.provision.device_rooms import can_serve, device_rooms, held
from allotment.autoscaler.provision.lots import Bundle, Lot, alone, labels_read
from allotment.autoscaler.provision.plan import devices_of
from allotment.autoscaler.simulate.node_arrival import arrive, daemon_sets
from allotment.autoscaler.simulate.simulation import BoundPod
from allotment.autoscaler.solver.covering_problem import Dimension, Pattern
from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.node import PODS

if TYPE_CHECKING:
    from allotment.allocator.pool import DeviceID
    from allotment.api.resource import ResourceClaim
    from allotment.autoscaler.simulate.simulation import Simulation
    from allotment.scheduler.resource_requests import Amounts

ONE_POD = 10**9
ON_SHOW = "machine-on-show"
ORDER_STEPS = 4_000
"""How many bindings may be tried to find an order for a pattern when the first order fails."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """How many bundles of a lot an empty machine takes; if none, why, unless it is simply too small. ``rank`` says which
    alternatives of the claims they get: less is better."""

    most: int
    rank: tuple[int, ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True)
class _BundleDevices:
    """What a bundle got: which alternatives, and which devices."""

    rank: tuple[int, ...]
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _PlacedBundles:
    """How many bundles were placed, and whether the trial ended there because no more fit."""

    count: int
    ended: bool
    rank: tuple[int, ...] = ()
    words: str = ""

    def answers(self, most: int) -> bool:
        return self.ended or self.count >= most


class MachineTrials:
    """Tries machines for the lots of waiting pods, and remembers the results. After every call, the simulation is as it was."""

    def __init__(
        self,
        simulation: Simulation,
        machines: Sequence[Machine],
        lots: Sequence[Lot],
        *,
        any_alternative: bool = False,
    ) -> None:
        """With ``any_alternative``, bundles of a lot need not get the same alternatives of their claims."""
        self._simulation = simulation
        self._machines = machines
        self._lots = lots
        self._any_alternative = any_alternative
        self._orders: dict[tuple[Hashable, Pattern], tuple[int, ...]] = {}
        self._steps = ORDER_STEPS
        reads = sorted(
            {key for each in daemon_sets(simulation) for key in labels_read(each.spec.template.spec)}
        )
        self._kinds = [machine_kind(machine, reads) for machine in machines]
        self._free: dict[Hashable, Mapping[str, int]] = {}  # by kind: the room of a machine for waiting pods
        self._rooms: dict[Hashable, tuple[Dimension, ...]] = {}
        self._wishes: _Wishes | None = None
        published = simulation.objects(ResourceSlice).values()
        self._for_many = [each for each in published if not each.spec.node_name]
        self._verdicts = self._look()

    def verdict(self, machine: int, lot: int) -> TrialResult:
        return self.taken(machine, self._lots[lot])

    def taken(self, machine: int, lot: Lot) -> TrialResult:
        """The result for a lot, or for the lot from which it was dealt."""
        return self._verdicts[machine][lot.number]

    def why(self, machine: int, lot: int) -> str:
        """Why a machine takes nothing of a lot, of which some bundles may have a place on another by now."""
        words = self.verdict(machine, lot).words
        if words:
            return words
        asked = self._lots[lot]
        pods = self._simulation.cluster.pods
        left = [bundle for bundle in asked.bundles if not pods[key_of(bundle[0])].node]
        with self._on_show(machine):
            return self._try_out(dataclasses.replace(asked, bundles=left), 1).words

    def kind(self, machine: int) -> Hashable:
        """Equal for machines that differ only in place and availability."""
        return self._kinds[machine]

    def rearrange(self, lots: Sequence[Lot]) -> None:
        """Takes in lots that were dealt out; the results of trials stay valid."""
        self._lots = lots
        self._rooms, self._wishes = {}, None

    def _look(self) -> list[list[TrialResult]]:
        known: dict[tuple[Hashable, ...], TrialResult] = {}
        alike: dict[tuple[Hashable, ...], _PlacedBundles] = {}
        table = []
        for machine, kind in enumerate(self._kinds):
            labels = self._machines[machine].labels
            seen = [tuple([labels.get(each) for each in sorted(lot.reads)]) for lot in self._lots]
            keys = [(kind, lot.number, *each) for lot, each in zip(self._lots, seen, strict=True)]
            asked = [number for number, key in enumerate(keys) if key not in known]
            if asked:
                with self._on_show(machine):
                    for each in asked:
                        lot = self._lots[each]
                        known[keys[each]] = self._judge(machine, lot, (kind, lot.outline, *seen[each]), alike)
            table.append([known[key] for key in keys])
        return table

    @contextmanager
    def _on_show(self, machine: int) -> Iterator[None]:
        with self._simulation.trial():
            arrive(self._simulation, self._machines[machine], ON_SHOW)
            there, free = self._simulation.cluster.nodes[ON_SHOW], self._free
            if (kind := self._kinds[machine]) not in free:
                free[kind] = {
                    name: max(0, amount - there.taken.get(name, 0)) for name, amount in there.offered.items()
                }
            yield

    # --- one lot ---

    def _judge(
        self,
        machine: int,
        lot: Lot,
        likeness: tuple[Hashable, ...],
        alike: dict[tuple[Hashable, ...], _PlacedBundles],
    ) -> TrialResult:
        """A machine's result for a lot; derived from that of a lot which differs only in resources, if there is room for
        these."""
        rooms = self._room(machine, lot.requests, len(lot.sample))
        if not rooms:
            return TrialResult(0)  # ``why`` has the words
        most = min(rooms, lot.cap, len(lot.bundles))
        known = alike.get(likeness) if lot.outline is not None else None
        if known is None or not known.answers(most):
            known = self._try_out(lot, most)
            if lot.outline is not None:
                alike[likeness] = known
        return TrialResult(min(most, known.count), known.rank, known.words)

    def _try_out(self, lot: Lot, most: int) -> _PlacedBundles:
        if lot.plain:
            refusal = self._simulation.fits_on(lot.sample[0], ON_SHOW)
            return (
                _PlacedBundles(0, True, (), _words(refusal))
                if isinstance(refusal, NoNode)
                else _PlacedBundles(2**31, True)
            )
        with self._simulation.trial():
            first = self._bind(lot.sample)
            if isinstance(first, NoNode):
                return _PlacedBundles(0, True, (), _words(first))
            count = 1
            while count < most:
                if self._given(lot.bundles[count], first.rank) is None:
                    return _PlacedBundles(count, True, first.rank)
                count += 1
        return _PlacedBundles(count, False, first.rank)

    def _offers(self, machine: int) -> Mapping[str, int]:
        """The resources of a machine, without those that the pods of DaemonSets take."""
        kind = self._kinds[machine]
        if kind not in self._free:
            with self._on_show(machine):
                pass
        return self._free[kind]

    def _room(self, machine: int, requests: Amounts, pods: int) -> int:
        offered, extended = self._offers(machine), self._simulation.cluster.extended
        rooms = [offered.get(name, 0) // n for name, n in requests.items() if n and name not in extended]
        return min([offered.get(PODS, 0) // (ONE_POD * pods), *rooms])

    def _given(self, bundle: Bundle, rank: tuple[int, ...]) -> _BundleDevices | None:
        """What the bundle gets as well; None if it does not fit, or not with these alternatives if they matter."""
        found = self._bind(bundle)
        if isinstance(found, NoNode) or not (self._any_alternative or found.rank == rank):
            return None
        return found

    def _bind(self, bundle: Bundle) -> _BundleDevices | NoNode:
        ranks: list[int] = []
        devices: list[str] = []
        for pod in bundle:
            found = self._simulation.simulate_bind_pod(alone(pod), ON_SHOW)
            if isinstance(found, NoNode):
                return found
            ranks += ranks_of(found)
            devices += devices_of(found)
        return _BundleDevices(tuple(ranks), tuple(devices))

    # --- several lots ---

    def holds(self, machine: int, pattern: Pattern) -> bool:
        """Whether a machine takes this whole pattern in some order, each bundle with the alternatives that it gets alone, if
        they matter. Rooms must have been checked."""
        special = [(lot, count) for lot, count in pattern if not self._lots[lot].plain]
        if not special or (len(special) == 1 and special[0][1] <= self.verdict(machine, special[0][0]).most):
            return True
        with self._on_show(machine):
            order = self._in_order(machine, dict(special), (), set())
        if order is None:
            return False
        self._orders[self.kind(machine), pattern] = order
        return True

    def order(self, machine: int, pattern: Pattern) -> Iterator[int]:
        """The lots of a pattern that holds, one for each bundle, in an order in which the bundles can be bound."""
        left = dict(pattern)
        for lot in self._orders.get((self.kind(machine), pattern), ()):
            left[lot] -= 1
            yield lot
        for lot, count in left.items():
            yield from [lot] * count

    @property
    def unsure(self) -> bool:
        """Whether some pattern was given up before all orders were tried: it might hold after all."""
        return self._steps < 0

    def _in_order(
        self,
        machine: int,
        left: Mapping[int, int],
        taken: tuple[tuple[int, tuple[str, ...]], ...],
        dead: set[object],
    ) -> tuple[int, ...] | None:
        """An order in which the rest can be bound: first lot by lot, then others, because an earlier pod may take what a
        later one needs. ``taken`` is what the others have; ``dead`` collects values of it that lead nowhere."""
        if not left:
            return ()
        state = tuple(sorted(taken))
        if state in dead:
            return None
        for lot, count in left.items():
            rest = {each: n - (each == lot) for each, n in left.items() if n > (each == lot)}
            with self._simulation.trial():
                given = self._given(self._lots[lot].bundles[count - 1], self.verdict(machine, lot).rank)
                order = None
                if given is not None:
                    order = self._in_order(machine, rest, (*taken, (lot, given.devices)), dead)
            if order is not None:
                return (lot, *order)
            self._steps -= 1
            if self._steps < 0:
                return None
        dead.add(state)
        return None

    def rooms(self, machine: int) -> tuple[Dimension, ...]:
        """The additive resources of a machine: its capacity, and its devices."""
        kind = self.kind(machine)
        found = self._rooms.get(kind)
        if found is None:
            found = self._rooms[kind] = (*self._resources(machine), *self._devices(machine))
        return found

    def _resources(self, machine: int) -> Iterator[Dimension]:
        offered, extended = self._offers(machine), self._simulation.cluster.extended
        names = {name for lot in self._lots for name, amount in lot.requests.items() if amount}
        for name in sorted(names - extended.keys()):
            yield Dimension(offered.get(name, 0), tuple(lot.requests.get(name, 0) for lot in self._lots))
        yield Dimension(offered.get(PODS, 0), tuple(ONE_POD * len(lot.sample) for lot in self._lots))

    def _devices(self, machine: int) -> list[Dimension]:
        wishes = self._wished()
        if not any(wishes.claims):
            return []
        node, slices = node_of(self._machines[machine], ON_SHOW)
        slices = [*slices, *self._for_many]
        rooms = device_rooms(node, slices, wishes.claims, self._simulation.cluster, self._taken(machine))
        return [Dimension(room.size, tuple([room.needs[each] for each in wishes.by_lot])) for room in rooms]

    def _taken(self, machine: int) -> Collection[DeviceID]:
        """Devices of a new machine that the pods of DaemonSets take."""
        if not daemon_sets(self._simulation):
            return ()
        with self._on_show(machine):
            return {each for each in held(self._simulation) if each.pool.partition("/")[0] == ON_SHOW}

    def _wished(self) -> _Wishes:
        if self._wishes is None:
            self._wishes = _Wishes.of([self.claims(number) for number in range(len(self._lots))])
        return self._wishes

    def claims(self, lot: int) -> list[ResourceClaim]:
        """The claims of one bundle of a lot that need devices."""
        return claims_of(self._lots[lot].sample, self._simulation)

    @property
    def shares(self) -> bool:
        """Whether some pod may get a device of another machine than its own: then a machine cannot be judged alone."""
        wishes = self._wished()
        extended = self._simulation.cluster.extended
        for machine in {kind: number for number, kind in enumerate(self._kinds)}.values():
            slices = [
                each for each in node_of(self._machines[machine], ON_SHOW)[1] if not each.spec.node_name
            ]
            if not slices:
                continue
            if any(name in extended for lot in self._lots for name in lot.requests):
                return True
            if can_serve(slices, wishes.claims, self._simulation.cluster):
                return True
        return False


@dataclass(frozen=True, slots=True)
class _Wishes:
    """The claims of all lots; equal ones only once."""

    claims: Sequence[Sequence[ResourceClaim]]
    by_lot: Sequence[int]  # which of them each lot has

    @classmethod
    def of(cls, claims: Sequence[Sequence[ResourceClaim]]) -> _Wishes:
        found: dict[tuple[bytes, ...], Sequence[ResourceClaim]] = {}
        keys = [tuple([encode(claim.spec) for claim in each]) for each in claims]
        for key, each in zip(keys, claims, strict=True):
            found.setdefault(key, each)
        places = {key: place for place, key in enumerate(found)}
        return cls(list(found.values()), [places[key] for key in keys])


def machine_kind(machine: Machine, reads: Sequence[str]) -> Hashable:
    """What distinguishes offerings of one type: capacity and devices, which overlays may change; and labels, if DaemonSets
    depend on them."""
    local = all(
        is_local(template.spec)
        for devices in machine.devices.values()
        for template in devices.resources.resource_slice_templates
    )
    return (
        *(machine.source, machine.type),
        *(machine.labels.get(key) for key in reads),
        *(() if local else (machine.offering.zone,)),
        frozenset(machine.allocatable.items()),
        frozenset((driver, devices.origin) for driver, devices in machine.devices.items()),
    )


def ranks_of(found: BoundPod) -> list[int]:
    """The number of the alternative that each request with several got."""
    ranks = []
    for claim in found.claims:
        orders: dict[str, Mapping[str, int]] = {
            request.name: {each.name: number for number, each in enumerate(request.first_available)}
            for request in claim.spec.devices.requests
            if request.first_available
        }
        results = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
        taken = {result.request for result in results}
        for name, order in orders.items():
            ranks += [number for sub, number in order.items() if f"{name}/{sub}" in taken]
    return ranks


def claims_of(bundle: Bundle, simulation: Simulation) -> list[ResourceClaim]:
    """The claims of a bundle that must be allocated."""
    cluster = simulation.cluster
    keys = dict.fromkeys(key for pod in bundle for key in cluster.used_by(cluster.pods[key_of(pod)]))
    found = [cluster.claims.objects[key] for key in keys if key in cluster.claims.objects]
    return [claim for claim in found if claim.status.allocation is None]


def _words(refusal: NoNode) -> str:
    return refusal.words.removeprefix(f"node {ON_SHOW} ")
