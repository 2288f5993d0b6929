"""What each verb of a scenario does to a simulated cluster.

A verb does its part and no more: it takes away, adds, evicts. Who waits afterwards is placed by ``rehearsal``. What cannot be
done is a :class:`Refused`, raised before or after changes were made: the caller has a fork to revert.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from allotment.allocator.taint import tolerates
from allotment.api.core import Node, Pod, PodStatus
from allotment.api.meta import ApiStruct, ObjectMeta
from allotment.api.resource import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    DeviceToleration,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from allotment.autoscaler.drain import Held, drain, forget, goes_along
from allotment.autoscaler.errors import NodeInUse, SimulationError
from allotment.autoscaler.forkable_cluster import Slice, key_of, publisher
from allotment.autoscaler.machine import Machine, node_of
from allotment.autoscaler.node_copy import copied
from allotment.autoscaler.pool_size import current, grown, is_partitioned, shrunk
from allotment.autoscaler.scenario import DELETABLE, Step
from allotment.autoscaler.workload import Identity, Workload, like, owners_of
from allotment.autoscaler.written import left
from allotment.scheduler.configuration import DEFAULT_SCHEDULER

if TYPE_CHECKING:
    from allotment.api.scenario import (
        AddNodes,
        Delete,
        OneNode,
        RemoveNode,
        ResizePool,
        Scale,
        Submit,
        TaintDevice,
    )
    from allotment.autoscaler.simulation import Simulation

KEY = "allotment.dev/what-if"
"""Of a taint that is given no key."""
_NAMED = 5


class Refused(Exception):
    """A step cannot be done. ``holders`` are pods and claims that stand in its way, each with why."""

    def __init__(self, words: str, holders: Mapping[str, str] | None = None) -> None:
        super().__init__(words)
        self.holders = holders or {}


class Stage:
    """A simulation to try things on, the machines that can be had, and the workloads that pods were made of."""

    def __init__(self, simulation: Simulation, machines: Sequence[Machine] = ()) -> None:
        self.simulation = simulation
        self._machines = machines
        self._workloads: dict[Identity, Workload] = {}

    def play(self, step: Step) -> list[str]:
        """Does what a step says; returns what else is to be told of it. Raises Refused: whatever was changed is to be reverted."""
        verbs: dict[str, Any] = {
            "addNodes": self._add_nodes,
            "removeNode": self._remove_node,
            "drainNode": self._drain_node,
            "submit": self._submit,
            "delete": self._delete,
            "scale": self._scale,
            "taintDevice": self._taint_device,
            "resizePool": self._resize_pool,
        }
        if not step.verb:
            return []
        try:
            notes: list[str] = verbs[step.verb](step.wish, step)
        except SimulationError as exc:
            raise Refused(str(exc)) from exc
        return notes

    # --- nodes ---

    def _add_nodes(self, wish: AddNodes, step: Step) -> list[str]:
        if step.objects:
            return self._add_given(step.objects)
        names = self._new_names(wish.name or "new", wish.count or 1)
        if wish.like:
            node, slices = self.simulation.node(wish.like), self.simulation.slices(wish.like)
            for name in names:
                self.simulation.simulate_add_node(*copied(node, slices, name))
            shared = sum(each.spec.node_name != wish.like for each in slices)
            told = [f"{_count(shared, 'slice')} of {wish.like} that other nodes reach too not copied"]
            return [f"added {_few(names)}", *(told if shared else ())]
        machine = self._machine(wish)
        for name in names:
            self.simulation.simulate_add_node(*node_of(machine, name))
        source = f" from {machine.source}" if machine.source else ""
        where = "/".join(filter(None, (machine.offering.zone, machine.offering.capacity_type)))
        each = " each" if len(names) > 1 else ""
        return [f"added {_few(names)}{source} ({where}), {machine.price.normalize():f} per hour{each}"]

    def _add_given(self, objects: Sequence[ApiStruct]) -> list[str]:
        nodes = [each for each in objects if isinstance(each, Node)]
        slices = [each for each in objects if isinstance(each, Slice)]
        for node in nodes:
            name = node.metadata.name
            own = [each for each in slices if (publisher(each) or nodes[0].metadata.name) == name]
            self.simulation.simulate_add_node(node, own)
        return []

    def _new_names(self, start: str, count: int) -> list[str]:
        there, names, number = self.simulation.objects(Node), list[str](), 0
        while len(names) < count:
            number += 1
            if f"{start}-{number}" not in there:
                names.append(f"{start}-{number}")
        return names

    def _machine(self, wish: AddNodes) -> Machine:
        """The cheapest that is meant."""
        wanted = {"zone": wish.zone, "capacity_type": wish.capacity_type}
        types = sorted({each.type for each in self._machines})
        if wish.type not in types:
            have = f"it has {_few(types)}" if types else "name one with --catalog"
            raise Refused(f"the catalogue has no instance type {wish.type}; {have}")
        of_type = [each for each in self._machines if each.type == wish.type]
        found = [
            each
            for each in of_type
            if wish.pool in (None, each.source)
            and all(value in (None, getattr(each.offering, name)) for name, value in wanted.items())
        ]
        able = [each for each in found if each.offering.available]
        if not able:
            offers = sorted({each.name for each in of_type})
            why = "is out of stock there" if found else "is not offered like that"
            raise Refused(f"instance type {wish.type} {why}; offered are {_few(offers)}")
        return min(able, key=lambda each: (each.price, each.name))

    def _remove_node(self, wish: RemoveNode, step: Step) -> list[str]:
        simulation, name = self.simulation, wish.name
        simulation.node(name)
        for pod in simulation.pods(name):
            uses = simulation.claims_of(simulation.cluster.pods[key_of(pod)])
            if goes_along(pod):
                forget(simulation, simulation.simulate_evict_pod(pod, name).pod)
            elif wish.force or not uses:
                simulation.simulate_evict_pod(pod, name)
        if wish.force:
            self._evict_users(simulation.claims_on(simulation.slices(name)))
        try:
            removed = simulation.simulate_remove_node(name)
        except NodeInUse as exc:
            holders = dict.fromkeys(exc.pods, f"has devices of node {name}, or devices on it")
            words = f"devices there are in use by {_count(len(exc.pods), 'pod')}: drain it, or remove it with force"
            raise Refused(words, holders) from exc
        return [f"claim {each} keeps devices that are gone" for each in removed.stranded]

    def _drain_node(self, wish: OneNode, step: Step) -> list[str]:
        found = drain(self.simulation, wish.name)
        if isinstance(found, Held):
            holders = {**found.pods, **dict.fromkeys(found.claims, "keeps its devices whoever uses them")}
            raise Refused(f"it is held by {_held_by(found)}", holders)
        return []

    def _evict_users(self, claims: Iterable[ResourceClaim]) -> int:
        """Evicts the pods on nodes that use these claims; returns how many."""
        users = {key for claim in claims for key in self.simulation.bound_users(claim)}
        for key in sorted(users):
            info = self.simulation.cluster.pods.get(key)
            if info is not None and info.node:
                self.simulation.simulate_evict_pod(info.pod, info.node)
        return len(users)

    # --- work ---

    def _submit(self, wish: Submit, step: Step) -> list[str]:
        pods = [_ours(each) for each in step.objects if isinstance(each, Pod)]
        for workload in step.workloads:
            if workload.id in self._workloads or self._pods_of(workload.id):
                raise Refused(f"{workload.id} is there already: scale or delete it")
            pods += [_ours(workload.pod(number)) for number in range(workload.replicas)]
        for each in (*(obj for obj in step.objects if not isinstance(obj, Pod)), *pods):
            fresh = _fresh(each)
            there = self.simulation.objects(type(fresh))
            if isinstance(fresh, Pod | ResourceClaim) and key_of(fresh) in there:
                raise Refused(f"{fresh.kind} {key_of(fresh)} is there already")
            self.simulation.put(fresh)
            if isinstance(fresh, DeviceTaintRule):
                self._evict_tainted(fresh)
        self._workloads.update({each.id: each for each in step.workloads})
        others = {each.spec.scheduler_name for each in step.objects if isinstance(each, Pod)}
        foreign = sorted(name for name in others if name not in (None, "", DEFAULT_SCHEDULER))
        return [
            f"pods for scheduler {name} are placed as Allotment's own would place them" for name in foreign
        ]

    def _delete(self, wish: Delete, step: Step) -> list[str]:
        namespace = wish.namespace or "default"
        if wish.kind not in DELETABLE:
            id = Identity(wish.kind, namespace, wish.name)
            pods = self._pods_of(id)
            if not pods and id not in self._workloads:
                raise Refused(f"there is no {id}, as far as pods tell")
            for pod in pods:
                self._delete_pod(pod)
            self._workloads.pop(id, None)
            return []
        kind = DELETABLE[wish.kind]
        key = wish.name if wish.kind == "DeviceTaintRule" else f"{namespace}/{wish.name}"
        found = self.simulation.objects(kind).get(key)
        if found is None:
            raise Refused(f"there is no {wish.kind} {key}")
        if isinstance(found, Pod):
            self._delete_pod(found)
            owners = list(owners_of(found))
            return [f"{owners[-1]} would make another one: scale it, if that is meant"] if owners else []
        if isinstance(found, ResourceClaim):
            users = sorted(self.simulation.bound_users(found))
            if users:
                raise Refused(f"it is in use by {_count(len(users), 'pod')}", dict.fromkeys(users, "uses it"))
        self.simulation.drop(found)
        return []

    def _delete_pod(self, pod: Pod) -> None:
        info = self.simulation.cluster.pods.get(key_of(pod))
        if info is not None and info.node:
            pod = self.simulation.simulate_evict_pod(info.pod, info.node).pod
        forget(self.simulation, pod)

    def _pods_of(self, id: Identity) -> list[Pod]:
        return [each for each in self.simulation.objects(Pod).values() if id in owners_of(each)]

    def _scale(self, wish: Scale, step: Step) -> list[str]:
        id = Identity(wish.kind, wish.namespace or "default", wish.name)
        known = self.simulation.cluster.pods
        pods = [each for each in self._pods_of(id) if key_of(each) in known]  # without those that ended
        workload = self._workloads.get(id) or (like(id, pods[0]) if pods else None)
        if workload is None:
            raise Refused(f"there is no {id}, as far as pods tell: submit it")
        wanted, number = wish.replicas or 0, 0
        pods.sort(key=lambda each: (not known[key_of(each)].node, _natural(each.metadata.name)))
        for pod in pods[wanted:]:
            self._delete_pod(pod)
        for _ in range(wanted - len(pods)):
            while key_of(new := _ours(workload.pod(number))) in self.simulation.objects(Pod):
                number += 1
            self.simulation.put(new)
        self._workloads[id] = workload
        return [f"{len(pods)} → {_count(wanted, 'pod')}"]

    # --- devices ---

    def _taint_device(self, wish: TaintDevice, step: Step) -> list[str]:
        rules = [each for each in step.objects if isinstance(each, DeviceTaintRule)] or [_rule(wish, step)]
        devices = pods = 0
        for rule in rules:
            if rule.metadata.name in self.simulation.objects(DeviceTaintRule):
                raise Refused(f"DeviceTaintRule {rule.metadata.name} is there already")
            devices += self._selected(rule.spec.device_selector)
            self.simulation.put(rule)
            pods += self._evict_tainted(rule)
        if not devices:
            raise Refused("no device is selected: look at driver, pool and device with allot pools")
        evicted = f", {_count(pods, 'pod')} evicted" if pods else ""
        return [f"{_count(devices, 'device')} tainted{evicted}"]

    def _selected(self, selector: DeviceTaintSelector | None) -> int:
        slices = self.simulation.objects(ResourceSlice).values()
        return sum(
            _selects(selector, each.spec.driver, each.spec.pool.name, device.name)
            for each in slices
            for device in each.spec.devices
        )

    def _evict_tainted(self, rule: DeviceTaintRule) -> int:
        """Evicts who does not bear a rule's taint for ever; returns how many. Who bears it for a while may come back."""
        taint, selector = rule.spec.taint, rule.spec.device_selector
        if taint.effect != "NoExecute":
            return 0
        return self._evict_users(
            claim
            for claim in self.simulation.objects(ResourceClaim).values()
            if claim.status.allocation is not None
            and any(
                _selects(selector, each.driver, each.pool, each.device)
                and not _bears(each.tolerations, taint)
                for each in claim.status.allocation.devices.results
            )
        )

    def _resize_pool(self, wish: ResizePool, step: Step) -> list[str]:
        slices = current(self._slices_of(wish.driver, wish.pool))
        if is_partitioned(slices):
            raise Refused("its devices are cut from shared counters: which would come or go is not clear")
        devices = [device for each in slices for device in each.spec.devices]
        wanted = wish.devices or 0
        if wanted >= len(devices):
            pattern = next((each for each in devices if each.name == wish.like), None)
            pattern = devices[-1] if pattern is None and not wish.like and devices else pattern
            if pattern is None:
                raise Refused(
                    f"there is no device {wish.like or ''} that new ones could be like".replace("  ", " ")
                )
            self.simulation.put_all(grown(slices, pattern, wanted - len(devices)))
        else:
            names = [device.name for device in devices]
            gone = self._to_go(slices, names, len(names) - wanted, force=bool(wish.force))
            self.simulation.put_all(shrunk(slices, gone))
        return [f"{len(devices)} → {_count(wanted, 'device')}"]

    def _slices_of(self, driver: str, pool: str) -> list[ResourceSlice]:
        published = self.simulation.objects(ResourceSlice).values()
        found = [each for each in published if (each.spec.driver, each.spec.pool.name) == (driver, pool)]
        if not found:
            others = sorted({each.spec.pool.name for each in published if each.spec.driver == driver})
            have = f"it has {_few(others)}" if others else "nothing is published by it"
            raise Refused(f"driver {driver} has no pool {pool}; {have}")
        return found

    def _to_go(
        self, slices: Sequence[ResourceSlice], names: list[str], count: int, *, force: bool
    ) -> set[str]:
        """Which devices go: free ones first, the last ones first. The users of others are evicted, if that is meant."""
        held: dict[str, list[ResourceClaim]] = {}
        pool = (slices[0].spec.driver, slices[0].spec.pool.name)
        for claim in self.simulation.claims_on(slices):
            assert claim.status.allocation is not None
            for result in claim.status.allocation.devices.results:
                if (result.driver, result.pool) == pool:
                    held.setdefault(result.device, []).append(claim)
        last_first = [*reversed(names)]
        gone = sorted(last_first, key=lambda name: name in held)[:count]
        claims = {key_of(claim): claim for name in gone for claim in held.get(name, ())}
        if claims and not force:
            free = count - sum(name in held for name in gone)
            words = f"of {_count(count, 'device')} that would have to go only {free} are free; force evicts"
            raise Refused(words, self._users(claims.values()))
        self._evict_users(claims.values())
        for key in claims:  # what nobody on a node uses, or what stays allocated by itself
            kept = self.simulation.objects(ResourceClaim).get(key)
            if kept is not None and kept.status.allocation is not None:
                users = [user.uid for user in kept.status.reserved_for]
                self.simulation.put(left(kept, users, keep=False))
        return set(gone)

    def _users(self, claims: Iterable[ResourceClaim]) -> dict[str, str]:
        found: dict[str, str] = {}
        for claim in claims:
            users = sorted(self.simulation.bound_users(claim))
            found.update(dict.fromkeys(users, f"uses claim {key_of(claim)}"))
            if not users:
                found[key_of(claim)] = "is a claim that holds devices, though no pod uses it"
        return found


