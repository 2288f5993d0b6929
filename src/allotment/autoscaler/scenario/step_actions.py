"""What each verb of a scenario does to a simulated cluster.

A verb does only its own part: it removes, adds or evicts. ``scenario_run`` places the waiting pods afterwards.
``device_changes`` changes devices. If a step cannot be done, these functions raise ``StepRefused``, possibly after changes: the
caller has a fork to revert.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from allotment.api.apps import DaemonSet
from allotment.api.core import Node, Pod, PodStatus
from allotment.api.meta import key_of
from allotment.api.resource import DeviceTaintRule, ResourceClaim, ResourceClaimStatus
from allotment.api.scenario import (
    AddNodes,
    DeleteStep,
    OneNode,
    RemoveNode,
    ResizePool,
    ScaleStep,
    Submit,
    TaintDevice,
)
from allotment.api.storage import CSINode
from allotment.api.text import few, plural
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.errors import NodeInUse, SimulationError, StepRefused
from allotment.autoscaler.scenario.device_changes import evict_tainted, evict_users, resize_pool, taint_device
from allotment.autoscaler.scenario.node_copy import copied
from allotment.autoscaler.scenario.step_rules import DELETABLE
from allotment.autoscaler.simulate.declared_features import declaring
from allotment.autoscaler.simulate.drain import CannotDrain, drain, forget, goes_along
from allotment.autoscaler.simulate.forkable_cluster import Slice, publisher
from allotment.autoscaler.simulate.node_arrival import add_node, arrive, start_daemons
from allotment.autoscaler.simulate.workload_pods import Workload, WorkloadID, like, owners_of
from allotment.scheduler.config.configuration import DEFAULT_SCHEDULER
from allotment.scheduler.obstacles import schedulers_heard_of
from allotment.scheduler.priority import with_priority

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.autoscaler.scenario.scenario import ScenarioStep
    from allotment.autoscaler.simulate.simulation import Simulation


class ScenarioSimulation:
    """A simulation for trying steps, the machines that can be launched, and the workloads to which pods belong."""

    def __init__(self, simulation: Simulation, machines: Sequence[Machine] = ()) -> None:
        self.simulation = simulation
        self._machines = machines
        self._workloads: dict[WorkloadID, Workload] = {}
        self.brought: dict[str, None] = {}  # pods of steps that no server has created yet, in order

    def play(self, step: ScenarioStep) -> list[str]:
        """Does a step; returns further remarks about it. Raises Refused: revert all changes in that case."""
        try:
            match step.wish:
                case AddNodes() as wish:
                    return self._add_nodes(wish, step)
                case RemoveNode() as wish:
                    return self._remove_node(wish)
                case OneNode() as wish:
                    return self._drain_node(wish)
                case Submit():
                    return self._submit(step)
                case DeleteStep() as wish:
                    return self._delete(wish)
                case ScaleStep() as wish:
                    return self._scale(wish)
                case TaintDevice() as wish:
                    return taint_device(self.simulation, wish, step)
                case ResizePool() as wish:
                    return resize_pool(self.simulation, wish)
        except SimulationError as exc:
            raise StepRefused(str(exc)) from exc
        return []

    # --- nodes ---

    def _add_nodes(self, wish: AddNodes, step: ScenarioStep) -> list[str]:
        if step.objects:
            return self._add_given(step.objects)
        names = self._new_names(wish.name or "new", wish.count or 1)
        if wish.like:
            node, slices = self.simulation.node(wish.like), self.simulation.slices(wish.like)
            storage = self.simulation.objects(CSINode).get(wish.like)
            for name in names:
                add_node(self.simulation, *copied(node, slices, name), storage.spec if storage else None)
            shared = sum(each.spec.node_name != wish.like for each in slices)
            told = [
                f"{plural(shared, 'slice')} of {wish.like} not copied, because other nodes reach them too"
            ]
            return [f"added {few(names)}", *(told if shared else ())]
        [machine] = declaring(self.simulation, [self._machine(wish)])
        for name in names:
            arrive(self.simulation, machine, name)
        source = f" from {machine.source}" if machine.source else ""
        where = "/".join(filter(None, (machine.offering.zone, machine.offering.capacity_type)))
        each = " each" if len(names) > 1 else ""
        return [f"added {few(names)}{source} ({where}), {machine.price.normalize():f} per hour{each}"]

    def _add_given(self, objects: Sequence[ApiStruct]) -> list[str]:
        nodes = [each for each in objects if isinstance(each, Node)]
        slices = [each for each in objects if isinstance(each, Slice)]
        for node in nodes:
            name = node.metadata.name
            own = [each for each in slices if (publisher(each) or nodes[0].metadata.name) == name]
            add_node(self.simulation, node, own)
        return []

    def _new_names(self, start: str, count: int) -> list[str]:
        there, names, number = self.simulation.objects(Node), list[str](), 0
        while len(names) < count:
            number += 1
            if f"{start}-{number}" not in there:
                names.append(f"{start}-{number}")
        return names

    def _machine(self, wish: AddNodes) -> Machine:
        """The cheapest machine that matches."""
        wanted = {"zone": wish.zone, "capacity_type": wish.capacity_type}
        types = sorted({each.type for each in self._machines})
        if wish.type not in types:
            have = f"it has {few(types)}" if types else "name one with --catalog"
            raise StepRefused(f"the catalogue has no instance type {wish.type}; {have}")
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
            why = "is out of stock there" if found else "is not offered there"
            raise StepRefused(f"instance type {wish.type} {why}; offered are {few(offers)}")
        return min(able, key=lambda each: (each.price, each.name))

    def _remove_node(self, wish: RemoveNode) -> list[str]:
        simulation, name = self.simulation, wish.name
        simulation.node(name)
        for pod in simulation.pods(name):
            uses = simulation.claims_of(simulation.cluster.pods[key_of(pod)])
            if goes_along(pod):
                forget(simulation, simulation.simulate_evict_pod(pod, name).pod)
            elif wish.force or not uses:
                simulation.simulate_evict_pod(pod, name)
        if wish.force:
            evict_users(self.simulation, simulation.claims_on(simulation.slices(name)))
        try:
            removed = simulation.simulate_remove_node(name)
        except NodeInUse as exc:
            holders = dict.fromkeys(exc.pods, f"has devices of node {name}, or devices on it")
            words = f"devices there are in use by {plural(len(exc.pods), 'pod')}: drain it, or remove it with force"
            raise StepRefused(words, holders) from exc
        return [f"claim {each} keeps devices that no longer exist" for each in removed.stranded]

    def _drain_node(self, wish: OneNode) -> list[str]:
        found = drain(self.simulation, wish.name)
        if isinstance(found, CannotDrain):
            holders = {**found.pods, **dict.fromkeys(found.claims, "keeps its devices even without users")}
            raise StepRefused(f"it is held by {_held_by(found)}", holders)
        return []

    # --- work ---

    def _submit(self, step: ScenarioStep) -> list[str]:
        pods = [self._ours(each) for each in step.objects if isinstance(each, Pod)]
        for workload in step.workloads:
            if workload.id in self._workloads or self._pods_of(workload.id):
                raise StepRefused(f"{workload.id} already exists: scale or delete it")
            pods += [self._ours(workload.pod(number)) for number in range(workload.replicas)]
        for each in (*(obj for obj in step.objects if not isinstance(obj, Pod)), *pods):
            fresh = _fresh(each)
            there = self.simulation.objects(type(fresh))
            if isinstance(fresh, Pod | ResourceClaim) and key_of(fresh) in there:
                raise StepRefused(f"{fresh.kind} {key_of(fresh)} already exists")
            self.simulation.put(fresh)
            if isinstance(fresh, Pod):
                self.brought[key_of(fresh)] = None
            if isinstance(fresh, DeviceTaintRule):
                evict_tainted(self.simulation, fresh)
        if any(isinstance(each, DaemonSet) for each in step.objects):
            for name in sorted(self.simulation.objects(Node)):
                start_daemons(self.simulation, name)
        self._workloads.update({each.id: each for each in step.workloads})
        others = {each.spec.scheduler_name for each in step.objects if isinstance(each, Pod)}
        foreign = sorted(name for name in others if name and name != DEFAULT_SCHEDULER and self._runs(name))
        return [
            f"pods for scheduler {name} are placed as Allotment's own scheduler would place them"
            for name in foreign
        ]

    def _ours(self, pod: Pod) -> Pod:
        """A pod as it is created, for a simulated scheduler; it keeps its own scheduler if that one is not simulated and no
        pod shows it."""
        pod = replace(pod, spec=with_priority(pod.spec, self.simulation.cluster.priority_classes))
        if not self._runs(pod.spec.scheduler_name or ""):
            return pod
        return replace(pod, spec=replace(pod.spec, scheduler_name=DEFAULT_SCHEDULER))

    def _runs(self, scheduler: str) -> bool:
        """Whether there is such a scheduler; if no pod shows that, the author of the pods is believed."""
        if scheduler in self.simulation.schedulers:
            return True
        heard = schedulers_heard_of(self.simulation.objects(Pod).values())
        return not heard or scheduler in heard

    def _delete(self, wish: DeleteStep) -> list[str]:
        namespace = wish.namespace or "default"
        if wish.kind not in DELETABLE:
            id = WorkloadID(wish.kind, namespace, wish.name)
            pods = self._pods_of(id)
            if not pods and id not in self._workloads:
                raise StepRefused(f"there is no {id} among the pods")
            for pod in pods:
                self._delete_pod(pod)
            self._workloads.pop(id, None)
            return []
        kind = DELETABLE[wish.kind]
        key = wish.name if wish.kind == "DeviceTaintRule" else f"{namespace}/{wish.name}"
        found = self.simulation.objects(kind).get(key)
        if found is None:
            raise StepRefused(f"there is no {wish.kind} {key}")
        if isinstance(found, Pod):
            self._delete_pod(found)
            owners = list(owners_of(found))
            return [f"{owners[-1]} would create another one: scale it instead"] if owners else []
        if isinstance(found, ResourceClaim):
            users = sorted(self.simulation.bound_users(found))
            if users:
                raise StepRefused(
                    f"it is in use by {plural(len(users), 'pod')}", dict.fromkeys(users, "uses it")
                )
        self.simulation.drop(found)
        return []

    def _delete_pod(self, pod: Pod) -> None:
        info = self.simulation.cluster.pods.get(key_of(pod))
        if info is not None and info.node:
            pod = self.simulation.simulate_evict_pod(info.pod, info.node).pod
        forget(self.simulation, pod)

    def _pods_of(self, id: WorkloadID) -> list[Pod]:
        return [each for each in self.simulation.objects(Pod).values() if id in owners_of(each)]

    def _scale(self, wish: ScaleStep) -> list[str]:
        id = WorkloadID(wish.kind, wish.namespace or "default", wish.name)
        known = self.simulation.cluster.pods
        pods = [each for each in self._pods_of(id) if key_of(each) in known]  # without finished pods
        workload = self._workloads.get(id) or (like(id, pods[0]) if pods else None)
        if workload is None:
            raise StepRefused(f"there is no {id} among the pods: submit it")
        wanted, number = wish.replicas or 0, 0
        pods.sort(key=lambda each: (not known[key_of(each)].node, _natural(each.metadata.name)))
        for pod in pods[wanted:]:
            self._delete_pod(pod)
        for _ in range(wanted - len(pods)):
            while key_of(new := self._ours(workload.pod(number))) in self.simulation.objects(Pod):
                number += 1
            self.simulation.put(new)
            self.brought[key_of(new)] = None
        self._workloads[id] = workload
        return [f"{len(pods)} → {plural(wanted, 'pod')}"]


# --- objects as they would be ---


def _fresh(obj: Any) -> Any:
    """An object as it is created: with a uid, and without a status."""
    kind, meta = obj.kind.lower(), obj.metadata
    metadata = replace(meta, uid=f"{kind} {key_of(obj)}", resource_version="", deletion_timestamp=None)
    obj = replace(obj, metadata=metadata)
    if isinstance(obj, Pod):
        return replace(obj, status=PodStatus(phase="Pending"))
    if isinstance(obj, ResourceClaim):
        return replace(obj, status=ResourceClaimStatus())
    return obj


# --- words ---


def _natural(name: str) -> tuple[str, int, str]:
    """Sorts ``web-10`` after ``web-9``."""
    start, _, end = name.rpartition("-")
    return (start, int(end), "") if end.isdecimal() and len(end) < 10 else (name, -1, "")


def _held_by(held: CannotDrain) -> str:
    pods, claims = len(held.pods), len(held.claims)
    told = [*([plural(pods, "pod")] if pods else []), *([plural(claims, "claim")] if claims else [])]
    return " and ".join(told)