# --- objects as they would be ---


def _ours(pod: Pod) -> Pod:
    """A pod as it is created, for the scheduler that is asked."""
    return replace(pod, spec=replace(pod.spec, scheduler_name=DEFAULT_SCHEDULER))


def _fresh(obj: Any) -> Any:
    """An object as it is created: with a uid, and nothing done about it yet."""
    kind, meta = obj.kind.lower(), obj.metadata
    metadata = replace(meta, uid=f"{kind} {key_of(obj)}", resource_version="", deletion_timestamp=None)
    obj = replace(obj, metadata=metadata)
    if isinstance(obj, Pod):
        return replace(obj, status=PodStatus(phase="Pending"))
    if isinstance(obj, ResourceClaim):
        return replace(obj, status=ResourceClaimStatus())
    return obj


def _rule(wish: TaintDevice, step: Step) -> DeviceTaintRule:
    selector = DeviceTaintSelector(driver=wish.driver, pool=wish.pool, device=wish.device)
    taint = DeviceTaint(key=wish.key or KEY, value=wish.value, effect=wish.effect or "")
    name = f"what-if-{step.number}"
    return DeviceTaintRule(
        metadata=ObjectMeta(name=name), spec=DeviceTaintRuleSpec(device_selector=selector, taint=taint)
    )


def _selects(selector: DeviceTaintSelector | None, driver: str, pool: str, device: str) -> bool:
    """No selector selects nothing."""
    return (
        selector is not None
        and selector.driver in (None, driver)
        and selector.pool in (None, pool)
        and selector.device in (None, device)
    )


def _bears(tolerations: Iterable[DeviceToleration], taint: DeviceTaint) -> bool:
    """Whether a taint is tolerated for ever. Seconds count only where a toleration names the effect, as the API says."""
    return any(
        tolerates(each, taint) and (each.effect != taint.effect or each.toleration_seconds is None)
        for each in tolerations
    )


# --- words ---


def _natural(name: str) -> tuple[str, int, str]:
    """Sorts ``web-10`` after ``web-9``."""
    start, _, end = name.rpartition("-")
    return (start, int(end), "") if end.isdecimal() and len(end) < 10 else (name, -1, "")


def _held_by(held: Held) -> str:
    pods, claims = len(held.pods), len(held.claims)
    told = [*([_count(pods, "pod")] if pods else []), *([_count(claims, "claim")] if claims else [])]
    return " and ".join(told)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
